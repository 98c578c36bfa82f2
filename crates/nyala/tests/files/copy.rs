//! COPY to and from files of the server, over HTTP; what may not be named.

use super::sql::{answer, changed, code, done, number};
use super::{EVERY_TYPE, Fixture, names, rows, write_every_type};
use std::os::unix::fs::symlink;

#[test]
fn every_value_is_the_same_when_it_comes_back() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    write_every_type(server, "t");
    let expected = rows(server, "t");
    assert!(expected.iter().any(|row| row.contains("9999999999999999999999999999.9999999999")));
    for (place, options) in [
        "(FORMAT parquet)",
        "(FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 2)",
        "WITH (FORMAT parquet, COMPRESSION lz4)",
        "(FORMAT parquet, COMPRESSION 'none')",
        "(FORMAT csv)",
        "(FORMAT csv, HEADER, NULL 'nothing')",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let (path, table) = (format!("sub/{place}"), format!("t{place}"));
        assert_eq!(changed(server, &format!("COPY t TO '{path}' {options}")), 6, "{options}");
        done(server, &format!("CREATE TABLE {table} {EVERY_TYPE}"));
        let back =
            options.replace(", COMPRESSION snappy, ROW_GROUP_SIZE 2", "").replace(", COMPRESSION lz4", "");
        let back = back.replace(", COMPRESSION 'none'", "");
        assert_eq!(changed(server, &format!("COPY {table} FROM '{path}' {back}")), 6, "{options}");
        assert_eq!(rows(server, &table), expected, "{options}");
        // The same rows again are refused, and none of them is written.
        assert_eq!(code(server, &format!("COPY {table} FROM '{path}' {back}")), "23505");
        assert_eq!(number(server, &format!("SELECT count(*) FROM {table}")), 6);
    }
    assert_eq!(names(&fixture.file("sub")).len(), 7, "nothing else is left there");
}

#[test]
fn points_of_many_series_come_back_as_they_were() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    let mut lines = String::new();
    for number in 0..3000_u32 {
        let tags = [
            format!(",host=h{}", number * 7919 % 17),
            format!(",zone=z\\ {}", number % 3),
            ",odd=\\=\\,ä".to_owned(),
        ];
        // Each combination of tags and of fields occurs.
        let own: String = tags
            .iter()
            .enumerate()
            .filter(|(bit, _)| number >> bit & 1 == 1)
            .map(|(_, tag)| &**tag)
            .collect();
        let fields = [
            format!("f={}", f64::from(number) / 7.0),
            format!("i=-{number}i"),
            "u=18446744073709551615u".to_owned(),
            format!("b={}", number % 2 == 0),
            format!("s=\"{}\"", ["", "x", "ä\\\"\n,"][number as usize % 3]),
        ];
        let bits = 1 + number / 8 % 31;
        let own_fields: Vec<&str> = fields
            .iter()
            .enumerate()
            .filter(|(bit, _)| bits >> bit & 1 == 1)
            .map(|(_, field)| &**field)
            .collect();
        lines += &format!(
            "m{own} {} {}\n",
            own_fields.join(","),
            1_767_225_600_000_000_000 + u64::from(number / 5)
        );
    }
    // COPY needs all tags and fields to be known.
    lines += "m,host=a,zone=a,odd=a f=1,i=1i,u=1u,b=true,s=\"x\" 1\n";
    assert_eq!(server.write(&lines).status, 204);
    server.query("SELECT * INTO back FROM m GROUP BY *");
    let all = |name: &str| {
        super::sql::lines(server, &format!("SELECT * FROM {name} ORDER BY time, host, zone, odd, i, f"))
    };
    let expected = all("m");
    assert!(expected.len() > 1000, "{}", expected.len());
    let count = number(server, "SELECT count(*) FROM m") as u64;
    for (options, rows) in [("(FORMAT parquet, ROW_GROUP_SIZE 100)", "q"), ("(FORMAT csv)", "c")] {
        assert_eq!(changed(server, &format!("COPY m TO '{rows}' {options}")), count);
        changed(server, "DELETE FROM back WHERE time > '2000-01-01'");
        let from = options.replace(", ROW_GROUP_SIZE 100", "");
        assert_eq!(changed(server, &format!("COPY back FROM '{rows}' {from}")), count, "{options}");
        assert_eq!(all("back"), expected, "{options}");
    }
    changed(server, "DELETE FROM back WHERE time > '2000-01-01'");
    assert_eq!(
        changed(
            server,
            "INSERT INTO back (time, f, i, u, b, s, host, zone, odd) SELECT time, f, i, u, b, s, host, zone, odd FROM m"
        ),
        count
    );
    assert_eq!(all("back"), expected);
}

