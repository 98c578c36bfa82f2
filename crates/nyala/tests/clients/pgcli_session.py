"""pgcli: a session with its executor, the commands that pgspecial adds, and what its completion asks. Prints what it gets:
host, port, user, password, database.
"""

import sys

import psycopg
from pgcli.pgexecute import PGExecute
from pgspecial import PGSpecial

host, port, user, password, database = sys.argv[1:]
executor = PGExecute(database=database, user=user, password=password, host=host, port=port, application_name="pgcli")
special = PGSpecial()


def shown(rows):
    """Rows as texts. In nyala everything belongs to one role if users log in."""
    owners = {user: "owner", "nyala": "owner"}
    return [tuple(owners.get(str(cell), str(cell)) for cell in row) for row in rows or []]


def run(statement, of_interest=None):
    """Executes a line as somebody types it, and prints the answer."""
    print(">", statement)
    try:
        for title, rows, headers, status, _, _, _ in executor.run(statement, special):
            # Where rows are left out, how many there are differs.
            print(title, headers, status if of_interest is None else "")
            for row in shown(rows):
                if of_interest is None or of_interest(row):
                    print("  ", row)
    except psycopg.Error as error:
        print("ERROR", error.sqlstate)


print(executor.superuser, executor.server_version.split(".")[0], executor.short_host != "", executor.is_virtual_database())
for statement in [
    "create table t (id int primary key, name text not null, price numeric(10,2) default 1.5, n int check (n >= 0), moment timestamptz)",
    "create table s (t_id int, pos int, what text default 'nothing', primary key (t_id, pos))",
    "create view vw as select id, name, price from t",
    "comment on table t is 'a table'",
    "comment on column t.name is 'its name'",
    "insert into t (id, name, moment) values (1, 'one', '2024-03-01 10:15:30+00'), (2, 'two', null)",
    "select * from t order by id",
    "select 1 as a; select 2 as b",
    "-- a comment\nselect count(*) from t",
    "update t set n = 3 where id = 1",
    "begin",
    "delete from t",
    "rollback",
    "select nothing from t",
    "select 'x'::text, null, true, 1.5, date '2024-03-01'",
]:
    run(statement)
run("\\d t")
run("\\d s")
run("\\d vw")
run("\\d t_pkey")
run("\\d nothing")
run("\\dt", lambda row: row[0] == "public")
run("\\dt public.*")
run("\\dv")
run("\\di")
run("\\ds")
run("\\dm")
run("\\dn", lambda row: row[0] == "public")
run("\\df")
run("\\dT")
run("\\dD")
run("\\dE")
run("\\db nothing")
run("\\l", lambda row: False)
run("\\dt+ t", lambda row: False)
run("\\d+ s")
run("describe t")
# What its completion asks.
own = {"public"}
print("search path", executor.search_path())
print("schemata", [name for name in executor.schemata() if name in {"public", "pg_catalog", "information_schema"}])
print("tables", sorted(found for found in executor.tables() if found[0] in own))
print("views", sorted(found for found in executor.views() if found[0] in own))
print("columns", [found for found in executor.table_columns() if found[0] in own])
print("columns of views", [found for found in executor.view_columns() if found[0] in own])
print("databases", database in executor.databases())
print("full", executor.full_databases()[1])
print("keys", list(executor.foreignkeys()))
# PostgreSQL has some of them for types that nyala has not.
missing = {"money", "anyrange", "anymultirange"}
functions = {(found.func_name, tuple(found.arg_types or ()), found.return_type, found.is_aggregate, found.is_set_returning) for found in executor.functions()}
for found in sorted(found for found in functions if found[0] in {"lower", "sum", "generate_series", "array_recv"}):
    if not missing & set(found[1]):
        print("function", found)
print("types", [found for found in executor.datatypes() if found[0] in own])
print("casing", list(executor.casing()))
print("view", executor.view_definition("vw") is not None)
try:
    print("function", executor.function_definition("nothing"))
except Exception as error:
    print(type(error).__name__)
print("time zone", executor.get_timezone() != "")
executor.set_timezone("Europe/Berlin")
run("select moment from t where id = 1")
