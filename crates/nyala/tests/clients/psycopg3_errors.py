"""Which rule of a table rows break, as psycopg 3 hands it to programs.

The answers of a real PostgreSQL 15 are in testdata/postgres/errors.txt (`record` there).
"""

import sys

import psycopg

host, port, user, password, database = sys.argv[1:]
connection = psycopg.connect(
    f"host={host} port={port} user={user} password={password} dbname={database}", autocommit=True
)
connection.execute(
    "CREATE TABLE account (id int PRIMARY KEY, mail text NOT NULL, age int CONSTRAINT of_age CHECK (age >= 18), "
    "CONSTRAINT mail_once UNIQUE (mail))"
)
connection.execute("CREATE TABLE plain (a int, b int)")
connection.execute("INSERT INTO plain VALUES (1, 1), (1, NULL)")
connection.execute('CREATE TEMP TABLE "Staged" (id int PRIMARY KEY, n int NOT NULL)')
connection.execute("INSERT INTO account VALUES (1, 'a', 20), (2, 'b', NULL)")
connection.execute("INSERT INTO \"Staged\" VALUES (1, 1)")


def refused(statement, copied=None):
    try:
        if copied is None:
            connection.execute(statement)
        else:
            with connection.cursor().copy(statement) as copy:
                copy.write(copied)
    except psycopg.Error as error:
        found = error.diag
        # The number of a session's temporary schema is its own.
        schema = "pg_temp" if (found.schema_name or "").startswith("pg_temp") else found.schema_name
        print(statement)
        print(" ", found.sqlstate, found.message_primary)
        print(" ", schema, found.table_name, found.column_name, found.constraint_name)
        return
    print(statement, "is not refused")


for statement in [
    "INSERT INTO account VALUES (1, 'c', 30)",
    "INSERT INTO account VALUES (3, 'a', 30)",
    "INSERT INTO account VALUES (3, NULL, 30)",
    "INSERT INTO account (mail) VALUES ('c')",
    "INSERT INTO account VALUES (3, 'c', 17)",
    "UPDATE account SET mail = 'a' WHERE id = 2",
    "UPDATE account SET mail = NULL WHERE id = 2",
    "UPDATE account SET age = 1 WHERE id = 2",
    "UPDATE account SET id = 1 WHERE id = 2",
    "INSERT INTO account SELECT 1, 'x', 20",
    'INSERT INTO "Staged" VALUES (1, 2)',
    'INSERT INTO "Staged" VALUES (2, NULL)',
    "ALTER TABLE plain ADD PRIMARY KEY (a)",
    "ALTER TABLE plain ALTER b SET NOT NULL",
    "ALTER TABLE plain ADD CONSTRAINT small CHECK (a < 1)",
    "CREATE UNIQUE INDEX plain_a ON plain (a)",
    "ALTER TABLE plain ADD CONSTRAINT a_once UNIQUE (a)",
    "SELECT missing FROM account",
    "SELECT 1 FROM missing",
    "SELECT 1 / 0",
]:
    refused(statement)
refused("COPY account FROM STDIN", "4\td\t20\n1\te\t20\n")
refused("COPY account FROM STDIN", "4\t\\N\t20\n")
refused("COPY account FROM STDIN", "4\td\t3\n")
