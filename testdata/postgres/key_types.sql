-- Other types of columns of keys and indexes: numbers that run out.
CREATE TABLE orders (id int PRIMARY KEY, place text UNIQUE, amount int NOT NULL CHECK (amount > 0), note varchar(20));
CREATE INDEX orders_amount ON orders (amount);
INSERT INTO orders VALUES (1, 'a', 10, 'one'), (2147483647, 'b', 20, 'last'), (-5, NULL, 30, NULL);
INSERT INTO orders VALUES (2147483648, 'c', 1, 'beyond');
ALTER TABLE orders ALTER COLUMN id TYPE bigint;
INSERT INTO orders VALUES (2147483648, 'c', 1, 'beyond');
SELECT * FROM orders ORDER BY id;
SELECT note FROM orders WHERE id = 2147483648;
SELECT id FROM orders WHERE amount = 20;
INSERT INTO orders VALUES (1, 'd', 5, 'twice');
INSERT INTO orders VALUES (7, 'a', 5, 'same place');
INSERT INTO orders VALUES (1, 'z', 5, 'update') ON CONFLICT (id) DO UPDATE SET note = excluded.note;
SELECT id, place, note FROM orders WHERE id = 1;
SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position;
ALTER TABLE orders ALTER COLUMN amount TYPE numeric(12,2);
SELECT id, amount FROM orders WHERE amount = 20.00;
UPDATE orders SET amount = amount + 0.25 WHERE id = 2147483648;
SELECT id, amount FROM orders WHERE amount = 1.25;
UPDATE orders SET amount = 0 WHERE id = 1;
-- Back, and to what some rows cannot be.
ALTER TABLE orders ALTER COLUMN id TYPE int;
SELECT count(*), max(id) FROM orders;
DELETE FROM orders WHERE id = 2147483648;
ALTER TABLE orders ALTER COLUMN id TYPE int;
INSERT INTO orders VALUES (2147483648, 'c', 1, 'beyond');
-- By an expression: two rows get one key, or one value that is to be unique.
ALTER TABLE orders ALTER COLUMN id TYPE text;
SELECT id FROM orders ORDER BY id COLLATE "C";
SELECT note FROM orders WHERE id = '2147483647';
ALTER TABLE orders ALTER COLUMN id TYPE text USING left(id, 0);
ALTER TABLE orders ALTER COLUMN place TYPE text USING 'same';
ALTER TABLE orders ALTER COLUMN place TYPE varchar(10);
ALTER TABLE orders ALTER COLUMN id TYPE bigint;
ALTER TABLE orders ALTER COLUMN id TYPE bigint USING id::bigint + 100;
SELECT id FROM orders ORDER BY id;
ALTER TABLE orders ALTER COLUMN id TYPE bigint USING NULL;
ALTER TABLE orders ALTER COLUMN id TYPE json USING NULL;
-- Keys of several columns, several types in one statement.
CREATE TABLE readings (device int, at date, value real, PRIMARY KEY (device, at));
INSERT INTO readings VALUES (1, '2024-01-02', 1.5), (2, '2024-01-01', 2.5), (1, '2024-01-01', 3.5);
ALTER TABLE readings ALTER COLUMN device TYPE bigint, ALTER COLUMN at TYPE timestamp, ALTER COLUMN value TYPE double precision;
SELECT * FROM readings ORDER BY device, at;
INSERT INTO readings VALUES (1, '2024-01-01 12:00', 4), (3000000000, '2024-01-01', 5);
INSERT INTO readings VALUES (1, '2024-01-01 12:00', 4);
SELECT count(*) FROM readings WHERE device = 1 AND at >= '2024-01-01' AND at < '2024-01-02';
ALTER TABLE readings ALTER COLUMN at TYPE date;
SELECT count(*) FROM readings;
-- A view stands on the column.
CREATE VIEW seen AS SELECT device FROM readings;
ALTER TABLE readings ALTER COLUMN device TYPE int;
DROP VIEW seen;
-- Numbers of a sequence go on.
CREATE TABLE numbered (id serial PRIMARY KEY, what text);
INSERT INTO numbered (what) VALUES ('a'), ('b');
ALTER TABLE numbered ALTER COLUMN id TYPE bigint;
INSERT INTO numbered (what) VALUES ('c') RETURNING id;
BEGIN;
SELECT count(*) FROM numbered;
COMMIT;
DROP TABLE orders;
DROP TABLE readings;
DROP TABLE numbered;
