//! `nyala export` and `nyala import`, from a running server and from a data directory.

use super::sql::{changed, done, lines, number};
use super::{EVERY_TYPE, Fixture, names, rows, run, write_every_type};

#[test]
fn a_table_that_is_exported_and_imported_is_the_same() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    write_every_type(server, "t");
    let expected = rows(server, "t");
    for (form, file) in [("parquet", "t.parquet"), ("csv", "t.csv")] {
        let printed = fixture.run(&["export"], &["--table", "t", file]).printed();
        assert!(printed.starts_with("6 rows, ") && printed.contains(" bytes in 1 file in "), "{printed}");
        let table = format!("from_{form}");
        done(server, &format!("CREATE TABLE {table} {EVERY_TYPE}"));
        let printed = fixture.run(&["import", form], &["--table", &table, file]).printed();
        assert!(printed.starts_with("6 rows of 1 file in "), "{printed}");
        assert!(printed.contains(&format!("\"{table}\" has 6 rows")), "{printed}");
        assert_eq!(rows(server, &table), expected, "{form}");
        // A second time the keys are there: nothing is written, and the message says what is wrong.
        let again = fixture.run(&["import", form], &["--table", &table, file]);
        assert_eq!(again.code, 1, "{again:?}");
        assert!(again.errors.contains("23505") && again.errors.contains(file), "{again:?}");
        assert_eq!(number(server, &format!("SELECT count(*) FROM {table}")), 6);
        // The journal is of this server's import, and not of one into other data.
        let other = ["import", form, "--data-dir", "other", "-d", "d", "--table", &table, file];
        let other = run(&fixture.path(""), &other);
        assert!(other.code == 1 && other.errors.contains("is of another command"), "{other:?}");
        std::fs::remove_file(fixture.path("nyala-import.journal")).expect("it can go on");
    }
    // A file that is there is replaced only if that is asked for.
    let refused = fixture.run(&["export"], &["--table", "t", "t.parquet"]);
    assert!(refused.code == 1 && refused.errors.contains("--overwrite"), "{refused:?}");
    let query = "SELECT id, name FROM t WHERE id < 3;";
    let arguments = ["--sql", query, "--overwrite", "--compression", "none", "t.parquet"];
    assert!(fixture.run(&["export"], &arguments).printed().starts_with("2 rows, "));
    for (arguments, wanted) in [
        (&["--sql", "SELECT nothing FROM t", "x.csv"][..], "42703"),
        (&["--table", "t", "x.txt"], "--format"),
        (&["--sql", "SELECT id, id FROM t", "x.parquet"], "name one with AS"),
        (&["--table", "t", "/nonexistent/x.csv"], "/nonexistent"),
        (&["--table", "t", "--partition-by", "number", "x"], "cannot be partitioned by number"),
    ] {
        let refused = fixture.run(&["export"], arguments);
        assert!(refused.code == 1 && refused.errors.contains(wanted), "{arguments:?}: {refused:?}");
    }
    let left = names(fixture.path("").as_path());
    assert!(!left.iter().any(|name| name.starts_with("x.") || name.contains(".tmp")), "{left:?}");
}

