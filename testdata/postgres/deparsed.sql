-- Defaults and checks as PostgreSQL shows them: not as they were written, but as it has understood them.
SET TimeZone = 'UTC';
CREATE SEQUENCE numbers;

-- Literals get the type of their column, which is not said where it is plain.
CREATE TABLE literals (
  a int DEFAULT 5, b int DEFAULT -1, c int DEFAULT '7', d int DEFAULT (5), e bigint DEFAULT 3000000000, f bigint DEFAULT -7,
  g smallint DEFAULT 3, h numeric(8,2) DEFAULT 1.5, i numeric(8,2) DEFAULT 2, j numeric(8,2) DEFAULT '7.5',
  k numeric(8,2) DEFAULT -1.50, l numeric(8,2) DEFAULT .5, m real DEFAULT 1.5, n double precision DEFAULT -0.5,
  o double precision DEFAULT '1e20', p double precision DEFAULT 'NaN', q boolean DEFAULT true, r boolean DEFAULT 'no',
  s text DEFAULT 'it''s', t text DEFAULT '', u varchar(10) DEFAULT 'y', v char(3) DEFAULT 'abc', w bytea DEFAULT '\x0A',
  x bytea DEFAULT 'a', y uuid DEFAULT 'A0EEBC999C0B4EF8BB6D6BB9BD380A11', z jsonb DEFAULT '{"b":1,"a":[1,2]}', aa json DEFAULT '[1,2]',
  ab date DEFAULT '20240105', ac timestamp DEFAULT '2024-01-05 12:00', ad timestamp(3) DEFAULT '2024-01-05',
  ae timestamptz DEFAULT '2024-07-01 12:00+02', af text DEFAULT NULL, ag varchar(5) DEFAULT NULL, ah int DEFAULT '7'::int,
  ai text DEFAULT 'x'::varchar(3), aj date DEFAULT date '2024-01-05', ak int DEFAULT -2147483648, al int DEFAULT - (-5));
\d literals
SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 'literals' ORDER BY ordinal_position;
SELECT a.attname, a.atthasdef, pg_get_expr(d.adbin, d.adrelid), pg_get_expr(d.adbin, d.adrelid, true) FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = 'literals'::regclass AND a.attnum > 25 ORDER BY a.attnum;
-- Moments are shown in the zone of the session.
SET TimeZone = 'America/New_York';
SELECT column_default FROM information_schema.columns WHERE table_name = 'literals' AND column_name IN ('ac', 'ae');
RESET TimeZone;
SET TimeZone = 'UTC';
INSERT INTO literals DEFAULT VALUES;
SELECT * FROM literals;
DROP TABLE literals;

-- Computed ones.
CREATE TABLE computed (
  a int DEFAULT 1+2, b smallint DEFAULT 1+1, c int DEFAULT (1+2)*3, d int DEFAULT 1+2*3, e int DEFAULT 1-(2-3), f int DEFAULT abs(-5),
  g bigint DEFAULT nextval('numbers'), h bigint DEFAULT nextval('numbers'::regclass) + 1, i text DEFAULT 'a' || 'b', j text DEFAULT upper('x'),
  k varchar(5) DEFAULT upper('x'), l text DEFAULT CURRENT_USER, m text DEFAULT now(), n text DEFAULT 5, o text DEFAULT md5(random()::text),
  p text DEFAULT to_char(now(), 'YYYY'), q text DEFAULT substring('abc' from 2 for 1), r text DEFAULT substring('abc', 2), s text DEFAULT trim(' x '),
  t text DEFAULT left('abc', 2), u text DEFAULT concat('a', 5), v text DEFAULT coalesce(NULL, 'x'), w text DEFAULT CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END,
  x timestamptz DEFAULT now(), y timestamptz DEFAULT CURRENT_TIMESTAMP, z timestamptz DEFAULT now() + interval '1 day',
  aa timestamptz DEFAULT now() - interval '90 minutes', ab timestamptz(3) DEFAULT CURRENT_TIMESTAMP(3), ac timestamp DEFAULT now(), ad timestamp DEFAULT LOCALTIMESTAMP,
  ae timestamp DEFAULT (now() AT TIME ZONE 'UTC'), af timestamp DEFAULT timezone('UTC', now()), ag timestamp DEFAULT (now() AT TIME ZONE 'UTC') + interval '1 hour',
  ah date DEFAULT CURRENT_DATE, ai date DEFAULT now(), aj date DEFAULT now()::date, ak date DEFAULT CURRENT_DATE + 1, al date DEFAULT CURRENT_DATE + interval '1 day',
  am uuid DEFAULT gen_random_uuid(), an double precision DEFAULT random(), ao int DEFAULT floor(random() * 100)::int, ap bigint DEFAULT extract(epoch from now()),
  aq int DEFAULT date_part('year', now()), ar jsonb DEFAULT jsonb_build_object('a', 1), as_ text DEFAULT '{"a": 1}'::jsonb ->> 'a', at int DEFAULT greatest(1, 2),
  au int DEFAULT nullif(1, 2), av numeric(8,2) DEFAULT round(2.5), aw boolean DEFAULT (NOT true), ax boolean DEFAULT (1 > 2 OR 3 > 4), ay int DEFAULT 5 % 3, az int DEFAULT 5 & 3);