#[test]
fn times_in_microseconds_lose_nothing() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    done(server, "CREATE TABLE t (id int PRIMARY KEY, moment timestamptz, local timestamp)");
    let insert = "INSERT INTO t VALUES (1, '1677-09-21 00:12:43.145225Z', NULL), (2, NULL, '2262-04-11 23:47:16.854775')";
    assert_eq!(changed(server, insert), 2);
    assert_eq!(changed(server, "COPY t TO 't.parquet' (TIME_UNIT us)"), 2);
    done(server, "CREATE TABLE back (id int PRIMARY KEY, moment timestamptz, local timestamp)");
    assert_eq!(changed(server, "COPY back FROM 't.parquet'"), 2);
    assert_eq!(rows(server, "back"), rows(server, "t"));
    assert_eq!(changed(server, "INSERT INTO t VALUES (3, '2026-01-01 00:00:00.000000001Z', NULL)"), 1);
    let refused = answer(server, "COPY t TO 't.parquet' (TIME_UNIT us)");
    assert!(refused["code"] == "0A000" && refused.to_string().contains("moment"), "{refused}");
    assert_eq!(changed(server, "DELETE FROM back"), 2);
    assert_eq!(changed(server, "COPY back FROM 't.parquet'"), 2, "the file is as it was");
    assert_eq!(code(server, "COPY t TO 't.parquet' (TIME_UNIT ms)"), "22023");
    assert_eq!(code(server, "COPY t TO 't.csv' (FORMAT csv, TIME_UNIT us)"), "0A000");
}

#[test]
fn the_binary_form_keeps_microseconds() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    let columns =
        "(id int PRIMARY KEY, number double precision, price numeric(10,2), raw bytea, moment timestamptz)";
    done(server, &format!("CREATE TABLE t {columns}"));
    let insert = "INSERT INTO t VALUES (1, 'NaN', 1.25, '\\x00', '2026-01-31 12:00:00.123456Z'), (2, NULL, NULL, NULL, NULL)";
    assert_eq!(changed(server, insert), 2);
    assert_eq!(changed(server, "COPY t TO 't' (FORMAT binary)"), 2);
    done(server, &format!("CREATE TABLE back {columns}"));
    assert_eq!(changed(server, "COPY back FROM 't' (FORMAT binary)"), 2);
    assert_eq!(rows(server, "back"), rows(server, "t"));
}

#[test]
fn columns_go_by_their_names() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    done(server, "CREATE TABLE a (id bigint PRIMARY KEY, x int, y text)");
    assert_eq!(changed(server, "INSERT INTO a VALUES (1, 10, 'one'), (2, NULL, 'two'), (3, 30, NULL)"), 3);
    // The name says which form it is.
    assert_eq!(changed(server, "COPY (SELECT y, id, x * 2 AS x FROM a) TO 'a.parquet'"), 3);
    done(server, "CREATE TABLE b (x smallint, y varchar(3), id int PRIMARY KEY, z text DEFAULT 'z')");
    assert_eq!(changed(server, "COPY b FROM 'a.parquet'"), 3);
    assert_eq!(rows(server, "b"), ["20,one,1,z", ",two,2,z", "60,,3,z"]);
    done(server, "CREATE TABLE c (id int PRIMARY KEY, x int)");
    assert_eq!(changed(server, "COPY c (id) FROM 'a.parquet'"), 3);
    assert_eq!(rows(server, "c"), ["1,", "2,", "3,"]);
    assert_eq!(code(server, "COPY c FROM 'a.parquet'"), "42703", "there is no column y");
    assert_eq!(code(server, "COPY a (y, z) FROM 'a.parquet'"), "42703");
    // What does not fit names the column, and the row if there is one.
    done(server, "CREATE TABLE narrow (id int PRIMARY KEY, y varchar(2))");
    let refused = answer(server, "COPY narrow (id, y) FROM 'a.parquet'");
    assert_eq!(
        (refused["code"].as_str(), refused["context"].as_str()),
        (Some("22001"), Some("COPY narrow, line 1"))
    );
    done(server, "CREATE TABLE other (id int PRIMARY KEY, x boolean)");
    let refused = answer(server, "COPY other (id, x) FROM 'a.parquet'");
    assert_eq!(refused["code"], "42804", "{refused}");
    assert!(refused["error"].as_str().is_some_and(|words| words.contains("column \"x\"")), "{refused}");
    assert_eq!(
        number(server, "SELECT count(*) FROM narrow") + number(server, "SELECT count(*) FROM other"),
        0
    );
    for (statement, wanted) in [
        ("COPY a TO 'x' (FORMAT parquet, COMPRESSION brotli)", "22023"),
        ("COPY a TO 'x' (FORMAT parquet, ROW_GROUP_SIZE 0)", "22023"),
        ("COPY a TO 'x' (FORMAT parquet, HEADER)", "0A000"),
        ("COPY a TO 'x' (FORMAT csv, COMPRESSION zstd)", "0A000"),
        ("COPY a FROM 'x' (FORMAT parquet, PARTITION_BY (id))", "0A000"),
        ("COPY a TO STDOUT (FORMAT parquet)", "0A000"),
        ("COPY (SELECT x, x FROM a) TO 'x' (FORMAT parquet)", "0A000"),
        ("COPY a TO 'x' (FORMAT arrow)", "0A000"),
        ("COPY a FROM 'missing.parquet'", "58P01"),
    ] {
        assert_eq!(code(server, statement), wanted, "{statement}");
    }
    assert_eq!(names(&fixture.file("")), ["a.parquet"]);
}

