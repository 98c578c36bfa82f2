-- ALTER TABLE and ALTER VIEW, and what psql shows afterwards. `record` writes what it prints, in an empty database. nyala
-- answers the same (`crates/nyala/tests/postgres/catalog.rs`).
SET client_min_messages = 'warning';
create table t (id int primary key, a int check (a > 0), b text default 'x', v varchar(3), n numeric(6,2), r real);
insert into t values (1, 1, 'one', 'abc', 1.25, 0.5), (2, 2, default, null, null, null);
-- columns are added
alter table t add column a int;
alter table t add column if not exists a int;
alter table t add column c int not null;
alter table t add column c int not null default 5 check (c > 3);
alter table t add column d int default 1 check (d > 3);
alter table t add id2 int primary key;
alter table t add column e text, add column f timestamptz default '2024-01-01 00:00:00Z';
alter table t add column g int default 1/0;
alter table t add column "G h" boolean default true;
alter table t add a2 int default 1, add a2 int;
select * from t order by id;
insert into t (id) values (3);
insert into t (id, c) values (4, 1);
insert into t (id, c) values (4, null);
select * from t order by id;
alter table t alter f drop default;
\d t
-- names
create view w as select a, b from t where c > 0;
create view whole as select * from t;
create view ww as select max(a) as most from w;
alter table t rename a to aa;
alter table t rename column nope to x;
alter table t rename aa to b;
alter table t rename constraint t_a_check to positive;
alter table t rename constraint nope to positive;
alter table t rename constraint t_pkey to positive;
insert into t (id, aa) values (5, -1);
insert into t (id, aa) values (1, 1);
select * from w order by a;
select * from ww;
select a, b, id from whole order by id;
alter table t rename to w;
alter table t rename to t;
alter table t rename to t2;
select * from t;
select * from w order by a;
alter table if exists t add column x int;
alter table t add column x int;
alter view t2 rename to t3;
alter view w rename to w2;
alter table w2 rename to w3;
alter view if exists w rename to w4;
alter view w rename to w4;
select * from w3 order by a;
select * from ww;
alter table w3 add column x int;
alter table t2 rename to t;
\d t
\d w3
-- defaults and NULL
alter table t alter c set default 7, alter column b drop default;
insert into t (id) values (6) returning *;
alter table t alter c drop default;
insert into t (id) values (7);
alter table t alter c drop not null;
insert into t (id) values (7) returning id, c;
alter table t alter c set not null;
update t set c = 9 where id = 7;
alter table t alter c set not null;
update t set c = null where id = 7;
alter table t alter c set default 'x';
alter table t alter c set default b;
alter table t alter nope set default 1;
alter table t alter id drop not null;
alter table t alter id set not null;
-- checks
alter table t add constraint small check (c < 8);
alter table t add constraint small check (c < 100);
alter table t add constraint small check (c < 100);
alter table t add check (c < 200), add check (c < 300);
alter table t add constraint wrong check (nope > 1);
alter table t add constraint wrong check (c + 1);
insert into t (id, c) values (8, 100);
alter table t drop constraint nope;
alter table t drop constraint if exists nope;
alter table t drop constraint small, drop constraint t_c_check1;
insert into t (id, c) values (8, 100);
\d t
-- types
alter table t alter aa type bigint;
alter table t alter v type text;
drop view whole;
alter table t alter c type bigint;
alter table t alter r type double precision, alter n set data type numeric(10,4);
alter table t alter v type varchar(10);
insert into t (id, aa, c, v, n, r) values (9, 9, 9, '0123456789', 123456.789, 0.1);
alter table t alter v type varchar(5);
update t set v = null where id = 9;
alter table t alter v type varchar(5);
alter table t alter v type text;
alter table t alter c type int;
alter table t alter b type int;
alter table t alter nope type int;
select id, c, r, n, v from t order by id;
alter table t alter e type int using length(b), alter e set not null, alter n type numeric(7,1);
alter table t alter e drop not null, alter e type int using length(b), add constraint few check (e is null or e <> 9);
select id, e, n from t order by id;
alter table t alter e type bigint;
update t set e = 9000000000 where id = 6;
alter table t alter e type int;
-- columns are dropped
alter table t drop column nope;
alter table t drop column if exists nope;
alter table t drop aa;
alter table t drop column aa restrict;
create view whole as select id, f from t;
alter table t drop column f, drop column "G h";
drop view whole;
alter table t drop f, drop column f;
alter table t drop f;
alter table t drop column aa cascade;
select * from w3;
select * from ww;
select * from t order by id;
\d t
create table m (a int, b int check (b > 0), c int, check (a < b), constraint only_a check (a > 1));
insert into m values (2, 3, 1), (4, 5, 2);
alter table m drop a;
\d m
insert into m values (0, 1);
alter table m add a int default 7, drop b, add constraint greater check (a > c);
select * from m order by c;
insert into m values (3, 3);
\d m
-- all or nothing
alter table m add column x int default 3, alter x set default 4, add constraint xx check (x < 4);
insert into m (c, x) values (1, 4);
alter table m add column y int default 1, add constraint yy check (y > 1);
alter table m drop column x, add column x text default 'new';
select * from m order by c;
alter table m drop constraint greater, alter c type text, add constraint early check (c < '2');
alter table m drop constraint greater, alter c type text, add constraint early check (c < '3');
insert into m (c) values ('4');
alter table m drop c, drop c;
alter table m add z int, drop z;
select column_name, data_type, column_default, is_nullable from information_schema.columns where table_name = 'm' order by ordinal_position;
truncate m;
insert into m (c) values ('1');
select * from m;
drop table m;
drop table t;
