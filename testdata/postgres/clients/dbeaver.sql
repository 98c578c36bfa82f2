-- dbeaver/dbeaver: org.jkiss.dbeaver.ext.postgresql, what it asks while it connects, shows its tree and opens the properties of
-- a table. It sends numbers of objects as int8 and names as varchar, as pgJDBC does.

-- databases
-- $1 varchar = e
-- only datname = e|postgres
-- without datfrozenxid datminmxid datlastsysoid datcollversion oid datacl
-- nyala does not say which locale and which encoding library it has
-- without datcollate datctype datlocprovider daticulocale
SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datallowconn AND NOT datistemplate OR db.datname =$1
ORDER BY db.datname

-- the database
-- $1 varchar = e
-- without datfrozenxid datminmxid datlastsysoid datcollversion datcollate datctype datlocprovider daticulocale datacl
SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname=$1

-- the name of the database
SELECT current_database()

-- whether there are enumerated types
SELECT * FROM pg_catalog.pg_enum WHERE 1<>1 LIMIT 1

-- whether tables have types
SELECT reltype FROM pg_catalog.pg_class WHERE 1<>1 LIMIT 1

-- whether types have categories
SELECT typcategory FROM pg_catalog.pg_type WHERE 1<>1 LIMIT 1

-- the schema and the user
SELECT current_schema(),session_user

-- the search path
SHOW search_path

-- sets the search path
SET search_path = public,"$user"

-- sets it back
SET search_path = "$user",public

-- schemas
-- only nspname = public|pg_catalog
-- nyala has no lists of privileges
-- without nspacl
SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass
 ORDER BY nspname

-- types of all schemas
-- unordered
-- only typname = int4|_int4|text|numeric|timestamptz|name|int2vector|yes_or_no
-- nyala describes objects of the system by nothing
-- without description
SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem 
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
WHERE t.typname IS NOT NULL
AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')

-- types of a schema
-- $1 int8 = 2200
-- unordered
SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem 
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
WHERE t.typname IS NOT NULL
AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')
AND t.typnamespace=$1 

-- a type by its number
-- $1 int8 = 1700
SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_class c ON c.oid=t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
WHERE t.oid=$1 

-- a type by its name
-- $1 varchar = float8
SELECT t.oid,t.*,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_class c ON c.oid=t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
WHERE t.typname=$1 

-- values of enumerated types
SELECT * FROM pg_catalog.pg_enum

-- values of an enumerated type
-- $1 int8 = 23
SELECT e.enumlabel 
FROM pg_catalog.pg_enum e
WHERE e.enumtypid=$1
ORDER BY e.enumsortorder

-- checks of a domain
-- unordered
SELECT concat(c.conname, ' ', pg_catalog.pg_get_constraintdef(oid, true))
FROM pg_catalog.pg_constraint c
WHERE contypid = {'t'::regclass::oid}

-- tables and views of a schema
-- $1 int8 = 2200
-- unordered
-- without relfilenode relpages reltuples relallvisible relfrozenxid relminmxid
-- tables have no types of their own in nyala, and long values no table of their own
-- without reltype reltoastrelid
-- rules are PostgreSQL's way to store views
-- without relhasrules
SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,  pg_catalog.pg_get_partkeydef(c.oid) as partition_key 
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
WHERE c.relnamespace=$1 AND c.relkind not in ('i','I','c')

-- a table
-- $1 int8 = 2200
-- $2 varchar = s
-- without relfilenode relpages reltuples relallvisible relfrozenxid relminmxid reltype reltoastrelid
SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,  pg_catalog.pg_get_partkeydef(c.oid) as partition_key 
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
WHERE c.relnamespace=$1 AND c.relkind not in ('i','I','c') AND relname=$2

-- columns of a table: nyala has no hidden ones
-- only attnum = [1-9][0-9]*
-- $1 int8 = {'t'::regclass::oid}
SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid=$1
ORDER BY a.attnum

-- columns of a schema
-- $1 int8 = 2200
-- unordered
-- only attnum = [1-9][0-9]*
SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.relnamespace=$1
ORDER BY a.attnum

-- attributes of a type that is a table
-- types differ
-- $1 int8 = {'s'::regclass::oid}
SELECT c.relname,row_number() OVER (ORDER BY a.attnum) as attnum,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.oid=$1
ORDER BY a.attnum

