-- What psql shows of tables and views. `record` writes what it prints, with a server whose administrator is `me`, in an
-- empty database `e`. nyala shows the same (`crates/nyala/tests/postgres/catalog.rs`).
create table t (id int primary key, name text not null, price numeric(10,2) default 1.5, n int check (n >= 0), flag boolean default true, at timestamp, day date, moment timestamptz, raw bytea, f float8, g real, c char(3), v varchar(4), sm smallint, b bigint);
create table s (t_id int, pos int, what text default 'nothing', primary key (t_id, pos));
create table h (a int, b text);
create table "Upper Case" ("Id" bigint primary key, "select" text);
create table priced (name varchar(20) primary key, low numeric(8,3), high numeric(8,3), constraint ordered check (low < high));
create view vw as select id, name, price from t;
create view counted as select what, count(*), max(pos) as last from s group by what;
comment on table t is 'a table';
comment on column t.name is 'its name';
\d
\d t
\d s
\d h
\d priced
\d "Upper Case"
\d vw
\d counted
\d+ t
\d+ priced
\d public.s
\d t_pkey
\d nothing
\dt
\dt s
\dt public.*
\dv
\di
\ds
\dm
\dn public
\l e
\du me
\dT
\df
\dp h
\dx nothing
\d nothing*
\dE
\des
