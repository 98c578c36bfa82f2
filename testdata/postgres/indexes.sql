-- Unique constraints and indexes, in psql against both servers.
set client_min_messages = warning;
create table people (id int primary key, email text unique, first text, last text, unique (first, last));
\t off
\d people
\t on
insert into people values (1, 'a@x', 'Ann', 'A'), (2, 'b@x', 'Bob', 'B');
insert into people values (3, 'a@x', 'Cid', 'C');
insert into people values (3, 'c@x', 'Ann', 'A');
insert into people values (1, 'd@x', 'Dan', 'D');
insert into people values (3, 'c@x', 'Ann', 'C'), (4, 'c@x', 'Eve', 'E');
select * from people order by id;
-- NULL is equal to nothing.
insert into people values (3, null, 'Ann', null), (4, null, 'Ann', null), (5, null, null, null);
select * from people order by id;
-- What is changed is looked at, whatever changes it.
update people set email = 'b@x' where id = 1;
update people set email = 'a@x' where id = 1;
update people set email = 'z@x' where id = 1;
insert into people values (6, 'a@x', 'F', 'F');
update people set last = 'B', first = 'Bob' where id = 6;
update people set email = null where id = 2;
update people set email = 'b@x' where id = 3;
update people set email = 'b@x' where id = 4;
update people set id = 7 where id = 6;
insert into people values (6, 'a@x', 'G', 'G');
update people set id = 7 where id = 1;
update people set email = upper(email);
update people set email = 'same';
select * from people order by id;
delete from people where email = 'A@X';
insert into people values (8, 'A@X', 'F', 'F');
delete from people where id = 8;
insert into people values (8, 'A@X', 'F', 'F');
select * from people where email = 'A@X';
select id from people where email = 'nobody';
select id from people where first = 'Ann' and last = 'A';
select id from people where first = 'Ann' order by id;
select id, email from people where email in ('A@X', 'Z@X', 'none') order by id;
-- ON CONFLICT, by any key or by one.
insert into people values (1, 'new', 'N', 'N'), (9, 'A@X', 'N', 'N'), (10, 'ten', 'T', 'T'), (11, 'ten', 'U', 'U'), (12, null, 'T', 'T') on conflict do nothing;
insert into people values (13, 'ten', 'V', 'V') on conflict (email) do nothing;
insert into people values (10, 'eleven', 'V', 'V') on conflict (email) do nothing;
insert into people values (13, 'thirteen', 'T', 'T') on conflict (email) do nothing;
insert into people values (13, 'ten', 'V', 'V') on conflict (email) do update set last = excluded.last, first = people.first || '+' || excluded.first returning *;
insert into people values (14, 'ten', 'V', 'V'), (15, 'ten', 'W', 'W') on conflict (email) do update set last = excluded.last;
insert into people values (14, null, 'V', 'X'), (15, null, 'W', 'X') on conflict (email) do update set last = 'met' returning id;
insert into people values (16, 'q', 'V', 'X') on conflict (last, first) do update set email = excluded.email returning *;
insert into people values (16, 'ten', 'V', 'X') on conflict (first, last) do update set email = excluded.email;
insert into people values (17, 'seventeen', 'S', 'S'), (14, 'q', 'V', 'X') on conflict on constraint people_first_last_key do update set first = 'changed' where people.id > 100 returning id;
insert into people values (16, 'q', 'V', 'X') on conflict on constraint people_pkey do update set first = 'other';
insert into people values (18, 'q', 'V', 'Y') on conflict (first) do nothing;
insert into people values (18, 'q', 'V', 'Y') on conflict on constraint nothing do nothing;
select * from people order by id;
-- MERGE
merge into people p using (values (1, 'one'), (30, 'thirty'), (31, 'Z@X')) v(id, email) on p.id = v.id when matched then update set email = v.email when not matched then insert (id, email) values (v.id, v.email);
merge into people p using (values (1, 'thirty'), (5, 'five')) v(id, email) on p.id = v.id when matched then update set email = v.email;
merge into people p using (values (30), (31)) v(id) on p.id = v.id when matched then delete;
insert into people (id, email) values (32, 'thirty'), (33, 'Z@X');
select id, email from people order by id;
-- In transactions.
begin;
insert into people (id, email) values (40, 'forty');
insert into people (id, email) values (41, 'forty');
rollback;
begin;
insert into people (id, email) values (40, 'forty');
savepoint s;
insert into people (id, email) values (41, 'forty');
rollback to s;
delete from people where email = 'forty';
insert into people (id, email) values (41, 'forty');
commit;
select id from people where email = 'forty';
-- COPY
copy people (id, email) from stdin;
50	fifty
51	fifty-one
\.
copy people (id, email) from stdin;
52	fifty-two
53	fifty
\.
select id, email from people where id >= 50 order by id;
truncate people;
insert into people (id, email) values (1, 'fifty');
-- Definitions.
create table named (a int constraint a_is_one unique, b int, c varchar(10), constraint pair unique (b, c), d numeric(10, 2), e date, f bytea, g timestamptz, h bool);
\t off
\d named
\t on
create unique index on named (d);
create unique index named_e on named (e, f);
create index on named (g);
create index if not exists named_e on named (g);
create index named_e on named (g);
create index named on named (g);
create unique index named_two on named using btree (h, a);
\t off
\d named
\t on
select indexname, indexdef from pg_indexes where tablename = 'named' order by indexname;
select conname, contype, conkey, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'named'::regclass order by conname;
select constraint_name, constraint_type from information_schema.table_constraints where table_name = 'named' order by constraint_name;
select constraint_name, column_name, ordinal_position from information_schema.key_column_usage where table_name = 'named' order by 1, 3;
select i.relname, x.indisunique, x.indisprimary, x.indkey from pg_index x join pg_class i on i.oid = x.indexrelid where x.indrelid = 'named'::regclass order by 1;
insert into named values (1, 1, 'x', 1.10, '2020-01-01', '\x01', '2020-01-01 00:00:00+00', true);
insert into named values (2, 1, 'x', 2.10, '2020-01-01', '\x02', '2020-01-01 00:00:00+00', true);
insert into named values (2, 1, 'y', 1.1, '2020-01-01', '\x02', '2020-01-01 00:00:00+00', true);
insert into named values (2, 1, 'y', 2.1, '2020-01-01', '\x01', '2020-01-01 00:00:00+00', true);
insert into named values (2, 1, 'y', 2.1, '2020-01-01', '\x02', '2020-01-01 00:00:00+00', true);
select a from named where d = 2.10;
select a from named where e = '2020-01-01' and f = '\x02';
select a from named where g = '2020-01-01 00:00:00+00' order by a;
select a from named where g > '2019-01-01 00:00:00+00' and a > 1;
drop index named_two, named_e;
drop index named_e;
drop index if exists named_e;
drop index pair;
drop index named;
alter table named drop constraint pair;
insert into named values (3, 1, 'x', 3);
alter table named add constraint pair unique (b, c);
alter table named add unique (b, c);
delete from named where a = 3;
alter table named add unique (b, c);
alter table named add constraint a_is_one unique (e);
alter table named add constraint other unique (nothing);
create index on named (nothing);
alter table named rename constraint a_is_one to one_a;
alter index named_d_idx rename to d_index;
alter index d_index rename to one_a;
alter index missing rename to there;
\t off
\d named
\t on
alter table named rename column d to dd;
alter table named drop column b;
\t off
\d named
\t on
insert into named values (1, 'x');
insert into named values (4, 'x', 1.1);
create table named_dd_idx (a int);
create unique index on named (dd);
drop table named_dd_idx;
create table one_a (a int);
-- Names that are free.
create table t (a int unique, b int, unique (a), unique (b), constraint u unique (b));
\t off
\d t
\t on
create table u (a int);
create table t_a_key (a int);
create table v (a int unique, a_key int, constraint v_a_key unique (a_key));
\t off
\d v
\t on
create table v2 (a int primary key, unique (a));
\t off
\d v2
\t on
create table v3 (a int, unique (b));
create table v3 (a int, unique (a, a));
drop table t, v, v2;
-- In a transaction.
begin;
create table w (id serial primary key, a text);
insert into w (a) values ('x'), ('y');
create unique index w_a on w (a);
insert into w (a) values ('x');
rollback;
begin;
create table w (id serial primary key, a text);
insert into w (a) values ('x'), ('y');
create unique index w_a on w (a);
alter table w add unique (id, a);
insert into w (a) values ('z');
commit;
insert into w (a) values ('z');
insert into w (a) values ('zz');
select * from w where a = 'z';
select * from w where a = 'y' or a = 'zz' order by id;
\t off
\d w
\t on
begin;
drop index w_a;
insert into w (a) values ('z');
rollback;
insert into w (a) values ('z');
begin;
drop index w_a;
commit;
insert into w (a) values ('z');
select count(*) from w where a = 'z';
create unique index w_a on w (a);
drop table w;
-- A table whose rows have no key, which gets one.
create table x (a int unique, b text);
insert into x values (1, 'one'), (2, 'two'), (null, 'three'), (null, 'four');
insert into x values (1, 'again');
insert into x values (1, 'again') on conflict (a) do update set b = excluded.b;
insert into x values (2, 'again') on conflict do nothing;
update x set a = 3 where b = 'two';
update x set a = 1 where b = 'three';
update x set a = a + 10 where a = 3;
delete from x where a = 13;
insert into x values (13, 'b'), (3, 'c');
alter table x alter column b set not null;
alter table x add primary key (b);
\t off
\d x
\t on
insert into x values (13, 'd');
insert into x values (14, 'b');
select * from x order by b;
delete from x where b = 'b';
insert into x values (13, 'd');
select * from x where a = 13;
drop table x;
-- A row that is there in all its columns.
create table oc (id int primary key, u int unique);
insert into oc values (1, 1);
insert into oc values (1, 1) on conflict (u) do nothing;
insert into oc values (1, 1) on conflict on constraint oc_u_key do nothing;
insert into oc values (1, 1), (2, 2), (2, 2), (3, 2) on conflict do nothing;
select * from oc order by id;
drop table oc;
-- Each name is there once: of tables, keys, indexes, views and sequences.
create table nm (a int, b int);
create index foo_pkey on nm (b);
create table foo (a int primary key);
\t off
\d foo
\t on
create table foo2 (a int constraint foo_pkey primary key);
create index foo2 on nm (a);
create table foo2 (a int);
create view foo2 as select 1;
create sequence foo2;
create table h (a int not null, b int);
create index h_pkey on h (b);
alter table h add primary key (a);
\t off
\d h
\t on
create table h2 (a int not null, b int);
create index h2i on h2 (b);
alter table h2 add constraint h2i primary key (a);
create index seq_a_seq on nm (a, b);
create table seq (a serial);
select pg_get_serial_sequence('seq', 'a');
create table h3 (a int constraint x check (a > 0), b int constraint x unique);
create table h4 (a int constraint x4 check (a > 0), b int);
alter table h4 add constraint x4 unique (b);
create index nm_i on nm (a);
drop index nm_i, nope;
select indexname from pg_indexes where tablename = 'nm' order by 1;
drop index nm_i, seq_a_seq;
select indexname from pg_indexes where tablename = 'nm' order by 1;
drop table nm, foo, h, h2, seq, h4;
