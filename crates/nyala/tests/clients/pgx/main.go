// pgx and lib/pq, the drivers of Go: they log in, send parameters of every type, batches and copies, and fail as they should.
// Prints what they get: host, port, user, password, database.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lib/pq"
)

const definition = `create table measured (
  id bigint primary key, flag boolean, small smallint, whole int, exact numeric(20,6), near real, far double precision,
  name text, short varchar(10), raw bytea, day date, local timestamp, moment timestamptz)`

var columns = []string{"id", "flag", "small", "whole", "exact", "near", "far", "name", "short", "raw", "day", "local", "moment"}

var moment = time.Date(2024, 3, 1, 10, 15, 30, 123456000, time.UTC)

func fail(err error, what ...any) {
	if err != nil {
		fmt.Fprintln(os.Stderr, append(what, err)...)
		os.Exit(1)
	}
}

// told is what a client sees of an error.
func told(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		if server.Code == "42601" {
			// Each parser has words of its own for what it expects.
			return server.Code
		}
		return server.Code + " " + server.Message
	}
	return fmt.Sprint(err)
}

// shown is a value as text that does not depend on the driver.
func shown(value any) string {
	switch own := value.(type) {
	case time.Time:
		return own.UTC().Format(time.RFC3339Nano)
	case pgtype.Numeric:
		text, err := own.Value()
		fail(err)
		return fmt.Sprint(text)
	case []byte:
		return fmt.Sprintf("%x", own)
	case []any:
		parts := make([]string, len(own))
		for place, element := range own {
			parts[place] = shown(element)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case pgtype.Time:
		return fmt.Sprint(own.Microseconds)
	case pgtype.Interval:
		return fmt.Sprint(own.Months, " ", own.Days, " ", own.Microseconds)
	case [16]byte:
		return fmt.Sprintf("%x", own[:])
	default:
		return fmt.Sprint(own)
	}
}

func print(title string, rows pgx.Rows, err error) {
	if err != nil {
		fmt.Println(title, "ERROR", told(err))
		return
	}
	defer rows.Close()
	names := []string{}
	for rows.Next() {
		if len(names) == 0 {
			for _, field := range rows.FieldDescriptions() {
				oid := field.DataTypeOID
				if oid == pgtype.VarcharOID {
					// nyala tells that it is a text.
					oid = pgtype.TextOID
				}
				names = append(names, fmt.Sprint(field.Name, ":", oid, ":", field.Format))
			}
			fmt.Println(title, names)
		}
		values, err := rows.Values()
		fail(err, title)
		fmt.Println(" ", shown(toAny(values)))
	}
	if rows.Err() != nil {
		fmt.Println(title, "ERROR", told(rows.Err()))
		return
	}
	fmt.Println(title, rows.CommandTag())
}

func toAny(values []any) any { return values }

func row(id int64) []any {
	return []any{id, id%2 == 0, int16(-id), int32(id * 1000), fmt.Sprintf("%d.250000", id), float32(0.5), float64(id) / 4,
		fmt.Sprintf("name %d", id), "short", []byte{0, byte(id), 255}, time.Date(2024, 3, int(id), 0, 0, 0, 0, time.UTC),
		moment.Add(time.Duration(id) * time.Second), moment.Add(time.Duration(id) * time.Hour)}
}

func numeric(text string) pgtype.Numeric {
	var own pgtype.Numeric
	fail(own.Scan(text))
	return own
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	host, port, user, password, database := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	url := fmt.Sprintf("postgres://%s:%s@%s:%s/%s?sslmode=disable&pool_max_conns=3", user, password, host, port, database)
	pool, err := pgxpool.New(ctx, url)
	fail(err)
	defer pool.Close()
	fail(pool.Ping(ctx))
	_, err = pool.Exec(ctx, definition)
	fail(err)
	parameters(ctx, pool, url)
	batches(ctx, pool)
	copies(ctx, pool)
	transactions(ctx, pool)
	failures(ctx, pool, url)
	standard(ctx, strings.Split(url, "&")[0])
}

func parameters(ctx context.Context, pool *pgxpool.Pool, url string) {
	values := []struct {
		of    string
		value any
	}{
		{"bool", true}, {"int2", int16(-7)}, {"int4", int32(1 << 30)}, {"int8", int64(1) << 60}, {"float4", float32(0.1)},
		{"float8", 1e300}, {"numeric(20,4)", "12345.6789"}, {"text", "ä'\"\\"}, {"varchar", "v"}, {"bytea", []byte{0, 1, 255}},
		{"date", moment}, {"timestamp", moment}, {"timestamptz", moment}, {"int4[]", []int32{1, 2, 3}},
		{"text[]", []string{"a", "b c", ""}}, {"float8[]", []float64{0.5, -1}}, {"bool[]", []bool{true, false}},
		{"timestamptz[]", []time.Time{moment}}, {"interval", 90 * time.Minute}, {"uuid", "6f0bb5c2-3a0c-4a6c-9d3e-0123456789ab"},
		{"json", `{"a":1}`}, {"time", pgtype.Time{Microseconds: 3_600_000_000, Valid: true}},
	}
	for _, own := range values {
		rows, err := pool.Query(ctx, "select $1::"+own.of+" as value", own.value)
		print(own.of, rows, err)
		rows, err = pool.Query(ctx, "select $1::"+own.of+" as value", nil)
		print(own.of+" NULL", rows, err)
	}
	insert := "insert into measured values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
	for id := int64(1); id <= 3; id++ {
		tag, err := pool.Exec(ctx, insert, row(id)...)
		fail(err, "insert")
		fmt.Println(tag)
	}
	for _, own := range []struct {
		condition string
		value     any
	}{
		{"id = $1", int64(2)}, {"id = any($1)", []int64{1, 3}}, {"flag = $1", true}, {"small < $1", int16(-1)}, {"whole >= $1", int32(2000)},
		{"exact > $1", numeric("1.5")}, {"far <= $1", 0.5}, {"name like $1", "%2"}, {"raw = $1", []byte{0, 2, 255}},
		{"day = $1", time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC)}, {"local <= $1", moment.Add(2 * time.Second)}, {"moment > $1", moment.Add(time.Hour)},
		{"id < 3 order by id desc limit $1", int64(1)}, {"name = any($1)", []string{"name 1"}}, {"($1::text is null or name = $1) and id = 1", nil},
	} {
		rows, err := pool.Query(ctx, "select id, name from measured where "+own.condition, own.value)
		print(own.condition, rows, err)
	}
	for name, mode := range map[string]pgx.QueryExecMode{"exec": pgx.QueryExecModeExec} {
		rows, err := pool.Query(ctx, "select * from measured where id = $1", mode, int64(1))
		print(name, rows, err)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeSimpleProtocol} {
		rows, err := pool.Query(ctx, "select id, name, moment from measured where id = $1 and name <> $2", mode, int64(1), "it's")
		print(mode.String(), rows, err)
	}
	scanned := struct {
		ID     int64
		Name   string
		Exact  pgtype.Numeric
		Moment time.Time
		Absent *float64
	}{}
	err := pool.QueryRow(ctx, "select id, name, exact, moment, null::float8 from measured where id = 2").Scan(
		&scanned.ID, &scanned.Name, &scanned.Exact, &scanned.Moment, &scanned.Absent)
	fmt.Println(scanned.ID, scanned.Name, shown(scanned.Exact), shown(scanned.Moment), scanned.Absent, err)
	connection, err := pgx.Connect(ctx, url[:strings.Index(url, "&")])
	fail(err)
	defer connection.Close(ctx)
	for _, name := range []string{"int4", "_text"} {
		loaded, err := connection.LoadType(ctx, name)
		if err != nil {
			fmt.Println("type", name, told(err))
		} else {
			fmt.Println("type", loaded.Name, loaded.OID)
		}
	}
}

