//! COPY, export and import with objects of S3: a server of its protocol (moto), which can be slow, refuse and be cut off.
//! `NYALA_PYTHON` names a Python that has it.

use super::objects::Objects;
use super::sql::{answer, changed, code, done, number};
use super::{EVERY_TYPE, Fixture, Outcome, rows, run_with, write_every_type};

/// A server of nyala that may use a part of the bucket.
fn start() -> Option<(Objects, Fixture)> {
    let objects = Objects::start()?;
    let variables = objects.variables();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let fixture = Fixture::start_in(&["--files-s3", "s3://archive/nyala"], &variables);
    Some((objects, fixture))
}

fn command(objects: &Objects, fixture: &Fixture, command: &[&str], arguments: &[&str]) -> Outcome {
    let port = fixture.server.address.port().to_string();
    let options = ["--port", &port, "-d", "d"];
    run_with(fixture.directory.path(), &[command, &options, arguments].concat(), &objects.variables())
}

#[test]
fn rows_go_to_objects_and_come_back() {
    let Some((objects, fixture)) = start() else { return };
    let server = &fixture.server;
    write_every_type(server, "t");
    let expected = rows(server, "t");
    for (place, options) in ["(FORMAT parquet)", "(FORMAT csv, HEADER)"].into_iter().enumerate() {
        let (url, table) = (format!("s3://archive/nyala/sub/{place}"), format!("t{place}"));
        assert_eq!(changed(server, &format!("COPY t TO '{url}' {options}")), 6);
        done(server, &format!("CREATE TABLE {table} {EVERY_TYPE}"));
        assert_eq!(changed(server, &format!("COPY {table} FROM '{url}' {options}")), 6);
        assert_eq!(rows(server, &table), expected, "{options}");
    }
    assert_eq!(code(server, "COPY t FROM 's3://archive/nyala/missing' (FORMAT csv)"), "58P01");
    // By values of a column, which a second time is not empty any more.
    let by_flag = "COPY t TO 's3://archive/nyala/by' (FORMAT parquet, PARTITION_BY (flag))";
    assert_eq!(changed(server, by_flag), 6);
    assert_eq!(code(server, by_flag), "58P02");
    done(server, &format!("CREATE TABLE by_flag {EVERY_TYPE}"));
    let printed =
        command(&objects, &fixture, &["import", "parquet"], &["--table", "by_flag", "s3://archive/nyala/by"])
            .printed();
    assert!(printed.starts_with("6 rows of 3 files"), "{printed}");
    assert_eq!(rows(server, "by_flag"), expected);
    assert_eq!(objects.uploads(), "0");
}

#[test]
fn only_what_the_operator_allows_is_asked_for() {
    let Some((objects, fixture)) = start() else { return };
    let server = &fixture.server;
    done(server, "CREATE TABLE t (id int PRIMARY KEY)");
    // Whatever is asked of the server of objects, it would fail.
    objects.fail("403", 1);
    for url in [
        "s3://archive/t",
        "s3://archive/nyala",
        "s3://archive/nyalab/t",
        "s3://other/nyala/t",
        "s3://archive/nyala/../t",
        "s3://archive/nyala/a/../../t",
        "s3://archive/nyala/",
        "s3://archive@localhost/nyala/t",
        "s3:///t",
    ] {
        assert_eq!(code(server, &format!("COPY t TO '{url}' (FORMAT csv)")), "42501", "{url}");
        assert_eq!(code(server, &format!("COPY t FROM '{url}' (FORMAT csv)")), "42501", "{url}");
    }
    let refused = answer(server, "COPY t TO 's3://archive/nyala/t' (FORMAT csv)");
    assert_eq!(refused["code"], "58030", "{refused}");
    let words = refused.to_string();
    assert!(words.contains("s3://archive/nyala/t") && words.contains("AccessDenied"), "{words}");
    assert!(!words.contains("secret"), "{words}");
    let without = Fixture::start();
    done(&without.server, "CREATE TABLE t (id int)");
    let refused = answer(&without.server, "COPY t TO 's3://archive/nyala/t'");
    assert!(refused["code"] == "42501" && refused.to_string().contains("--files-s3"), "{refused}");
}

