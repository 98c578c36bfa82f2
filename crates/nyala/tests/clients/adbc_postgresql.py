"""The ADBC driver for PostgreSQL: it ingests and reads Arrow by COPY in its binary form, binds parameters, and describes
tables. Prints what it gets: host, port, user, password, database.
"""

import datetime
import decimal
import sys

import adbc_driver_postgresql.dbapi as adbc
import pyarrow

host, port, user, password, database = sys.argv[1:]
uri = f"postgresql://{user}:{password}@{host}:{port}/{database}"
UTC = datetime.timezone.utc
MOMENT = datetime.datetime(2024, 3, 1, 10, 15, 30, 123456)


def told(error):
    return f"{type(error).__name__} {error.sqlstate}"


def rows(cursor, statement, parameters=None):
    """Prints an answer: its schema, then its rows."""
    try:
        cursor.execute(statement, parameters)
        table = cursor.fetch_arrow_table()
    except adbc.Error as error:
        print(statement, told(error))
        return
    print(statement, [(field.name, str(field.type)) for field in table.schema])
    for row in table.to_pylist():
        print("  ", list(row.values()))


def table_of(count):
    ids = range(1, count + 1)
    return pyarrow.table(
        {
            "id": pyarrow.array(ids, pyarrow.int64()),
            "small": pyarrow.array([own % 100 for own in ids], pyarrow.int16()),
            "whole": pyarrow.array([own * 1000 for own in ids], pyarrow.int32()),
            "near": pyarrow.array([own / 2 for own in ids], pyarrow.float32()),
            "far": pyarrow.array([own / 4 if own % 7 else None for own in ids], pyarrow.float64()),
            "flag": pyarrow.array([own % 2 == 0 for own in ids], pyarrow.bool_()),
            "name": pyarrow.array([f"näme {own}" if own % 5 else None for own in ids], pyarrow.string()),
            "raw": pyarrow.array([bytes([0, own % 256, 255]) for own in ids], pyarrow.binary()),
            "day": pyarrow.array([datetime.date(2024, 3, own % 28 + 1) for own in ids], pyarrow.date32()),
            "local": pyarrow.array([MOMENT + datetime.timedelta(seconds=own) for own in ids], pyarrow.timestamp("us")),
            "moment": pyarrow.array(
                [MOMENT.replace(tzinfo=UTC) + datetime.timedelta(hours=own) for own in ids],
                pyarrow.timestamp("us", "UTC"),
            ),
        }
    )


def objects(connection):
    """What there is, as a client of ADBC lists it."""
    found = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
    for catalog in found:
        if catalog["catalog_name"] != database:
            continue
        for schema in catalog["catalog_db_schemas"]:
            for table in sorted(schema["db_schema_tables"] or [], key=lambda own: own["table_name"]):
                print("table", schema["db_schema_name"], table["table_name"], table["table_type"])
                for column in sorted(table["table_columns"], key=lambda own: own["ordinal_position"]):
                    print(" ", column["ordinal_position"], column["column_name"], column["xdbc_type_name"], column["remarks"])
                for own in sorted(table["table_constraints"], key=lambda own: own["constraint_name"]):
                    print(" ", own["constraint_type"], own["constraint_name"], own["constraint_column_names"])


with adbc.connect(uri, autocommit=True) as connection:
    info = connection.adbc_get_info()
    print(info["vendor_name"], info["driver_name"])
    print(sorted(connection.adbc_get_table_types()))
    print(connection.adbc_current_catalog == database, connection.adbc_current_db_schema)
    with connection.cursor() as cursor:
        print("ingested", cursor.adbc_ingest("ingested", table_of(1000), mode="create"))
        print("appended", cursor.adbc_ingest("ingested", table_of(3).slice(1), mode="append"))
        rows(cursor, "select * from ingested where id = 7")
        rows(cursor, "select count(*), sum(far), min(name), max(moment) from ingested")
        cursor.execute("create table made (id int primary key, exact numeric(12,3), name varchar(20), n int check (n > 0))")
        cursor.execute("comment on column made.name is 'its name'")
        cursor.execute("create view shown as select id, name from made")
        exact = pyarrow.array([decimal.Decimal("1.500"), decimal.Decimal("-20.125")], pyarrow.decimal128(12, 3))
        made = pyarrow.table({"id": pyarrow.array([1, 2], pyarrow.int32()), "exact": exact, "name": ["a", None]})
        print("numeric", cursor.adbc_ingest("made", made, mode="append"))
        rows(cursor, "select * from made order by id")
        try:
            cursor.adbc_ingest("made", made, mode="append")
        except adbc.Error as error:
            print("again", told(error))
        try:
            cursor.adbc_ingest("made", made, mode="create")
        except adbc.Error as error:
            print("created again", told(error))
        print("replaced", cursor.adbc_ingest("ingested", table_of(5), mode="replace"))
        rows(cursor, "select count(*) from ingested")
        for value in [7, 1.5, "ä", True, b"\x00\xff", datetime.date(2024, 3, 1), MOMENT.replace(tzinfo=UTC), MOMENT, None]:
            rows(cursor, "select $1 as value" if isinstance(value, str) or value is None else {
                int: "select $1::int8 as value", float: "select $1::float8 as value", bool: "select $1::bool as value",
                bytes: "select $1::bytea as value", datetime.date: "select $1::date as value",
                datetime.datetime: "select $1::timestamp as value" if getattr(value, "tzinfo", None) is None else "select $1::timestamptz as value",
            }[type(value)], (value,))
        rows(cursor, "select id, name from ingested where id > $1 and name like $2 order by id", (1, "n%"))
        cursor.executemany("insert into made (id, name) values ($1, $2)", [(10, "ten"), (11, "eleven"), (12, None)])
        rows(cursor, "select count(*), count(name) from made")
        rows(cursor, "select array[1, 2, null]::int4[] as numbers, array['a', 'b']::text[] as words, 1.5::numeric(10,2) as exact, interval '1 day 2 hours' as span, '10:00'::time as time")
        rows(cursor, "select * from nothing")
        rows(cursor, "select 1/0")
        print(cursor.adbc_execute_schema("select id, exact, name from made"))
        cursor.execute("insert into made (id) values (30), (31)")
        print("changed", cursor.rowcount)
    print(connection.adbc_get_table_schema("made"))
    print(connection.adbc_get_table_schema("ingested", db_schema_filter="public"))
    objects(connection)

# Without autocommit a connection is in a transaction.
with adbc.connect(uri) as connection:
    with connection.cursor() as cursor:
        print("in a transaction", cursor.adbc_ingest("made", made.set_column(0, "id", pyarrow.array([50, 51], pyarrow.int32())), mode="append"))
        rows(cursor, "select count(*) from made where id >= 50")
    connection.rollback()
    with connection.cursor() as cursor:
        rows(cursor, "select count(*) from made where id >= 50")
        cursor.execute("delete from made where id >= 30")
    connection.commit()
    with connection.cursor() as cursor:
        rows(cursor, "select count(*) from made")
