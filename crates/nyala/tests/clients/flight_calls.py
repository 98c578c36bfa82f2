"""Calls of Arrow Flight as pyarrow sends them, made by hand: what Grafana sends, log-ins, grants, cancelling, hostile requests.

Arguments: what to do, host, port; of some also a token or a certificate.
"""

import base64
import sys
import threading
import time

import pyarrow
import pyarrow.flight as flight

what, host, port, *more = sys.argv[1:]
SQL = "type.googleapis.com/arrow.flight.protocol.sql."


def check(expected, found):
    assert expected == found, f"expected {expected!r}, found {found!r}"


def refused(words, step):
    """pyarrow has classes for some codes, and only for some calls; all of them say the code and the words."""
    try:
        step()
    except Exception as error:
        assert words in str(error), f"{words!r} is not in {type(error).__name__}: {error}"
        return
    raise AssertionError(f"not refused: {words}")


def field(number, value):
    """A field of a message of protobuf."""
    value = value.encode() if isinstance(value, str) else value
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def command(name, *fields):
    return field(1, SQL + name) + field(2, b"".join(fields))


def query(text):
    return flight.FlightDescriptor.for_command(command("CommandStatementQuery", field(1, text)))


def connect(**options):
    return flight.FlightClient(f"grpc://{host}:{port}", **options)


def with_headers(*headers):
    return flight.FlightCallOptions(headers=[(b"database", b"d"), *headers])


def basic(user, password):
    return (b"authorization", b"Basic " + base64.b64encode(f"{user}:{password}".encode()))


def ask(client, options, text):
    info = client.get_flight_info(query(text), options)
    if not info.endpoints:
        return []
    table = client.do_get(info.endpoints[0].ticket, options).read_all()
    check(info.schema, table.schema)
    return [tuple(row.values()) for row in table.to_pylist()]


def update(client, options, text):
    descriptor = flight.FlightDescriptor.for_command(command("CommandStatementUpdate", field(1, text)))
    writer, reader = client.do_put(descriptor, pyarrow.schema([]), options)
    writer.done_writing()
    answer = reader.read()
    writer.close()
    return answer.to_pybytes()


def prepare(client, options, text):
    """The handle of a prepared statement."""
    asked = command("ActionCreatePreparedStatementRequest", field(1, text))
    [made] = client.do_action(flight.Action("CreatePreparedStatement", asked), options)
    body = made.body.to_pybytes()
    at = body.index(b"\x0a\x10", len(SQL))
    return body[at + 2:at + 18]


def execute_many(client, options, handle, rows):
    """Executes a prepared statement for each row of parameters."""
    return put_rows(client, options, command("CommandPreparedStatementUpdate", field(1, handle)), rows)


def put_rows(client, options, of, rows):
    """Sends rows with a command."""
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(of), rows.schema, options)
    try:
        writer.write_batch(rows)
        writer.done_writing()
        return reader.read().to_pybytes()
    finally:
        writer.close()


def grafana():
    """Its data source of InfluxDB in SQL mode: a bearer token and the name of the database with each call."""
    client, [token] = connect(), more
    options = with_headers((b"authorization", b"Bearer " + token.encode()))
    # It wants one endpoint, and plain arrays: what it has no case for it leaves out.
    info = client.get_flight_info(query("SELECT * FROM cpu"), options)
    check(1, len(info.endpoints))
    known = {"string", "double", "int64", "bool", "timestamp[ns, tz=+00:00]"}
    check(set(), {str(column.type) for column in info.schema} - known)
    check([(1,)], ask(client, options, "select 1"))
    text = ("SELECT date_bin(interval '1 second', time, timestamp '1970-01-01T00:00:00Z') AS time, avg(usage) AS usage "
            "FROM cpu WHERE time >= '1970-01-01T00:00:01Z' AND time <= '1970-01-01T00:00:02Z' GROUP BY 1 ORDER BY 1")
    check([1.5, 2.5], [usage for _, usage in ask(client, options, text)])
    check([("cpu",)], ask(client, options, "SELECT DISTINCT table_name FROM information_schema.tables "
                                           "WHERE table_schema = 'autogen'"))
    wrong = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token[:-2].encode())])
    refused("token", lambda: ask(client, wrong, "select 1"))