#[test]
fn points_are_exported_by_day_and_imported_into_another_measurement() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    let mut text = String::new();
    for hour in 0..72 {
        let time = 1_767_225_600_000_000_000_i64 + hour * 3_600_000_000_000 + 7;
        for host in ["a", "b c", "d=e,f", "g\\,h"] {
            let host = host.replace(' ', "\\ ").replace('=', "\\=").replace(',', "\\,");
            text.push_str(&format!(
                "cpu\\ load,host={host} v={hour}.5,n=-{hour}i,big=18446744073709551615u,up=true,s=\"q\\\"\\\\{hour}\" {time}\n"
            ));
        }
    }
    text.push_str("cpu\\ load v=1 -9223372036854775806\ncpu\\ load,host=a s=\"end\" 9223372036854775806\n");
    let written = server.write(&text);
    assert_eq!(written.status, 204, "{}", String::from_utf8_lossy(&written.body));
    let arguments = ["--table", "cpu load", "--partition-by", "host,day", "out"];
    let printed = fixture.run(&["export"], &arguments).printed();
    assert!(printed.starts_with("290 rows, ") && printed.contains("14 files"), "{printed}");
    let files = names(&fixture.path("out"));
    assert_eq!(files.len(), 14, "{files:?}");
    assert!(files.contains(&"host=d%3De,f/day=2026-01-03/part-0.parquet".to_owned()), "{files:?}");
    let arguments = ["--measurement", "copy", "--tags", "host", "--time", "time", "out"];
    let printed = fixture.run(&["import", "parquet"], &arguments).printed();
    assert!(printed.starts_with("290 rows of 14 files in "), "{printed}");
    let of = |measurement: &str| {
        let query =
            format!("SELECT time_ns, host, v, n, big, up, s FROM \"{measurement}\" ORDER BY time_ns, host");
        lines(server, &query)
    };
    assert_eq!(of("copy"), of("cpu load"));
    let tags = server.query("SHOW TAG VALUES FROM copy WITH KEY = host").to_string();
    assert!(tags.contains("b c") && tags.contains("d=e,f"), "{tags}");
    // The same again are the same points.
    let printed = fixture.run(&["import", "parquet"], &arguments).printed();
    assert!(printed.contains("0 points are new"), "{printed}");
    // As CSV, into a measurement whose types are known.
    assert_eq!(fixture.run(&["export"], &["--table", "cpu load", "all.csv"]).code, 0);
    assert_eq!(server.write("other,host=x v=0,n=0i,big=0u,up=false,s=\"\" 0").status, 204);
    let printed = fixture.run(&["import", "csv"], &["--measurement", "other", "all.csv"]).printed();
    assert!(printed.starts_with("290 rows of 1 file"), "{printed}");
    assert_eq!(server.number("SELECT count(v) FROM other"), server.number("SELECT count(v) FROM copy") + 1);
    let refused = fixture.run(&["import", "parquet"], &["--measurement", "x", "--time", "when", "out"]);
    assert!(
        refused.code == 1 && refused.errors.contains("there is no column when: it has time"),
        "{refused:?}"
    );
}

#[test]
fn what_is_in_the_names_of_folders_is_columns_again() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    // At one time, so that points of different hosts are the same point without the host.
    let points = |measurement: &str| -> String {
        let hosts = ["a", "b\\,\"c\"", "d\\ e"].into_iter().enumerate();
        let line =
            |(number, host)| format!("{measurement},host={host},region=r{number} n={number}i,v=1.5 7\n");
        hosts.map(line).collect::<String>() + measurement + ",region=r3 n=3i,v=2.5 7\n"
    };
    assert_eq!(server.write(&points("cpu")).status, 204);
    let of = |measurement: &str| {
        let query = format!("SELECT time_ns, host, region, n, v FROM {measurement} ORDER BY region");
        lines(server, &query)
    };
    let series = |measurement: &str| {
        let shown = server.query(&format!("SHOW SERIES FROM {measurement}")).to_string();
        shown.replace(&format!("\"{measurement},"), "\"cpu,")
    };
    for form in ["csv", "parquet"] {
        let folder = format!("out_{form}");
        let arguments = ["--table", "cpu", "--partition-by", "host,day,region", "--format", form, &folder];
        assert!(fixture.run(&["export"], &arguments).printed().contains("4 files"));
        let measurement = format!("from_{form}");
        // CSV goes into a measurement that is there.
        if form == "csv" {
            assert_eq!(server.write(&points(&measurement).replace("=1.5", "=0")).status, 204);
        }
        let to = ["--measurement", &measurement, &folder];
        let tags: &[&str] = if form == "csv" { &[] } else { &["--tags", "host,region"] };
        let printed = fixture.run(&["import", form], &[tags, &to].concat()).printed();
        assert!(printed.starts_with("4 rows of 4 files in "), "{printed}");
        assert_eq!((of(&measurement), series(&measurement)), (of("cpu"), series("cpu")), "{form}");
    }
    // A column that is no tag has a type, which texts in names of folders do not say.
    let refused = |measurement: &str, wanted: &str| {
        let arguments = ["--measurement", measurement, "--tags", "host", "out_parquet"];
        let refused = fixture.run(&["import", "parquet"], &arguments);
        assert!(refused.code == 1 && refused.errors.contains(wanted), "{refused:?}");
        // No piece was sent: there is nothing to go on with.
        assert!(!fixture.path("nyala-import.journal").exists());
    };
    refused("new", "column region stands in the names of folders");
    refused("cpu", "column region is a tag of");
    let arguments = ["--table", "cpu", "--partition-by", "n", "out_n"];
    fixture.run(&["export"], &arguments).printed();
    assert_eq!(server.write("known,region=x n=0i 1").status, 204);
    let arguments = ["--measurement", "known", "--tags", "host,region", "out_n"];
    fixture.run(&["import", "parquet"], &arguments).printed();
    assert_eq!(
        lines(server, "SELECT n, host, v FROM known WHERE time_ns = 7 ORDER BY n"),
        lines(server, "SELECT n, host, v FROM cpu ORDER BY n")
    );
    // Rows of a table: also texts that CSV writes in quotes, and NULL. The day is a column of the table here.
    let columns = "(id int PRIMARY KEY, part text, flag boolean, day date)";
    done(server, &format!("CREATE TABLE t {columns}"));
    let insert = "INSERT INTO t VALUES (1, 'a,\"b\"', true, '2026-01-31'), (2, NULL, NULL, NULL), \
                  (3, '', false, '2026-02-01'), (4, 'a/b=c', true, '2026-02-01')";
    assert_eq!(changed(server, insert), 4);
    for form in ["csv", "parquet"] {
        let (folder, table) = (format!("rows_{form}"), format!("rows_{form}"));
        let arguments = ["--table", "t", "--partition-by", "part,flag,day", "--format", form, &folder];
        fixture.run(&["export"], &arguments).printed();
        done(server, &format!("CREATE TABLE {table} {columns}"));
        fixture.run(&["import", form], &["--table", &table, &folder]).printed();
        assert_eq!(rows(server, &table), rows(server, "t"), "{form}");
    }
}

