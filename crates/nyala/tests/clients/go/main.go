// A round trip by InfluxDB's Go client. Arguments: host, port.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	client "github.com/influxdata/influxdb1-client/v2"
)

func check(holds bool, what ...any) {
	if !holds {
		panic(fmt.Sprintln(what...))
	}
}

func connect(url, user, password string) client.Client {
	connection, err := client.NewHTTPClient(client.HTTPConfig{Addr: url, Username: user, Password: password, Timeout: 180 * time.Second})
	check(err == nil, err)
	return connection
}

func ask(c client.Client, database, command, precision string) (*client.Response, error) {
	response, err := c.Query(client.NewQuery(command, database, precision))
	if err != nil {
		return nil, err
	}
	return response, response.Error()
}

func values(c client.Client, database, command, precision string) [][]interface{} {
	response, err := ask(c, database, command, precision)
	check(err == nil, command, err)
	return response.Results[0].Series[0].Values
}

func refused(words string, err error) {
	check(err != nil && strings.Contains(err.Error(), words), words, err)
}

func points(database, policy string) client.BatchPoints {
	batch, err := client.NewBatchPoints(client.BatchPointsConfig{Database: database, RetentionPolicy: policy, Precision: "s"})
	check(err == nil, err)
	for second := int64(1); second <= 10; second++ {
		fields := map[string]interface{}{"f": 1.5 * float64(second), "i": second, "s": "text é \"q\"", "b": second%2 == 0}
		point, err := client.NewPoint("cpu", map[string]string{"host": "a b"}, fields, time.Unix(second, 0))
		check(err == nil, err)
		batch.AddPoint(point)
	}
	return batch
}

func main() {
	if os.Args[1] == "--version" {
		return
	}
	url := "http://" + os.Args[1] + ":" + os.Args[2]
	nobody := connect(url, "", "")
	_, err := ask(nobody, "", "SHOW DATABASES", "")
	refused("create admin user first", err)
	_, err = ask(nobody, "", "CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES", "")
	check(err == nil, err)
	_, err = ask(connect(url, "ann", "wrong"), "", "SHOW DATABASES", "")
	refused("authorization failed", err)

	c := connect(url, "ann", "secret")
	_, version, err := c.Ping(5 * time.Second)
	check(err == nil && version == "1.8.10", version, err)
	for _, command := range []string{"CREATE DATABASE d", "CREATE RETENTION POLICY week ON d DURATION 7d REPLICATION 1"} {
		_, err = ask(c, "", command, "")
		check(err == nil, command, err)
	}
	check(c.Write(points("d", "")) == nil, "a write")
	refused("points beyond retention policy", c.Write(points("d", "week")))
	refused("database not found", c.Write(points("nowhere", "")))

	rows := values(c, "d", "SELECT * FROM cpu LIMIT 2", "s")
	second := []interface{}{json.Number("2"), true, json.Number("3"), "a b", json.Number("2"), "text é \"q\""}
	check(reflect.DeepEqual(rows[1], second), rows)
	check(values(c, "d", "SELECT f FROM cpu", "")[0][0] == "1970-01-01T00:00:01Z", "a time as text")
	bound := client.NewQueryWithParameters("SELECT count(f) FROM cpu WHERE host = $host AND f > $least", "d", "ns",
		client.Params{"host": client.StringValue("a b"), "least": client.NumberValue(6)})
	response, err := c.Query(bound)
	check(err == nil && response.Error() == nil, err)
	check(response.Results[0].Series[0].Values[0][1] == json.Number("6"), response)

	query := client.NewQuery("SELECT f FROM cpu", "d", "ns")
	query.Chunked, query.ChunkSize = true, 3
	chunks, err := c.QueryAsChunk(query)
	check(err == nil, err)
	count := 0
	for chunk, err := chunks.NextResponse(); err == nil; chunk, err = chunks.NextResponse() {
		count += len(chunk.Results[0].Series[0].Values)
	}
	check(count == 10, "chunked rows", count)
	response, err = c.Query(query)
	check(err == nil && response.Error() == nil && len(response.Results) >= 4, response, err)

	_, err = ask(c, "d", "SELEC", "")
	refused("error parsing query", err)
	_, err = ask(c, "d", "SELECT f FROM nowhere..cpu", "")
	refused("database not found", err)
	for _, command := range []string{"CREATE USER bob WITH PASSWORD 'bobs'", "GRANT READ ON d TO bob"} {
		_, err = ask(c, "", command, "")
		check(err == nil, command, err)
	}
	bob := connect(url, "bob", "bobs")
	check(len(values(bob, "d", "SELECT f FROM cpu", "ns")) == 10, "bob may read")
	refused("not authorized", bob.Write(points("d", "")))
	_, err = ask(c, "", "DROP DATABASE d", "")
	check(err == nil, err)
	check(c.Close() == nil, "closed")
	fmt.Println("ok")
}
