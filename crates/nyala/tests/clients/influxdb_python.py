"""A round trip by influxdb-python, JSON and MessagePack, and its DataFrame client. Arguments: host, port."""

import sys

import pandas
from influxdb import DataFrameClient, InfluxDBClient
from influxdb.exceptions import InfluxDBClientError

host, port = sys.argv[1], int(sys.argv[2])

# The first administrator, then everything as a user.
nobody = InfluxDBClient(host, port)
try:
    nobody.get_list_database()
    raise AssertionError("nobody is let in")
except InfluxDBClientError as error:
    assert error.code == 403, error
nobody.create_user("ann", "secret", admin=True)

for headers in ({"Accept": "application/x-msgpack"}, {"Accept": "application/json"}):
    client = InfluxDBClient(host, port, "ann", "secret", headers=dict(headers), gzip=True)
    assert client.ping() == "1.8.10"
    client.create_database("d")
    client.switch_database("d")
    client.create_retention_policy("week", "7d", "1", "d", default=False)
    client.alter_retention_policy("week", "d", duration="8d")
    policies = {policy["name"]: policy for policy in client.get_list_retention_policies("d")}
    assert policies["week"]["duration"] == "192h0m0s", policies
    client.create_user("bob", "bobs")
    client.grant_privilege("read", "d", "bob")
    assert {"database": "d", "privilege": "READ"} in client.get_list_privileges("bob")
    points = [
        {
            "measurement": "cpu",
            "tags": {"host": "a"},
            "time": second,
            "fields": {"f": 1.5 * second, "i": second, "s": "text é", "b": second % 2 == 0},
        }
        for second in range(1, 11)
    ]
    assert client.write_points(points, time_precision="s", batch_size=3)
    rows = list(client.query("SELECT * FROM cpu WHERE host = $host", bind_params={"host": "a"}, epoch="s").get_points())
    assert len(rows) == 10 and rows[1] == {"time": 2, "b": True, "f": 3.0, "host": "a", "i": 2, "s": "text é"}, rows
    rows = list(client.query("SELECT f FROM cpu LIMIT 1").get_points())
    assert rows[0]["time"] == "1970-01-01T00:00:01Z" and rows[0]["f"] == 1.5, rows
    means = client.query("SELECT mean(f) FROM cpu WHERE time < 10s GROUP BY time(5s), host fill(none)", epoch="s")
    assert list(means.get_points(tags={"host": "a"}))[0] == {"time": 0, "mean": 3.75}, means
    # It reads no more than one document of MessagePack, whichever server sends them.
    if headers["Accept"] == "application/json":
        chunks = client.query("SELECT f FROM cpu", chunked=True, chunk_size=3, epoch="s")
        assert sum(len(list(chunk.get_points())) for chunk in chunks) == 10
    assert [each["name"] for each in client.get_list_measurements()] == ["cpu"]
    client.create_continuous_query("c", 'SELECT mean(f) INTO "avg" FROM "cpu" GROUP BY time(1h)', "d")
    assert len(client.get_list_continuous_queries()[0]["d"]) == 1
    client.drop_continuous_query("c", "d")
    bob = InfluxDBClient(host, port, "bob", "bobs", "d", headers=dict(headers))
    assert len(list(bob.query("SELECT f FROM cpu").get_points())) == 10
    for forbidden in (lambda: bob.write_points(points), lambda: bob.create_database("e")):
        try:
            forbidden()
            raise AssertionError("bob may only read")
        except InfluxDBClientError as error:
            assert error.code == 403, error
    try:
        client.query("SELEC")
        raise AssertionError("that is no query")
    except InfluxDBClientError as error:
        assert "error parsing query" in str(error), error
    client.delete_series("d", measurement="cpu", tags={"host": "a"})
    assert not list(client.query("SELECT f FROM cpu").get_points())
    client.drop_user("bob")
    client.drop_database("d")

frames = DataFrameClient(host, port, "ann", "secret", "d")
frames.create_database("d")
index = pandas.date_range("2026-01-01", periods=4, freq="h", tz="UTC")
frame = pandas.DataFrame({"v": [1.0, 2.0, 3.0, 4.0], "n": [1, 2, 3, 4]}, index=index)
assert frames.write_points(frame, "m", tags={"host": "a"})
back = frames.query("SELECT v, n FROM m")["m"]
assert list(back["v"]) == [1.0, 2.0, 3.0, 4.0] and list(back.index) == list(index), back
print("ok")
