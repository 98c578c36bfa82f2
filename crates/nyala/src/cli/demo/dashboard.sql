CREATE TABLE IF NOT EXISTS nyala_dashboards (name text PRIMARY KEY, version bigint NOT NULL, definition text NOT NULL);
INSERT INTO nyala_dashboards VALUES ('NAME', 1, 'DEFINITION') ON CONFLICT (name) DO UPDATE SET definition = excluded.definition
