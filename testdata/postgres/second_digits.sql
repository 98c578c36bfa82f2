-- Times that keep fewer digits behind the seconds.
SET TimeZone = 'Europe/Berlin';
CREATE TABLE s (id int PRIMARY KEY, a timestamp(3), b timestamptz(3) DEFAULT '2026-07-01 14:00:00.9996+02', c timestamp(0), d timestamp(6) without time zone, e timestamp (0) with time zone);
INSERT INTO s VALUES (1, '2026-07-01 12:00:00.1235', '2026-07-01 12:00:00.1235+02', '2026-07-01 12:00:00.5', '2026-07-01 12:00:00.123456', '2026-07-01 12:00:00.49');
INSERT INTO s (id, a, c) VALUES (2, '1999-12-31 23:59:59.1235', '1999-12-31 23:59:59.5'), (3, '1969-12-31 23:59:59.9995', '1969-12-31 23:59:58.5');
INSERT INTO s (id, a) SELECT id + 10, a + interval '0.6 milliseconds' FROM s WHERE id < 3;
INSERT INTO s (id, a) VALUES (20, NULL), (21, '2026-07-01'::date), (22, timestamptz '2026-07-01 12:00:00.7777+00');
SELECT * FROM s ORDER BY id;
UPDATE s SET c = '2026-07-01 12:00:00.5'::timestamp + interval '1 second', a = '2026-07-01 12:00:00.0005' WHERE id = 20 RETURNING a, c;
INSERT INTO s (id, a) VALUES (20, '2026-07-01 12:00:01.0005') ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING a;
INSERT INTO s (id, a) VALUES (20, '2026-07-01 12:00:01.0005') ON CONFLICT (id) DO UPDATE SET a = '2026-07-01 12:00:03.0015' RETURNING a;
-- What is compared is not rounded.
SELECT id FROM s WHERE a = '2026-07-01 12:00:00.1235';
SELECT id FROM s WHERE a = '2026-07-01 12:00:00.124';
SELECT id FROM s WHERE a > '2026-07-01 12:00:00.1235' AND a < '2026-07-01 12:00:00.125';
SELECT id FROM s WHERE c = '2026-07-01 12:00:01';
CREATE TABLE k (at timestamp(3) PRIMARY KEY, n int);
INSERT INTO k VALUES ('2026-07-01 12:00:00.1235', 1);
INSERT INTO k VALUES ('2026-07-01 12:00:00.1241', 2);
INSERT INTO k VALUES ('2026-07-01 12:00:00.1241', 2) ON CONFLICT (at) DO UPDATE SET n = 5;
SELECT * FROM k WHERE at = '2026-07-01 12:00:00.1235';
SELECT * FROM k WHERE at = '2026-07-01 12:00:00.1241';
SELECT * FROM k WHERE at = '2026-07-01 12:00:00.124';
DELETE FROM k WHERE at = '2026-07-01 12:00:00.1241';
DELETE FROM k WHERE at IN ('2026-07-01 12:00:00.1241', '2026-07-01 12:00:00.124');
COPY k (at, n) FROM STDIN;
2026-07-01 12:00:00.1235	7
2026-07-01 12:00:01.9996	8
1999-07-01T12:00:01.9995	9
\.
SELECT * FROM k ORDER BY at;
PREPARE put (timestamp, int) AS INSERT INTO k VALUES ($1, $2);
EXECUTE put('2026-07-02 12:00:00.1235', 10);
SELECT * FROM k WHERE n = 10;
-- Casts.
SELECT '2026-07-01 12:00:00.1235'::timestamp(3), timestamp(0) '2026-07-01 12:00:00.5', CAST('2026-07-01 12:00:00.9999+00' AS timestamptz(2)), '2026-07-01 12:00:00.1235'::timestamp(3)::text;
SELECT a::timestamp(1), b::timestamptz(0), a::timestamp(0)::date, pg_typeof(a::timestamp(1)) FROM s WHERE id = 1;
SELECT extract(second FROM now()::timestamp(0)) = floor(extract(second FROM now()::timestamp(0))), current_timestamp(0) = now()::timestamptz(0), localtimestamp(2) = now()::timestamp(2);
SELECT NULL::timestamp(3), count(*) FROM s GROUP BY 1;
SELECT a::timestamp(0) AS second, count(*) FROM s WHERE a IS NOT NULL GROUP BY 1 ORDER BY 1;
-- What there is.
SELECT column_name, data_type, datetime_precision, column_default FROM information_schema.columns WHERE table_name = 's' ORDER BY ordinal_position;
SELECT attname, atttypmod, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 's'::regclass AND attnum > 0 ORDER BY attnum;
\d s
CREATE TABLE other (LIKE s INCLUDING ALL, f timestamp(1));
\d other
ALTER TABLE s ADD g timestamp(1) DEFAULT '2026-07-01 12:00:00.55', ALTER c TYPE timestamp(3), ALTER a TYPE timestamp(1), ALTER d TYPE timestamp;
SELECT a, c, d, g FROM s ORDER BY id;
ALTER TABLE s ALTER g DROP DEFAULT, ALTER g TYPE timestamptz(0);
\d s
CREATE TABLE wrong (a timestamp(-1));
INSERT INTO k VALUES (5, 5);
INSERT INTO k VALUES ('2026-07-01 12:00:61', 5);
INSERT INTO k VALUES ('nonsense', 5);
INSERT INTO k VALUES (true, 5);
