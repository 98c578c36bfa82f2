"""ADBC's driver for Arrow Flight SQL: queries, parameters, changes, bulk ingest, transactions, and what there is.

Arguments: host, port. The administrator is ann with the password pencil, and the database d has points. bob with the password paper
may create no series there, and write a byte a second.
"""

import datetime
import decimal
import sys

import adbc_driver_flightsql.dbapi as adbc
import pyarrow
from adbc_driver_flightsql import DatabaseOptions

host, port = sys.argv[1:]
URI = f"grpc://{host}:{port}"
DATABASE = DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "database"
UTC = datetime.timezone.utc
MOMENT = datetime.datetime(2024, 3, 1, 10, 15, 30, 123456, UTC)


def connect(user="ann", password="pencil", autocommit=True, **more):
    own = {"username": user, "password": password, DATABASE: "d", **more}
    return adbc.connect(URI, db_kwargs=own, autocommit=autocommit)


def check(expected, found):
    assert expected == found, f"expected {expected!r}, found {found!r}"


def ask(cursor, text, parameters=None):
    cursor.execute(text, parameters)
    return cursor.fetchall()


def refused(words, step):
    try:
        step()
    except adbc.Error as error:
        assert words in str(error), f"{words!r} is not in {error}"
        return
    raise AssertionError(f"not refused: {words}")


def queries(cursor):
    check([(1,)], ask(cursor, "SELECT 1"))
    cursor.execute("SELECT host, usage, n, up FROM cpu ORDER BY time")
    table = cursor.fetch_arrow_table()
    types = [pyarrow.string(), pyarrow.float64(), pyarrow.int64(), pyarrow.bool_()]
    check(types, table.schema.types)
    check([("a", 1.5, 3, True), ("b", 2.5, None, None), (None, -0.1, -5, None)],
          [tuple(row.values()) for row in table.to_pylist()])
    # Many frames.
    cursor.execute("SELECT n, n * 2 AS m, 'text ' || n AS t FROM generate_series(1, 300000) AS s(n) ORDER BY n")
    table = cursor.fetch_arrow_table()
    check(300000, table.num_rows)
    check((300000, 600000, "text 300000"), tuple(table.slice(299999).to_pylist()[0].values()))
    check([], ask(cursor, "SELECT * FROM cpu WHERE usage > 100"))
    # Numbered parameters, and those of Python.
    check([("b",)], ask(cursor, "SELECT host FROM cpu WHERE usage > $1 AND host = $2", (1.0, "b")))
    check([("a",)], ask(cursor, "SELECT host FROM cpu WHERE host = ? AND '?' <> ?", ("a", "b")))
    check([(None,)], ask(cursor, "SELECT CAST($1 AS bigint)", (None,)))
    # What the driver is told first is what it gets: whether a column may be NULL is known better later.
    for text in ["version()", "current_database()", "current_date", "'\\x00'::bytea", "'{}'::json", "now()", "NULL", "ARRAY[1, 2]"]:
        check(1, len(ask(cursor, f"SELECT {text} AS a, count(*) AS n FROM cpu")))
        check(1, len(ask(cursor, f"SELECT {text}")))
    for text in ["$1::bigint", "coalesce(n, $1)", "CASE WHEN up THEN $1 ELSE 2 END"]:
        check(3, len(ask(cursor, f"SELECT {text} AS a FROM cpu", (1,))))
    refused("column \"nothing\" does not exist", lambda: ask(cursor, "SELECT nothing FROM cpu"))
    refused("SQLSTATE 42P01", lambda: ask(cursor, "SELECT * FROM nowhere"))
    refused("SQLSTATE 42601", lambda: ask(cursor, "SELEC 1"))
    refused("several statements", lambda: ask(cursor, "SELECT 1; SELECT 2"))
    refused("no statement", lambda: ask(cursor, "-- nothing"))
    refused("division by zero", lambda: ask(cursor, "SELECT 1 / (n - 5000) FROM generate_series(1, 10000) AS s(n)"))
    refused("COPY over Flight SQL", lambda: ask(cursor, "COPY cpu TO STDOUT"))
    refused("BEGIN over Flight SQL", lambda: ask(cursor, "BEGIN"))
    refused("SET over Flight SQL", lambda: ask(cursor, "SET TimeZone = 'UTC'"))
    # An error does not spoil the connection.
    check([(2,)], ask(cursor, "SELECT 2"))


