//! What the shell says of itself.

use crate::language::Language;

/// Below the options of `nyala shell --help`.
pub const EXAMPLES: &str = "\
Examples:
  nyala shell                                        InfluxQL on http://127.0.0.1:8086
  nyala shell --sql -d home                          SQL, in the database home
  nyala shell --data-dir ./nyala-data                the data of a server that is stopped
  nyala shell --url https://db.example:8086 -u ann   asks for ann's password
  nyala shell -d home -c 'SELECT * FROM temperature LIMIT 3'
  nyala shell --sql -d home --format csv -c 'SELECT * FROM temperature' > temperature.csv
  nyala shell --sql -d home -f statements.sql        statements of a file; - is standard input
  echo 'SHOW DATABASES' | nyala shell --format json
Exit code: 0 all statements were executed, 1 one failed, 2 there was no server, or it refused the log-in.
Inside, \\? lists the commands of the shell.";

/// `\?`.
pub(crate) const COMMANDS: &str = "\
Statements
  SQL ends with a semicolon, InfluxQL with the line.
  \\sql, \\influxql          change the language
  \\watch [SECONDS [TIMES]]  repeat the last statement until Ctrl-C
  \\i FILE                   execute the statements of a file
  insert [into POLICY] LINE  write a point in line protocol (InfluxQL)
Looking around
  \\l                        databases (SHOW DATABASES)
  \\dt                       measurements, tables and views
  \\d [NAME]                 columns of a table, tags and fields of a measurement
  \\du                       users
  use NAME[.POLICY]         change the database; \\use, \\c
Printing
  \\x [on|off]               a block of lines per row
  \\format table|csv|json|line
  \\timing [on|off]          show how long statements take
  precision rfc3339|ns|u|ms|s|m|h   how InfluxQL shows times
  \\o [FILE]                 print rows into a file; without a name on the terminal again
  \\pager [on|off]           show long answers by $PAGER
The shell
  \\h                        statements there are
  history, settings, auth NAME, clear
  \\q, exit, Ctrl-D          leave
  Ctrl-C                    cancel the statement that runs, or begin the line again
";

/// `\h`.
pub(crate) fn statements(language: Language) -> &'static str {
    match language {
        Language::Influxql => "\
InfluxQL (the statements of InfluxDB 1.8, and UPDATE, DELETE, UNDO and AS OF of points)
  SELECT fields [INTO target] FROM sources [WHERE …] [GROUP BY …] [fill(…)] [ORDER BY time DESC] [LIMIT n] [OFFSET n]
         [SLIMIT n] [SOFFSET n] [tz('…')]
  SHOW DATABASES | MEASUREMENTS | SERIES | TAG KEYS | TAG VALUES | FIELD KEYS | RETENTION POLICIES | USERS | GRANTS FOR u |
       QUERIES | CONTINUOUS QUERIES | SUBSCRIPTIONS | SHARDS | STATS | DIAGNOSTICS | CHANGES |
       TOKENS | QUOTAS | STORAGE FROM m | MAINTENANCE
  CREATE | ALTER | DROP   DATABASE, RETENTION POLICY, USER, TOKEN, CONTINUOUS QUERY, SUBSCRIPTION, MEASUREMENT, SERIES,
                          SHARD
  GRANT, REVOKE, SET PASSWORD FOR, SET QUOTA FOR, KILL QUERY, EXPLAIN [ANALYZE]
",
        Language::Sql => "\
SQL (PostgreSQL's dialect)
  SELECT … FROM … [JOIN | ASOF JOIN] … [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT n] [AS OF time]
  INSERT INTO … [ON CONFLICT …] [RETURNING …], UPSERT INTO …, UPDATE … SET …, DELETE FROM …, TRUNCATE
  CREATE | ALTER | DROP   TABLE, VIEW;   COMMENT ON …
  SHOW CHANGES, UNDO n, DRY RUN UNDO n, EXPLAIN [ANALYZE]
  Functions of time series: time_bucket, time_bucket_gapfill, locf, interpolate, first, last, influxql('…')
Each statement is a request of its own: BEGIN and COPY need a client of PostgreSQL's protocol.
",
    }
}