def types():
    """The types that columns may have, all of them and those of a number: the JDBC driver does not ask for them."""
    client, options = connect(), with_headers(basic("ann", "pencil"))

    def names(*fields):
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command("CommandGetXdbcTypeInfo", *fields)), options)
        rows = client.do_get(info.endpoints[0].ticket, options).read_all()
        check(sorted(rows["data_type"].to_pylist()), rows["data_type"].to_pylist())
        return set(rows["type_name"].to_pylist())

    check({"boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric", "text", "varchar", "bytea", "date",
           "timestamp", "timestamptz"}, names())
    check({"timestamp", "timestamptz"}, names(field(1, 93)))
    refused("PREPARE over Flight SQL", lambda: update(client, options, "PREPARE q AS SELECT 1"))


def log_ins():
    client = connect()
    token = client.authenticate_basic_token("ann", "pencil")
    own = with_headers(token)
    check([("a",)], ask(client, own, "SELECT host FROM cpu WHERE host = 'a'"))
    check([("a",)], ask(client, with_headers(basic("ann", "pencil")), "SELECT host FROM cpu WHERE host = 'a'"))
    refused("authorization failed", lambda: client.authenticate_basic_token("ann", "wrong"))
    refused("credentials", lambda: ask(client, with_headers(), "SELECT 1"))
    refused("authorization failed", lambda: ask(client, with_headers(basic("ann", "")), "SELECT 1"))
    name, expiry = b"Bearer nyala." + base64.urlsafe_b64encode(b"ann").rstrip(b"="), b"99999999999"
    for forged in [name, name + b"." + expiry, name + b"." + expiry + b".", name + b"." + expiry + b".AAAA",
                   token[1][:-3] + b"AAA", token[1].replace(b"nyala.", b"nyala.."), b"Bearer nyala.", b"Bearer "]:
        refused("nauthenticated", lambda: ask(client, with_headers((b"authorization", forged)), "SELECT 1"))
    # Every call asks who it is.
    for step in [lambda: client.do_get(flight.Ticket(b"x")).read_all(), lambda: list(client.list_actions()),
                 lambda: client.get_schema(query("SELECT 1")), lambda: list(client.do_action("BeginTransaction")),
                 lambda: list(client.list_flights())]:
        refused("credentials", step)


def no_administrator():
    client = connect()
    for options in [with_headers(), with_headers(basic("ann", "pencil"))]:
        refused("create admin user first", lambda: ask(client, options, "SELECT 1"))
    refused("create admin user first", lambda: client.authenticate_basic_token("ann", "pencil"))


def grants():
    """Somebody who may read d and nothing else."""
    client = connect()
    bob = with_headers(client.authenticate_basic_token("bob", "paper"))
    ann = with_headers(client.authenticate_basic_token("ann", "pencil"))
    check(3, len(ask(client, bob, "SELECT * FROM cpu")))
    # As everywhere else, the other database is not even there for him.
    for text in ["SELECT * FROM e.autogen.cpu", "SELECT * FROM (SELECT * FROM e.autogen.cpu) AS s",
                 "INSERT INTO cpu (time, usage) VALUES (now(), 1)", "CREATE TABLE own (a int)",
                 "DELETE FROM cpu"]:
        refused("SQLSTATE", lambda: ask(client, bob, text))
    check(1, len(ask(client, ann, "SELECT * FROM e.autogen.cpu")))
    listed = flight.FlightDescriptor.for_command(command("CommandGetTables"))

    def catalogs(options):
        info = client.get_flight_info(listed, options)
        rows = client.do_get(info.endpoints[0].ticket, options).read_all()
        return sorted({name for name in rows["catalog_name"].to_pylist() if name in ("d", "e")})

    check(["d"], catalogs(bob))
    check(["d", "e"], catalogs(ann))
    # Nobody uses what is somebody else's.
    [begun] = client.do_action(flight.Action("BeginTransaction", command("ActionBeginTransactionRequest")), ann)
    transaction = begun.body.to_pybytes()[-16:]
    ended = flight.Action("EndTransaction", command("ActionEndTransactionRequest", field(1, transaction), field(2, 1)))
    refused("no such transaction", lambda: list(client.do_action(ended, bob)))
    check([], list(client.do_action(ended, ann)))
    handle = prepare(client, ann, "SELECT 1")
    ticket = flight.Ticket(command("CommandPreparedStatementQuery", field(1, handle)))
    refused("no such prepared statement", lambda: client.do_get(ticket, bob).read_all())
    check([1], client.do_get(ticket, ann).read_all().columns[0].to_pylist())
    # A token ends with the password, and with its user.
    ask(client, ann, "SELECT 1")
    print("granted", flush=True)
    sys.stdin.readline()
    refused("log in again", lambda: ask(client, bob, "SELECT 1"))


