"""Reads what `nyala export` has written, with pyarrow, pandas, polars and DuckDB: read_files.py DIRECTORY

Types and values must be those that were stored.
"""

import datetime
import decimal
import math
import sys

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

directory = sys.argv[1]
GREATEST = decimal.Decimal("9999999999999999999999999999.9999999999")
LEAST = GREATEST.copy_negate()
LONG = "long " * 200_000


def check(found, expected, what):
    same = found == expected or (found != found and expected != expected)
    assert same, f"{what}: {found!r}, expected {expected!r}"


def pyarrow_reads(path):
    table = pyarrow.parquet.read_table(path)
    types = {field.name: str(field.type) for field in table.schema}
    check(
        types,
        {
            "id": "int32",
            "flag": "bool",
            "small": "int16",
            "big": "int64",
            "single": "float",
            "number": "double",
            "price": "decimal128(38, 10)",
            "name": "string",
            "code": "string",
            "raw": "binary",
            "day": "date32[day]",
            "local": "timestamp[ns]",
            "moment": "timestamp[ns, tz=UTC]",
        },
        "types",
    )
    table = table.sort_by("id")
    column = {name: table[name].to_pylist() for name in types if name not in ("local", "moment")}
    check(column["flag"], [True, False, None, None, True, None], "flag")
    check(column["small"], [1, -32768, 32767, None, 0, None], "small")
    check(column["big"], [2, -(2**63), 2**63 - 1, None, 0, None], "big")
    check(column["price"][1:4], [LEAST, GREATEST, None], "price")
    check(column["name"], ["a", "", ',"\n;', None, "ä日本😀", LONG], "name")
    check(column["raw"], [b"\0\xff", b"", None, None, None, None], "raw")
    check(column["day"][0], datetime.date(2026, 1, 31), "day")
    check(column["number"][1], -math.inf, "number")
    assert math.isnan(column["number"][2]) and math.isnan(column["single"][2])
    for name in ("local", "moment"):
        nanoseconds = table[name].cast("int64").to_pylist()
        check(nanoseconds, [1769860800000000001, -(2**63) + 1, 2**63 - 1, None, 0, None], name)


for compression in ("zstd", "snappy", "lz4", "none"):
    pyarrow_reads(f"{directory}/t-{compression}.parquet")

# pandas
frame = pandas.read_parquet(f"{directory}/t-zstd.parquet").set_index("id").sort_index()
check(str(frame["moment"].dtype), "datetime64[ns, UTC]", "pandas")
check(frame["moment"][1], pandas.Timestamp(1769860800000000001, tz="UTC"), "pandas")
check(frame["price"][3], GREATEST, "pandas")
check(frame["name"][2], "", "pandas")
assert frame["name"][4] is None
csv = pandas.read_csv(f"{directory}/t.csv", index_col="id").sort_index()
check(len(csv), 6, "pandas reads CSV")
check(csv["name"][6], LONG, "pandas reads CSV")

# polars
frame = polars.read_parquet(f"{directory}/t-zstd.parquet").sort("id")
check(frame.schema["price"], polars.Decimal(38, 10), "polars")
check(frame.schema["moment"], polars.Datetime("ns", "UTC"), "polars")
check(frame["name"].to_list()[:5], ["a", "", ',"\n;', None, "ä日本😀"], "polars")
check(frame["big"].to_list(), [2, -(2**63), 2**63 - 1, None, 0, None], "polars")

# DuckDB
own = duckdb.connect()
own.execute("SET TimeZone = 'UTC'")
rows = own.execute(f"SELECT id, flag, big, price, name, raw, day FROM '{directory}/t-zstd.parquet' ORDER BY id").fetchall()
check(rows[1], (2, False, -(2**63), LEAST, "", b"", datetime.date(1678, 1, 1)), "DuckDB")
check(rows[3], (4, None, None, None, None, None, None), "DuckDB")
check(rows[5][4], LONG, "DuckDB")

# Points: unsigned integers, dictionaries of tags, times to the nanosecond.
table = pyarrow.parquet.read_table(f"{directory}/cpu.parquet").sort_by("time")
check(pyarrow.types.is_dictionary(table["host"].type), True, "tags are dictionaries")
check(table["host"].to_pylist(), ["a", "b", "a"], "pyarrow")
check(table["n"].to_pylist(), [2**64 - 1, None, None], "pyarrow")
check(str(table["n"].type), "uint64", "pyarrow")
check(table["time"].cast("int64").to_pylist(), [1767225600000000001, 1767225600000000002, 1767312000000000003], "time")
check(pandas.read_parquet(f"{directory}/cpu.parquet")["host"].dtype.name, "category", "pandas")
check(sorted(polars.read_parquet(f"{directory}/cpu.parquet")["host"].to_list()), ["a", "a", "b"], "polars")

# A folder of files.
dataset = pyarrow.dataset.dataset(f"{directory}/cpu", partitioning="hive").to_table().sort_by("time")
check(dataset["host"].to_pylist(), ["a", "b", "a"], "pyarrow reads a folder")
check([str(day) for day in dataset["day"].to_pylist()], ["2026-01-01", "2026-01-01", "2026-01-02"], "pyarrow")
check(len(pandas.read_parquet(f"{directory}/cpu")), 3, "pandas reads a folder")
found = polars.read_parquet(f"{directory}/cpu/", hive_partitioning=True).sort("time")
check(found["host"].to_list(), ["a", "b", "a"], "polars reads a folder")
query = f"SELECT host, day, v FROM read_parquet('{directory}/cpu/**/*.parquet', hive_partitioning = true) ORDER BY v"
rows = own.execute(query).fetchall()
check([(host, str(day), v) for host, day, v in rows], [("a", "2026-01-01", 1.5), ("b", "2026-01-01", 2.5), ("a", "2026-01-02", 3.5)], "DuckDB reads a folder")
print("read")