-- constraints of a schema
-- $1 int8 = 2200
-- unordered
-- expressions have another form inside of nyala
-- without conbin
SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when c.contype='c' then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy
FROM pg_catalog.pg_constraint c
INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass
WHERE t.relnamespace=$1
ORDER BY c.oid

-- constraints of a table
-- $1 int8 = {'t'::regclass::oid}
-- unordered
-- without conbin
SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when c.contype='c' then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy
FROM pg_catalog.pg_constraint c
INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass
WHERE c.conrelid=$1
ORDER BY c.oid

-- the definition of a constraint
-- $1 int8 = {select oid from pg_constraint where conname = 't_n_check'}
SELECT pg_catalog.pg_get_constraintdef($1)

-- indexes of a table
-- $1 int8 = {'s'::regclass::oid}
-- nyala has no statistics of indexes, and no classes of operators
-- without index_rel_size index_num_scans indclass
SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans
FROM pg_catalog.pg_index i
INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid
INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid
WHERE  i.indrelid=$1 ORDER BY c.relname

-- indexes of a schema
-- $1 int8 = 2200
-- without index_rel_size index_num_scans indclass
SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans
FROM pg_catalog.pg_index i
INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid
INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid
WHERE  c.relnamespace=$1 ORDER BY c.relname

-- the definition of an index
-- $1 int8 = {'s_pkey'::regclass::oid}
SELECT pg_catalog.pg_get_indexdef($1)

-- the definition of a view: its text is that of its creation
-- without pg_get_viewdef
SELECT pg_get_viewdef({'vw'::regclass::oid}, true)

-- inheritance in a schema
-- $1 int8 = 2200
SELECT i.inhrelid relid, pc.relnamespace parent_ns, pc.oid parent_oid, i.inhseqno
FROM pg_catalog.pg_inherits i, pg_class rc, pg_class pc
WHERE rc.oid=i.inhrelid AND rc.relnamespace=$1 AND pc.oid=i.inhparent

-- parents of a table
-- $1 int8 = {'t'::regclass::oid}
SELECT i.*,c.relnamespace FROM pg_catalog.pg_inherits i,pg_catalog.pg_class c WHERE i.inhrelid=$1 AND c.oid=i.inhparent ORDER BY i.inhseqno

-- children of a table
-- $1 int8 = {'t'::regclass::oid}
SELECT i.*,c.relnamespace FROM pg_catalog.pg_inherits i,pg_catalog.pg_class c WHERE i.inhparent=$1 AND c.oid=i.inhrelid

-- the range of a partition
-- $1 varchar = t
-- $2 int8 = 2200
select pg_get_expr(c.relpartbound, c.oid, true) as partition_range from "pg_catalog".pg_class c where relname = $1 and relnamespace = $2;

-- who refers to a table
-- $1 int8 = {'t'::regclass::oid}
SELECT DISTINCT connamespace FROM pg_catalog.pg_constraint WHERE confrelid=$1

-- sizes of tables: how many bytes they take differs
-- $1 int8 = 2200
-- unordered
-- only oid = nothing
select c.oid,pg_catalog.pg_total_relation_size(c.oid) as total_rel_size,pg_catalog.pg_relation_size(c.oid) as rel_size
FROM pg_class c
WHERE c.relnamespace=$1

-- the size of a table
-- $1 int8 = {'t'::regclass::oid}
-- $2 int8 = {'t'::regclass::oid}
-- without total_rel_size rel_size
select pg_catalog.pg_total_relation_size($1) as total_rel_size,pg_catalog.pg_relation_size($2) as rel_size

-- sizes of databases
-- only datname = e
-- without pg_database_size
SELECT db.datname,pg_database_size(db.oid) FROM pg_catalog.pg_database db 

-- the size of a database
-- $1 int8 = {select oid from pg_database where datname = 'e'}
-- without pg_database_size
SELECT db.datname,pg_database_size(db.oid) FROM pg_catalog.pg_database db WHERE db.oid=$1

-- the comment of a database
-- $1 varchar = e
select description from pg_shdescription join pg_database on objoid = pg_database.oid where datname = $1

-- the number of a schema
-- $1 varchar = public
SELECT s.oid as schema_id
from pg_catalog.pg_namespace s
WHERE s.nspname =$1

-- default privileges of a schema
-- $1 int8 = 2200
SELECT * FROM pg_default_acl WHERE defaclnamespace = $1