def tokens():
    """A token of bob, who may do all with d, that may read it."""
    client, [secret] = connect(), more
    bearer = with_headers((b"authorization", b"Bearer " + secret.encode()))
    session = with_headers(client.authenticate_basic_token("bob", secret))
    password = with_headers(client.authenticate_basic_token("bob", "paper"))
    for options in [bearer, with_headers(basic("bob", secret)), session]:
        check([("a",)], ask(client, options, "SELECT host FROM cpu WHERE host = 'a'"))
        refused("42501", lambda: update(client, options, "INSERT INTO cpu (time, usage) VALUES (now(), 1)"))
    refused("authorization failed", lambda: ask(client, with_headers(basic("ann", secret)), "SELECT 1"))
    # What bob has begun with his password is not the token's.
    begun = flight.Action("BeginTransaction", command("ActionBeginTransactionRequest"))
    [begun] = client.do_action(begun, password)
    ended = command("ActionEndTransactionRequest", field(1, begun.body.to_pybytes()[-16:]), field(2, 1))
    refused("no such transaction", lambda: list(client.do_action(flight.Action("EndTransaction", ended), session)))
    print("asked", flush=True)
    sys.stdin.readline()
    refused("log in again", lambda: ask(client, session, "SELECT 1"))
    refused("the token is unknown", lambda: ask(client, bearer, "SELECT 1"))
    check([(1,)], ask(client, password, "SELECT 1"))


def ends():
    """Queries that are cancelled, or whose client leaves."""
    client, options = connect(), with_headers()
    endless = query("SELECT n FROM generate_series(1, 1000000000000) AS s(n)")
    info = client.get_flight_info(endless, options)
    reader = client.do_get(info.endpoints[0].ticket, options)
    reader.read_chunk()
    request = field(1, info.serialize())
    [answer] = client.do_action(flight.Action("CancelFlightInfo", request), options)
    check(field(1, 1), answer.body.to_pybytes())

    def read_all():
        while True:
            reader.read_chunk()

    refused("canceling statement", read_all)
    refused("no such query runs", lambda: list(client.do_action(flight.Action("CancelFlightInfo", request), options)))
    # The older form, for a query that computes for long before its first row.
    info = client.get_flight_info(query("SELECT count(*) FROM generate_series(1, 1000000000000) AS s(n)"), options)
    request = flight.Action("CancelQuery", command("ActionCancelQueryRequest", field(1, info.serialize())))

    def cancel():
        for _ in range(2000):
            try:
                list(client.do_action(request, options))
                return
            except Exception:
                time.sleep(0.05)

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    try:
        client.do_get(info.endpoints[0].ticket, options).read_all()
        raise AssertionError("it was not cancelled")
    except (flight.FlightCancelledError, KeyboardInterrupt):
        # pyarrow interrupts the main thread.
        pass
    cancelling.join()
    # One that leaves.
    info = client.get_flight_info(endless, options)
    reader = client.do_get(info.endpoints[0].ticket, options)
    reader.read_chunk()
    reader.cancel()
    # One that takes nothing: the server waits for it, and computes nothing ahead.
    slow = client.do_get(client.get_flight_info(endless, options).endpoints[0].ticket, options)
    slow.read_chunk()
    print("waiting", flush=True)
    sys.stdin.readline()
    slow.read_chunk()
    client.close()


