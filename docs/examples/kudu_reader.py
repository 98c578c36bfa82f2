#!/usr/bin/env python3
"""Prints the rows of a nyala measurement that are stored in an Apache Kudu cluster, as CSV.

It asks the cluster with the command line tool `kudu`, not nyala, and needs nothing but Python 3.8. It shows how another
program can read the tables, which docs/compat/kudu-readers.md describes.

    kudu_reader.py MASTERS                          which measurements are there?
    kudu_reader.py MASTERS DATABASE MEASUREMENT     its rows: time (ns since 1970), tags, fields
    kudu_reader.py MASTERS DATABASE MEASUREMENT --spark-sql
                                                    statements for Spark that make a view of the measurement

In the CSV texts are always quoted, so that the empty text ("") differs from a value that is not there.
"""

import argparse
import json
import re
import struct
import subprocess
import sys

TYPES = {"float64": "float", "int64": "integer", "uint64": "unsigned", "string": "string", "bool": "boolean"}
# Columns of a table, by their ids; those after them are in the next sheet.
SHEET_COLUMNS = 256
# What the tool prints for one cell: type, name of the column, value.
CELL = re.compile(r'\w+ (\w+)=("(?:[^"\\]|\\.)*"|[^,)]*)(?:, |\)$)')
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|[0-7]{3}|.)", re.DOTALL)
ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class Failure(Exception):
    """What went wrong, for a person."""


def unescape(text):
    """The bytes of a quoted value: the tool writes C's escapes, and UTF-8 as it is."""

    def byte(found):
        code = found.group(1)
        if code[:1] == b"x" and len(code) == 3:
            return bytes([int(code[1:], 16)])
        if len(code) == 3:
            return bytes([int(code, 8)])
        return ESCAPED.get(code, code)

    return ESCAPE.sub(byte, text.encode())


def cells_of(line):
    """The cells of a printed row by column: bytes, text, or None."""
    cells, place = {}, 1
    while place < len(line):
        found = CELL.match(line, place)
        if not found:
            raise Failure(f"the kudu tool printed a row in an unknown form: {line[:200]}")
        name, value = found.groups()
        cells[name] = unescape(value[1:-1]) if value[:1] == '"' else None if value == "NULL" else value
        place = found.end()
    return cells


class Cluster:
    def __init__(self, kudu, masters, prefix):
        self.kudu, self.masters, self.prefix = kudu, masters, prefix

    def scan(self, table, predicates=None):
        """All rows of a table; none if it was not made yet. Other replicas than leaders may lag behind."""
        command = [self.kudu, "table", "scan", self.masters, f"{self.prefix}.{table}"]
        command += ["-replica_selection=LEADER", "-num_threads=4"]
        if predicates:
            command.append("-predicates=" + json.dumps(["AND", *predicates]))
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError as error:
            raise Failure(f"{self.kudu}: {error.strerror}; --kudu names the tool") from None
        printed, said = done.stdout.decode(), done.stderr.decode(errors="replace")
        if done.returncode != 0:
            if "the table does not exist" in said:
                return []
            raise Failure(f"{' '.join(command)}: {said.strip() or printed.strip()}")
        # A text with a line end is printed with an escape, so a row is a line. Not splitlines(): it splits elsewhere, too.
        return [cells_of(line) for line in printed.split("\n") if line.startswith("(")]

    def tables(self):
        """What the log of schema changes adds up to: the schemas of tables by their ids."""
        log = sorted(self.scan("schema"), key=lambda row: int(row["number"]))
        if not log:
            raise Failure(f"there is no table {self.prefix}.schema with rows: --prefix names another installation")
        parts = {}
        if any(row["text"] is None for row in log):
            for row in sorted(self.scan("schema_text"), key=lambda row: int(row["part"])):
                parts[row["name"]] = parts.get(row["name"], b"") + row["text"]
        tables, expected = {}, 1
        for row in log:
            number = int(row["number"])
            changes = json.loads(row["text"] if row["text"] is not None else parts[row["name"]])["changes"]
            if number != expected and "everything" not in changes[0]:
                raise Failure("the log of schema changes was shortened while it was read: try again")
            expected = number + 1
            for change in changes:
                ((kind, what),) = change.items()
                if kind == "everything":
                    tables = {table["table"]: table["schema"] for table in what["tables"]}
                elif kind in ("create", "alter"):
                    tables[what["table"]] = what["schema"]
                elif kind == "drop":
                    tables.pop(what["table"], None)
        return tables

    def series(self, tables, table):
        """The tag sets of a table of points by the ids of series."""
        (records,) = [known for known, schema in tables.items() if schema["name"] == "nyala.series"]
        prefix, found = struct.pack(">Ic", table, b"s"), {}
        for row in self.scan(f"t{records}"):
            if row["c0"].startswith(prefix) and len(row["c0"]) == 9:
                found[struct.unpack(">I", row["c0"][5:])[0]] = dict(tags_of(row["c1"]))
        return found


