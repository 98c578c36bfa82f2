"""COPY, byte by byte: prints what a server makes of rows in every form, of rows that are wrong, and of random ones.

The answers of a real PostgreSQL 15 are in testdata/postgres/copy.txt (`record` there).
"""

import hashlib
import random
import struct
import sys

import psycopg

host, port, user, password, database = sys.argv[1:]
connection = psycopg.connect(
    f"host={host} port={port} user={user} password={password} dbname={database}", autocommit=True
)
connection.execute("SET timezone = 'UTC'")


def told(error):
    diagnosis = error.diag
    # PostgreSQL guesses that another order of day and month was meant.
    hint = diagnosis.message_hint if error.sqlstate != "22008" else None
    parts = [diagnosis.message_primary, diagnosis.message_detail, hint, diagnosis.context]
    return f"{error.sqlstate} " + " | ".join(repr(part) for part in parts if part is not None)


def put(statement, *pieces, binary=False):
    """What becomes of a COPY FROM."""
    cursor = connection.cursor(binary=binary)
    try:
        with cursor.copy(statement) as copy:
            for piece in pieces:
                copy.write(piece)
        return cursor.statusmessage
    except psycopg.Error as error:
        return told(error)


def got(statement, binary=False):
    """What a COPY TO gives."""
    cursor = connection.cursor(binary=binary)
    try:
        with cursor.copy(statement) as copy:
            return b"".join(bytes(piece) for piece in copy) , cursor.statusmessage
    except psycopg.Error as error:
        return told(error)


def rows(table):
    return sorted(map(repr, connection.execute(f"SELECT * FROM {table}").fetchall()))


def show(table, statement, *pieces, **options):
    """Copies into an empty table, and prints what is in it."""
    connection.execute(f"TRUNCATE {table}")
    outcome = put(statement, *pieces, **options)
    shown = " ".join(repr(piece) for piece in pieces)
    print(statement, shown if len(shown) < 200 else f"{len(shown)} bytes", "=>", outcome, *rows(table))


connection.execute("CREATE TABLE t (a text, b text)")
connection.execute("CREATE TABLE one (a text)")
connection.execute(
    "CREATE TABLE v (id int PRIMARY KEY, small smallint, big bigint, f double precision, g real, n numeric(8,2), s text, "
    "v varchar(4), y bytea, d date, m timestamp, z timestamptz, t boolean)"
)
connection.execute("CREATE TABLE rules (id int PRIMARY KEY, n int NOT NULL CHECK (n > 0), s text DEFAULT 'none')")

print("# text")
for data in [
    b"", b"a\tb\n", b"a\tb", b"a\tb\r\nc\td\r\n", b"a\tb\rc\td\r", b"\\N\t\n", b"\\\\N\tx\\Ny\n", b"\t\n\t\n", b"a\n",
    b"a\tb\tc\n", b"\n", b"a\tb\n\n", b"a\\\tb\tc\n", b"a\\\nb\tc\n", b"\\b\\f\\n\t\\r\\t\\v\n", b"\\101\\x42\\7\t\\x\\q\n",
    b"\\303\\244\t\\xc3\\xa4\n", b"\\000\tb\n", b"a\t\\xff\n", b"a\tb\n\\.\nc\td\n", b"a\tb\\.\nc\td\n", b"a\tb\n\\.x\n",
    b"a\tb\n\\.", b"a\tb\r\n\\.\n", b"a\tb\n\\.\r\n", b"a\tb\nc\rd\te\n", b"a\tb\r\nc\td\n", b"a\tb\\", b"a\tb\n\xff\td\n",
    b"a\tb\nx\xc3\x28\td\n", b"a\tb\nx\0\td\n", "ä\tö\n".encode(), b"a\tb\n" + b"x" * 150 + b"\n",
    b"a\tb\n" + "ü".encode() * 80 + b"\n",
]:
    show("t", "COPY t FROM STDIN", data)