#[test]
fn a_column_of_the_name_of_a_computed_one_is_exported() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    let columns = "(time timestamptz PRIMARY KEY, id int, time_ns bigint NOT NULL)";
    done(server, &format!("CREATE TABLE t {columns}"));
    assert_eq!(changed(server, "INSERT INTO t VALUES ('2026-01-31', 1, 7), ('2026-02-01', 2, 8)"), 2);
    let tags = "tagged,time_ns=a v=1i 7\ntagged,time_ns=b v=2i 8\n";
    assert_eq!(server.write(&format!("m,host=a time_ns=3i,v=1.5 7\nm v=2.5 8\n{tags}")).status, 204);
    for form in ["csv", "parquet"] {
        for (from, tags) in [("t", ""), ("m", "host"), ("tagged", "time_ns")] {
            let (file, to) = (format!("{from}.{form}"), format!("{from}_{form}"));
            fixture.run(&["export"], &["--table", from, &file]).printed();
            if tags.is_empty() {
                done(server, &format!("CREATE TABLE {to} {columns}"));
                fixture.run(&["import", form], &["--table", &to, &file]).printed();
            } else {
                // CSV goes into a measurement that is there.
                let with_types = if from == "m" { "host=a time_ns=0i,v=0 7" } else { "time_ns=a v=0i 7" };
                assert_eq!(server.write(&format!("{to},{with_types}")).status, 204);
                let of_parquet = if form == "parquet" { &["--tags", tags][..] } else { &[] };
                let arguments = [of_parquet, &["--measurement", &to, &file]].concat();
                fixture.run(&["import", form], &arguments).printed();
            }
            let of = |name: &str| lines(server, &format!("SELECT * FROM {name} ORDER BY time"));
            assert_eq!(of(&to), of(from), "{file}");
        }
    }
    let header = |file: &str| std::fs::read_to_string(fixture.path(file)).expect("a file");
    assert!(header("t.csv").starts_with("time,id,time_ns\n"), "{}", header("t.csv"));
    assert!(!header("m.csv").contains("::integer"), "{}", header("m.csv"));
}

#[test]
fn numbers_of_32_bits_become_the_same_number_by_import_and_by_copy() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    let query = "SELECT TIMESTAMPTZ '2026-01-31' AS time, CAST(0.1 AS real) AS v";
    let file = fixture.file("real.parquet");
    let file = file.to_str().expect("UTF-8");
    fixture.run(&["export"], &["--sql", query, file]).printed();
    fixture.run(&["import", "parquet"], &["--measurement", "imported", file]).printed();
    assert_eq!(server.write("copied v=0 1").status, 204);
    assert_eq!(changed(server, "COPY copied FROM 'real.parquet' (FORMAT parquet)"), 1);
    let of = |measurement: &str| lines(server, &format!("SELECT v FROM {measurement} WHERE v > 0"));
    assert_eq!(of("imported"), of("copied"));
    assert_eq!(number(server, "SELECT count(*) FROM imported WHERE v = 0.10000000149011612"), 1);
}