def broken_off():
    """A series of executions whose client leaves in the middle of it, and executes the statement again."""
    client, options = connect(), with_headers()
    update(client, options, "CREATE TABLE taken (a bigint PRIMARY KEY)")
    insert = "INSERT INTO taken SELECT $1::bigint WHERE pg_sleep($2::double precision) IS NOT NULL"
    handle = prepare(client, options, insert)

    def rows(numbers, seconds):
        return pyarrow.record_batch([pyarrow.array(numbers, pyarrow.int64()), pyarrow.array(seconds, pyarrow.float64())],
                                    names=["$1", "$2"])

    impatient = flight.FlightCallOptions(timeout=6, headers=[(b"database", b"d")])
    refused("", lambda: execute_many(client, impatient, handle, rows([1, 2], [0.0, 600.0])))
    check(b"\x08\x03", execute_many(client, options, handle, rows([3, 4, 5], [0.0, 0.0, 0.0])))
    check([(3,), (4,), (5,)], ask(client, options, "SELECT a FROM taken ORDER BY a"))


def ingests():
    """What an ingest may be told about the table, beside what drivers tell: drivers that replace a table may create it, too."""
    client, options = connect(), with_headers()
    create, fail, append, replace = 1, 2, 2, 3
    update(client, options, "CREATE TABLE own (a bigint)")
    update(client, options, "INSERT INTO own VALUES (1)")

    def ingest(table, number, missing, existing):
        rows = pyarrow.record_batch([pyarrow.array([number], pyarrow.int64())], names=["a"])
        ways = field(1, field(1, missing) + field(2, existing))
        return put_rows(client, options, command("CommandStatementIngest", ways, field(2, table)), rows)

    for missing in [0, fail]:
        check(b"\x08\x01", ingest("own", 2 + missing, missing, replace))
        check([(2 + missing,)], ask(client, options, "SELECT a FROM own"))
        refused("does not exist", lambda: ingest("nowhere", 1, missing, replace))
        refused("already exists", lambda: ingest("cpu", 1, missing, replace))
    check(b"\x08\x01", ingest("nowhere", 5, create, replace))
    refused("may not be appended", lambda: ingest("own", 6, fail, 1))
    check(b"\x08\x01", ingest("own", 7, fail, append))
    check([(4,), (7,)], ask(client, options, "SELECT a FROM own ORDER BY a"))
    check([(5,)], ask(client, options, "SELECT a FROM nowhere"))
    check(3, len(ask(client, options, "SELECT * FROM cpu")))


