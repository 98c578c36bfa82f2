// Writes a directory of InfluxDB 2.7 by InfluxDB's own packages, and the points of its buckets as InfluxDB exports them. The test
// of `nyala import influxdb` reads both from testdata/influxdb2.tar.gz.
//
// A whole influxd needs Flux, which is compiled from Rust for an hour. Nothing here executes Flux, so `libflux` has its
// functions without their bodies. `record.sh` runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/influxdata/influxdb/v2"
	"github.com/influxdata/influxdb/v2/bolt"
	"github.com/influxdata/influxdb/v2/cmd/influxd/inspect/export_lp"
	"github.com/influxdata/influxdb/v2/dbrp"
	"github.com/influxdata/influxdb/v2/kit/platform"
	"github.com/influxdata/influxdb/v2/kv/migration/all"
	"github.com/influxdata/influxdb/v2/models"
	"github.com/influxdata/influxdb/v2/storage"
	"github.com/influxdata/influxdb/v2/tenant"
	"github.com/influxdata/influxdb/v2/toml"
	"github.com/influxdata/influxdb/v2/v1/services/meta"
	"github.com/influxdata/influxql"
	"github.com/spf13/viper"
	"go.uber.org/zap"
)

// 2020-01-02, in nanoseconds.
const base = int64(1577923200000000000)

const day = 24 * time.Hour

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	directory, exports := os.Args[1], os.Args[2]
	ctx, log := context.Background(), zap.NewNop()
	must(os.MkdirAll(directory, 0o755))
	must(os.MkdirAll(exports, 0o755))
	kv := bolt.NewKVStore(log, filepath.Join(directory, "influxd.bolt"))
	must(kv.Open(ctx))
	must(all.Up(ctx, log, kv))
	tenants := tenant.NewService(tenant.NewStore(kv))
	mappings := dbrp.NewService(ctx, tenants.BucketService, kv)
	org := &influxdb.Organization{Name: "home"}
	must(tenants.CreateOrganization(ctx, org))
	other := &influxdb.Organization{Name: "other"}
	must(tenants.CreateOrganization(ctx, other))

	client := meta.NewClient(meta.NewConfig(), kv)
	must(client.Open())
	open := func(cold time.Duration) *storage.Engine {
		config := storage.NewConfig()
		config.Data.CacheSnapshotWriteColdDuration = toml.Duration(cold)
		config.Data.CompactFullWriteColdDuration = toml.Duration(time.Hour)
		engine := storage.NewEngine(filepath.Join(directory, "engine"), config,
			storage.WithMetaClient(client), storage.WithMetricsDisabled(true))
		must(engine.Open(ctx))
		return engine
	}
	engine := open(time.Second)
	create := func(org *influxdb.Organization, name string, keep time.Duration) *influxdb.Bucket {
		bucket := &influxdb.Bucket{OrgID: org.ID, Name: name, RetentionPeriod: keep}
		must(tenants.CreateBucket(ctx, bucket))
		must(engine.CreateBucket(ctx, bucket))
		return bucket
	}
	write := func(bucket *influxdb.Bucket, lines string) {
		points, err := models.ParsePointsWithPrecision([]byte(lines), time.Now(), "ns")
		must(err)
		must(engine.WritePoints(ctx, bucket.OrgID, bucket.ID, points))
	}
	plain := create(org, "plain", 0)
	month := create(org, "telegraf/month", 24000*day)
	mapped := create(org, "a mapped one", 0)
	foreign := create(other, "plain", 0)
	must(mappings.Create(ctx, &influxdb.DBRPMapping{Database: "old db", RetentionPolicy: "weeks", Default: true,
		OrganizationID: org.ID, BucketID: mapped.ID}))

	write(plain, hours("cpu", 0, 3, 3))
	write(plain, hours("cpu", 10*int64(day), 1, 5))
	write(plain, "odd,t\\ k\\=1=v\\,\\ \\=z,u=ü s=\"with \\\"quotes\\\"\",b=true,i=-9i,u=7u,f=1.5e300 10\nextreme v=-0.0 -1")
	write(month, hours("mem", 0, 1, 1))
	write(mapped, "m,a=1 x=1i 5\nm,a=2 x=2i 5")
	write(foreign, "m x=1 1")
	waitForFiles(directory, 6)
	// Overwritten and deleted.
	write(plain, hours("cpu", int64(2*time.Hour), 1, 77))
	cpu := &influxql.BinaryExpr{Op: influxql.EQ, LHS: &influxql.VarRef{Val: "_name"}, RHS: &influxql.StringLiteral{Val: "cpu"}}
	must(engine.DeleteBucketRangePredicate(ctx, org.ID, plain.ID, base, base+int64(time.Hour), nil, cpu))
	waitForFiles(directory, 7)
	must(engine.Close())

	// What is in the log only.
	engine = open(time.Hour)
	write(plain, hours("late", int64(2*time.Hour), 1, 9))
	write(plain, hours("cpu", int64(150*time.Minute), 1, 500))
	must(engine.Close())
	must(kv.Close())

	for name, bucket := range map[string]platform.ID{"plain": plain.ID, "month": month.ID, "mapped": mapped.ID, "foreign": foreign.ID} {
		command, err := export_lp.NewExportLineProtocolCommand(viper.New())
		must(err)
		command.SetArgs([]string{"--engine-path", filepath.Join(directory, "engine"), "--bucket-id", bucket.String(),
			"--output-path", filepath.Join(exports, name+".lp"), "--log-level", "error"})
		must(command.Execute())
	}
}

// Lines of two hosts, one a minute.
func hours(measurement string, after int64, count int, salt int) string {
	var lines strings.Builder
	for minute := 0; minute < count*60; minute++ {
		time := base + after + int64(minute)*60_000_000_000
		for _, host := range []string{"a", "b"} {
			fmt.Fprintf(&lines, "%s,host=%s usage=%d,count=%di,busy=%t,state=\"s%d\" %d\n", measurement, host,
				(minute*37+salt)%1000, minute*minute-salt, (minute+salt)%3 == 0, minute%7, time)
		}
	}
	return lines.String()
}

// Waits until the log has been moved to so many TSM files.
func waitForFiles(directory string, count int) {
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(directory, "engine/data/*/*/*/*.tsm"))
		must(err)
		if len(files) >= count {
			return
		}
		if time.Since(begun) > time.Minute {
			panic(fmt.Sprintf("there are only %d TSM files", len(files)))
		}
	}
}