-- roles
-- only rolname = me|pg_database_owner
-- without oid rolbypassrls rolpassword
SELECT a.oid,a.*,pd.description FROM pg_catalog.pg_roles a 
left join pg_catalog.pg_shdescription pd on a.oid = pd.objoid
ORDER BY a.rolname

-- members of a role
-- $1 int8 = 10
SELECT * FROM pg_catalog.pg_auth_members WHERE roleid=$1

-- roles of a role
-- $1 int8 = 10
SELECT * FROM pg_catalog.pg_auth_members WHERE member=$1

-- settings of a role
-- $1 int8 = 10
select s.setconfig, pd.datname from pg_catalog.pg_db_role_setting s
left join pg_catalog.pg_database pd on s.setdatabase = pd.oid
where s.setrole = $1

-- privileges of a role for routines
-- $1 varchar = e
-- $2 varchar = me
-- only specific_schema = public
SELECT * FROM information_schema.routine_privileges WHERE specific_catalog=$1 AND grantee=$2

-- privileges of a role for tables
-- $1 varchar = e
-- $2 varchar = me
-- unordered
-- only table_schema = public
-- only privilege_type = SELECT
-- nyala's grants are those of InfluxQL
-- without is_grantable
SELECT * FROM information_schema.table_privileges WHERE table_catalog=$1 AND grantee=$2

-- privileges of a role for other objects
-- $1 int8 = 10
-- only relkind = [^C]
SELECT * FROM (
	SELECT DISTINCT relnamespace,
	relacl,
	relname,
	relkind,
(aclexplode(relacl)).grantee as granteeI
FROM
	pg_class
WHERE
	relacl IS NOT NULL
	AND relnamespace IN (
SELECT oid
FROM pg_namespace
WHERE nspname NOT LIKE 'pg_%' AND nspname != 'information_schema')
UNION ALL
SELECT DISTINCT
	n.oid AS relnamespace,
	nspacl AS relacl,
	n.nspname AS relname,
	cast('C' as "char") AS relkind,
(aclexplode(nspacl)).grantee as granteeI
FROM
	pg_catalog.pg_namespace n
WHERE
	n.nspacl IS NOT NULL 
	) AS tr
WHERE tr.granteeI=$1 AND tr.relkind IN('S', 'm', 'C')

-- default privileges of a role
-- $1 int8 = 10
SELECT DISTINCT g.* FROM (
SELECT *,
(aclexplode(defaclacl)).grantee as grantee
FROM pg_default_acl a WHERE a.defaclnamespace <> 0) as g
where g.grantee = $1

-- access methods
-- only amname = heap|btree
SELECT am.oid,am.* FROM pg_catalog.pg_am am 
ORDER BY am.oid

-- encodings
-- nyala converts nothing
-- only encname = nothing
SELECT c.contoencoding as encid,pg_catalog.pg_encoding_to_char(c.contoencoding) as encname
FROM pg_catalog.pg_conversion c
GROUP BY c.contoencoding
ORDER BY 2

-- collations
-- only collname = default|C|POSIX
SELECT c.oid,c.* FROM pg_catalog.pg_collation c 
ORDER BY c.oid

-- languages
-- only lanname = internal|sql
-- without lanvalidator lanacl
SELECT l.oid,l.* FROM pg_catalog.pg_language l 
ORDER BY l.oid

-- foreign data wrappers
SELECT l.oid,l.*,p.pronamespace as handler_schema_id 
FROM pg_catalog.pg_foreign_data_wrapper l
LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid=l.fdwhandler 
ORDER BY l.fdwname

-- foreign servers
SELECT l.oid,l.* FROM pg_catalog.pg_foreign_server l
ORDER BY l.srvname

-- tablespaces
-- only spcname = pg_default
SELECT t.oid,t.*,pg_tablespace_location(t.oid) loc
FROM pg_catalog.pg_tablespace t 
ORDER BY t.oid

-- triggers for events
SELECT pet.*, d.description FROM pg_catalog.pg_event_trigger pet
LEFT OUTER JOIN pg_catalog.pg_description d ON pet."oid" = d.objoid

-- extensions
-- nyala has none, not even PL/pgSQL
-- only extname = nothing
SELECT 
 e.oid,
 cfg.tbls,
  n.nspname as schema_name,
 e.* 
