"""psycopg 3: parameters and answers in text and binary, prepared statements, pipelines, streams, cancelling."""

import datetime
import decimal
import sys
import threading

import psycopg

host, port = sys.argv[1:]
where = f"host={host} port={port} user=ann password=pencil dbname=d"
utc = datetime.timezone.utc
first = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=utc)
a = (first, "a", 3, "x y", True, 1.5, 1000000000)


def refused(connection, code, *statement):
    try:
        connection.execute(*statement).fetchall()
    except psycopg.Error as error:
        assert error.sqlstate == code, (statement, error.sqlstate, error)
        connection.rollback()
        return error
    raise AssertionError(statement)


with psycopg.connect(where) as connection:
    assert connection.info.server_version == 150018, connection.info.server_version

    def ask(*statement, **options):
        return connection.execute(*statement, **options).fetchall()

    for binary in (False, True):
        assert ask("SELECT * FROM cpu ORDER BY time LIMIT %s", (1,), binary=binary) == [a]
        for condition, value in [
            ("host = %s", "a"),
            ("host = ANY(%s)", ["a", "z"]),
            ("usage = %s", 1.5),
            ("usage = %s", decimal.Decimal("1.5")),
            ("n > %s", 1),
            ("n = %s", decimal.Decimal(3)),
            ("s = %s", "x y"),
            ("up = %s", True),
            ("time = %s", first),
            ("time < %s", "1970-01-01 00:00:02+00"),
            ("time < %s", datetime.datetime(1970, 1, 1, 0, 0, 2)),
        ]:
            assert ask(f"SELECT * FROM cpu WHERE {condition}", (value,), binary=binary) == [a], condition
        # Parameters without a type: the first place of one decides.
        between = "SELECT count(*) FROM cpu WHERE usage BETWEEN %(low)s AND %(low)s + 0.3"
        assert ask(between, {"low": "1.4"}, binary=binary) == [(1,)]
        assert ask("SELECT coalesce(%s, 1), CASE WHEN true THEN %s ELSE 2 END", ("7", "8"), binary=binary) == [(7, 8)]
        assert ask("SELECT %s + 0.3", ("12.25",), binary=binary) == [(decimal.Decimal("12.55"),)]
        row = ask(
            "SELECT %s::int8 + 1, %s::text, %s::text, %b::bytea, %s::interval, %s::date, %s::numeric(10,3), %s::float8[]",
            (1, "ü", None, b"\0\xff", datetime.timedelta(days=1, seconds=3), "2024-02-29", "1.5", [1.5, None]),
            binary=binary,
        )
        assert row == [
            (2, "ü", None, b"\0\xff", datetime.timedelta(days=1, seconds=3), datetime.date(2024, 2, 29),
             decimal.Decimal("1.500"), [1.5, None])
        ], row
        # As text, times are read in the session's zone; both know it as UTC.
        bins = ask("SELECT date_bin(interval '2 seconds', time) AS t, count(*) FROM cpu GROUP BY t ORDER BY t", binary=binary)
        assert [count for _, count in bins] == [1, 2] and bins[1][0] == datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=utc)
    connection.rollback()

    error = refused(connection, "42703", "SELECT nothing FROM cpu")
    assert error.diag.statement_position == "8"
    refused(connection, "42601", "SELCT 1")
    refused(connection, "22012", "SELECT 1/0")
    refused(connection, "22P02", "SELECT %s::int", ("z",))
    refused(connection, "22023", "SELECT * FROM cpu WHERE n > %s", (decimal.Decimal("1.5"),))
    refused(connection, "42501", "COPY cpu FROM '/etc/passwd'")
    # After an error a transaction does nothing until it ends.
    try:
        connection.execute("SELECT 1/0")
    except psycopg.errors.DivisionByZero:
        pass
    refused(connection, "25P02", "SELECT 1")

    connection.autocommit = True
    for number in range(150):
        assert ask(f"SELECT {number} WHERE 1 = %s", (1,), prepare=True) == [(number,)]
    connection.execute("DEALLOCATE ALL")
    connection.execute("DISCARD ALL")
    assert ask("SELECT 149 WHERE 1 = %s", (1,)) == [(149,)]

    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(50)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(50))

    with connection.transaction(), connection.cursor("named") as cursor:
        cursor.itersize = 3000
        numbers = "SELECT generate_series FROM generate_series(1, 20000) WHERE generate_series > %s ORDER BY 1"
        cursor.execute(numbers, (0,))
        assert cursor.fetchone() == (1,)
        cursor.scroll(9)
        assert sum(1 for _ in cursor) == 19990
        cursor.execute("SELECT 1")
    with connection.transaction(), connection.cursor("back", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM generate_series(1, 100) AS s(n) ORDER BY n")
        cursor.scroll(50, mode="absolute")
        assert cursor.fetchmany(2) == [(51,), (52,)]
        cursor.scroll(-2)
        assert cursor.fetchone() == (51,)
    refused(connection, "0A000", "DECLARE c BINARY CURSOR WITH HOLD FOR SELECT 1")

    with connection.cursor() as cursor:
        assert sum(1 for _ in cursor.stream("SELECT generate_series FROM generate_series(1, 20000)")) == 20000

    endless = (
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b WHERE a * b % 7 = 3"
    )
    ended = threading.Event()

    def cancel():
        # Nothing happens as long as nothing runs.
        while not ended.wait(0.3):
            connection.cancel_safe()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    assert "user request" in str(refused(connection, "57014", endless))
    ended.set()
    cancelling.join()
    connection.execute("SET statement_timeout = '200ms'")
    assert "statement timeout" in str(refused(connection, "57014", endless))
    connection.execute("RESET statement_timeout")
    assert ask("SELECT 1") == [(1,)]
