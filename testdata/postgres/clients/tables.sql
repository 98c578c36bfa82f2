-- What the clients find: tables, a view, comments.
create table t (id int primary key, name text not null, price numeric(10,2) default 1.5, n int check (n >= 0), flag boolean default true, at timestamp, day date, moment timestamptz, raw bytea, f float8, g real, c char(3), v varchar(4), sm smallint, b bigint);
create table s (t_id int, pos int, what text default 'nothing', primary key (t_id, pos));
create table reading (time timestamptz not null, host text not null, value float8, epoch bigint, primary key (host, time));
create view vw as select id, name, price from t;
comment on table t is 'a table';
comment on column t.name is 'its name';
insert into t (id, name, price, n, at, day, moment, f, c, v, sm, b) values
  (1, 'one', 1.25, 3, '2024-03-01 10:15:30.5', '2024-03-01', '2024-03-01 10:15:30.5+00', 0.5, 'abc', 'wxyz', 7, 9000000000),
  (2, 'two', null, null, null, null, null, null, null, null, null, null),
  (3, 'three', 2.5, 0, '2024-12-31 23:59:59', '2024-12-31', '2024-12-31 23:59:59+00', -1.5, 'a', '', -7, -1);
insert into s values (1, 1, 'first'), (1, 2, 'second'), (3, 1, null);
insert into reading values
  ('2024-03-01 10:00:00+00', 'a', 1, 1709287200), ('2024-03-01 10:00:30+00', 'a', 2, 1709287230),
  ('2024-03-01 10:01:10+00', 'a', 4, 1709287270), ('2024-03-01 10:00:20+00', 'b', 10, 1709287220),
  ('2024-03-01 10:06:00+00', 'b', 20, 1709287560), ('2024-03-01 10:07:59.999+00', 'b', null, 1709287679);
