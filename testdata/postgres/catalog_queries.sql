-- Queries of programs that look around, over the tables of `catalog.sql`, and names of columns without one. The answers are
-- those of a real PostgreSQL 15. Where a query comes from a program, a comment names it.
create table t (id int primary key, name text not null, price numeric(10,2) default 1.5, n int check (n >= 0), flag boolean default true, at timestamp, day date, moment timestamptz, raw bytea, f float8, g real, c char(3), v varchar(4), sm smallint, b bigint);
create table s (t_id int, pos int, what text default 'nothing', primary key (t_id, pos));
create view vw as select id, name, price from t;
comment on table t is 'a table';
comment on column t.name is 'its name';
-- names
select 1, 'a', null;
select count(*), max(id), coalesce(n, 1), n + 1 from t group by n;
select 1::int4, '1'::text, cast('2' as bigint), id::text from t;
select case when true then 1 end, case when true then 1 else id end from t;
select true, (select 1), (select 1 as one), exists(select 1), array[1, 2], -id from t;
select upper(name), substring(name from 1 for 2), extract(year from day), trim(name), t.name from t;
select current_user, current_schema, current_database(), session_user, current_schema();
select interval '1 day', date '2024-01-01', timestamp '2024-01-01';
-- functions
select current_schemas(true), current_schemas(false);
select format_type(23, null), format_type(1043, 8), format_type(1700, 655366), format_type(1042, -1), format_type(1009, -1), format_type(18, null), format_type(1184, -1), format_type(0, null);
select quote_ident('a b'), quote_ident('select'), quote_ident('plain'), quote_literal('it''s');
select quote_ident('a$b'), quote_literal(E'a\\b'), format('%I %L', 'a$', E'\\');
select pg_size_pretty(10240::bigint), pg_size_pretty(123456789::bigint), pg_encoding_to_char(6);
select array_to_string(array['a', null, 'c'], ','), array_to_string(array['a', null, 'c'], ',', '-'), array_to_string(array[1, 2], '+');
select 't'::regclass, 'int4'::regtype, 'timestamp with time zone'::regtype, 'public'::regnamespace;
select to_regclass('t'), to_regclass('nothing') is null, to_regclass('public.s');
select 'pg_class'::regclass::oid, 'int8'::regtype::oid, 'pg_catalog.pg_type'::regclass::oid;
select 'nothing'::regclass;
select has_table_privilege('t', 'select'), has_schema_privilege('public', 'usage'), has_database_privilege(current_database(), 'connect');
select obj_description('t'::regclass, 'pg_class'), col_description('t'::regclass, 2), col_description('t'::regclass, 1);
select pg_is_in_recovery(), pg_backend_pid() > 0, txid_current() > 0, pg_postmaster_start_time() < now();
select current_setting('server_version_num'), current_setting('nothing.at.all', true) is null;
select pg_get_userbyid(10), pg_table_is_visible('t'::regclass), pg_type_is_visible(23);
select pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) from pg_constraint where conrelid = 't'::regclass order by conname;
select pg_get_indexdef(indexrelid), pg_get_indexdef(indexrelid, 1, true) from pg_index where indrelid = 's'::regclass;
select relname from pg_class where oid = 't'::regclass::oid;
-- tables
select relname, relkind, relnatts, relchecks, relhasindex, relam from pg_class where relnamespace = 'public'::regnamespace order by relname;
select attname, atttypid::regtype, atttypmod, attnotnull, atthasdef, attlen, attnum, attcollation from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum;
select conname, contype, conkey, pg_get_constraintdef(oid) from pg_constraint where conrelid in ('t'::regclass, 's'::regclass) order by conname;
select indkey, indisprimary, indisunique, indnatts from pg_index where indrelid = 's'::regclass;
select typname, typlen, typtype, typcategory, typelem, typarray from pg_type where typname in ('int4', '_int4', 'text', 'bpchar', 'name', 'timestamptz') order by oid;
select * from pg_tables where schemaname = 'public' order by tablename;
select schemaname, viewname, viewowner from pg_views where schemaname = 'public';
select * from pg_indexes where schemaname = 'public' order by indexname;
select table_name, table_type, is_typed from information_schema.tables where table_schema = 'public' order by 1;
select column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, character_octet_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, udt_schema, udt_name, is_identity, is_generated from information_schema.columns where table_name = 't' order by ordinal_position;
select column_name, data_type, numeric_precision from information_schema.columns where table_name = 'vw' order by ordinal_position;
select constraint_name, column_name, ordinal_position from information_schema.key_column_usage where table_schema = 'public' order by 1, 3;
select constraint_name, constraint_type, table_name from information_schema.table_constraints where table_schema = 'public' and constraint_name not like '%not_null' order by 1;
select constraint_name, column_name from information_schema.constraint_column_usage where table_schema = 'public' order by 1, 2;
select schema_name from information_schema.schemata where schema_name in ('public', 'information_schema', 'pg_catalog') order by 1;
select * from information_schema.character_sets;
select count(*) from information_schema.referential_constraints;
-- Grafana's PostgreSQL source
SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental') AND table_type = 'BASE TABLE' AND quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1)) as i, string_to_array(current_setting('search_path'),',') s) ORDER BY 1;
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE quote_ident(table_name) = 't' ORDER BY 1;
SELECT current_setting('server_version_num')::int/100 as version;
-- DBeaver
SELECT n.oid > 0, n.nspname, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass WHERE nspname = 'information_schema' ORDER BY nspname;
SELECT c.relname, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass WHERE c.relnamespace = 2200 AND c.relkind not in ('i','I','c') ORDER BY 1;
SELECT c.relname, a.attname, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value, dsc.description FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid = 't'::regclass AND a.attnum > 0 ORDER BY a.attnum;
SELECT c.conname, c.contype, t.relname as tabrelname, rt.relnamespace as refnamespace, d.description, case when c.contype = 'c' then '(' || pg_get_constraintdef(c.oid, true) || ')' end as consrc_copy FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass WHERE c.conrelid='t'::regclass ORDER BY c.conname;
-- Metabase
SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS type, d.description AS description FROM pg_catalog.pg_class AS c INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_description AS d ON ((c.oid = d.objoid) AND (d.objsubid = 0) AND (d.classoid = ('pg_class'::regclass))) WHERE ((c.relnamespace = n.oid) AND (n.nspname !~ 'information_schema|catalog_history|pg_internal|^pg_') AND c.relkind IN ('r', 'p', 'v', 'f', 'm')) ORDER BY type ASC, schema ASC, name ASC;
-- pgcli
SELECT n.nspname schema_name, c.relname table_name FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = ANY(ARRAY['r','p','f']) AND n.nspname = 'public' ORDER BY 1,2;
SELECT nsp.nspname schema_name, cls.relname table_name, att.attname column_name, att.atttypid::regtype::text type_name, att.atthasdef AS has_default, pg_catalog.pg_get_expr(def.adbin, def.adrelid, true) as default FROM pg_catalog.pg_attribute att INNER JOIN pg_catalog.pg_class cls ON att.attrelid = cls.oid INNER JOIN pg_catalog.pg_namespace nsp ON cls.relnamespace = nsp.oid LEFT OUTER JOIN pg_attrdef def ON def.adrelid = att.attrelid AND def.adnum = att.attnum WHERE cls.relkind = ANY(ARRAY['r', 'p', 'f']) AND NOT att.attisdropped AND att.attnum > 0 AND nsp.nspname = 'public' ORDER BY 1, 2, att.attnum;
-- subqueries that depend on the row around them
select c.relname, (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0) from pg_class c where c.relnamespace = 2200 and c.relkind = 'r' order by 1;
select a.attname, (select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d where d.adrelid = a.attrelid and d.adnum = a.attnum and a.atthasdef) from pg_attribute a where a.attrelid = 't'::regclass and a.attnum > 0 order by a.attnum;
select c.relname, array(select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 order by a.attnum) from pg_class c where c.relname in ('s', 'vw') order by 1;
-- more of DBeaver, pgAdmin, Rails, Hasura and others
SELECT db.datname FROM (SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datallowconn AND NOT datistemplate) db where datname='e';
SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid='pg_am'::regclass and a.attnum>0 ORDER BY a.attnum;
SELECT t.typname,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C') and t.typname='yes_or_no';
SELECT a.rolname,pd.description FROM pg_catalog.pg_roles a left join pg_catalog.pg_shdescription pd on a.oid = pd.objoid where rolname='me' ORDER BY a.rolname;
select name, setting from pg_catalog.pg_settings where name='standard_conforming_strings';
select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,absolute}'::text[]) and word like 'ab%';
show search_path;
SELECT i.*,i.indkey as keys,c.relname,tc.relname as tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid WHERE i.indrelid=0 ORDER BY tabrelname, c.relname;
SELECT oid::regclass::text, relkind FROM pg_class WHERE relname = 's';
select nspname from pg_namespace where nspname not like 'pg\_%' and nspname <> 'information_schema' and nspname='public';
select table_schema, table_name from information_schema.tables where table_schema not in ('pg_catalog', 'information_schema') and table_name = 't' group by 1, 2;
with x as (select relname from pg_class where relkind = 'v' and relnamespace = 2200) select * from x;
select distinct relkind from pg_class where relnamespace = 2200 order by 1;
select a.attname, format_type(a.atttypid, a.atttypmod), i.indisprimary from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = 's'::regclass order by a.attnum;
select c.column_name, pgd.description from pg_catalog.pg_statio_all_tables as st right join information_schema.columns c on c.table_schema = st.schemaname and c.table_name = st.relname left join pg_catalog.pg_description pgd on pgd.objoid = st.relid and pgd.objsubid = c.ordinal_position where c.table_name = 's' order by 1;
select tc.table_name, kcu.column_name from information_schema.table_constraints tc join information_schema.key_column_usage kcu on tc.constraint_name = kcu.constraint_name and tc.table_schema = kcu.table_schema where tc.constraint_type = 'PRIMARY KEY' and tc.table_schema = 'public' order by 1, 2;
select a.attname from pg_attribute a where a.attrelid = '"s"'::regclass and a.attnum > 0 and not a.attisdropped order by attnum;
select exists(select 1 from pg_class where relname = 't'), exists (select 1 from information_schema.tables where table_name = 'nope');
select count(*) > 0 from pg_type where typtype = 'b' and typelem <> 0;
select relname from pg_class where oid in (select conrelid from pg_constraint where contype = 'p') and relnamespace = 2200 order by 1;
select (select nspname from pg_namespace where oid = relnamespace) as s, relname from pg_class where relname in ('t','vw') order by 2;
select 1 from pg_catalog.pg_class c where c.relname = 't' and exists (select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'id');
select t.typname from pg_type t where t.oid = any('{16,23}'::oid[]) order by 1;
select pg_catalog.set_config('application_name', 'x', false);
select u.usename, u.usesuper from pg_user u where usename = current_user;
select * from pg_extension where extname = 'timescaledb';
select n.nspname, p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public';
select unnest(array['a','b']) as x, generate_subscripts(array['a','b'], 1) as i;
select (information_schema._pg_expandarray(array['x','y'])).n;
select conname, unnest(conkey) from pg_constraint where conrelid = 's'::regclass order by 2;
select pg_size_pretty(pg_database_size(current_database())) is not null, pg_total_relation_size('t') >= 0;
select schemaname, relname, n_live_tup is not null from pg_stat_user_tables where schemaname = 'public' order by relname;
select a.attname, (select c.collname from pg_collation c, pg_type t where c.oid = a.attcollation and t.oid = a.atttypid and a.attcollation <> t.typcollation) from pg_attribute a where a.attrelid = 's'::regclass and a.attnum > 0 order by a.attnum;