FROM 
 pg_catalog.pg_extension e 
 join pg_namespace n on n.oid =e.extnamespace
 left join  (
         select
            ARRAY_AGG(ns.nspname || '.' ||  cls.relname) tbls, oid_ext
          from
            (
            select
                unnest(e1.extconfig) oid , e1.oid oid_ext
            from
                pg_catalog.pg_extension e1 ) c 
                join    pg_class cls on cls.oid = c.oid 
                join pg_namespace ns on ns.oid = cls.relnamespace
            group by oid_ext        
         ) cfg on cfg.oid_ext = e.oid
ORDER BY e.oid

-- aggregates of a schema
-- $1 int8 = 2200
SELECT p.oid AS proc_oid,p.proname AS proc_name,a.*
FROM pg_catalog.pg_aggregate a,pg_catalog.pg_proc p
WHERE p.oid=a.aggfnoid AND p.pronamespace=$1
ORDER BY p.proname

-- functions of a schema
-- $1 int8 = 2200
SELECT p.oid as poid,p.*,pg_catalog.pg_get_expr(p.proargdefaults, 0) as arg_defaults,d.description
FROM pg_catalog.pg_proc p
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=p.oid and d.classoid='pg_proc'::regclass  AND d.objsubid = 0
WHERE p.pronamespace=$1
ORDER BY p.proname

-- classes of operators
-- only opcname = nothing
SELECT oc.oid,oc.* FROM pg_catalog.pg_opclass oc 
ORDER BY oc.oid

-- families of operators
-- only opfname = nothing
SELECT of.oid,of.* FROM pg_catalog.pg_opfamily of 
ORDER BY of.oid

-- triggers of a table
-- $1 int8 = {'t'::regclass::oid}
SELECT x.oid,x.*,p.pronamespace as func_schema_id,d.description
FROM pg_catalog.pg_trigger x
LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid=x.tgfoid 
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=x.oid AND d.objsubid=0 
WHERE x.tgrelid = $1 AND NOT x.tgisinternal

-- rules of a table
SELECT r.oid,r.*, pg_get_ruledef(r.oid) AS definition
FROM pg_rewrite r
WHERE r.ev_class={'t'::regclass::oid} AND r.rulename <> '_RETURN'::name

-- policies of a table
-- $1 varchar = public
-- $2 varchar = t
select * from pg_catalog.pg_policies where schemaname=$1 and tablename=$2

-- sequences
-- $1 varchar = public
-- $2 varchar = nothing
SELECT * from pg_catalog.pg_sequences WHERE schemaname=$1 AND sequencename=$2

-- foreign tables
-- $1 int8 = {'t'::regclass::oid}
SELECT * FROM pg_catalog.pg_foreign_table WHERE ftrelid=$1

-- the comment of a partition
-- $1 varchar = t
-- $2 varchar = public
select description from pg_catalog.pg_description
join pg_catalog.pg_class on pg_description.objoid = pg_class.oid
join pg_catalog.pg_namespace on pg_class.relnamespace = pg_namespace.oid
where pg_class.relname = $1 and pg_namespace.nspname=$2

-- a setting
-- $1 varchar = search_path
-- nyala says of a setting what it is, not where it comes from
-- without category short_desc extra_desc context vartype source boot_val reset_val sourcefile sourceline enumvals min_val max_val unit
select * from pg_catalog.pg_settings where name=$1

-- what depends on a table: nyala does not list it
-- types differ
-- $1 int8 = {'s'::regclass::oid}
-- only deptype = nothing
SELECT DISTINCT dep.deptype, dep.classid, dep.objid, cl.relkind, attr.attname,pg_get_expr(ad.adbin, ad.adrelid) adefval,
    CASE WHEN cl.relkind IS NOT NULL THEN cl.relkind::text || COALESCE(dep.objsubid::text, '')::text
        WHEN tg.oid IS NOT NULL THEN 'T'::text
        WHEN ty.oid IS NOT NULL THEN 'y'::text
        WHEN ns.oid IS NOT NULL THEN 'n'::text
        WHEN pr.oid IS NOT NULL THEN 'p'::text
        WHEN la.oid IS NOT NULL THEN 'l'::text
        WHEN rw.oid IS NOT NULL THEN 'R'::text
        WHEN co.oid IS NOT NULL THEN 'C'::text || contype::text
        WHEN ad.oid IS NOT NULL THEN 'A'::text
        ELSE ''
    END AS type,
    COALESCE(coc.relname, clrw.relname, tgr.relname) AS ownertable,
    CASE WHEN cl.relname IS NOT NULL AND att.attname IS NOT NULL THEN cl.relname || '.' || att.attname
    ELSE COALESCE(cl.relname, co.conname, pr.proname, tg.tgname, ty.typname, la.lanname, rw.rulename, ns.nspname)
    END AS refname,
    COALESCE(nsc.nspname, nso.nspname, nsp.nspname, nst.nspname, nsrw.nspname, tgrn.nspname) AS nspname
