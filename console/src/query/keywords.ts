// Words of the languages, for colours, completion, and names that need quotes.

const words = (text: string) => text.trim().split(/\s+/);

export const INFLUXQL_KEYWORDS = words(`
  ALL ALTER ANALYZE AND ANY AS ASC BEGIN BY CARDINALITY CREATE CONTINUOUS DATABASE DATABASES DEFAULT DELETE DESC DESTINATIONS
  DIAGNOSTICS DISTINCT DROP DURATION END EVERY EXACT EXPLAIN FIELD FOR FROM FUTURE GRANT GRANTS GROUP GROUPS IN INF INSERT INTO KEY
  KEYS KILL LIMIT SHOW MEASUREMENT MEASUREMENTS NAME OFFSET ON ORDER PASSWORD PAST POLICY POLICIES PRIVILEGES QUERIES QUERY READ
  REPLICATION RESAMPLE RETENTION REVOKE SELECT SERIES SET SHARD SHARDS SLIMIT SOFFSET STATS SUBSCRIPTION SUBSCRIPTIONS TAG TO
  USER USERS VALUES WHERE WITH WRITE OR FILL`);

export const INFLUXQL_FUNCTIONS = words(`
  count distinct integral mean median mode spread stddev sum bottom first last max min percentile sample top abs acos asin atan
  atan2 ceil cos cumulative_sum derivative difference elapsed exp floor ln log log2 log10 moving_average
  non_negative_derivative non_negative_difference pow round sin sqrt tan holt_winters time fill`);

export const SQL_KEYWORDS = words(`
  ADD ALL ALTER ANALYZE AND ANY AS ASC BETWEEN BY CASE CAST COLUMN CONFLICT CREATE CROSS DATABASE DEFAULT DELETE DESC DISTINCT DO
  DROP ELSE END EXISTS EXPLAIN FALSE FILTER FIRST FROM FULL GROUP HAVING IF ILIKE IN INNER INSERT INTERVAL INTO IS JOIN KEY LAST
  LATERAL LEFT LIKE LIMIT NATURAL NOT NULL NULLS OF OFFSET ON OR ORDER OUTER OVER PARTITION PRIMARY RETURNING RIGHT ROW ROWS
  SELECT SET SHOW TABLE THEN TRUE TRUNCATE UNDO UNION UPDATE USING VALUES VIEW WHEN WHERE WINDOW WITH`);

export const SQL_FUNCTIONS = words(`
  abs array_agg avg bool_and bool_or ceil coalesce count date_bin date_part date_trunc extract first_value floor greatest lag
  last_value lead least length ln log lower max median min now nullif percentile_cont power rank regexp_match replace round
  row_number split_part sqrt stddev string_agg substr sum to_char to_timestamp trim upper var_pop`);

/** What the console puts in place before it sends a query. */
export const VARIABLES = [
  { label: "$timeFilter", detail: "the chosen range, as a condition on time" },
  { label: "$interval", detail: "an interval that suits the range and the screen" },
  { label: "$from", detail: "the beginning of the range" },
  { label: "$to", detail: "the end of the range" },
];

export const INFLUXQL_RESERVED: ReadonlySet<string> = new Set(INFLUXQL_KEYWORDS);
