//! What people see in psql.

use super::hostile::{Raw, TIMEOUT};
use super::server::Server;
use super::statements::does;
use super::transactions::fails;
use super::{certificate, peers};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// psql, if it is there.
pub(crate) fn program() -> Option<String> {
    let program = std::env::var("NYALA_PSQL").unwrap_or_else(|_| "psql".to_owned());
    let found = peers::works(&program, &["--version"]).then_some(program);
    peers::require("psql", "install postgresql-client, or say where it is in NYALA_PSQL", found)
}

/// psql about to connect.
pub(crate) fn command(program: &str, server: &Server, settings: &str) -> Command {
    let (host, port) = (server.address.ip(), server.address.port());
    let mut command = Command::new(program);
    command.args(["--no-psqlrc", "--no-align", "--no-password", "--dbname"]);
    command.arg(format!("host={host} port={port} {settings}"));
    // Nothing of whoever runs the tests.
    let own = ["PGUSER", "PGDATABASE", "PGOPTIONS", "PGSSLMODE", "PGPASSFILE", "PGPASSWORD", "PGSERVICE"];
    for name in own {
        command.env_remove(name);
    }
    // psql speaks the language of whoever runs it.
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

fn run(program: &str, server: &Server, settings: &str, statements: &[&str]) -> Output {
    let mut command = command(program, server, settings);
    command.args(statements.iter().flat_map(|statement| ["--command", statement]));
    command.output().expect("it runs")
}

/// What psql prints, errors included.
pub(crate) fn printed(program: &str, server: &Server, settings: &str, statements: &[&str]) -> String {
    let output = run(program, server, settings, statements);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Statements of `testdata/postgres/tables.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn tables_are_defined_and_changed_as_by_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "tables", &["--quiet"]);
}

/// Statements of `testdata/postgres/cursors.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn cursors_go_forward_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "cursors", &[]);
}

/// Statements of `testdata/postgres/scroll.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn cursors_go_back_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "scroll", &[]);
}

/// Statements of `testdata/postgres/current_of.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn the_row_of_a_cursor_is_changed_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "current_of", &[]);
}

/// Statements of `testdata/postgres/savepoints.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn transactions_go_back_to_savepoints_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "savepoints", &[]);
}

/// Statements of `testdata/postgres/indexes.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn indexes_keep_rows_apart_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "indexes", &[]);
}

/// Statements of `testdata/postgres/definitions.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn transactions_define_tables_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "definitions", &[]);
}

/// Statements of `testdata/postgres/temporary.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn sessions_have_temporary_tables_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "temporary", &[]);
}

/// Statements of `testdata/postgres/uuid_json.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn columns_have_uuids_and_json_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "uuid_json", &[]);
}

/// Statements of `testdata/postgres/second_digits.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn times_keep_as_many_digits_as_their_type_has() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "second_digits", &[]);
}

/// Statements of `testdata/postgres/key_types.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn keys_and_indexes_get_other_types_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "key_types", &[]);
}

/// Statements of `testdata/postgres/create_as.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn tables_of_queries_get_names_of_columns_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "create_as", &[]);
}

/// Statements of `testdata/postgres/primary_keys.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn tables_get_keys_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "primary_keys", &[]);
}

/// Statements of `testdata/postgres/advisory_locks.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn psql_locks_what_applications_agree_upon_as_postgresql_does() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "advisory_locks", &[]);
}

/// Statements of `testdata/postgres/sequences.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn sequences_number_rows_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "sequences", &[]);
}

/// Statements of `testdata/postgres/with_changes.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn parts_of_a_statement_change_rows_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "with_changes", &[]);
}

/// Statements of `testdata/postgres/prepare.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn statements_are_kept_by_name_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "prepare", &[]);
}

/// Statements of `testdata/postgres/settings.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn settings_and_times_of_a_transaction_are_as_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "settings", &[]);
}

/// Statements of `testdata/postgres/conditions.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn conditions_and_casts_mean_what_they_do_in_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "conditions", &[]);
}

/// Statements of `testdata/postgres/deparsed.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn defaults_and_checks_are_shown_as_by_postgresql() {
    let Some(psql) = program() else { return };
    compare(&psql, &Server::start(&[]), "deparsed", &[]);
}