show("t", "COPY t FROM STDIN", b"a\t", b"b", b"\nc\\", b"\t", b"d\te", b"\n")
show("t", "COPY t (b) FROM STDIN", b"x\ny\n")
show("t", "COPY t (b, a) FROM STDIN (DELIMITER '|', NULL 'nil')", b"x|nil\nnil|y\n\\nil|z\n")
show("t", "COPY t FROM STDIN DELIMITER AS E'\\t' NULL AS ''", b"x\t\n\ty\n")
show("t", "COPY t FROM STDIN USING DELIMITERS ':'", b"x:y\n")
show("t", "COPY t FROM STDIN WITH (HEADER)", b"a\tb\nx\ty\n")
show("t", "COPY t FROM STDIN (HEADER match)", b"a\tb\nx\ty\n")
show("t", "COPY t FROM STDIN (HEADER match)", b"a\tc\nx\ty\n")
show("t", "COPY t FROM STDIN (HEADER match)", b"a\t\\N\nx\ty\n")
show("t", "COPY t FROM STDIN (HEADER match)", b"a\nx\ty\n")
show("one", "COPY one FROM STDIN", b"\n\\N\n\\\\.\nx\n")
show("t", "COPY t FROM STDIN", b"a\tb\n", binary=True)

print("# csv")
for data in [
    b"a,b\n", b"a,b", b"a,\n", b"\"\",\"\"\n", b"\"a\",\"b\"\r\n", b"\"a,b\",c\n", b"\"a\"\"b\",\"c\nd\"\n", b"a\"b,c\"d,e\n",
    b"a,\"b\n", b"a,\"b\nc,d\n", b"\"a\"x,y\n", b" a , b \n", b"a,b,c\n", b"a\n", b"\n", b"a,b\n\\.\nc,d\n", b"a,b\n\\.x,y\n",
    b"a,\\.\n", b"\"a\r\nb\",c\r\nd,e\r\n", b"a,b\r\nc,d\n", b"a,b\nc\r,d\n", b"\\N,\"\\N\"\n", b"a,b\n\xff,d\n", b",\n",
    b"\"\n\n\n\",x\n1,2,3\n", b"a,b\n\"c\"\"", b"\\\"a,b\n",
]:
    show("t", "COPY t FROM STDIN (FORMAT csv)", data)
show("t", "COPY t FROM STDIN CSV HEADER", b"x,y\na,b\n")
show("t", "COPY t FROM STDIN CSV HEADER", b"\"x\ny\",z\na,b\nc\n")
show("t", "COPY t FROM STDIN WITH (FORMAT csv, HEADER true, DELIMITER ';', QUOTE '''', ESCAPE '\\', NULL 'NULL')",
     b"x;y\n'a\\'b';NULL\n'NULL';c\n'\\\\';'d\\e'\n")
show("t", "COPY t FROM STDIN (FORMAT csv, FORCE_NULL (a), FORCE_NOT_NULL (b))", b"\"\",\n,\"\"\n")
show("t", "COPY t FROM STDIN CSV FORCE NOT NULL a, b", b",\n")
show("t", "COPY t FROM STDIN (FORMAT csv, HEADER match)", b"a,\"b\"\nx,y\n")
show("t", "COPY t FROM STDIN (FORMAT csv, HEADER match)", b"a,\nx,y\n")
show("one", "COPY one FROM STDIN CSV", b"\n\"\"\n\"\\.\"\nx\n")

print("# values")
good = "1\t2\t3\t1.5\t-0.25\t12.345\tx y\tabcd\t\\\\x00ff\t2024-02-29\t2024-02-29 12:34:56.789\t2024-02-29 12:34:56+02\tt\n"
show("v", "COPY v FROM STDIN", good.encode())
show("v", "COPY v (id, f, z, t) FROM STDIN", b"1\t1e300\t2024-01-01T00:00:00Z\tyes\n 2 \t-Infinity\t2024-01-01\toff\n+3\tnan\t1999-12-31 23:59:59.999999-11:30\tFALSE\n")
for column, text in [
    ("id", "x"), ("id", ""), ("id", "1.0"), ("id", "2147483648"), ("id", "\\N"), ("small", "32768"), ("big", "9223372036854775808"),
    ("big", "9223372036854775807"), ("f", "1e400"), ("f", "1e"), ("f", ".5"), ("f", "5."), ("f", "- 1"), ("g", "1e39"), ("g", "16777217"),
    ("n", "1000000"), ("n", "0.005"), ("n", "1e3"), ("n", "x"), ("v", "abcde"), ("v", "abc   "), ("y", "\\\\x0"), ("y", "a\\\\\\\\b"),
    ("d", "2024-02-30"), ("d", "x"), ("m", "2024-01-01 25:00"), ("z", "2024-13-01"), ("z", ""), ("t", "maybe"), ("t", "x" * 120),
]:
    names = "id" if column == "id" else f"id, {column}"
    data = f"{text}\n" if column == "id" else f"7\t{text}\n"
    show("v", f"COPY v ({names}) FROM STDIN", data.encode())
