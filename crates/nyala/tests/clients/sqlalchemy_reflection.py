# SQLAlchemy and pandas look at tables, fill one and read it. Prints what they find: host, port, user, password, database.
import sys

import pandas
import sqlalchemy

host, port, user, password, database = sys.argv[1:]
engine = sqlalchemy.create_engine(f"postgresql+psycopg://{user}:{password}@{host}:{port}/{database}")
# Tables are defined outside of transactions.
with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
    for statement in [
        "create table t (id int primary key, name text not null, price numeric(10,2) default 1.5, n int check (n >= 0), flag boolean default true, at timestamp, day date, moment timestamptz, raw bytea, f float8, g real, c char(3), v varchar(4), sm smallint, b bigint)",
        "create table s (t_id int, pos int, what text default 'nothing', primary key (t_id, pos))",
        "create table u (id int primary key, email varchar(20) unique, a int, b int, constraint pair unique (a, b))",
        "create index b_of_u on u (b)",
        "create unique index both_of_u on u (b, id)",
        "create view vw as select id, name, price from t",
        "comment on table t is 'a table'",
        "comment on column t.name is 'its name'",
    ]:
        connection.execute(sqlalchemy.text(statement))
found = sqlalchemy.inspect(engine)
print("schemas", "public" in found.get_schema_names())
print("tables", sorted(name for name in found.get_table_names() if name != "cpu"))
print("views", found.get_view_names())
for table in ["t", "s", "u", "vw"]:
    columns = found.get_columns(table)
    print(table, [(own["name"], str(own["type"]), own["nullable"], own["default"], own["comment"]) for own in columns])
    print(table, found.get_pk_constraint(table), found.get_foreign_keys(table), found.get_indexes(table))
    print(table, found.get_unique_constraints(table), found.get_check_constraints(table), found.get_table_comment(table))
print("known", found.has_table("t"), found.has_table("nothing"))
print("others", found.get_enums(), found.get_sequence_names())
reflected = sqlalchemy.MetaData()
reflected.reflect(engine, only=["t", "s", "u"])
print("reflected", sorted(reflected.tables), [own.name for own in reflected.tables["s"].primary_key], sorted(own.name for own in reflected.tables["u"].indexes))
frame = pandas.DataFrame({"t_id": [1, 2], "pos": [1, 1], "what": ["a", "b"]})
frame.to_sql("s", engine, if_exists="append", index=False)
print("read", pandas.read_sql_table("s", engine).sort_values("t_id").to_dict("list"))
print("asked", pandas.read_sql("select count(*) from s", engine).to_dict("list"))
with engine.begin() as connection:
    with connection.begin_nested():
        print("nested", connection.execute(sqlalchemy.text("select max(t_id) from s")).scalar())
