"""Sends the queries that a client sends while it looks around, and prints the answers: with a real PostgreSQL to record
them, with nyala to compare.

    catalog_queries.py HOST PORT USER PASSWORD DATABASE QUERIES

A file of queries has paragraphs. Comments at the beginning of one say what it is for, and:

    -- $1 int8 = {'t'::regclass::oid}   a parameter: its type (or `unknown`), and its text
    -- simple                           several statements in one message
    -- unordered                        the query does not say in which order rows come
    -- only typname = int4|text         other rows are left out: not every database has them
    -- without relpages relname         columns that differ, with the reason in the line before
    -- types differ                     types of columns are not compared: nyala's integers without a type are bigint, `extract`
                                        gives double precision, and what CASE or COALESCE give of a name is a text

What stands in braces is asked for first, as the client has done before. Numbers of objects that users made are shown as #.
"""

import re
import sys
from pathlib import Path

import psycopg

FIRST_OWN_OID = 16384
OID_TYPES = {"oid": 26, "oidvector": 30, "oid[]": 1028}
PARAMETER_TYPES = {"unknown": 0, "bool": 16, "name": 19, "int8": 20, "int2": 21, "int4": 23, "text": 25, "oid": 26, "varchar": 1043, "text[]": 1009, "float8": 701, "timestamptz": 1184}


class Query:
    """A query of a client."""

    def __init__(self, paragraph):
        self.title, self.parameters, self.only, self.without = [], [], [], set()
        self.is_simple = self.is_unordered = self.is_untyped = False
        lines = paragraph.splitlines()
        while lines and lines[0].startswith("--"):
            self.read_comment(lines.pop(0)[2:].strip())
        self.text = "\n".join(lines)

    def read_comment(self, line):
        if found := re.fullmatch(r"\$\d+ (\S+) = (.*)", line):
            self.parameters.append((PARAMETER_TYPES[found[1]], found[2]))
        elif found := re.fullmatch(r"only (\S+) = (.*)", line):
            self.only.append((found[1], re.compile(found[2])))
        elif line.startswith("without "):
            self.without.update(line.split()[1:])
        elif line == "simple":
            self.is_simple = True
        elif line == "types differ":
            self.is_untyped = True
        elif line == "unordered":
            self.is_unordered = True
        else:
            self.title.append(line)


def ask(connection, text, parameters=()):
    types = [kind for kind, _ in parameters]
    values = [value.encode() for _, value in parameters]
    return connection.exec_params(text.encode(), values, types)


def fill(connection, text):
    """Replaces what stands in braces by its value."""

    def value(found):
        result = ask(connection, found[1] if found[1].startswith("select ") else f"select {found[1]}")
        assert result.ntuples == 1, (found[1], result.error_message)
        return result.get_value(0, 0).decode()

    return re.sub(r"\{([^{}]*::[^{}]*|select [^{}]*)\}", value, text)


def shown(value, kind):
    if value is None:
        return "NULL"
    text = value.decode().replace("\n", "\\n")
    if kind in OID_TYPES.values():
        text = re.sub(r"\d+", lambda found: "#" if int(found[0]) >= FIRST_OWN_OID else found[0], text)
    return text


def lines(query, result, names):
    """The lines that show an answer."""
    if result.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
        field = psycopg.pq.DiagnosticField
        print(result.error_message.decode(), file=sys.stderr)
        return ["ERROR " + (result.error_field(field.SQLSTATE) or b"").decode()]
    if result.nfields == 0:
        return [result.command_status.decode()]
    columns = [(place, result.fname(place).decode(), result.ftype(place)) for place in range(result.nfields)]
    columns = [column for column in columns if column[1] not in query.without]
    heads = [name if query.is_untyped else f"{name} {names.get(kind, kind)}" for _, name, kind in columns]
    rows = []
    for row in range(result.ntuples):
        cells = {name: shown(result.get_value(row, place), kind) for place, name, kind in reversed(columns)}
        if all(wanted.fullmatch(cells[name]) for name, wanted in query.only):
            rows.append("|".join(shown(result.get_value(row, place), kind) for place, _, kind in columns))
    if query.is_unordered:
        rows.sort()
    return ["|".join(heads), *rows, f"({len(rows)} rows)"]


def main():
    host, port, user, password, database, queries = sys.argv[1:]
    tables = Path(queries).with_name("tables.sql").read_text()
    with psycopg.connect(
        host=host, port=port, user=user, password=password, dbname=database, sslmode="disable", autocommit=True
    ) as client:
        for statement in tables.split(";\n"):
            if statement.strip():
                client.execute(statement)
        names = dict(client.execute("select oid::int8, typname from pg_catalog.pg_type").fetchall())
        connection = client.pgconn
        for paragraph in re.split(r"\n\n+", Path(queries).read_text().strip()):
            query = Query(paragraph)
            if not query.text:
                continue
            print("--", " ".join(query.title))
            text = fill(connection, query.text)
            if query.is_simple:
                connection.send_query(text.encode())
                while (result := connection.get_result()) is not None:
                    print("\n".join(lines(query, result, names)))
                continue
            parameters = [(kind, fill(connection, value)) for kind, value in query.parameters]
            print("\n".join(lines(query, ask(connection, text, parameters), names)))


main()
