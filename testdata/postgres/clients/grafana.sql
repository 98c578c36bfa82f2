-- grafana/grafana: grafana-postgresql-datasource, what its editors ask (`postgresMetaQuery.ts`) and what its macros become (`macros.go`).

-- the version
-- types differ
SELECT current_setting('server_version_num')::int/100 as version;

-- whether there is TimescaleDB
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';

-- whether it is healthy
-- types differ
SELECT 1;

-- schemas; nyala has one for each policy, too
-- only name = public
SELECT schema_name AS "name"
    FROM information_schema.schemata
    WHERE schema_name NOT IN ('information_schema',
                              'pg_catalog',
                              'pg_toast',
                              '_timescaledb_cache',
                              '_timescaledb_catalog',
                              '_timescaledb_internal',
                              '_timescaledb_config',
                              'timescaledb_information',
                              'timescaledb_experimental')
    ORDER BY schema_name;

-- tables of a schema
SELECT quote_ident(table_name) AS "table"
      FROM information_schema.tables
      WHERE quote_ident(table_schema) = 'public'
      ORDER BY 1;

-- tables
SELECT
    CASE WHEN 
          quote_ident(table_schema) IN (
          SELECT
            CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          )
      THEN quote_ident(table_name)
      ELSE quote_ident(table_schema) || '.' || quote_ident(table_name)
    END AS "table"
    FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN ('information_schema',
                             'pg_catalog',
                             '_timescaledb_cache',
                             '_timescaledb_catalog',
                             '_timescaledb_internal',
                             '_timescaledb_config',
                             'timescaledb_information',
                             'timescaledb_experimental')
    ORDER BY CASE WHEN 
          quote_ident(table_schema) IN (
          SELECT
            CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          ) THEN 0 ELSE 1 END, 1;

-- tables, as before version 10.2
SELECT quote_ident(table_name) AS "table" FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental')
      AND table_type = 'BASE TABLE'
      AND 
          quote_ident(table_schema) IN (
          SELECT
            CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          )
    ORDER BY 1;

-- columns
-- unordered
SELECT quote_ident(column_name) AS "column", data_type AS "type"
    FROM information_schema.columns
    WHERE
      CASE WHEN array_length(parse_ident('t'),1) = 2
        THEN quote_ident(table_schema) = (parse_ident('t'))[1]
          AND quote_ident(table_name) = (parse_ident('t'))[2]
        ELSE quote_ident(table_name) = 't'
          AND 
          quote_ident(table_schema) IN (
          SELECT
            CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          )
      END;

-- columns of a table with its schema
-- unordered
SELECT quote_ident(column_name) AS "column", data_type AS "type"
    FROM information_schema.columns
    WHERE
      CASE WHEN array_length(parse_ident('public.s'),1) = 2
        THEN quote_ident(table_schema) = (parse_ident('public.s'))[1]
          AND quote_ident(table_name) = (parse_ident('public.s'))[2]
        ELSE quote_ident(table_name) = 'public.s'
          AND 
          quote_ident(table_schema) IN (
          SELECT
            CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          )
      END;

-- $__time and $__timeFilter, as the builder of queries writes them
SELECT "time" AS "time", value FROM reading WHERE "time" BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' ORDER BY time, value LIMIT 50;

-- $__timeEpoch
-- zeros behind the point differ
-- without time
SELECT extract(epoch from time) as "time", value FROM reading WHERE time BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' ORDER BY 1, value;

-- $__timeFrom and $__timeTo
SELECT count(*) FROM reading WHERE time >= '2024-03-01T10:00:00Z' AND time <= '2024-03-01T10:07:59.999Z';

-- $__timeGroupAlias
-- types differ
SELECT floor(extract(epoch from time)/300)*300 AS "time", host, avg(value) AS value FROM reading WHERE time BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' GROUP BY 1, 2 ORDER BY 1, 2;

-- $__timeGroup by its text
-- types differ
SELECT floor(extract(epoch from time)/60)*60 AS "time", host AS metric, sum(value) FROM reading WHERE time BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' GROUP BY floor(extract(epoch from time)/60)*60, host ORDER BY floor(extract(epoch from time)/60)*60, host;

-- $__timeGroup of less than a second
-- zeros behind the point differ
-- without time
SELECT floor(extract(epoch from time)/0.5)*0.5 AS "time", count(value) FROM reading WHERE time BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' GROUP BY time ORDER BY 1;

-- $__timeGroup in a window
-- types differ
SELECT floor(extract(epoch from time)/60)*60 AS time, lag(sum(value)) OVER (ORDER BY floor(extract(epoch from time)/60)*60) AS before FROM reading WHERE time BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' GROUP BY 1 ORDER BY 1;

-- $__unixEpochFilter
SELECT epoch AS time, value FROM reading WHERE epoch >= 1709287200 AND epoch <= 1709287679 ORDER BY 1, 2;

-- $__unixEpochNanoFilter, $__unixEpochNanoFrom and $__unixEpochNanoTo
SELECT epoch*1000000000 AS time, value, 1709287200000000000 AS "from", 1709287679999000000 AS "to" FROM reading WHERE epoch*1000000000 >= 1709287200000000000 AND epoch*1000000000 <= 1709287679999000000 ORDER BY 1, 2;

-- $__unixEpochGroupAlias
SELECT floor((epoch)/60)*60 AS "time", avg(value) FROM reading WHERE epoch >= 1709287200 AND epoch <= 1709287679 GROUP BY 1 ORDER BY 1;

-- values of a variable
SELECT DISTINCT host AS __text, host AS __value FROM reading ORDER BY 1;

-- a variable with several values
SELECT time, value FROM reading WHERE host IN ('a','b') AND time BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' ORDER BY 1, 2;

-- annotations
SELECT time as time, what as text, host as tags FROM reading JOIN s ON s.pos = value WHERE time BETWEEN '2024-03-01T10:00:00Z' AND '2024-03-01T10:07:59.999Z' ORDER BY 1, 2;