def hostile():
    """Requests that no driver sends."""
    client, options = connect(), with_headers()
    for ticket in [b"", b"x", b"\xff" * 100, command("TicketStatementQuery", field(1, b"\xff\xff")),
                   command("TicketStatementQuery", field(1, field(1, b"short") + field(2, "SELECT 1"))),
                   command("CommandStatementQuery", field(1, "SELECT 1")), command("Nothing"),
                   command("CommandPreparedStatementQuery", field(1, b"x")),
                   command("CommandPreparedStatementQuery", field(1, b"x" * 16))]:
        refused("", lambda: client.do_get(flight.Ticket(ticket), options).read_all())
    for descriptor in [b"", b"\xff", command("Nothing"), command("CommandStatementUpdate", field(1, "SELECT 1")),
                       command("CommandStatementSubstraitPlan"), command("CommandStatementQuery", field(1, b"\xff"))]:
        own = flight.FlightDescriptor.for_command(descriptor)
        refused("", lambda: client.get_flight_info(own, options))
        refused("", lambda: client.get_schema(own, options))
    refused("", lambda: client.get_flight_info(flight.FlightDescriptor.for_path("a", "b"), options))
    for name, body in [("", b""), ("Nothing", b""), ("BeginTransaction", b"x"), ("EndTransaction", b"\xff"),
                       ("CreatePreparedStatement", command("ActionBeginTransactionRequest")),
                       ("ClosePreparedStatement", command("ActionClosePreparedStatementRequest")),
                       ("CancelFlightInfo", b""), ("CancelFlightInfo", b"\xff"),
                       ("EndSavepoint", command("ActionEndSavepointRequest", field(1, b"x"), field(2, 1)))]:
        refused("", lambda: list(client.do_action(flight.Action(name, body), options)))
    refused("DoExchange", lambda: client.do_exchange(query("SELECT 1"), options)[1].read_chunk())
    refused("ListFlights", lambda: list(client.list_flights(options=options)))

    def put(schema, frames, descriptor, write_options=None):
        call = with_headers() if write_options is None else flight.FlightCallOptions(
            headers=[(b"database", b"d")], write_options=write_options)
        writer, reader = client.do_put(descriptor, schema, call)
        try:
            for frame in frames:
                writer.write_batch(frame)
            writer.done_writing()
            return reader.read().to_pybytes()
        finally:
            writer.close()

    ingest = flight.FlightDescriptor.for_command(
        command("CommandStatementIngest", field(1, field(1, 1) + field(2, 2)), field(2, "own")))
    # A frame that claims more rows than any, of which no byte is sent.
    none = pyarrow.schema([("a", pyarrow.null())])
    frame = pyarrow.record_batch([pyarrow.nulls(1 << 30)], schema=none)
    refused("a frame may have", lambda: put(none, [frame], ingest))
    # A long value that each row has.
    long = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 100, pyarrow.int8()), pyarrow.array(["x" * 2_000_000]))
    frame = pyarrow.record_batch([long], names=["a"])
    try:
        put(frame.schema, [frame], ingest)
    except Exception as error:
        print(str(error)[:300])
    frame = pyarrow.record_batch([pyarrow.array(["x" * 1000] * 1000)], names=["a"])
    refused("compress", lambda: put(
        frame.schema, [frame], ingest, pyarrow.ipc.IpcWriteOptions(compression="zstd")))
    # A message that is longer than any may be.
    frame = pyarrow.record_batch([pyarrow.array(["x" * 30_000_000])], names=["a"])
    refused("max-body-size", lambda: put(frame.schema, [frame], ingest))
    check([(1,)], ask(client, options, "SELECT 1"))


def tls():
    [certificate] = more
    trusted = open(certificate, "rb").read()
    own = flight.FlightClient(f"grpc+tls://{host}:{port}", tls_root_certs=trusted)
    check([(1,)], ask(own, with_headers(), "SELECT 1"))
    import adbc_driver_flightsql.dbapi as adbc
    from adbc_driver_flightsql import DatabaseOptions
    secure = {DatabaseOptions.TLS_ROOT_CERTS.value: trusted.decode()}
    with adbc.connect(f"grpc+tls://{host}:{port}", db_kwargs=secure, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 2")
            check([(2,)], cursor.fetchall())
    stranger = flight.FlightClient(f"grpc+tls://{host}:{port}")
    soon = flight.FlightCallOptions(timeout=5)
    refused("", lambda: ask(stranger, soon, "SELECT 1"))
    refused("", lambda: ask(connect(), soon, "SELECT 1"))


def idle():
    """A connection without calls is closed, and the client opens another one."""
    client, options = connect(), with_headers()
    check([(1,)], ask(client, options, "SELECT 1"))
    check(b"\x08\x02", update(client, options, "INSERT INTO cpu (time, host, usage) VALUES (now(), 'p', 1), (now(), 'q', 2)"))
    print("idle", flush=True)
    sys.stdin.readline()
    check([(2,)], ask(client, options, "SELECT 2"))


{"grafana": grafana, "types": types, "log_ins": log_ins, "no_administrator": no_administrator, "grants": grants, "tokens": tokens, "ends": ends, "broken_off": broken_off, "ingests": ingests, "hostile": hostile, "tls": tls, "idle": idle}[what]()
