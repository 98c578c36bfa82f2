"""Series of statements that end together, and changes of rows by their keys inside transactions.

The answers of a real PostgreSQL 15 are in testdata/postgres/series.txt (`record` there).
"""

import sys

import psycopg

host, port, user, password, database = sys.argv[1:]
where = f"host={host} port={port} user={user} password={password} dbname={database}"
connection = psycopg.connect(where, autocommit=True)
other = psycopg.connect(where, autocommit=True)


def told(error):
    # After an error, later statements of a pipeline were not looked at.
    return "aborted" if isinstance(error, psycopg.errors.PipelineAborted) else error.sqlstate


def rows():
    return other.execute("SELECT id, n FROM t ORDER BY id").fetchall()


def begin(name):
    print("--", name)
    other.execute("DELETE FROM t")
    other.execute("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")


def pipeline(name, *statements):
    """Statements up to one Sync; what each of them said, and what is there afterwards."""
    begin(name)
    cursors = []
    try:
        with connection.pipeline():
            for statement in statements:
                cursors.append(connection.execute(*statement))
    except psycopg.Error as error:
        print(told(error))
    for cursor in cursors:
        try:
            print(cursor.statusmessage, cursor.fetchall() if cursor.description else "")
        except psycopg.Error as error:
            print(told(error))
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        print(connection.info.transaction_status.name)
        connection.execute("ROLLBACK")
    print(rows())


def text(name, statements):
    """Statements in one text."""
    begin(name)
    result = connection.pgconn.exec_(statements.encode())
    print(result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or result.command_status)
    print(connection.info.transaction_status.name)
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.execute("ROLLBACK")
    print(rows())


other.execute("CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n < 1000))")

insert = "INSERT INTO t VALUES (%s, %s)"
pipeline("all are right", (insert, (4, 40)), (insert, (5, 50)), ("SELECT count(*) FROM t",), (insert, (6, 60)))
pipeline("the last is wrong", (insert, (4, 40)), ("DELETE FROM t WHERE id = 1",), (insert, (2, 50)))
pipeline("one in the middle is wrong", (insert, (4, 40)), (insert, (5, 5000)), (insert, (6, 60)))
pipeline("what is written is seen", ("UPDATE t SET n = n + 1 WHERE id = 1",), ("SELECT n FROM t WHERE id = 1",),
         ("UPDATE t SET n = n + 1",), ("SELECT sum(n) FROM t",))
pipeline("a query is wrong", ("DELETE FROM t",), ("SELECT 1 / (n - n) FROM (VALUES (1)) AS v (n)",))
pipeline("it begins a transaction", (insert, (4, 40)), ("BEGIN",), (insert, (5, 50)))
pipeline("it ends a transaction", (insert, (4, 40)), ("BEGIN",), (insert, (5, 50)), ("COMMIT",), (insert, (6, 60)))
pipeline("it takes a transaction back", ("BEGIN",), (insert, (5, 50)), ("ROLLBACK",), (insert, (6, 60)))
connection.execute("SET TimeZone = 'UTC'")
pipeline("settings hold until its end", ("SET LOCAL TimeZone = 'Asia/Tokyo'",), ("SHOW TimeZone",), (insert, (4, 40)), ("SHOW TimeZone",))
pipeline("settings are over", ("SHOW TimeZone",), ("SET TimeZone = 'Asia/Tokyo'",), (insert, (1, 40)))
pipeline("settings are taken back", ("SHOW TimeZone",), ("SET TimeZone = 'Asia/Tokyo'",), (insert, (4, 40)))
pipeline("settings are kept", ("SHOW TimeZone",), ("SET TimeZone = 'UTC'",))
pipeline("a savepoint needs a transaction", (insert, (4, 40)), ("SAVEPOINT a",))

begin("many rows, one wrong")
for n in (50, 5000):
    try:
        with connection.cursor() as cursor:
            cursor.executemany(insert, [(4, 40), (5, n)])
            print(cursor.rowcount)
    except psycopg.Error as error:
        print(told(error))
    print(rows())
    other.execute("DELETE FROM t WHERE id > 3")

text("a text", "INSERT INTO t VALUES (4, 40); INSERT INTO t VALUES (5, 50)")
text("a text with an error", "INSERT INTO t VALUES (4, 40); DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (2, 2)")
text("a text with another error", "INSERT INTO t VALUES (4, 40); SELECT nothing FROM t")
text("a text that begins", "INSERT INTO t VALUES (4, 40); BEGIN; INSERT INTO t VALUES (5, 50)")
text("a text that begins and ends", "BEGIN; INSERT INTO t VALUES (4, 40); COMMIT; INSERT INTO t VALUES (5, 5000)")
text("a text that commits", "INSERT INTO t VALUES (4, 40); COMMIT; INSERT INTO t VALUES (5, 5000)")
text("a text that rolls back", "INSERT INTO t VALUES (4, 40); ROLLBACK; INSERT INTO t VALUES (5, 50)")
text("a savepoint in a text", "INSERT INTO t VALUES (4, 40); SAVEPOINT a")

print("-- by key in a transaction")
begin("updates and deletes")
with connection.transaction():
    for statement in (
        "UPDATE t SET n = 11 WHERE id = 1",
        "UPDATE t SET n = 99 WHERE id = 9",
        "UPDATE t SET n = 12 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
        "UPDATE t SET n = 21 WHERE id = 2",
        "INSERT INTO t VALUES (2, 22)",
        "UPDATE t SET n = 23 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
    ):
        print(connection.execute(statement).statusmessage)
    print(connection.execute("SELECT id, n FROM t ORDER BY id").fetchall())
    print("others see", rows())
print(rows())
begin("taken back")
connection.execute("BEGIN")
connection.execute("UPDATE t SET n = 11 WHERE id = 1")
connection.execute("DELETE FROM t WHERE id = 2")
connection.execute("ROLLBACK")
print(rows())
begin("against a rule")
connection.execute("BEGIN")
connection.execute("DELETE FROM t WHERE id = 2")
try:
    connection.execute("UPDATE t SET n = 5000 WHERE id = 1")
except psycopg.Error as error:
    print(told(error), connection.info.transaction_status.name)
connection.execute("ROLLBACK")
print(rows())