func batches(ctx context.Context, pool *pgxpool.Pool) {
	batch := &pgx.Batch{}
	for id := int64(10); id < 20; id++ {
		batch.Queue("insert into measured (id, name) values ($1, $2)", id, fmt.Sprint("batch ", id))
	}
	batch.Queue("select count(*), min(name) from measured where id >= $1", int64(10))
	batch.Queue("update measured set far = $1 where id >= 10", 2.5)
	batch.Queue("select sum(far) from measured where id >= 10")
	results := pool.SendBatch(ctx, batch)
	for range 10 {
		tag, err := results.Exec()
		fail(err, "batch")
		fmt.Print(tag, " ")
	}
	fmt.Println()
	rows, err := results.Query()
	print("counted", rows, err)
	tag, err := results.Exec()
	fmt.Println(tag, err)
	rows, err = results.Query()
	print("summed", rows, err)
	fail(results.Close())
	// What comes behind an error is not executed.
	batch = &pgx.Batch{}
	batch.Queue("insert into measured (id) values (10)")
	batch.Queue("insert into measured (id) values (100)")
	fmt.Println("failed", told(pool.SendBatch(ctx, batch).Close()))
	rows, err = pool.Query(ctx, "select count(*) from measured where id >= 100")
	print("after", rows, err)
	// In a transaction nothing of it stays.
	fmt.Println("failed", told(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue("insert into measured (id) values (100)")
		batch.Queue("insert into measured (id) values (10)")
		return tx.SendBatch(ctx, batch).Close()
	})))
	rows, err = pool.Query(ctx, "select count(*) from measured where id >= 100")
	print("after", rows, err)
}