\d computed
SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 'computed' ORDER BY ordinal_position;
DROP TABLE computed;
CREATE TABLE numbered (id serial PRIMARY KEY, other bigserial);
\d numbered
SELECT column_default FROM information_schema.columns WHERE table_name = 'numbered' ORDER BY ordinal_position;
DROP TABLE numbered;

-- Comparisons: a literal is what the other side is, and numbers are compared as one type.
CREATE TABLE compared (
  a int, b bigint, c smallint, n numeric(8,2), f double precision, r real, s text, v varchar(10), p char(3), d date, t timestamp, z timestamptz, ok boolean,
  u uuid, "order" int, "Up" text, y bytea,
  CHECK (a > 0), CHECK (b > -1), CHECK (b < 3000000000), CHECK (c > 0), CHECK (n > 0), CHECK (n < 1.5), CHECK (f > 0), CHECK (f >= 0.5), CHECK (r > 1.5),
  CHECK (a > b), CHECK (c > a), CHECK (n > a), CHECK (f > n), CHECK (s <> ''), CHECK (v != ''), CHECK (p = 'abc'), CHECK (s = v), CHECK (p = s),
  CHECK (d > '2024-01-05'), CHECK (t > '2024-01-05 12:00'), CHECK (z > '2024-01-05'), CHECK (z > d), CHECK (t < z), CHECK (u <> 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
  CHECK (ok), CHECK (NOT ok), CHECK (ok = true), CHECK ("order" > 0), CHECK ("Up" <> '"'), CHECK (y <> '\x00'), CHECK (a > '5'), CHECK (n > '0.50'),
  CHECK (compared.a < 9), CHECK ((n > (0)::numeric)), CHECK (a = NULL));
\d compared
SELECT conname, pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) FROM pg_constraint WHERE conrelid = 'compared'::regclass ORDER BY conname;
SELECT check_clause FROM information_schema.check_constraints WHERE constraint_name IN ('compared_ok_check', 'compared_n_check') ORDER BY constraint_name;
SELECT pg_get_expr(conbin, conrelid), pg_get_expr(conbin, conrelid, true) FROM pg_constraint WHERE conname = 'compared_n_check2';
DROP TABLE compared;

-- Conditions within conditions.
CREATE TABLE joined (a int, b bigint, n numeric(8,2), ok boolean, s text,
  CHECK (a > 0 AND b > 0 AND n > 0), CHECK (a > 0 AND (b > 0 AND n > 0)), CHECK ((a > 0 OR b > 0) AND n > 0), CHECK (a > 0 OR b > 0 AND n > 0),
  CHECK (a > 0 OR (b > 0 OR n > 0)), CHECK (NOT (a > 0 AND b > 0)), CHECK (NOT a > 0), CHECK (NOT NOT ok), CHECK (NOT a IN (1, 2)), CHECK (ok = (a > 0)),
  CHECK (a IS NOT NULL OR b IS NULL), CHECK ((s IS NULL) = (a IS NULL)), CHECK (ok IS TRUE OR ok IS NOT FALSE), CHECK (ok IS UNKNOWN), CHECK ((a > 0) IS NOT TRUE),
  CHECK (s IS DISTINCT FROM 'x'), CHECK (a IS NOT DISTINCT FROM 1), CHECK (a IS DISTINCT FROM NULL), CHECK (a BETWEEN 1 AND 5), CHECK (n NOT BETWEEN 1 AND 2),
  CHECK (a > 0 AND b BETWEEN 1 AND 2), CHECK (CASE WHEN a > 1 THEN ok ELSE true END), CHECK (CASE a WHEN 1 THEN 2 WHEN 3 THEN n END > 0),
  CHECK (CASE WHEN ok THEN CASE WHEN a > 0 THEN s END ELSE 'x' END <> ''));
\d joined
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'joined'::regclass ORDER BY conname;
DROP TABLE joined;