#[test]
fn rows_are_spread_over_folders() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    let lines = "cpu,host=a/b v=1 1767225600000000000\ncpu,host=a/b v=2 1767312000000000001\n\
                 cpu v=3 1767225600000000001\ncpu,host=c v=4,n=7u 1767225600000000000";
    assert_eq!(server.write(lines).status, 204);
    assert_eq!(changed(server, "COPY cpu TO 'cpu' (FORMAT parquet, PARTITION_BY (host, day))"), 4);
    assert_eq!(
        names(&fixture.file("cpu")),
        [
            "host=__HIVE_DEFAULT_PARTITION__/day=2026-01-01/part-0.parquet",
            "host=a%2Fb/day=2026-01-01/part-0.parquet",
            "host=a%2Fb/day=2026-01-02/part-0.parquet",
            "host=c/day=2026-01-01/part-0.parquet",
        ]
    );
    assert_eq!(
        changed(server, "COPY (SELECT v, host FROM cpu) TO 'csv' (FORMAT csv, HEADER, PARTITION BY host)"),
        4
    );
    // What is written as NULL is, is another folder all the same, and nothing is written over.
    let texts = "VALUES (1, NULL), (2, '__HIVE_DEFAULT_PARTITION__'), (3, 'x')";
    let copied =
        format!("COPY (SELECT * FROM ({texts}) AS t(id, p)) TO 'texts' (FORMAT parquet, PARTITION_BY (p))");
    assert_eq!(changed(server, &copied), 3);
    let folders = ["p=%5F_HIVE_DEFAULT_PARTITION__", "p=__HIVE_DEFAULT_PARTITION__", "p=x"];
    assert_eq!(names(&fixture.file("texts")), folders.map(|own| format!("{own}/part-0.parquet")));
    let text = std::fs::read_to_string(fixture.file("csv/host=a%2Fb/part-0.csv")).expect("a file");
    assert!(text == "v\n1\n2\n" || text == "v\n2\n1\n", "{text}");
    assert_eq!(code(server, "COPY cpu TO 'cpu' (FORMAT parquet, PARTITION_BY (host))"), "58P02");
    assert_eq!(code(server, "COPY cpu TO 'new' (FORMAT parquet, PARTITION_BY (nothing))"), "42703");
    assert_eq!(
        code(server, "COPY (SELECT host FROM cpu) TO 'new' (FORMAT parquet, PARTITION_BY host)"),
        "0A000"
    );
    // Points come back into a measurement that exists.
    assert_eq!(changed(server, "COPY cpu TO 'all.parquet'"), 4);
    server.query("DROP SERIES FROM cpu WHERE host = 'c'");
    assert_eq!(server.number("SELECT count(v) FROM cpu"), 3);
    assert_eq!(changed(server, "COPY cpu FROM 'all.parquet'"), 4);
    assert_eq!(server.number("SELECT count(v) FROM cpu"), 4);
    assert_eq!(server.number("SELECT count(n) FROM cpu"), 1);
}