/// Statements of `testdata/postgres/joins.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn joins_have_one_column_for_both_sides_as_in_postgresql() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    compare(&psql, &server, "joins", &[]);
    // Which table has the column is not known before names are looked up.
    let mut raw = Raw::open(server.address);
    does(&mut raw, &["CREATE TABLE a (k int, n int)", "CREATE TABLE b (k int)", "CREATE TABLE c (n int)"]);
    for statement in [
        "SELECT k FROM a NATURAL RIGHT JOIN b",
        "SELECT k FROM a NATURAL FULL JOIN b",
        "SELECT n FROM b JOIN a USING (k) RIGHT JOIN c USING (n)",
        "SELECT * FROM c NATURAL LEFT JOIN a",
    ] {
        fails(&mut raw, statement, "0A000");
    }
}

/// Statements of `testdata/postgres/zones.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn times_are_shown_and_read_in_the_zone_of_the_session() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    compare(&psql, &server, "zones", &["--quiet"]);
    let ask = |statements: &[&str]| printed(&psql, &server, "user=me dbname=d", statements);
    let zone = "SET TimeZone = 'America/New_York'";
    assert_eq!(
        ask(&[
            zone,
            "SELECT time, time::date AS d FROM cpu WHERE time < '1969-12-31 19:00:02' ORDER BY time"
        ]),
        "SET\ntime|d\n1969-12-31 19:00:01-05|1969-12-31\n(1 row)\n"
    );
    assert_eq!(
        ask(&[zone, "SELECT date_trunc('day', time) AS day, count(*) FROM cpu GROUP BY 1"]),
        "SET\nday|count\n1969-12-31 00:00:00-05|3\n(1 row)\n"
    );
    // A plan is not used again in another zone.
    let query = "SELECT count(*) AS n FROM cpu WHERE time < '1970-01-01 00:00:02'";
    assert_eq!(ask(&[query, zone, query]), "n\n1\n(1 row)\nSET\nn\n3\n(1 row)\n");
}

/// Compares what statements of a file answer with what PostgreSQL answered.
pub(crate) fn compare(psql: &str, server: &Server, name: &str, options: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/postgres");
    let directory = tempfile::tempdir().expect("a directory");
    let answers = directory.path().join("answers");
    let file = std::fs::File::create(&answers).expect("a file");
    let mut command = command(psql, server, "user=me dbname=d");
    command.args(["--tuples-only", "--echo-all", "--set=VERBOSITY=sqlstate"]).args(options);
    command.stdin(std::fs::File::open(folder.join(format!("{name}.sql"))).expect("statements"));
    command.stdout(file.try_clone().expect("a file")).stderr(file);
    assert!(command.status().expect("it runs").success());
    let answers = std::fs::read_to_string(answers).expect("answers");
    let expected = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("answers");
    let mut lines = answers.lines().zip(expected.lines()).enumerate();
    if let Some((number, (got, wanted))) = lines.find(|(_, (got, wanted))| got != wanted) {
        panic!("line {}: {got:?} instead of {wanted:?}", number + 1);
    }
    assert_eq!(answers.lines().count(), expected.lines().count());
}

#[test]
fn a_notice_says_how_a_change_is_undone() {
    let Some(psql) = program() else { return };
    let server = Server::start(&["--history", "15m"]);
    let ask = |statements: &[&str]| printed(&psql, &server, "user=me dbname=d", statements);
    let update = "UPDATE cpu SET usage = 7 WHERE host = 'a'";
    let notice = "UPDATE 1\nNOTICE:  change 1\nHINT:  UNDO 1 takes it back.\n";
    assert_eq!(ask(&[update]), notice);
    let usage = "SELECT usage FROM cpu WHERE host = 'a'";
    let undone = "change|points|cells|left_alone\n2|1|1|0\n(1 row)\nusage\n1.5\n(1 row)\n";
    assert_eq!(ask(&["UNDO 1", usage]), undone);
    assert_eq!(ask(&["SET client_min_messages = warning", update]), "SET\nUPDATE 1\n");
    let listed = ask(&["SHOW CHANGES"]);
    assert!(listed.starts_with("change|time|database|user|points|statement\n1|"), "{listed}");
    assert!(listed.ends_with("|d||1|UPDATE cpu SET usage = 7 WHERE host = 'a'\n(3 rows)\n"), "{listed}");
    let refused = ask(&["BEGIN", "UNDO 1"]);
    assert!(refused.contains("UNDO cannot run inside a transaction block"), "{refused}");
}

