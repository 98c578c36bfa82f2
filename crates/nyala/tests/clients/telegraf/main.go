// Telegraf's own InfluxDB output, told to write. Arguments: host, port.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/logger"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/outputs"
	"github.com/influxdata/telegraf/plugins/outputs/influxdb"
	"github.com/influxdata/telegraf/selfstat"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// As an operator sets it, but for what `set` changes.
func connect(url string, set func(*influxdb.InfluxDB)) *influxdb.InfluxDB {
	output := outputs.Outputs["influxdb"]().(*influxdb.InfluxDB)
	output.URLs = []string{url}
	output.Username = config.NewSecret([]byte("ann"))
	output.Password = config.NewSecret([]byte("secret"))
	output.Log = logger.New("outputs", "influxdb", "")
	output.Statistics = selfstat.NewCollector(map[string]string{})
	output.Timeout = config.Duration(180 * time.Second)
	set(output)
	check(output.Init())
	check(output.Connect())
	return output
}

func metrics(count int) []telegraf.Metric {
	var all []telegraf.Metric
	for second := 1; second <= count; second++ {
		tags := map[string]string{"host": "a b", "cpu": "cpu-total"}
		fields := map[string]interface{}{"usage": 1.5, "count": int64(second), "state": "on", "up": true}
		all = append(all, metric.New("cpu", tags, fields, time.Unix(int64(second), 0)))
	}
	return all
}

func drop(url, database string) {
	request, err := http.NewRequest("POST", url+"/query?u=ann&p=secret&q=DROP+DATABASE+"+database, nil)
	check(err)
	response, err := http.DefaultClient.Do(request)
	check(err)
	check(response.Body.Close())
}

func main() {
	if os.Args[1] == "--version" {
		return
	}
	url := "http://" + os.Args[1] + ":" + os.Args[2]
	// It makes its database `telegraf` when it connects, packs what it writes, and says nothing where all is well.
	usual := connect(url, func(*influxdb.InfluxDB) {})
	check(usual.Write(metrics(1000)))
	plain := connect(url, func(output *influxdb.InfluxDB) {
		output.ContentEncoding = "identity"
		output.Database = "other"
		output.WriteConsistency = "any"
	})
	check(plain.Write(metrics(3)))
	// A database that has gone is made again, and the points are to come once more.
	drop(url, "telegraf")
	if err := usual.Write(metrics(1)); err == nil || !strings.Contains(err.Error(), "database created") {
		panic(fmt.Sprint("the database was not made: ", err))
	}
	check(usual.Write(metrics(1000)))
	// Databases by tag are made when they are first written to.
	missing := connect(url, func(output *influxdb.InfluxDB) {
		output.DatabaseTag = "host"
		output.ExcludeDatabaseTag = true
	})
	check(missing.Write(metrics(2)))
	// Of points that their policy refuses it drops all without trying them again.
	policy := connect(url, func(output *influxdb.InfluxDB) { output.RetentionPolicy = "nowhere" })
	check(policy.Write(metrics(1)))
	// So it does with what a wrong password brings.
	stranger := connect(url, func(output *influxdb.InfluxDB) { output.Password = config.NewSecret([]byte("wrong")) })
	check(stranger.Write(metrics(1)))
	fmt.Println("ok")
}