func copies(ctx context.Context, pool *pgxpool.Pool) {
	count, err := pool.CopyFrom(ctx, pgx.Identifier{"measured"}, columns, pgx.CopyFromSlice(1000, func(place int) ([]any, error) {
		own := row(int64(place%28 + 1))
		own[0] = int64(1000 + place)
		if place%7 == 0 {
			own[7], own[9], own[12] = nil, nil, nil
		}
		return own, nil
	}))
	fmt.Println("copied", count, err)
	rows, err := pool.Query(ctx, "select count(*), count(name), sum(exact), min(moment), max(day) from measured where id >= 1000")
	print("what", rows, err)
	count, err = pool.CopyFrom(ctx, pgx.Identifier{"public", "measured"}, []string{"id", "name"}, pgx.CopyFromRows([][]any{{int64(5000), "a"}, {int64(1000), "b"}}))
	fmt.Println("copied", count, told(err))
	rows, err = pool.Query(ctx, "select count(*) from measured where id = 5000")
	print("nothing", rows, err)
	connection, err := pool.Acquire(ctx)
	fail(err)
	defer connection.Release()
	var out strings.Builder
	tag, err := connection.Conn().PgConn().CopyTo(ctx, &out, "copy (select id, name, far from measured where id < 3 order by id) to stdout (format csv, header)")
	fmt.Println(tag, err)
	fmt.Print(out.String())
}

func transactions(ctx context.Context, pool *pgxpool.Pool) {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update measured set name = 'changed' where id = 1")
		fail(err)
		rows, err := pool.Query(ctx, "select name from measured where id = 1")
		print("outside", rows, err)
		rows, err = tx.Query(ctx, "select name from measured where id = 1")
		print("inside", rows, err)
		return errors.New("no")
	})
	fmt.Println("rolled back:", err)
	rows, err := pool.Query(ctx, "select name from measured where id = 1")
	print("then", rows, err)
	fail(pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "delete from measured where id >= $1", int64(10))
		return err
	}))
	rows, err = pool.Query(ctx, "select count(*) from measured")
	print("committed", rows, err)
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "delete from measured")
		return err
	})
	fmt.Println("read only:", told(err))
	tx, err := pool.Begin(ctx)
	fail(err)
	_, err = tx.Exec(ctx, "select 1/0")
	fmt.Println(told(err))
	_, err = tx.Exec(ctx, "select 1")
	fmt.Println(told(err))
	fail(tx.Rollback(ctx))
}

func failures(ctx context.Context, pool *pgxpool.Pool, url string) {
	for _, text := range []string{
		"select * from nothing", "select nothing from measured", "selec", "insert into measured (id) values (1)",
		"insert into measured (id, short) values (50, 'much too long')", "insert into measured (id, small) values (50, 40000)",
	} {
		_, err := pool.Exec(ctx, text)
		fmt.Println(told(err))
	}
	_, err := pool.Exec(ctx, "select $1::int4", "no number")
	fmt.Println(err != nil)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = pool.Exec(short, "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b")
	fmt.Println("cancelled:", errors.Is(err, context.DeadlineExceeded))
	rows, err := pool.Query(ctx, "select 'alive' as state")
	print("after", rows, err)
	_ = url
}

// standard uses lib/pq under database/sql.
func standard(ctx context.Context, url string) {
	db, err := sql.Open("postgres", url)
	fail(err)
	defer db.Close()
	var name string
	var at time.Time
	var raw []byte
	var exact sql.NullString
	fail(db.QueryRowContext(ctx, "select name, moment, raw, exact from measured where id = $1 and flag = $2", 2, true).Scan(&name, &at, &raw, &exact))
	fmt.Println(name, shown(at), raw, exact)
	tx, err := db.BeginTx(ctx, nil)
	fail(err)
	statement, err := tx.Prepare(pq.CopyIn("measured", "id", "name", "moment"))
	fail(err)
	for id := 200; id < 203; id++ {
		_, err = statement.Exec(id, fmt.Sprint("copied ", id), moment)
		fail(err)
	}
	_, err = statement.Exec()
	fail(err, "copy")
	fail(statement.Close())
	fail(tx.Commit())
	rows, err := db.Query("select id, name from measured where id = any($1) order by id", pq.Array([]int64{200, 202}))
	fail(err)
	for rows.Next() {
		var id int64
		fail(rows.Scan(&id, &name))
		fmt.Println(id, name)
	}
	fail(rows.Err())
	_, err = db.Exec("insert into measured (id) values (200)")
	var server *pq.Error
	fmt.Println(errors.As(err, &server), server.Code, server.Constraint != "" || server.Detail != "")
	types, err := db.Query("select * from measured where false")
	fail(err)
	described, err := types.ColumnTypes()
	fail(err)
	for _, own := range described {
		if own.Name() != "short" {
			fmt.Print(own.Name(), " ", own.DatabaseTypeName(), " ")
		}
	}
	fmt.Println()
	fail(types.Close())
}