#[test]
fn psql_shows_measurements_values_and_errors() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    let ask = |statements: &[&str]| printed(&psql, &server, "user=me dbname=d", statements);
    assert_eq!(
        ask(&["SELECT * FROM cpu ORDER BY time"]),
        "time|host|n|s|up|usage|time_ns\n\
         1970-01-01 00:00:01+00|a|3|x y|t|1.5|1000000000\n\
         1970-01-01 00:00:02+00|b||||2.5|2000000000\n\
         1970-01-01 00:00:03+00||-5|||-0.1|3000000001\n(3 rows)\n"
    );
    assert_eq!(
        ask(&["SELECT host, max(usage) AS m FROM cpu GROUP BY host ORDER BY m"]),
        "host|m\n|-0.1\na|1.5\nb|2.5\n(3 rows)\n"
    );
    // Several statements in one text, and one that fails between others.
    assert_eq!(ask(&["SELECT 1 AS a; SELECT 'b' AS b, NULL AS c"]), "a\n1\n(1 row)\nb|c\nb|\n(1 row)\n");
    let failing = ask(&["SELECT 1 AS a; SELECT 1/0; SELECT 2 AS never"]);
    assert_eq!(failing, "a\n1\n(1 row)\nERROR:  division by zero\n");
    // psql marks the place of an error.
    assert_eq!(
        ask(&["SELECT usage, nothing FROM cpu"]),
        "ERROR:  column \"nothing\" does not exist\nLINE 1: SELECT usage, nothing FROM cpu\n                      ^\n"
    );
    let unknown = ask(&["\\set VERBOSITY verbose", "SELECT * FROM nowhere"]);
    assert!(unknown.starts_with("ERROR:  42P01: relation \"nowhere\" does not exist"), "{unknown}");
    let values = "SELECT interval '1 month 2 days 3 hours' AS i, date '2024-02-29' AS d, 1.50::numeric(6,2) AS n, \
                  array[1, NULL, 3] AS l, 'x'::bytea AS b, 'NaN'::float8 AS f";
    assert_eq!(
        ask(&[values]),
        "i|d|n|l|b|f\n1 mon 2 days 03:00:00|2024-02-29|1.50|{1,NULL,3}|\\x78|NaN\n(1 row)\n"
    );
    let transaction = ask(&["BEGIN", "SELECT 1/0", "SELECT 1 AS a", "ROLLBACK", "SELECT 2 AS b"]);
    assert!(transaction.starts_with("BEGIN\nROLLBACK\nb\n2\n(1 row)\n"), "{transaction}");
    assert!(transaction.contains("current transaction is aborted"), "{transaction}");
}

#[test]
fn psql_logs_in_and_sees_only_what_is_granted() {
    let Some(psql) = program() else { return };
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    server.ask("CREATE DATABASE other");
    server.ask("CREATE USER bob WITH PASSWORD 'bob\\'s'");
    server.ask("GRANT READ ON d TO bob");
    let ask = |settings: &str, statement: &str| printed(&psql, &server, settings, &[statement]);
    assert_eq!(ask("user=ann password=pencil dbname=d", "SELECT 1 AS a"), "a\n1\n(1 row)\n");
    assert_eq!(
        ask("user=bob password='bob\\'s' dbname=d", "SELECT count(*) AS n FROM cpu"),
        "n\n3\n(1 row)\n"
    );
    for user in ["ann", "bob", "nobody"] {
        let refused = ask(&format!("user={user} password=wrong dbname=d"), "SELECT 1");
        assert!(
            refused.contains(&format!("password authentication failed for user \"{user}\"")),
            "{refused}"
        );
    }
    assert!(server.process.log().contains("a log-in failed"), "{}", server.process.log());
    assert!(server.process.log().contains("user=\"nobody\""), "{}", server.process.log());
    let refused = ask("user=bob password='bob\\'s' dbname=other", "SELECT 1");
    assert!(refused.contains("permission denied for database \"other\""), "{refused}");
    let refused = ask("user=ann password=pencil dbname=nowhere", "SELECT 1");
    assert!(refused.contains("database \"nowhere\" does not exist"), "{refused}");
    // A new password makes the old one invalid, and so does the end of the user.
    server.ask("SET PASSWORD FOR bob = 'new'");
    assert!(ask("user=bob password='bob\\'s' dbname=d", "SELECT 1").contains("authentication failed"));
    assert_eq!(ask("user=bob password=new dbname=d", "SELECT 1 AS a"), "a\n1\n(1 row)\n");
    server.ask("DROP USER bob");
    assert!(ask("user=bob password=new dbname=d", "SELECT 1").contains("authentication failed"));
}