show("v", "COPY v (id, s) FROM STDIN", b"1\ta\n2\tb\n1\tc\n")
show("v", "COPY v (id, s) FROM STDIN", b"1\ta\n2\tb\nx\tc\n")
show("rules", "COPY rules (id, n) FROM STDIN", b"1\t1\n2\t2\n")
show("rules", "COPY rules (id, n) FROM STDIN", b"1\t1\n2\t-2\n3\tx\n")
show("rules", "COPY rules (id, n) FROM STDIN", b"1\t1\n2\t\\N\n")
show("rules", "COPY rules (id) FROM STDIN", b"1\n")
show("rules", "COPY rules FROM STDIN", b"1\t1\t\\N\n")
show("rules", "COPY rules FROM STDIN CSV", b"1,1," + b"x" * 120 + b"\n2,0," + "ö".encode() * 120 + b"\n")

print("# binary")
signature = b"PGCOPY\n\xff\r\n\0" + bytes(8)
end = b"\xff\xff"


def value(data):
    return b"\xff\xff\xff\xff" if data is None else struct.pack("!i", len(data)) + data


def tuple_of(*values):
    return struct.pack("!h", len(values)) + b"".join(map(value, values))


whole = signature + tuple_of(b"a", None) + tuple_of("ö".encode(), b"") + end
for data in [
    whole, whole[:-2], signature, signature + end, b"", b"PGCOPY", b"PGCOPX\n\xff\r\n\0" + bytes(8), signature[:13], signature[:17],
    b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x02zz" + tuple_of(b"a", b"b"), b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x02z",
    b"PGCOPY\n\xff\r\n\0\0\x01\0\0\0\0\0\0" + end, b"PGCOPY\n\xff\r\n\0\0\x02\0\0\0\0\0\0" + end,
    b"PGCOPY\n\xff\r\n\0\0\0\0\x01\xff\xff\xff\xff" + end, whole + b"x", signature + tuple_of(b"a"), signature + tuple_of(b"a", b"b", b"c"),
    signature + b"\0\x02\0\0\0\x05ab", signature + b"\0\x02\xff\xff\xff\xfe", signature + b"\0", signature + b"\0\x02\0\0",
    signature + tuple_of(b"a\xff", b"b") + end, signature + tuple_of(b"a\0", b"b") + end, b"a\tb\n",
]:
    show("t", "COPY t FROM STDIN (FORMAT binary)", data)
show("t", "COPY BINARY t FROM STDIN", *[whole[at : at + 1] for at in range(len(whole))])
show("v", "COPY v (id, big) FROM STDIN BINARY", signature + tuple_of(b"\0\0\0\1", b"\0" * 7 + b"\5") + tuple_of(b"\0\0\0\2", b"\0" * 9) + end)
show("v", "COPY v (id, n) FROM STDIN BINARY", signature + tuple_of(b"\0\0\0\1", bytes.fromhex("0002000000000002000109c4")) + end)
show("v", "COPY v (id, v) FROM STDIN BINARY", signature + tuple_of(b"\0\0\0\1", b"abcde") + end)
show("v", "COPY v (id) FROM STDIN BINARY", signature + tuple_of(b"\0\0\0\1") + tuple_of(b"\0\0\0\1") + end)
show("rules", "COPY rules (id, n) FROM STDIN BINARY", signature + tuple_of(b"\0\0\0\1", b"\0\0\0\0") + end)