def changes(cursor):
    cursor.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text, at timestamptz, amount numeric(10, 2))")
    cursor.execute("INSERT INTO t VALUES (1, 'one', '2024-03-01T10:15:30.123456Z', 1.25)")
    refused("SQLSTATE 23505", lambda: cursor.execute("INSERT INTO t VALUES (1, 'again', NULL, NULL)"))
    cursor.execute("INSERT INTO t VALUES (?, ?, ?, ?)", (2, "two", MOMENT, decimal.Decimal("2.50")))
    cursor.executemany("INSERT INTO t (id, words) VALUES (?, ?)", [(3, "three"), (4, None), (5, "ünf")])
    check(3, cursor.rowcount)
    check([(1, "one", MOMENT, decimal.Decimal("1.25")), (2, "two", MOMENT, decimal.Decimal("2.50"))],
          ask(cursor, "SELECT * FROM t WHERE id < 3 ORDER BY id"))
    # One of many fails, so none is there.
    refused("SQLSTATE 23505",
            lambda: cursor.executemany("INSERT INTO t (id) VALUES (?)", [(10,), (11,), (1,)]))
    check([(5,)], ask(cursor, "SELECT count(*) FROM t"))
    check([(3, "THREE")], ask(cursor, "UPDATE t SET words = upper(words) WHERE id = $1 RETURNING id, words", (3,)))
    cursor.execute("DELETE FROM t WHERE id > ?", (3,))
    check([(1,), (2,), (3,)], ask(cursor, "SELECT id FROM t ORDER BY id"))
    cursor.execute("INSERT INTO cpu (time, host, usage) VALUES ('2024-01-01T00:00:00Z', 'c', 9.5)")
    check([(9.5,)], ask(cursor, "SELECT usage FROM cpu WHERE host = 'c'"))
    cursor.execute("DELETE FROM cpu WHERE host = 'c'")