#[test]
fn a_session_loses_what_is_revoked() {
    let Some(psql) = program() else { return };
    let found = peers::works("curl", &["--version"]).then_some(());
    if peers::require("curl", "install curl", found).is_none() {
        return;
    }
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    server.ask("CREATE USER bob WITH PASSWORD 'secret'");
    server.ask("GRANT READ ON d TO bob");
    let change = |text: &str| {
        let (address, text) = (server.process.address, super::client::percent_encode(text));
        format!(
            "\\! curl --silent --output /dev/null -XPOST 'http://{address}/query?u=ann&p=pencil&q={text}'"
        )
    };
    let (revoke, drop) = (change("REVOKE READ ON d FROM bob"), change("DROP USER bob"));
    let count = "SELECT count(*) AS n FROM cpu";
    let settings = "user=bob password=secret dbname=d";
    let text = printed(&psql, &server, settings, &[count, &revoke, count, &drop, "SELECT 1 AS a"]);
    assert!(text.starts_with("n\n3\n(1 row)\nERROR:  "), "{text}");
    assert!(text.contains("user \"bob\" was dropped"), "{text}");
    assert_eq!(text.matches("ERROR").count(), 2, "{text}");
}

#[test]
fn a_password_without_a_verifier_is_sent_inside_tls() {
    let Some(psql) = program() else { return };
    if !certificate::has_openssl() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = (directory.path().join("c.pem"), directory.path().join("k.pem"));
    certificate::make(&certificate, &key);
    let (certificate, key) = (certificate.to_str().expect("text"), key.to_str().expect("text"));
    let address = super::client::free_address().to_string();
    let data = directory.path().join("data");
    let process = super::process::Process::spawn(
        &data,
        &[
            "--postgres-bind",
            &address,
            "--auth-enabled",
            "--https-certificate",
            certificate,
            "--https-private-key",
            key,
        ],
    );
    let address = address.parse().expect("an address");
    let server = Server::of(process, address, directory);
    let begun = Instant::now();
    while !printed(&psql, &server, "user=x dbname=x", &["SELECT 1"]).contains("no administrator yet") {
        assert!(begun.elapsed() < TIMEOUT, "{}", server.process.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let created = Command::new("curl")
        .args(["--silent", "--show-error", "--insecure", "--data-urlencode"])
        .arg("q=CREATE USER ann WITH PASSWORD 'pencil' WITH ALL PRIVILEGES")
        .arg(format!("https://{}/query", server.process.address))
        .output();
    let Some(created) = peers::require("curl", "install curl", created.ok()) else { return };
    assert!(created.status.success(), "{created:?}");
    let secure = format!("user=ann dbname=postgres sslmode=verify-full sslrootcert={certificate}");
    let answer =
        printed(&psql, &server, &format!("{secure} password=pencil"), &["SELECT 1 AS a", "\\conninfo"]);
    assert!(answer.starts_with("a\n1\n(1 row)\n") && answer.contains("TLSv1.3"), "{answer}");
    let refused = printed(&psql, &server, &format!("{secure} password=wrong"), &["SELECT 1"]);
    assert!(refused.contains("password authentication failed for user \"ann\""), "{refused}");
}

/// SCRAM cannot carry a token, whose user may log in by nothing else.
#[test]
fn a_token_is_a_login_of_its_own() {
    let Some(psql) = program() else { return };
    let server = Server::start(&["--auth-enabled", "--scram-iterations", "4096"]);
    server.ask("CREATE USER bob WITH PASSWORD 'secret'");
    server.ask("GRANT ALL ON d TO bob");
    let created = server.ask("CREATE TOKEN ci FOR bob ON d READ");
    let begin = created.find("nyala_").expect("a secret");
    let token = created[begin..].split('"').next().expect("its end");
    let ask = |settings: &str, statement: &str| printed(&psql, &server, settings, &[statement]);
    let by_scram = ask(&format!("user=bob password={token} dbname=d"), "SELECT 1");
    assert!(by_scram.contains("password authentication failed for user \"bob\""), "{by_scram}");
    let settings = format!("user=token password={token} dbname=d");
    assert_eq!(
        ask(&settings, "SELECT count(*) AS n, current_user FROM cpu"),
        "n|current_user\n3|bob\n(1 row)\n"
    );
    let refused = ask(&settings, "CREATE TABLE t (a int)");
    assert!(refused.contains("permission denied"), "{refused}");
    for wrong in ["secret", "nyala_wrong"] {
        let refused = ask(&format!("user=token password={wrong} dbname=d"), "SELECT 1");
        assert!(refused.contains("password authentication failed for user \"token\""), "{refused}");
    }
    server.ask("DROP TOKEN ci");
    assert!(ask(&settings, "SELECT 1").contains("authentication failed"));
    // A user of that name is that user.
    server.ask("CREATE USER token WITH PASSWORD 'of its own'");
    server.ask("GRANT READ ON d TO token");
    assert_eq!(
        ask("user=token password='of its own' dbname=d", "SELECT current_user AS a"),
        "a\ntoken\n(1 row)\n"
    );
}

/// A statement that computes for minutes.
pub(crate) const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b \
                                  WHERE a * b % 7 = 3";

#[test]
fn ctrl_c_cancels_the_statement() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    let mut command = command(&psql, &server, "user=me dbname=d");
    let child = command
        .args(["--command", ENDLESS])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let begun = Instant::now();
    while !server.process.query("SHOW QUERIES").to_string().contains("generate_series") {
        assert!(begun.elapsed() < TIMEOUT, "the statement does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains("ERROR:  canceling statement due to user request"), "{text}");
    assert!(!server.process.query("SHOW QUERIES").to_string().contains("generate_series"));
}

#[test]
fn a_transaction_cannot_commit_rows_of_an_old_definition() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    let settings = "user=me dbname=d";
    let ask = |statements: &[&str]| printed(&psql, &server, settings, statements);
    ask(&["CREATE TABLE t (id int PRIMARY KEY, n int, s text)", "INSERT INTO t VALUES (1, 1, 'a')"]);
    let (host, port) = (server.address.ip(), server.address.port());
    let during = |change: &str, alter: &str| {
        let other = format!("\\! {psql} -X -q -d 'host={host} port={port} {settings}' -c '{alter}' 2>&1");
        ask(&["BEGIN", change, &other, "COMMIT"])
    };
    for alter in [
        "ALTER TABLE t ADD CHECK (n < 5)",
        "ALTER TABLE t ALTER s SET NOT NULL",
        "ALTER TABLE t ADD c int NOT NULL DEFAULT 3",
    ] {
        let printed = during("INSERT INTO t VALUES (2, 4, $$b$$)", alter);
        assert!(printed.contains("could not serialize access"), "{alter}: {printed}");
        assert!(ask(&["SELECT count(*) FROM t"]).contains("\n1\n"), "{alter}");
    }
    // Other names change nothing for rows.
    let printed = during("INSERT INTO t VALUES (2, 3, $$b$$, 4)", "ALTER TABLE t RENAME s TO r");
    assert_eq!(printed, "BEGIN\nINSERT 0 1\nCOMMIT\n");
    // A transaction sees the columns of now, unless it began before they were there.
    let printed = during("SELECT * FROM t", "ALTER TABLE t ADD d int");
    assert!(printed.ends_with("(2 rows)\nCOMMIT\n"), "{printed}");
    assert_eq!(ask(&["SELECT * FROM t ORDER BY id"]), "id|n|r|c|d\n1|1|a|3|\n2|3|b|4|\n(2 rows)\n");
}

#[test]
fn definitions_and_points_in_a_series_commit_what_came_before() {
    let Some(psql) = program() else { return };
    let server = Server::start(&[]);
    let ask = |statements: &[&str]| printed(&psql, &server, "user=me dbname=d", statements);
    let series = "CREATE TABLE s (id int PRIMARY KEY); INSERT INTO s VALUES (1); INSERT INTO s VALUES (1)";
    assert!(ask(&[series]).contains("duplicate key value"), "{series}");
    assert_eq!(ask(&["SELECT count(*) FROM s"]), "count\n0\n(1 row)\n");
    let point = "INSERT INTO cpu (time, host, usage) VALUES ('2024-01-01', 'series', 7)";
    for stands_alone in [point, "CREATE TABLE other (id int PRIMARY KEY)"] {
        let series =
            format!("INSERT INTO s VALUES (2); {stands_alone}; INSERT INTO s VALUES (3); SELECT 1/0");
        assert!(ask(&[&series]).contains("division by zero"), "{series}");
        assert_eq!(ask(&["SELECT * FROM s", "DELETE FROM s"]), "id\n2\n(1 row)\nDELETE 1\n");
    }
    assert_eq!(ask(&["SELECT usage FROM cpu WHERE host = 'series'"]), "usage\n7\n(1 row)\n");
}

/// What pg_dump says of the tables of `testdata/postgres/dump.sql`, without comments: what a real PostgreSQL 15 has answered. Restored, it
/// is the same again.
#[test]
fn pg_dump_takes_tables_out_as_from_postgresql() {
    let Some(psql) = program() else { return };
    let dumps = "pg_dump";
    // Another version writes other words.
    let version = Command::new(dumps).arg("--version").output().map(|output| output.stdout);
    let is_it = version.is_ok_and(|version| String::from_utf8_lossy(&version).contains("(PostgreSQL) 15."));
    let Some(dumps) = peers::require("pg_dump 15", "install postgresql-client-15", is_it.then_some(dumps))
    else {
        return;
    };
    let server = Server::start(&[]);
    let dumped = |database: &str, options: &[&str]| {
        let mut dump = Command::new(dumps);
        dump.args(["--no-owner", "--no-password", "--host", &server.address.ip().to_string()]).args(options);
        dump.args(["--port", &server.address.port().to_string(), "--username", "me", database]);
        let output = dump.stdin(Stdio::null()).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    // Comments name versions, and what a newer psql obeys is another word each time.
    let is_told = |line: &&str| {
        !(line.is_empty()
            || line.starts_with("--")
            || line.starts_with("\\restrict")
            || line.starts_with("\\unrestrict"))
    };
    let told = |text: &str| text.lines().filter(is_told).map(str::to_owned).collect::<Vec<String>>();
    for database in ["taken", "back"] {
        server.ask(&format!("CREATE DATABASE {database}"));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/postgres");
    let fed = |database: &str, file: &Path| {
        let mut command = command(&psql, &server, &format!("user=me dbname={database}"));
        command.args(["--set=ON_ERROR_STOP=1", "--quiet", "--file"]).arg(file);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    fed("taken", &folder.join("dump.sql"));
    // A database of tables alone has a retention policy, which is a schema.
    let tables = ["--exclude-schema=autogen"];
    let first = dumped("taken", &tables);
    let expected = std::fs::read_to_string(folder.join("dump.txt")).expect("answers");
    assert_eq!(told(&first), told(&expected));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("dump");
    std::fs::write(&file, &first).expect("a file");
    fed("back", &file);
    assert_eq!(told(&dumped("back", &tables)), told(&expected));
    let inserts = dumped("taken", &["--inserts", "--table=event"]);
    assert!(inserts.contains("INSERT INTO public.event VALUES (2, 'stopped');"), "{inserts}");
    // Measurements are tables, too, and views name the schemas of what they read.
    let view = "CREATE VIEW seen AS SELECT c.host, r.name FROM cpu c JOIN room r ON r.name = c.host";
    server.ask("CREATE DATABASE measured");
    assert_eq!(
        server.process.send("POST", "/write?db=measured", b"cpu,host=a usage=1.5 5").unwrap().status,
        204
    );
    printed(&psql, &server, "user=me dbname=measured", &["CREATE TABLE room (name text)", view]);
    let dump = dumped("measured", &[]);
    assert!(dump.contains("FROM autogen.cpu c JOIN public.room r ON"), "{dump}");
    assert!(dump.contains("\n1970-01-01 00:00:00.000000005+00\ta\t1.5\t5\n"), "{dump}");
}