print("# out")
connection.execute("TRUNCATE v")
put("COPY v FROM STDIN", good.encode())
connection.execute(
    "INSERT INTO v VALUES (2, NULL, -9223372036854775808, 'NaN', 1e-20, -0.01, E'tab\\tnew\\nline\\rback\\\\slash\\b\\f\\x01', '\"q,\"', "
    "'\\xdeadbeef', '1969-12-31', '1999-12-31 23:59:59.999999', '1970-01-01 00:00:00', false), (4, 1, 1, 1e15, 'Infinity', 0, '', "
    "'\\N', '', '2024-01-01', '2024-01-01', '2024-01-01', true), (5, 0, 0, 0.1, 0.1, 1, '\\.', 'NULL', 'a', '2024-12-31', "
    "'2024-12-31 01:02:03.5', '2024-12-31 01:02:03.000001', true)"
)
connection.execute("INSERT INTO v (id) VALUES (3)")
ordered = "(SELECT * FROM v ORDER BY id)"
for options in [
    "", "CSV", "CSV HEADER", "(FORMAT csv, HEADER, DELIMITER ';', NULL 'NULL', QUOTE '''', ESCAPE '\\')", "(DELIMITER '|', NULL 'nil')",
    "(FORMAT csv, FORCE_QUOTE *)", "(FORMAT csv, FORCE_QUOTE (s, id))", "CSV FORCE QUOTE s", "(HEADER)", "(HEADER, DELIMITER 'B')",
]:
    print(options, *got(f"COPY {ordered} TO STDOUT {options}"))
for binary in (False, True):
    data, tag = got(f"COPY {ordered} TO STDOUT (FORMAT binary)", binary)
    print("binary", tag, data.hex())
connection.execute("INSERT INTO one VALUES (''), ('\\.'), ('a'), (NULL)")
for options in ["", "CSV", "CSV HEADER", "BINARY"]:
    data, tag = got(f"COPY (SELECT a FROM one ORDER BY a) TO STDOUT {options}")
    print("one", options, data, tag)
    print("none", *got(f"COPY (SELECT a FROM one WHERE false) TO STDOUT {options}"))
connection.execute("TRUNCATE one")
connection.execute("INSERT INTO one VALUES ('x')")
print(got("COPY one TO STDOUT"), got("COPY one (a) TO STDOUT CSV HEADER"), got("COPY (VALUES (1, 'a'), (2, NULL)) TO STDOUT"))
print(got("COPY (SELECT 1 AS \"a\tb\", 2 AS \"c,d\") TO STDOUT (HEADER)"), got("COPY (SELECT 1 AS \"a\tb\", 2 AS \"c,d\") TO STDOUT CSV HEADER"))
print(got("COPY (INSERT INTO one VALUES ('y'), ('z') RETURNING a) TO STDOUT"), rows("one"))
print(got("COPY (SELECT 1/(3-n) FROM (VALUES (1), (2), (3)) AS v(n)) TO STDOUT")[:5])

print("# what goes out comes in again")
for options in ["", "CSV", "CSV HEADER QUOTE '''' ESCAPE '\\'", "BINARY", "(FORMAT csv, FORCE_QUOTE *)", "(NULL 'x', DELIMITER '|')"]:
    before = rows("v")
    data, tag = got(f"COPY v TO STDOUT {options}")
    connection.execute("TRUNCATE v")
    back = options if "FORCE" not in options else "CSV"
    print(options, put(f"COPY v FROM STDIN {back}", data), rows("v") == before)

print("# refused")
for statement in [
    "COPY nowhere FROM STDIN", "COPY nowhere TO STDOUT", "COPY t (nothing) FROM STDIN", "COPY t (a, a) FROM STDIN", "COPY t (nothing) TO STDOUT",
    "COPY t FROM STDIN (FORMAT xml)", "COPY t FROM STDIN (FORMAT csv, FORMAT csv)", "COPY t FROM STDIN (nonsense 1)",
    "COPY t FROM STDIN (DELIMITER 'ab')", "COPY t FROM STDIN (DELIMITER 'a')", "COPY t FROM STDIN (DELIMITER E'\\n')",
    "COPY t FROM STDIN (NULL E'\\n')", "COPY t FROM STDIN (QUOTE 'x')", "COPY t FROM STDIN (ESCAPE 'x')", "COPY t FROM STDIN (FORMAT csv, QUOTE 'xx')",
    "COPY t FROM STDIN (FORMAT csv, ESCAPE 'xx')", "COPY t FROM STDIN (FORMAT csv, DELIMITER '\"')", "COPY t FROM STDIN (FORMAT csv, NULL 'a,b')",
    "COPY t FROM STDIN (FORMAT csv, NULL '\"')", "COPY t FROM STDIN (FORMAT binary, DELIMITER ',')", "COPY t FROM STDIN (FORMAT binary, NULL '')",
    "COPY t FROM STDIN (FORMAT binary, HEADER)", "COPY t FROM STDIN (HEADER maybe)", "COPY t TO STDOUT (HEADER match)",
    "COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE *)", "COPY t TO STDOUT (FORMAT csv, FORCE_NULL (a))", "COPY t TO STDOUT (FORMAT csv, FORCE_NOT_NULL (a))",
    "COPY t TO STDOUT (FORCE_QUOTE *)", "COPY t FROM STDIN (FORCE_NULL (a))", "COPY t FROM STDIN (FORMAT csv, FORCE_NULL a)",
    "COPY t FROM STDIN (FORMAT csv, FORCE_NULL (nothing))", "COPY t (a) FROM STDIN (FORMAT csv, FORCE_NULL (b))", "COPY t FROM STDIN (FREEZE maybe)",
    "COPY (SELECT 1) FROM STDIN", "COPY t FROM", "COPY t STDIN", "COPY t FROM STDIN CSV CSV", "COPY (INSERT INTO t VALUES ('x')) TO STDOUT",
]:
    cursor = connection.cursor()
    try:
        with cursor.copy(statement):
            print(statement, "=> not refused")
    except psycopg.Error as error:
        words = "" if error.sqlstate == "42601" and "syntax error" in str(error) else repr(error.diag.message_primary)
        print(statement, "=>", error.sqlstate, words)

