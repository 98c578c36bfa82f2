"""Asks DuckDB or DataFusion queries on Parquet files, for `nyala bench sql`.

Arguments: the engine, and the directory with the files; each is a table with the name of its file. A line of JSON comes in for
each query and a line goes out with its answer. The first line says which version answers.
"""

import datetime
import decimal
import glob
import json
import os
import statistics
import sys
import time


class DuckDb:
    def __init__(self):
        import duckdb

        self.module = duckdb
        self.version = "DuckDB " + duckdb.__version__

    def open(self, tables):
        self.connection = self.module.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        for name, path in tables:
            self.connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")

    def ask(self, query):
        cursor = self.connection.execute(query)
        rows = cursor.fetchall()
        return [column[0] for column in cursor.description], rows


class DataFusion:
    def __init__(self):
        import datafusion

        self.module = datafusion
        self.version = "DataFusion " + datafusion.__version__

    def open(self, tables):
        self.context = self.module.SessionContext()
        for name, path in tables:
            self.context.register_parquet(name, path)

    def ask(self, query):
        batches = self.context.sql(query).collect()
        columns = batches[0].schema.names if batches else []
        rows = [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns))]
        return columns, rows


def text(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    return str(value)


def kind(rows, column):
    value = next((row[column] for row in rows if row[column] is not None), None)
    kinds = (
        (bool, "boolean"),
        (int, "integer"),
        (float, "float"),
        (decimal.Decimal, "decimal"),
        (datetime.date, "time"),
    )
    return next((name for own, name in kinds if isinstance(value, own)), "text")


def answer(engine, tables, request):
    if request["cold"]:
        engine.open(tables)
    times = []
    for _ in range(request["times"]):
        begun = time.perf_counter()
        columns, rows = engine.ask(request["query"])
        times.append(time.perf_counter() - begun)
    return {
        "seconds": statistics.median(times),
        "kinds": [kind(rows, column) for column in range(len(columns))],
        "rows": [[text(value) for value in row] for row in rows],
    }


def main():
    engine = {"duckdb": DuckDb, "datafusion": DataFusion}[sys.argv[1]]()
    tables = [
        (os.path.basename(path).removesuffix(".parquet"), path)
        for path in sorted(glob.glob(os.path.join(sys.argv[2], "*.parquet")))
    ]
    engine.open(tables)
    print(json.dumps({"version": engine.version}), flush=True)
    for line in sys.stdin:
        try:
            reply = answer(engine, tables, json.loads(line))
        except Exception as error:
            reply = {"error": str(error)}
        print(json.dumps(reply), flush=True)


main()