#[test]
fn a_server_of_objects_that_is_slow_or_busy_or_cut_off_is_asked_again() {
    let Some((objects, fixture)) = start() else { return };
    let server = &fixture.server;
    done(server, "CREATE TABLE t (id bigint PRIMARY KEY, a text)");
    // Large enough for several parts.
    let insert =
        "INSERT INTO t SELECT n, repeat(CAST(n * 7919 AS text), 20) FROM generate_series(1, 150000) AS n";
    assert_eq!(changed(server, insert), 150_000);
    for (kind, count) in [("503", 3), ("slow", 4), ("lost", 2), ("cut", 2), ("503", 1)] {
        let url = format!("s3://archive/nyala/{kind}-{count}.csv");
        // An answer to a request that writes is short: that it is cut off is not told from being lost.
        objects.fail(if kind == "cut" { "lost" } else { kind }, count);
        assert_eq!(changed(server, &format!("COPY t TO '{url}' (FORMAT csv)")), 150_000, "{kind}");
        done(server, "CREATE TABLE back (id bigint PRIMARY KEY, a text)");
        objects.fail(kind, count);
        assert_eq!(changed(server, &format!("COPY back FROM '{url}' (FORMAT csv)")), 150_000, "{kind}");
        let differ = "SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM back) AS x";
        assert_eq!(number(server, differ), 0, "{kind}");
        done(server, "DROP TABLE back");
    }
    assert_eq!(objects.uploads(), "0");
    // A part that is refused ends the statement, and leaves neither an object nor parts.
    let failing = "COPY t TO 's3://archive/nyala/refused.csv' (FORMAT csv)";
    // The upload begins, and its first parts wait until one of them is to be refused.
    objects.hold_after(1);
    let refusing = std::thread::scope(|scope| {
        let running = scope.spawn(|| answer(server, failing));
        while !objects.holds() && !running.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(objects.uploads(), "1");
        objects.fail("403", 1);
        objects.drop_held();
        running.join().expect("it ends")
    });
    assert_eq!(refusing["code"], "58030", "{refusing}");
    assert_eq!(objects.uploads(), "0");
    assert_eq!(code(server, "COPY t FROM 's3://archive/nyala/refused.csv' (FORMAT csv)"), "58P01");
}

#[test]
fn exports_and_imports_of_the_command_line_know_objects() {
    let Some((objects, fixture)) = start() else { return };
    let lines = "cpu,host=a v=1.5 1767225600000000001\ncpu,host=b v=2.5 1767225600000000002\ncpu,host=a v=3.5 1767312000000000003";
    assert_eq!(fixture.server.write(lines).status, 204);
    let own = |arguments: &[&str]| command(&objects, &fixture, &[arguments[0]], &arguments[1..]);
    let to = "s3://archive/elsewhere/cpu.parquet";
    assert!(own(&["export", "--table", "cpu", to]).printed().starts_with("3 rows, "));
    let again = own(&["export", "--table", "cpu", to]);
    assert!(again.code == 1 && again.errors.contains("--overwrite"), "{again:?}");
    own(&["export", "--table", "cpu", "--overwrite", to]).printed();
    own(&["export", "--table", "cpu", "--partition-by", "host,day", "s3://archive/cpu"]).printed();
    let again = own(&["export", "--table", "cpu", "--partition-by", "host", "s3://archive/cpu"]);
    assert!(again.code == 1 && again.errors.contains("not empty"), "{again:?}");
    for (measurement, url) in [("one", to), ("many", "s3://archive/cpu/")] {
        let arguments = ["--measurement", measurement, "--tags", "host", url];
        command(&objects, &fixture, &["import", "parquet"], &arguments).printed();
    }
    let points = |name: &str| {
        super::sql::lines(&fixture.server, &format!("SELECT time_ns, host, v FROM {name} ORDER BY 1"))
    };
    assert_eq!(points("one"), points("cpu"));
    assert_eq!(points("many"), points("cpu"));
    let missing =
        command(&objects, &fixture, &["import", "parquet"], &["--measurement", "x", "s3://archive/none"]);
    assert!(missing.code == 1 && missing.errors.contains("no file that ends in .parquet"), "{missing:?}");
}
