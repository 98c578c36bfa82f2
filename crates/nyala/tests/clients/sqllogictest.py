"""Runs scripts of sqllogictest over PostgreSQL's protocol.

    sqllogictest.py HOST PORT USER PASSWORD DATABASE (postgresql|nyala) [--record] SCRIPT...

With `--record` the answers in the scripts are replaced by those of the server, a real PostgreSQL 15. A record looks like this:

    # why it differs, if it does
    skipif nyala
    query IT rowsort
    SELECT id, name FROM t
    ----
    1 one

Records are `statement ok`, `statement error 23505`, `statement count 3` and `query`. The letters say what columns are: integers,
reals, or texts. Values stand between blanks; an empty text is `(empty)`, its blanks are `·`. `skipif nyala` and `onlyif nyala`
are known differences. Each script has the schema for itself: it drops what it creates.
"""

import sys
from pathlib import Path

import psycopg

INTEGERS = {20, 21, 23, 26}
REALS = {700, 701, 1700}


class Record:
    """A statement or query of a script, with the comment before it."""

    def __init__(self, lines, number):
        self.number = number
        self.head = []
        while lines and (lines[0].startswith("#") or lines[0].startswith(("skipif ", "onlyif "))):
            self.head.append(lines.pop(0))
        self.kind = lines.pop(0).split() if lines else []
        end = lines.index("----") if "----" in lines else len(lines)
        self.text = "\n".join(lines[:end])
        self.expected = lines[end + 1 :]

    def is_for(self, engine):
        conditions = [line.split() for line in self.head if not line.startswith("#")]
        return all((kind == "onlyif") == (name == engine) for kind, name in conditions)

    def written(self):
        lines = [*self.head]
        if self.kind:
            lines += [" ".join(self.kind), self.text]
        if self.kind[:1] == ["query"]:
            lines += ["----", *self.expected]
        return "\n".join(lines)


def records(path):
    lines, number, found = [], 1, []
    for place, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line:
            lines.append(line)
            continue
        if lines:
            found.append(Record(lines, number))
        lines, number = [], place + 1
    return found


def shown(value):
    if value is None:
        return "NULL"
    text = value.decode().replace("\n", "\\n").replace(" ", "·")
    return text or "(empty)"


def ask(connection, record):
    """The kind of the record and the lines of its answer, as the server gives them."""
    result = connection.exec_params(record.text.encode(), [])
    status = psycopg.pq.ExecStatus
    if result.status not in (status.TUPLES_OK, status.COMMAND_OK):
        code = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b""
        return ["statement", "error", code.decode()], [result.error_message.decode()]
    if record.kind[0] == "statement":
        count = result.command_tuples
        return (["statement", "count", str(count)] if record.kind[1] == "count" else ["statement", "ok"]), []
    of = {**dict.fromkeys(INTEGERS, "I"), **dict.fromkeys(REALS, "R")}
    letters = "".join(of.get(result.ftype(place), "T") for place in range(result.nfields))
    rows = [
        " ".join(shown(result.get_value(row, place)) for place in range(result.nfields))
        for row in range(result.ntuples)
    ]
    is_sorted = "rowsort" in record.kind
    return ["query", letters, *(["rowsort"] if is_sorted else [])], sorted(rows) if is_sorted else rows


def run(connection, engine, path, is_recording):
    """How many records of a script were executed, and how many of them gave something else."""
    found = records(path)
    executed = failed = 0
    for record in found:
        if not record.kind or not record.is_for(engine):
            continue
        executed += 1
        kind, answer = ask(connection, record)
        is_error = kind[1:2] == ["error"]
        if is_recording:
            if is_error and record.kind[0] == "query":
                print(f"{path.name}:{record.number}: {record.text}\n{answer[0]}", file=sys.stderr)
                failed += 1
                continue
            record.kind, record.expected = kind, [] if kind[0] == "statement" else answer
        elif kind != record.kind or (not is_error and answer != record.expected):
            failed += 1
            print(f"{path.name}:{record.number}: {record.text}", file=sys.stderr)
            print("  wanted:", " ".join(record.kind), *record.expected, sep="\n    ", file=sys.stderr)
            print("  got:", " ".join(kind), *answer, sep="\n    ", file=sys.stderr)
    if is_recording:
        path.write_text("\n\n".join(record.written() for record in found) + "\n")
    return executed, failed


def main():
    host, port, user, password, database, engine, *paths = sys.argv[1:]
    is_recording = "--record" in paths
    executed = failed = 0
    for path in paths:
        if path == "--record":
            continue
        with psycopg.connect(
            host=host, port=port, user=user, password=password, dbname=database, sslmode="disable", autocommit=True
        ) as client:
            client.execute("SET TimeZone = 'UTC'")
            counts = run(client.pgconn, engine, Path(path), is_recording)
            executed, failed = executed + counts[0], failed + counts[1]
    print(f"{executed} executed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