FROM pg_depend dep
LEFT JOIN pg_class cl ON dep.objid=cl.oid
LEFT JOIN pg_attribute att ON dep.objid=att.attrelid AND dep.objsubid=att.attnum
LEFT JOIN pg_namespace nsc ON cl.relnamespace=nsc.oid
LEFT JOIN pg_proc pr ON dep.objid=pr.oid
LEFT JOIN pg_namespace nsp ON pr.pronamespace=nsp.oid
LEFT JOIN pg_trigger tg ON dep.objid=tg.oid
LEFT JOIN pg_class tgr ON tg.tgrelid=tgr.oid
LEFT JOIN pg_namespace tgrn ON tgr.relnamespace=tgrn.oid
LEFT JOIN pg_type ty ON dep.objid=ty.oid
LEFT JOIN pg_namespace nst ON ty.typnamespace=nst.oid
LEFT JOIN pg_constraint co ON dep.objid=co.oid
LEFT JOIN pg_class coc ON co.conrelid=coc.oid
LEFT JOIN pg_namespace nso ON co.connamespace=nso.oid
LEFT JOIN pg_rewrite rw ON dep.objid=rw.oid
LEFT JOIN pg_class clrw ON clrw.oid=rw.ev_class
LEFT JOIN pg_namespace nsrw ON clrw.relnamespace=nsrw.oid
LEFT JOIN pg_language la ON dep.objid=la.oid
LEFT JOIN pg_namespace ns ON dep.objid=ns.oid
LEFT JOIN pg_attrdef ad ON ad.oid=dep.objid
LEFT JOIN pg_attribute attr ON attr.attrelid=ad.adrelid and attr.attnum=ad.adnum
WHERE dep.refobjid=$1
ORDER BY type

-- search for tables
-- $1 varchar = %t%
-- $2 int8 = 2200
SELECT pc.oid,pc.relname,pc.relnamespace,pc.relkind FROM pg_catalog.pg_class pc WHERE pc.relkind in('r','v','m','f','p') AND pc.relname ILIKE $1 AND pc.relnamespace IN ($2) ORDER BY pc.relname LIMIT 100

-- search for tables, also in comments and texts of views
-- $1 varchar = %price%
-- $2 varchar = %price%
-- $3 varchar = %price%
SELECT pc.oid,pc.relname,pc.relnamespace,pc.relkind FROM pg_catalog.pg_class pc WHERE pc.relkind in('r','v','m','f','p') AND (pc.relname ILIKE $1 OR obj_description(pc.oid, 'pg_class') ILIKE $2 OR pc.relkind = 'v' AND pg_get_viewdef(pc."oid") ILIKE $3) AND pc.relnamespace IN (2200) ORDER BY pc.relname LIMIT 100

-- search for constraints
-- $1 varchar = %check%
SELECT pc.oid, pc.conname, pc.connamespace FROM pg_catalog.pg_constraint pc WHERE pc.conname ILIKE $1 AND pc.connamespace IN (2200) ORDER BY pc.conname LIMIT 100

-- sessions
-- only datname = nothing
SELECT sa.* FROM pg_catalog.pg_stat_activity sa

-- a lock of a session
-- types differ
-- $1 int4 = 1
select  coalesce(db.datname,'') as datname,  coalesce(lock.locktype,'') as locktype,  coalesce(lock.relation::regclass::varchar,'') as relation,  coalesce(lock.mode,'') as mode,  coalesce(lock.transactionid::varchar,'') as tid,  lock.page as page,  lock.tuple as tuple,  lock.pid as pid,  lock.granted from pg_catalog.pg_locks lock    left join pg_catalog.pg_database db      on db.oid = lock.database  where   lock.pid = $1 

-- whether a schema exists
-- types differ
SELECT 1 FROM INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = 'public'

-- rows of a table
SELECT x.* FROM public.s x
ORDER BY x.t_id, x.pos

-- how many rows a table has
SELECT count(*) FROM public.t
