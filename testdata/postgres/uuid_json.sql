-- Columns of uuid, json and jsonb.
CREATE TABLE u (id uuid PRIMARY KEY, j json, b jsonb DEFAULT '{"z":1,"a":[ ]}', ref uuid UNIQUE);
INSERT INTO u VALUES ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{"a": 1,  "a":2}', '{"bb":1,"a":1, "a":2}', NULL);
INSERT INTO u (id, ref) VALUES ('{b0eebc999c0b4ef8bb6d6bb9bd380a12}', 'a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11');
SELECT * FROM u ORDER BY id;
INSERT INTO u (id) VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
INSERT INTO u (id) VALUES ('a0eebc99');
INSERT INTO u (id, j) VALUES ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', '{a: 1}');
INSERT INTO u (id, b) VALUES ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', '{');
INSERT INTO u (id, b) VALUES ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', '"\ud83dx\ude00"');
SELECT '"\ud83d\ude00"'::jsonb, '"\ud83dx\ude00"'::json;
SELECT '{"a": "\ud83d"}'::json ->> 'a';
SELECT '"a\u0000"'::jsonb;
INSERT INTO u (id) VALUES (5);
SELECT id FROM u WHERE id = 'A0EEBC999C0B4EF8BB6D6BB9BD380A11';
SELECT id FROM u WHERE id IN ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'D0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');
SELECT id FROM u WHERE id <> 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid;
SELECT id FROM u WHERE id > 'AFEEBC99-9C0B-4EF8-BB6D-6BB9BD380A11' ORDER BY 1;
SELECT id FROM u WHERE id BETWEEN 'A0000000-0000-0000-0000-000000000000' AND 'AFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF';
SELECT id FROM u WHERE id = 'nonsense';
SELECT a.id, b.id FROM u a JOIN u b ON a.id = b.ref;
SELECT ref FROM u WHERE ref = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11';
UPDATE u SET ref = 'E0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A15' WHERE id = 'B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12';
DELETE FROM u WHERE id = '{B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12}' RETURNING ref;
PREPARE by_id (uuid) AS SELECT b FROM u WHERE id = $1;
EXECUTE by_id ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');
PREPARE any_id AS SELECT id FROM u WHERE id = $1;
EXECUTE any_id ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');
INSERT INTO u (id) VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11') ON CONFLICT (id) DO UPDATE SET b = '{"n": [1, {"x":null}]}';
SELECT b -> 'n' -> 1 ->> 'x' IS NULL, b -> 'n' ->> 0, b #>> '{n,0}', j ->> 'a' FROM u;
SELECT pg_typeof(id), pg_typeof(j), pg_typeof(b), pg_typeof(b -> 'n') FROM u;
SELECT column_name, data_type, udt_name FROM information_schema.columns WHERE table_name = 'u' ORDER BY ordinal_position;
\d u
SELECT count(*) FROM u WHERE b = '{"n":[1,{"x" : null}]}';
SELECT count(*) FROM u WHERE b @> '{"n": [1]}';
SELECT count(*) FROM u WHERE b @> '{"n": [2]}';
SELECT count(*) FROM u WHERE b ? 'n';
SELECT count(*) FROM u WHERE b ?| ARRAY['m', 'n'];
SELECT count(*) FROM u WHERE b ?& ARRAY['m', 'n'];
SELECT '{"a": 1}'::jsonb <@ b FROM u;
SELECT '[1, 2]'::jsonb @> '1'::jsonb, '{"a": {"b": 2}}'::jsonb @> '{"a": {}}';
SELECT ARRAY[1, 2] @> ARRAY[1];
UPDATE u SET j = to_json(ARRAY[1, 2]), b = jsonb_build_object('k', 'v');
SELECT j, b FROM u;
CREATE TABLE copied AS SELECT id, j, b, id::text AS t FROM u;
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'copied' ORDER BY ordinal_position;
CREATE TABLE t (k int PRIMARY KEY, s text);
INSERT INTO t VALUES (1, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'), (2, '{}');
ALTER TABLE t ADD COLUMN id uuid DEFAULT 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11';
SELECT k, id FROM t ORDER BY k;
DELETE FROM t WHERE k = 2;
ALTER TABLE t ALTER COLUMN s TYPE uuid USING s::uuid;
SELECT s = id FROM t;
INSERT INTO t (k, id) VALUES (3, gen_random_uuid()) RETURNING length(id::text);
COPY u FROM STDIN;
F0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A16	[1 ]	[1 ]	\N
\.
COPY (SELECT * FROM u ORDER BY id) TO STDOUT;
COPY u FROM STDIN;
F0EEBC99	[1 ]	[1 ]	\N
\.
SELECT id FROM u ORDER BY id DESC LIMIT 1;
SELECT count(DISTINCT id), min(id::text) FROM u;
CREATE TABLE json_key (j json PRIMARY KEY);
DROP TABLE u, copied, t;
CREATE TABLE declared (k int PRIMARY KEY, id uuid, j json, b jsonb, v varchar(5), c char(3), n numeric(6, 2));
INSERT INTO declared VALUES (1, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '[1]', '{"a": 1}', 'v', 'c', 1.5);
SELECT * FROM declared WHERE k = 1 \gdesc
SELECT id AS other, v FROM declared WHERE k = 1 \gdesc
INSERT INTO declared VALUES (2) RETURNING * \gdesc
UPDATE declared SET v = 'w' WHERE k = 1 RETURNING id, j, b, v, c AS d, n \gdesc
DELETE FROM declared WHERE k = 2 RETURNING id, v || 'x' AS longer \gdesc
SELECT id, j, b, v, n FROM declared WHERE k = 1;
DROP TABLE declared;
