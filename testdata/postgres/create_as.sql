-- Columns that a table gets beside a query.
CREATE TABLE pair (a, "B b") AS SELECT 1, 'x'::text UNION ALL SELECT 2, 'y';
SELECT a, "B b" FROM pair ORDER BY a;
\d pair
-- Fewer names than columns, and more.
CREATE TABLE few (first) AS SELECT 1 AS one, 2 AS two;
SELECT first, two FROM few;
CREATE TABLE many (a, b) AS SELECT 1;
SELECT count(*) FROM pg_class WHERE relname = 'many';
-- Columns that have no names of their own.
CREATE TABLE sums (n, total) AS SELECT count(*), sum(a) FROM pair;
SELECT n, total FROM sums;
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS sums (n) AS SELECT 5;
CREATE TEMP TABLE staged (k) AS SELECT a FROM pair WHERE a > 1;
SELECT k FROM staged;
-- The same name twice.
CREATE TABLE twice (a, a) AS SELECT 1, 2;
CREATE TABLE twice (b) AS SELECT 1, 2 AS b;
-- Queries of other forms.
CREATE TABLE listed (n, name) AS VALUES (1, 'one'), (2, 'two');
SELECT name FROM listed ORDER BY n;
CREATE TABLE named (n) AS (WITH w AS (SELECT a FROM pair) SELECT a + 10 FROM w);
SELECT n FROM named ORDER BY n;
CREATE TABLE copied (x, y) AS TABLE pair;
SELECT x, y FROM copied ORDER BY x;
PREPARE those AS SELECT a FROM pair WHERE a >= $1;
CREATE TABLE of_prepared (n) AS EXECUTE those(2);
SELECT n FROM of_prepared;
-- In a transaction.
BEGIN;
CREATE TABLE undone (a) AS SELECT 7;
SELECT a FROM undone;
ROLLBACK;
SELECT a FROM undone;
DROP TABLE pair, few, sums, listed, named, copied, of_prepared;