-- Lists and patterns.
CREATE TABLE listed (a int, b bigint, n numeric(8,2), s text, v varchar(10), p char(3), d date, j jsonb,
  CHECK (a IN (1, 2, 3)), CHECK (a NOT IN (7, 8)), CHECK (a IN (1)), CHECK (b IN (1, 2)), CHECK (n IN (1, 1.5)), CHECK (s IN ('x', 'y')), CHECK (v IN ('x', 'y')),
  CHECK (v NOT IN ('x', 'y')), CHECK (p IN ('x', 'y')), CHECK (d IN ('2024-01-05', '2024-01-06')), CHECK (a IN (1, 2, b)), CHECK (s IN ('x', v)),
  CHECK (a = ANY (ARRAY[1, 2])), CHECK (a <> ALL (ARRAY[1, 2])), CHECK (a = ANY ('{1,2}')), CHECK (s = ANY (ARRAY['x', 'y']::text[])),
  CHECK (s LIKE 'x%'), CHECK (s NOT LIKE 'x%'), CHECK (s ILIKE 'x%'), CHECK (v LIKE 'x%'), CHECK (p LIKE 'x%'), CHECK (s LIKE 'x!%' ESCAPE '!'),
  CHECK (s ~ '^x'), CHECK (s !~* 'x'), CHECK (s SIMILAR TO 'x%'), CHECK (j ->> 'a' = 'b'), CHECK (j @> '{"a":1}'), CHECK (jsonb_typeof(j) = 'object'));
\d listed
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'listed'::regclass ORDER BY conname;
DROP TABLE listed;

-- Operators and functions.
CREATE TABLE worked (a int, b bigint, c smallint, n numeric(8,2), f double precision, s text, v varchar(10), d date, t timestamp, z timestamptz,
  CHECK (a + 1 < b * 2), CHECK ((a + 1) * 2 < b), CHECK (a * b + 1 - 2 > 0), CHECK (a - (b - 1) > 0), CHECK (a % 2 = 0), CHECK (- a < 0), CHECK (n * 1.5 > a), CHECK (a / 2.0 > f),
  CHECK (d < d + 1), CHECK (d - d > 5), CHECK (z - interval '1 day' < now()), CHECK (z - t > '2 hours'), CHECK (s || v <> 'x'), CHECK (s || a <> 'x'), CHECK (a & 1 = 1), CHECK (a << 2 > 1),
  CHECK (length(s) < 10), CHECK (char_length(v) > 2), CHECK (upper(v) = 'X'), CHECK (abs(a) < 5), CHECK (coalesce(a, 0) > 0), CHECK (coalesce(v, s, 'x') <> ''),
  CHECK (greatest(a, b, 1) > 0), CHECK (nullif(s, '') IS NOT NULL), CHECK (round(n, 1) = n), CHECK (mod(a, 2) = 0), CHECK (power(a, 2) < 100),
  CHECK (extract(year from d) > 2000), CHECK (date_part('year', z) > 2000), CHECK (date_trunc('day', z) = z), CHECK (z AT TIME ZONE 'UTC' > '2024-01-05'),
  CHECK (substring(s from 1 for 3) = 'abc'), CHECK (position('@' in s) > 1), CHECK (strpos(s, '@') > 1), CHECK (trim(s) = s), CHECK (trim(leading 'x' from s) = s),
  CHECK (overlay(s placing 'x' from 2 for 1) <> ''), CHECK (replace(s, 'a', 'b') = s), CHECK (a::bigint < b), CHECK (a::text <> ''), CHECK (a::numeric(5,2) > 1), CHECK (s::int > 0),
  CHECK (s::varchar(5) = v), CHECK (v::varchar = s), CHECK ((a > 0)::text = 'true'), CHECK (concat(s, a) <> ''), CHECK (num_nonnulls(a, b) = 1));
\d worked
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'worked'::regclass ORDER BY conname;
DROP TABLE worked;

-- What is shown can be written, and is shown again as it is.
CREATE TABLE again (s text DEFAULT ('a'::text || ('b'::character varying)::text), v varchar(3) DEFAULT NULL::character varying, n numeric(8,2), d date, z timestamptz DEFAULT (now() + '01:00:00'::interval),
  CHECK (((n > (0)::numeric) AND (n <> ALL (ARRAY[(1)::numeric, (2)::numeric])))), CHECK (((v)::text = ANY ((ARRAY['x'::character varying, 'y'::character varying])::text[]))),
  CHECK ((date_part('year'::text, z) > (2000)::double precision)), CHECK ((s ~~ like_escape('x!%'::text, '!'::text))), CHECK ((s !~ similar_to_escape('x%'::text))),
  CHECK ((TRIM(BOTH FROM s) = s)), CHECK ((SUBSTRING(s FROM 'b+'::text) <> ''::text)), CHECK ((date_trunc('days'::text, z) > '2024-01-05 00:00:00+00'::timestamp with time zone)));
\d again
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'again'::regclass ORDER BY conname;
INSERT INTO again (n, v) VALUES (3, 'x');
SELECT s, v, n, z > now() FROM again;
INSERT INTO again (n) VALUES (1);
INSERT INTO again (v) VALUES ('z');
INSERT INTO again (s) VALUES ('x%');
INSERT INTO again (s) VALUES (' b');
DROP TABLE again;
DROP SEQUENCE numbers;