def ingest(cursor):
    count = 100000
    ids = pyarrow.array(range(count), pyarrow.int64())
    table = pyarrow.table({
        "id": ids,
        "small": pyarrow.array([own % 100 for own in range(count)], pyarrow.int16()),
        "words": pyarrow.array([f"row {own}" for own in range(count)]),
        "kind": pyarrow.array(["a", "b"] * (count // 2)).dictionary_encode(),
        "view": pyarrow.array(["long words that no view has inside itself"] * count, pyarrow.string_view()),
        "at": pyarrow.array([MOMENT] * count, pyarrow.timestamp("us", "UTC")),
        "day": pyarrow.array([datetime.date(2024, 3, 1)] * count),
        "amount": pyarrow.array([decimal.Decimal("1.25")] * count, pyarrow.decimal128(10, 2)),
        "real": pyarrow.array([0.5] * count, pyarrow.float32()),
        "yes": pyarrow.array([True, None] * (count // 2)),
        "bytes": pyarrow.array([b"\0\xff"] * count),
        "nothing": pyarrow.nulls(count),
    })
    check(count, cursor.adbc_ingest("bulk", table, mode="create"))
    check([(count, sum(range(count)), count // 2)],
          ask(cursor, "SELECT count(*), CAST(sum(id) AS bigint), count(yes) FROM bulk"))
    check([(7, 7, "row 7", "b", "long words that no view has inside itself", MOMENT, datetime.date(2024, 3, 1),
            decimal.Decimal("1.25"), 0.5, None, b"\0\xff", None)],
          ask(cursor, "SELECT * FROM bulk WHERE id = 7"))
    refused("already exists", lambda: cursor.adbc_ingest("bulk", table.slice(0, 1), mode="create"))
    check(2, cursor.adbc_ingest("bulk", table.select(["words", "id"]).slice(0, 2), mode="append"))
    check(2, cursor.adbc_ingest("bulk", table.slice(0, 2), mode="create_append"))
    check([(count + 4,)], ask(cursor, "SELECT count(*) FROM bulk"))
    check(1, cursor.adbc_ingest("bulk", table.slice(0, 1), mode="replace"))
    check([(1,)], ask(cursor, "SELECT count(*) FROM bulk"))
    # All or nothing.
    keyed = pyarrow.table({"id": pyarrow.array([100, 101, 1], pyarrow.int64())})
    refused("SQLSTATE 23505", lambda: cursor.adbc_ingest("t", keyed, mode="append"))
    check([(3,)], ask(cursor, "SELECT count(*) FROM t"))
    refused("no column of a table has values", lambda: cursor.adbc_ingest(
        "lists", pyarrow.table({"a": [[1, 2]]}), mode="create"))
    refused("does not exist", lambda: cursor.adbc_ingest("nowhere", keyed, mode="append"))
    # A table would hide the measurement.
    refused("already exists", lambda: cursor.adbc_ingest("cpu", keyed, mode="create"))
    refused("temporary", lambda: cursor.adbc_ingest("own", keyed, mode="create", temporary=True))
    # Points of a measurement.
    points = pyarrow.table({
        "time": pyarrow.array([MOMENT, MOMENT], pyarrow.timestamp("ns", "UTC")),
        "host": ["x", "y"],
        "usage": [1.0, 2.0],
    })
    check(2, cursor.adbc_ingest("cpu", points, mode="append"))
    check([("x", 1.0), ("y", 2.0)],
          ask(cursor, "SELECT host, usage FROM cpu WHERE host IN ('x', 'y') ORDER BY host"))
    check(1, cursor.adbc_ingest("cpu", points.slice(1), mode="append", catalog_name="d", db_schema_name="autogen"))


def quotas():
    def point(host):
        moment = pyarrow.array([MOMENT], pyarrow.timestamp("ns", "UTC"))
        return pyarrow.table({"time": moment, "host": [host], "usage": [3.0]})

    with connect("bob", "paper") as connection, connection.cursor() as cursor:
        refused("series_per_database", lambda: cursor.adbc_ingest("cpu", point("new"), mode="append"))
        check(1, cursor.adbc_ingest("cpu", point("x"), mode="append"))
        refused("bytes_per_second", lambda: cursor.adbc_ingest("cpu", point("x"), mode="append"))
        check([(3.0,)], ask(cursor, "SELECT usage FROM cpu WHERE host IN ('x', 'new')"))


def transactions():
    with connect(autocommit=False) as connection, connection.cursor() as cursor:
        with connect() as other, other.cursor() as beside:
            count = "SELECT count(*) FROM t"

            def counted(connection):
                """The driver prepares a text once for a cursor, and a prepared statement belongs to its transaction."""
                with connection.cursor() as own:
                    return ask(own, count)[0][0]

            cursor.execute("INSERT INTO t (id) VALUES (50)")
            check(4, counted(connection))
            check([(3,)], ask(beside, count))
            connection.rollback()
            check(3, counted(connection))
            cursor.execute("INSERT INTO t (id) VALUES (51)")
            cursor.executemany("INSERT INTO t (id) VALUES (?)", [(52,), (53,)])
            check([(3,)], ask(beside, count))
            connection.commit()
            check([(6,)], ask(beside, count))
            check([(3,)], ask(cursor, "SELECT id - 50 FROM t WHERE id = 53"))
            connection.rollback()
            refused("must be prepared again", lambda: ask(cursor, "SELECT id - 50 FROM t WHERE id = 53"))
    # After a COMMIT that fails, the driver needs another connection.
    count = "SELECT count(*) FROM t"
    with connect() as other, other.cursor() as beside:
        connection = connect(autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO t (id) VALUES (60)")
            refused("SQLSTATE 22012", lambda: ask(cursor, "SELECT 1 / 0 FROM t"))
            refused("SQLSTATE 25P02", lambda: ask(cursor, "SELECT 1"))
            refused("rolled back", connection.commit)
        check([(6,)], ask(beside, count))
        # The first to commit wins.
        connection = connect(autocommit=False)
        with connection.cursor() as cursor:
            ask(cursor, "SELECT * FROM t")
            cursor.execute("UPDATE t SET words = 'mine' WHERE id = 51")
            beside.execute("UPDATE t SET words = 'theirs' WHERE id = 51")
            refused("SQLSTATE 40001", connection.commit)
        check([("theirs",)], ask(beside, "SELECT words FROM t WHERE id = 51"))
        beside.execute("DELETE FROM t WHERE id > 50")


def surroundings(connection):
    check("nyala", connection.adbc_get_info()["vendor_name"])
    check(["SYSTEM TABLE", "TABLE", "VIEW"], sorted(connection.adbc_get_table_types()))
    found = connection.adbc_get_objects(depth="all", catalog_filter="d", db_schema_filter="public").read_all()
    [database] = found.to_pylist()
    check("d", database["catalog_name"])
    [schema] = database["catalog_db_schemas"]
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    check(["bulk", "t"], sorted(tables))
    check(["id", "words", "at", "amount"], [own["column_name"] for own in tables["t"]["table_columns"]])
    found = connection.adbc_get_objects(depth="tables", catalog_filter="d", table_name_filter="cp_").read_all().to_pylist()
    check(["cpu"], [table["table_name"] for own in found for schema in own["catalog_db_schemas"]
                    for table in schema["db_schema_tables"]])
    schema = connection.adbc_get_table_schema("cpu", catalog_filter="d", db_schema_filter="autogen")
    check(pyarrow.string(), schema.field("host").type)


refused("authorization failed", lambda: connect(password="wrong"))
refused("authorization failed", lambda: connect(user="nobody"))
refused("credentials", lambda: adbc.connect(URI, autocommit=True).cursor().execute("SELECT 1"))
with connect() as connection, connection.cursor() as cursor:
    queries(cursor)
    changes(cursor)
    ingest(cursor)
    quotas()
    transactions()
    surroundings(connection)
    # A client may cancel what it waits for.
    cursor.execute("SELECT n FROM generate_series(1, 100000000000) AS s(n)")
    cursor.fetchone()
    cursor.adbc_cancel()
with connect(**{DATABASE: "nowhere"}) as connection, connection.cursor() as cursor:
    refused("does not exist", lambda: cursor.execute("SELECT * FROM cpu"))
    check(3, len(ask(cursor, "SELECT * FROM d.autogen.cpu WHERE host IS NULL OR host IN ('a', 'b')")))