print("# transactions, and more than fits into one batch")
connection.execute("TRUNCATE v")
connection.autocommit = False
print(put("COPY v (id, s) FROM STDIN", b"1\ta\n2\tb\n"), rows("v"))
connection.rollback()
print(rows("v"))
print(put("COPY v (id, s) FROM STDIN", b"1\ta\n2\tb\n"))
connection.execute("UPDATE v SET s = s || s")
print(got("COPY v (id, s) TO STDOUT"))
connection.commit()
print(put("COPY v (id, s) FROM STDIN", b"3\tc\n1\tb\n"))
try:
    connection.execute("SELECT 1")
except psycopg.Error as error:
    print(error.sqlstate)
connection.rollback()
connection.autocommit = True
many = "".join(f"{number}\t{number * 7919 % 100003}\n" for number in range(10, 90010)).encode()
print(put("COPY v (id, big) FROM STDIN", *[many[at : at + 50_000] for at in range(0, len(many), 50_000)]))
print(connection.execute("SELECT count(*), sum(id), sum(big)::bigint FROM v").fetchall())
print(put("COPY v (id) FROM STDIN", "".join(f"{number}\n" for number in range(100000, 200000)).encode() + b"55\n"))
print(connection.execute("SELECT count(*) FROM v").fetchall())
data, tag = got("COPY (SELECT id, big FROM v ORDER BY id) TO STDOUT")
print(tag, len(data), hashlib.sha256(data).hexdigest())
cursor = connection.cursor()
try:
    with cursor.copy("COPY v (id) FROM STDIN") as copy:
        copy.write(b"777777\n")
        raise KeyError("changed my mind")
except KeyError as error:
    print(error, connection.execute("SELECT count(*) FROM v WHERE id = 777777").fetchall())
with connection.cursor().copy("COPY v (id, z, n, s) FROM STDIN") as copy:
    copy.write_row((888888, "2024-01-01 00:00:00+00", "1.5", None))
with connection.cursor().copy("COPY v (id, big, f, s, y, t) FROM STDIN (FORMAT binary)") as copy:
    copy.set_types(["int4", "int8", "float8", "text", "bytea", "bool"])
    copy.write_row((888889, -5, 2.5, "ü", b"\0", True))
with connection.cursor().copy("COPY (SELECT id, big, f, s, y, t FROM v WHERE id > 800000 ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
    copy.set_types(["int4", "int8", "float8", "text", "bytea", "bool"])
    print(list(copy.rows()))

print("# random rows")
chance = random.Random(15)
letters = ["a", "b", "\\", "\t", "\n", "\n", "\r", "\\N", "\\.", '"', ",", ",", "'", "\\x41", "\\101", "é", "\\t", "\r\n", "\t"]
for statement in [
    "COPY t FROM STDIN", "COPY t FROM STDIN CSV", "COPY t FROM STDIN CSV QUOTE '''' ESCAPE '\\' NULL 'a'", "COPY one FROM STDIN CSV HEADER",
    "COPY one FROM STDIN (DELIMITER ',', NULL 'b')",
]:
    for turn in range(120):
        data = "".join(chance.choice(letters) for _ in range(chance.randrange(1, 14))).encode()
        cut = chance.randrange(len(data))
        show(statement.split()[1], statement, data[:cut], data[cut:])