#[test]
fn files_are_off_unless_the_operator_allows_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = super::Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE d");
    done(&server, "CREATE TABLE t (a text)");
    for statement in ["COPY t TO 'x.parquet'", "COPY t FROM '/etc/passwd'", "COPY t TO '/tmp/x' (FORMAT csv)"]
    {
        let refused = answer(&server, statement);
        assert_eq!(refused["code"], "42501", "{statement}: {refused}");
        assert!(refused.to_string().contains("--files-dir"), "{refused}");
    }
    assert_eq!(code(&server, "COPY t TO PROGRAM 'cat'"), "0A000");
    let missing = directory.path().join("missing");
    let arguments = ["--files-dir", missing.to_str().expect("UTF-8")];
    let mut process = super::Process::spawn(&directory.path().join("other"), &arguments);
    assert!(!process.wait().success());
    assert!(process.log().contains("files-dir"), "{}", process.log());
    // Files of the store are none that statements may write.
    drop(server);
    let data = directory.path().join("data");
    // A data directory may be missing so far.
    for (files, data) in [(&*data, data.clone()), (directory.path(), directory.path().join("a/b"))] {
        let mut process = super::Process::spawn(&data, &["--files-dir", files.to_str().expect("UTF-8")]);
        assert!(!process.wait().success());
        assert!(process.log().contains("in one another"), "{}", process.log());
    }
}

#[test]
fn no_path_leads_out_of_the_directory() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    done(server, "CREATE TABLE t (a text)");
    assert_eq!(changed(server, "INSERT INTO t VALUES ('x')"), 1);
    std::fs::write(fixture.path("secret"), "secret\n").expect("a file");
    std::fs::create_dir(fixture.file("folder")).expect("a directory");
    symlink("../secret", fixture.file("link")).expect("a link");
    symlink("..", fixture.file("up")).expect("a link");
    symlink("folder", fixture.file("sideways")).expect("a link");
    let absolute = fixture.path("secret").display().to_string();
    for path in
        ["../secret", "folder/../../secret", "link", "up/secret", "sideways/x", &absolute, "", "folder"]
    {
        assert_eq!(code(server, &format!("COPY t FROM '{path}'")), "42501", "{path}");
    }
    for path in ["../new", "up/new", "sideways/new", "folder/../../new", "/tmp/nyala-new"] {
        assert_eq!(code(server, &format!("COPY t TO '{path}'")), "42501", "{path}");
        assert_eq!(
            code(server, &format!("COPY t TO '{path}' (FORMAT csv, PARTITION_BY a)")),
            "42501",
            "{path}"
        );
    }
    assert_eq!(names(fixture.path("").as_path()).iter().filter(|name| name.contains("new")).count(), 0);
    assert_eq!(std::fs::read_to_string(fixture.path("secret")).expect("a file"), "secret\n");
    assert_eq!(number(server, "SELECT count(*) FROM t"), 1);
}

#[test]
fn only_administrators_use_files() {
    use super::client::percent_encode;
    let fixture = Fixture::start_with(&["--auth-enabled"]);
    let ask = |user: &str, path: &str, text: &str| {
        let target = format!("{path}db=d&u={user}&p=pencil&q={}", percent_encode(text));
        let body = fixture.server.send("POST", &target, b"").expect("an answer").body;
        String::from_utf8_lossy(&body).into_owned()
    };
    for text in [
        "CREATE USER ann WITH PASSWORD 'pencil' WITH ALL PRIVILEGES",
        "CREATE DATABASE d",
        "CREATE USER bob WITH PASSWORD 'pencil'",
        "GRANT ALL ON d TO bob",
    ] {
        let answer = ask("ann", "/query?", text);
        assert!(!answer.contains("error"), "{text}: {answer}");
    }
    let sql = |user: &str, text: &str| {
        let target = format!("/api/sql?db=d&u={user}&p=pencil");
        let body = fixture.server.send("POST", &target, text.as_bytes()).expect("an answer").body;
        String::from_utf8_lossy(&body).into_owned()
    };
    assert!(sql("bob", "CREATE TABLE t (a text)").contains("CREATE TABLE"));
    for text in ["COPY t TO 'x.parquet'", "COPY t FROM 'x.parquet'"] {
        let answer = sql("bob", text);
        assert!(answer.contains("42501") && answer.contains("only administrators"), "{answer}");
    }
    assert!(sql("ann", "COPY t TO 'x.parquet'").contains("\"rows_affected\":0"));
}
