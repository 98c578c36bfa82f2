-- apache/superset: `db_engine_specs/postgres.py`. What SQLAlchemy asks for it is in `sqlalchemy_reflection.py`.

-- databases
-- only datname = e|postgres
-- unordered
SELECT datname FROM pg_database
WHERE datistemplate = false;

-- the schema of a query
set search_path = "public"

-- sets it back
set search_path = "$user", public

-- the session
-- without pg_backend_pid
SELECT pg_backend_pid()

-- a chart by minute
SELECT DATE_TRUNC('minute', time) AS time, host AS host, AVG(value) AS "AVG(value)" FROM public.reading WHERE time >= TO_TIMESTAMP('2024-03-01 10:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND time < TO_TIMESTAMP('2024-03-01 10:08:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('minute', time), host ORDER BY "AVG(value)" DESC LIMIT 10000;

-- a chart of the hosts with most
SELECT DATE_TRUNC('hour', time) AS __timestamp, reading.host AS host, SUM(value) AS "SUM(value)" FROM public.reading JOIN (SELECT host AS host__, SUM(value) AS mme_inner__ FROM public.reading WHERE time >= TO_TIMESTAMP('2024-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY host ORDER BY mme_inner__ DESC LIMIT 1) AS series_limit ON host = host__ GROUP BY DATE_TRUNC('hour', time), host ORDER BY 1

-- a chart by quarter of a column with seconds since 1970
SELECT DATE_TRUNC('quarter', (timestamp 'epoch' + epoch * interval '1 second')) AS __timestamp, COUNT(*) AS count FROM public.reading GROUP BY DATE_TRUNC('quarter', (timestamp 'epoch' + epoch * interval '1 second')) ORDER BY 1

-- a filter by day
SELECT id, day FROM public.t WHERE day >= TO_DATE('2024-03-01', 'YYYY-MM-DD') ORDER BY id

-- values of a filter
SELECT host AS host FROM public.reading GROUP BY host ORDER BY host ASC LIMIT 1000

-- the biggest number
SELECT MIN(value) AS min, MAX(value) AS max FROM public.reading LIMIT 10000

-- a virtual dataset
SELECT sum(v) AS "SUM(v)" FROM (select host, value as v from reading where value is not null) AS virtual_table WHERE host IN ('a', 'b') LIMIT 50000