def tags_of(record):
    """Tags of a record: key, value, …, each as its length (u32, little-endian) and UTF-8."""
    texts, place = [], 0
    while place < len(record):
        (length,) = struct.unpack_from("<I", record, place)
        texts.append(record[place + 4 : place + 4 + length].decode())
        place += 4 + length
    return zip(texts[::2], texts[1::2])


def measurements(tables):
    """(database, policy, measurement) of each table of points; a group of metrics has the empty name."""
    return {tuple(schema["name"].split("\0", 2)): table for table, schema in tables.items() if "\0" in schema["name"]}


def member_of(tags):
    """The member of a group that a series belongs to."""
    return tags.get("", tags.get("__name__"))


class Measurement:
    """A measurement: its table, its rows (unless `predicates` is None), its columns, its series."""

    def __init__(self, cluster, database, policy, name, predicates):
        tables = cluster.tables()
        known = measurements(tables)
        of_database = {key: table for key, table in known.items() if key[0] == database and policy in (None, key[1])}
        found = {key: table for key, table in of_database.items() if key[2] == name}
        # Metrics of Prometheus share the table of their policy's group.
        members = {key: table for key, table in of_database.items() if key[2] == ""} if not found else {}
        candidates = found or members
        if len(candidates) != 1:
            policies = ", ".join(sorted(key[1] for key in candidates))
            raise Failure(f"choose one with --policy: {policies}" if candidates else f"no measurement {name!r} in {database!r}")
        ((_, self.table),) = candidates.items()
        # A series is recorded before its points. So whoever reads the tag sets after the rows finds those of all rows.
        columns = tables[self.table]["columns"]
        self.sheets = sorted({column["id"] // SHEET_COLUMNS for column in columns} - {0})
        self.rows = self.scan(cluster, predicates) if predicates is not None else []
        self.all_series = cluster.series(tables, self.table)
        own = {id: tags for id, tags in self.all_series.items() if not members or member_of(tags) == name}
        if members and not own:
            raise Failure(f"no measurement {name!r} in {database!r}")
        self.series = {id: {key: value for key, value in tags.items() if key} for id, tags in own.items()}
        self.tags = sorted({key for tags in self.series.values() for key in tags})
        fields = {}
        # If two daemons have added a column for the same field, the smaller id counts.
        for column in sorted(columns, key=lambda column: column["id"]):
            if column["id"] > 1:
                fields.setdefault((column["name"], TYPES[column["type"]]), f"c{column['id']}")
        self.fields = sorted((name, kind, column) for (name, kind), column in fields.items())

    def scan(self, cluster, predicates):
        """The rows of all sheets, by their keys."""
        rows = {}
        for table in [f"t{self.table}", *(f"t{self.table}_{sheet}" for sheet in self.sheets)]:
            for row in cluster.scan(table, predicates):
                rows.setdefault((row["c0"], row["c1"]), {}).update(row)
        return list(rows.values())

    def titles(self):
        """Names of tags, and names of fields: `::` and the type follow those of which there are two."""
        names = [name for name, _, _ in self.fields]
        tags = [f"{tag}::tag" if tag in names or tag == "time" else tag for tag in self.tags]
        fields = [
            f"{name}::{kind}" if names.count(name) > 1 or name in self.tags or name == "time" else name
            for name, kind, _ in self.fields
        ]
        return tags, fields


def field_value(kind, cell):
    """A cell as CSV."""
    if cell is None:
        return ""
    if kind == "string":
        return quoted(cell.decode())
    if kind == "unsigned":
        return str(int(cell) + (1 << 63))
    return repr(float(cell)) if kind == "float" else cell


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def print_rows(measurement, out):
    tag_titles, field_titles = measurement.titles()
    lines = []
    for row in measurement.rows:
        # Ids are unsigned, too.
        id = int(row["c0"]) + (1 << 31)
        if id not in measurement.all_series:
            raise Failure(f"series {id} of table {measurement.table} has rows and no tag set")
        tags = measurement.series.get(id)
        if tags is None:
            continue  # of another member of the group
        values = [quoted(tags[key]) if key in tags else "" for key in measurement.tags]
        values += [field_value(kind, row.get(column)) for _, kind, column in measurement.fields]
        lines.append((int(row["c1"]), values))
    out.write(",".join(map(quoted, ["time", *tag_titles, *field_titles])) + "\n")
    for time, values in sorted(lines):
        out.write(",".join([str(time), *values]) + "\n")


def print_spark_sql(cluster, measurement, name, out):
    """Two views: the table with physical names, and the measurement. Tag sets are those of now."""

    def identifier(text):
        return "`" + text.replace("`", "``") + "`"

    def literal(text):
        return "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    physical, (tag_titles, field_titles) = f"{cluster.prefix}.t{measurement.table}", measurement.titles()
    sources = {}
    for sheet in [0, *measurement.sheets]:
        table = f"{physical}_{sheet}" if sheet else physical
        sources[sheet] = identifier(table.replace(".", "_"))
        out.write(f"CREATE OR REPLACE TEMPORARY VIEW {sources[sheet]} USING org.apache.kudu.spark.kudu\n")
        out.write(f"OPTIONS (`kudu.master` {literal(cluster.masters)}, `kudu.table` {literal(table)});\n\n")
    columns = ["r.c1 AS `time_ns`", "timestamp_micros((r.c1 - pmod(r.c1, 1000)) DIV 1000) AS `time`"]
    columns += [f"s.{identifier(f'tag{place}')} AS {identifier(title)}" for place, title in enumerate(tag_titles)]
    for (_, kind, column), title in zip(measurement.fields, field_titles):
        # Kudu has no unsigned numbers: their sign bit is flipped.
        sheet = int(column[1:]) // SHEET_COLUMNS
        stored = f"r{sheet}.{column}" if sheet else f"r.{column}"
        value = f"CAST({stored} AS DECIMAL(20, 0)) + 9223372036854775808" if kind == "unsigned" else stored
        columns.append(f"{value} AS {identifier(title)}")
    series = sorted(measurement.series.items())
    rows = [f"({', '.join([str(id), *(literal(tags.get(key)) for key in measurement.tags)])})" for id, tags in series]
    names = ", ".join(["id", *(f"tag{place}" for place in range(len(measurement.tags)))])
    out.write(f"CREATE OR REPLACE TEMPORARY VIEW {identifier(name)} AS\nSELECT\n  " + ",\n  ".join(columns))
    out.write(f"\nFROM {sources[0]} r\n")
    for sheet in measurement.sheets:
        out.write(f"LEFT JOIN {sources[sheet]} r{sheet} ON r{sheet}.c0 = r.c0 AND r{sheet}.c1 = r.c1\n")
    out.write("JOIN (VALUES\n  " + ",\n  ".join(rows or [f"({', '.join(['-1', *['NULL'] * len(measurement.tags)])})"]))
    out.write(f"\n) AS s({names}) ON s.id = CAST(r.c0 AS BIGINT) + 2147483648;\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("masters", help="HOST:PORT of each master, with commas between them")
    parser.add_argument("database", nargs="?")
    parser.add_argument("measurement", nargs="?")
    parser.add_argument("--policy", help="retention policy, if several have the measurement")
    parser.add_argument("--prefix", default="nyala", help="nyala's kudu-prefix [default: nyala]")
    parser.add_argument("--kudu", default="kudu", help="the command line tool [default: kudu]")
    parser.add_argument("--from", dest="first", type=int, metavar="NS", help="only times from here on")
    parser.add_argument("--until", type=int, metavar="NS", help="only times before")
    parser.add_argument("--spark-sql", action="store_true", help="print statements instead of rows")
    given = parser.parse_intermixed_args()
    out = open(sys.stdout.fileno(), "w", encoding="utf-8", newline="", closefd=False)
    cluster = Cluster(given.kudu, given.masters, given.prefix)
    try:
        if given.database is None:
            out.write("database,policy,measurement,table\n")
            for names, table in sorted(measurements(cluster.tables()).items()):
                out.write(",".join([*map(quoted, names), f"{given.prefix}.t{table}"]) + "\n")
        elif given.measurement is None:
            parser.error("name a measurement, too")
        else:
            predicates = [[">=", "c1", given.first]] if given.first is not None else []
            predicates += [["<", "c1", given.until]] if given.until is not None else []
            wanted = None if given.spark_sql else predicates
            measurement = Measurement(cluster, given.database, given.policy, given.measurement, wanted)
            if given.spark_sql:
                print_spark_sql(cluster, measurement, given.measurement, out)
            else:
                print_rows(measurement, out)
        out.flush()
    except Failure as failure:
        sys.exit(f"kudu_reader: {failure}")


main()