#[test]
fn names_with_dots_stand_in_quotes() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    server.query("CREATE RETENTION POLICY \"p.q\" ON d DURATION INF REPLICATION 1");
    assert_eq!(server.write("cpu.load,host=a v=1 7\ncpu.load,host=b v=2 7\n").status, 204);
    fixture.run(&["export"], &["--table", "\"cpu.load\"", "dots.parquet"]).printed();
    for (to, query) in [
        ("\"mem.load\"", "SELECT count(v) FROM \"mem.load\""),
        ("\"p.q\".\"mem.load\"", "SELECT count(v) FROM \"p.q\".\"mem.load\""),
        ("\"p.q\".mem", "SELECT count(v) FROM \"p.q\".mem"),
    ] {
        let arguments = ["--measurement", to, "--tags", "host", "dots.parquet"];
        let printed = fixture.run(&["import", "parquet"], &arguments).printed();
        assert!(printed.contains("has 2 rows"), "{printed}");
        assert_eq!(server.number(query), 2, "{to}");
    }
    for (name, wanted) in
        [("a.b.c", "names with dots need quotes"), ("\"a", "has no end"), ("a.", "is empty")]
    {
        let arguments = ["--measurement", name, "--tags", "host", "dots.parquet"];
        let refused = fixture.run(&["import", "parquet"], &arguments);
        assert!(refused.code != 0 && refused.errors.contains(wanted), "{refused:?}");
    }
}

#[test]
fn a_data_directory_is_read_and_written_without_a_server() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    done(server, "CREATE TABLE t (id int PRIMARY KEY, name text)");
    assert_eq!(changed(server, "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, '')"), 3);
    let expected = rows(server, "t");
    let Fixture { server, directory } = fixture;
    assert!(server.stop().success());
    let data = directory.path().join("data");
    let data = data.to_str().expect("UTF-8");
    let options = ["--data-dir", data, "-d", "d", "--table", "t"];
    run(directory.path(), &[&["export"], &options[..], &["t.csv"]].concat()).printed();
    assert_eq!(
        std::fs::read_to_string(directory.path().join("t.csv")).expect("a file"),
        "id,name\n1,a\n2,\n3,\"\"\n"
    );
    let export = run(directory.path(), &[&["export"], &options[..], &["t.parquet"]].concat());
    assert!(export.printed().starts_with("3 rows, "));
    std::fs::write(directory.path().join("more.csv"), "4,\"d\ne\"\n5,\n").expect("a file");
    let arguments = [&["import", "csv"], &options[..], &["--columns", "id,name", "more.csv"]].concat();
    assert!(run(directory.path(), &arguments).printed().contains("\"t\" has 5 rows"));
    let server = super::Process::start(std::path::Path::new(data), &[]);
    let now = lines(&server, "SELECT * FROM t WHERE id < 4 ORDER BY id");
    assert_eq!(now, expected);
    assert_eq!(number(&server, "SELECT length(name) FROM t WHERE id = 4"), 3);
}

#[test]
fn rows_that_do_not_fit_are_named() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    done(server, "CREATE TABLE t (id int PRIMARY KEY, n smallint)");
    std::fs::write(fixture.path("t.csv"), "id,n\n1,1\n2,high\n").expect("a file");
    let refused = fixture.run(&["import", "csv"], &["--table", "t", "t.csv"]);
    assert!(
        refused.code == 1 && refused.errors.contains("22P02") && refused.errors.contains("t.csv"),
        "{refused:?}"
    );
    assert!(refused.errors.contains("COPY t, line 2, column n: \"high\""), "{refused:?}");
    assert_eq!(number(server, "SELECT count(*) FROM t"), 0);
    // It goes on with a file that was repaired.
    std::fs::write(fixture.path("t.csv"), "id,n\n1,1\n2,2\n").expect("a file");
    assert!(fixture.run(&["import", "csv"], &["--table", "t", "t.csv"]).printed().contains("has 2 rows"));
    // An integer that is too large, and a column that is missing.
    let export = ["--sql", "SELECT 3 AS id, 70000 AS n", "n.parquet"];
    fixture.run(&["export"], &export).printed();
    let refused = fixture.run(&["import", "parquet"], &["--table", "t", "n.parquet"]);
    assert!(
        refused.code == 1 && refused.errors.contains("22003") && refused.errors.contains("\"n\""),
        "{refused:?}"
    );
    assert!(refused.errors.contains("or remove nyala-import.journal to begin anew"), "{refused:?}");
    std::fs::remove_file(fixture.path("nyala-import.journal")).expect("it can go on");
    let export = ["--sql", "SELECT 3 AS id, 7 AS m", "m.parquet"];
    fixture.run(&["export"], &export).printed();
    let refused = fixture.run(&["import", "parquet"], &["--table", "t", "m.parquet"]);
    assert!(refused.code == 1 && refused.errors.contains("42703"), "{refused:?}");
    assert_eq!(number(server, "SELECT count(*) FROM t"), 2);
}
