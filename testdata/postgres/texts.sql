-- Statements that are sent in one text are one transaction.
SET client_min_messages = warning;
CREATE TABLE t (a int PRIMARY KEY);
COPY (INSERT INTO t VALUES (1) RETURNING a) TO STDOUT\; SELECT 1 / 0;
SELECT * FROM t;
COPY (INSERT INTO t VALUES (2) RETURNING a) TO STDOUT\; COPY (DELETE FROM t RETURNING a) TO STDOUT\; INSERT INTO t VALUES (3);
SELECT * FROM t;
DROP TABLE t;
