"""psqlodbc, the ODBC driver that Excel, Power BI and Tableau use: what it finds, and statements with parameters. Prints what it
gets: host, port, user, password, database.
"""

import datetime
import os
import sys

import pyodbc

DRIVER = os.environ.get("NYALA_ODBC", "/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so")
host, port, user, password, database = sys.argv[1:]
connection = pyodbc.connect(
    f"Driver={DRIVER};Servername={host};Port={port};Database={database};Username={user};Password={password};SSLmode=disable",
    autocommit=True,
)
cursor = connection.cursor()


def show(title, rows, columns, of_interest=lambda row: True):
    print(title)
    for row in rows:
        if of_interest(row):
            print("  ", [getattr(row, name) for name in columns])


def run(statement, *values):
    print(">", statement)
    try:
        cursor.execute(statement, *values)
    except pyodbc.Error as error:
        print("  ", error.args[0])
        return
    if cursor.description is None:
        print("  ", cursor.rowcount)
        return
    # nyala does not say how long a varchar may be.
    described = cursor.description
    print("  ", [(name, kind.__name__, size, digits) for name, kind, _, size, _, digits, _ in described if name != "short"])
    for row in cursor.fetchall():
        print("  ", tuple(row))


for statement in [
    "create table t (id int primary key, name text not null, price numeric(10,2) default 1.5, flag boolean, small smallint, at timestamp, day date, moment timestamptz, raw bytea, far float8, near real, short varchar(4))",
    "create table s (t_id int, pos int, what text default 'nothing', primary key (t_id, pos))",
    "create view vw as select id, name, price from t",
]:
    run(statement)
public = {"schema": "public"}
show("tables", cursor.tables(**public), ["table_schem", "table_name", "table_type"])
show("all tables", cursor.tables(), ["table_schem", "table_name", "table_type"], lambda row: row.table_schem == "public")
show("one table", cursor.tables(table="t", tableType="TABLE", **public), ["table_name"])
described = ["column_name", "data_type", "type_name", "column_size", "decimal_digits", "nullable", "column_def", "ordinal_position"]
show("columns", cursor.columns(table="t", **public), described)
show("columns of a view", cursor.columns(table="vw"), described)
show("key", cursor.primaryKeys(table="s", **public), ["table_name", "column_name", "key_seq", "pk_name"])
show("indexes", cursor.statistics(table="s", **public), ["index_name", "non_unique", "ordinal_position", "column_name"])
show("foreign keys", cursor.foreignKeys(table="t", **public), ["fk_name"])
show("foreign keys of", cursor.foreignKeys(foreignTable="t", foreignSchema="public"), ["fk_name"])
show("procedures", cursor.procedures(**public), ["procedure_name"])
show("columns of procedures", cursor.procedureColumns(**public), ["procedure_name"])
show("best", cursor.rowIdColumns(table="t", **public), ["column_name"])
types = {row.type_name: row.data_type for row in cursor.getTypeInfo()}
print(sorted((name, types.get(name)) for name in ["int4", "int8", "text", "numeric", "timestamptz", "bool", "bytea", "float8"]))
moment = datetime.datetime(2024, 3, 1, 10, 15, 30, 123456)
run("insert into t (id, name, flag, at, day, moment, raw, far, short) values (?, ?, ?, ?, ?, ?, ?, ?, ?)", 1, "ä'", True, moment, moment.date(), moment, b"\x00\xff", 0.5, "abcd")
run("insert into t (id, name) values (?, ?)", 2, "two")
run("insert into t (id, name) values (?, ?)", 2, "again")
run("insert into t (id, name) values (?, ?)", 3, None)
run("insert into t (id, name, short) values (?, ?, ?)", 3, "three", "much too long")
run("select * from t where id = ?", 1)
run("select id, price from t where name <> ? and price > ? order by id", "x", 1)
run("select id from t where moment >= ? and day = ?", moment - datetime.timedelta(days=1), moment.date())
cursor.executemany("insert into s values (?, ?, ?)", [(1, own, f"row {own}") for own in range(10)])
run("select count(*), max(what) from s where t_id = ?", 1)
run("update s set what = ? where pos < ?", "changed", 3)
run("select nothing from t")
run("select 1/0")
connection.autocommit = False
run("delete from s")
connection.rollback()
run("select count(*) from s")
connection.commit()
