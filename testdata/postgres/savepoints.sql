-- Going back to savepoints: what was written since is gone, and a failed statement is healed.
CREATE TABLE s (a int PRIMARY KEY, b text, n int DEFAULT 7);
CREATE TABLE other (k text PRIMARY KEY, v int);
INSERT INTO s VALUES (1, 'one', 0), (2, 'two', 0);
BEGIN;
SAVEPOINT first;
INSERT INTO s VALUES (3, 'three', 3);
UPDATE s SET n = 10 WHERE a = 1;
SELECT * FROM s ORDER BY a;
ROLLBACK TO first;
SELECT * FROM s ORDER BY a;
INSERT INTO s (a) VALUES (3), (4);
SELECT * FROM s ORDER BY a;
COMMIT;
SELECT * FROM s ORDER BY a;
-- After an error.
BEGIN;
INSERT INTO s VALUES (5, 'five');
SAVEPOINT sp1;
INSERT INTO s VALUES (5, 'again');
SELECT 1;
SAVEPOINT sp2;
ROLLBACK TO SAVEPOINT sp1;
RELEASE SAVEPOINT sp1;
INSERT INTO s VALUES (6, 'six');
COMMIT;
SELECT * FROM s ORDER BY a;
-- A statement that fails in its middle leaves nothing.
BEGIN;
DELETE FROM s WHERE a = 6;
SAVEPOINT m;
INSERT INTO s SELECT g, 'g', 10 / (g - 12) FROM generate_series(10, 15) g;
ROLLBACK TO m;
SELECT count(*) FROM s;
ROLLBACK TO m;
SELECT count(*) FROM s;
COMMIT;
SELECT * FROM s ORDER BY a;
-- One inside the other, with the same name.
BEGIN;
SAVEPOINT x;
UPDATE s SET b = 'outer' WHERE a = 1;
SAVEPOINT x;
UPDATE s SET b = 'inner' WHERE a = 1;
ROLLBACK TO x;
SELECT b FROM s WHERE a = 1;
RELEASE x;
SELECT b FROM s WHERE a = 1;
ROLLBACK TO x;
SELECT b FROM s WHERE a = 1;
ROLLBACK TO y;
ROLLBACK TO x;
SELECT b FROM s WHERE a = 1;
COMMIT;
-- What is released stays, and goes with what is around it.
BEGIN;
SAVEPOINT a;
INSERT INTO other VALUES ('a', 1);
SAVEPOINT b;
INSERT INTO other VALUES ('b', 2);
RELEASE b;
ROLLBACK TO b;
ROLLBACK TO a;
SELECT * FROM other;
INSERT INTO other VALUES ('c', 3) ON CONFLICT (k) DO UPDATE SET v = 9 RETURNING *;
RELEASE a;
COMMIT;
SELECT * FROM other ORDER BY k;
-- Several tables, deletions, and rows that came and went.
BEGIN;
DELETE FROM s WHERE a > 2;
SAVEPOINT p;
INSERT INTO s VALUES (3, 'new', 1);
DELETE FROM s WHERE a = 1;
UPDATE other SET v = v + 1;
SAVEPOINT q;
INSERT INTO s VALUES (1, 'back', 2);
DELETE FROM other;
SELECT * FROM s ORDER BY a;
ROLLBACK TO q;
SELECT * FROM s ORDER BY a;
SELECT * FROM other;
ROLLBACK TO p;
SELECT * FROM s ORDER BY a;
SELECT * FROM other;
ROLLBACK;
SELECT a FROM s ORDER BY a;
-- COPY.
BEGIN;
SAVEPOINT c;
COPY s (a, b) FROM STDIN;
20	twenty
21	\N
\.
SELECT count(*) FROM s;
ROLLBACK TO c;
SELECT count(*) FROM s;
COPY s (a, b) FROM STDIN;
22	twenty-two
1	one again
\.
ROLLBACK TO c;
COPY s (a, b) FROM STDIN;
23	twenty-three
\.
COMMIT;
SELECT a, b FROM s ORDER BY a;
-- Cursors that were declared since are gone.
BEGIN;
DECLARE before CURSOR FOR SELECT a FROM s ORDER BY a;
SAVEPOINT here;
DECLARE since CURSOR FOR SELECT a FROM s ORDER BY a DESC;
FETCH 2 FROM before;
FETCH 2 FROM since;
DELETE FROM s;
ROLLBACK TO here;
FETCH 2 FROM before;
FETCH 2 FROM since;
ROLLBACK TO here;
DECLARE since CURSOR FOR SELECT a FROM s ORDER BY a DESC;
RELEASE here;
FETCH 1 FROM since;
SAVEPOINT here;
FETCH 1 FROM since;
ROLLBACK TO here;
FETCH 1 FROM since;
COMMIT;
-- Outside of transactions.
SAVEPOINT nowhere;
ROLLBACK TO nowhere;
RELEASE nowhere;
BEGIN;
RELEASE nowhere;
ROLLBACK;
DROP TABLE s;
DROP TABLE other;
-- What a session may not write, unless a transaction says so.
SET default_transaction_read_only = on;
SHOW default_transaction_read_only;
CREATE TABLE read_only (a int PRIMARY KEY);
BEGIN READ WRITE;
CREATE TABLE read_only (a int PRIMARY KEY);
INSERT INTO read_only VALUES (1);
COMMIT;
INSERT INTO read_only VALUES (2);
WITH gone AS (DELETE FROM read_only RETURNING a) SELECT * FROM gone;
BEGIN;
SELECT * FROM read_only;
INSERT INTO read_only VALUES (3);
ROLLBACK;
SET default_transaction_read_only = off;
INSERT INTO read_only VALUES (4);
SELECT * FROM read_only ORDER BY a;
DROP TABLE read_only;
