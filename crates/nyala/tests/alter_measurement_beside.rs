//! What ALTER MEASUREMENT leaves as it is: what writers write at the same time, what a kill hits, what the past shows, what was
//! changed before, and what names the measurement elsewhere.

#[path = "support/altering.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod altering;
#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use altering::{SHOWN, all, done, killed, series, started};
use client::percent_encode;
use process::Process;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn the_past_has_its_names_and_types() {
    let dir = tempfile::tempdir().expect("a directory");
    let history = ["--history", "15m"];
    let server = started(dir.path(), &history);
    let pause = || std::thread::sleep(Duration::from_millis(30));
    let now = || {
        pause();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        pause();
        now.as_nanos()
    };
    let mut moments = vec![now()];
    let steps = [
        "ALTER MEASUREMENT t RENAME TO n",
        "ALTER MEASUREMENT n RENAME FIELD c TO celsius",
        "ALTER MEASUREMENT n RENAME TAG room TO area",
        "ALTER MEASUREMENT n ALTER FIELD n TYPE string",
        "ALTER MEASUREMENT n RENAME TO k KEEP ALIAS",
    ];
    let mut shown = vec![all(&server)];
    for step in steps {
        let answer = server.query(step);
        assert!(answer["results"][0].get("error").is_none(), "{step}: {answer}");
        // What has the old name now is not what had it then.
        assert_eq!(server.write("t,room=k c=1i 77\n").status, 204);
        shown.push(all(&server));
        moments.push(now());
    }
    let check = |server: &Process| {
        for (moment, shown) in moments.iter().zip(&shown) {
            for (query, expected) in SHOWN.iter().zip(shown) {
                let target = format!("/query?db=d&epoch=ns&as_of={moment}&q={}", percent_encode(query));
                let response = server.send("POST", &target, b"").expect("an answer");
                let answer = serde_json::from_slice(&response.body).expect("JSON");
                assert_eq!(series(&answer), *expected, "{query} as of {moment}");
            }
        }
    };
    check(&server);
    let server = killed(server, dir.path(), &history);
    check(&server);
}

/// What was changed under an old name is undone.
#[test]
fn changes_before_a_new_name_are_undone() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &["--history", "15m"]);
    server.query("UPDATE t SET c = 3 WHERE room = 'k'");
    server.query("DELETE FROM t WHERE room = 'b'");
    done(&server, "ALTER MEASUREMENT t RENAME TO n");
    done(&server, "ALTER MEASUREMENT n RENAME FIELD c TO celsius");
    server.query("UNDO 2");
    server.query("UNDO 1");
    let values = series(&server.query("SELECT celsius, room FROM n"));
    assert_eq!(values[0][2], json!([[1, 21.5, "k"], [2, 19.25, "b"], [3, 22, "k"]]));
}

/// Executes a statement as soon as there is what it names.
fn soon(server: &Process, statement: &str) {
    let begun = std::time::Instant::now();
    loop {
        let answer = server.query(statement);
        if answer["results"][0].get("error").is_none() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{statement}: {answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writers use the old names all the time. Each acknowledged point is there once, under the old names or the new ones.
#[test]
fn writers_go_on_beside_changes() {
    const ROUNDS: u32 = 6;
    let dir = tempfile::tempdir().expect("a directory");
    let server = &started(dir.path(), &[]);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..3_u64 {
            let (stop, written) = (&stop, &written);
            scope.spawn(move || {
                let mut time = 1_000_000 * (number + 1);
                while !stop.load(Ordering::Relaxed) {
                    let line = |host: u64| {
                        format!("w,host=h{host} f={time} {time}\nx,host=h{host} f={time} {time}\n")
                    };
                    let lines: String = (0..20).map(line).collect();
                    assert_eq!(server.write(&lines).status, 204);
                    written.fetch_add(20, Ordering::Relaxed);
                    time += 1;
                }
            });
        }
        for round in 0..ROUNDS {
            soon(server, &format!("ALTER MEASUREMENT x RENAME TO x{round}"));
            soon(server, &format!("ALTER MEASUREMENT w RENAME FIELD f TO f{round}"));
            soon(server, &format!("ALTER MEASUREMENT w RENAME TAG host TO host{round}"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let written = written.load(Ordering::Relaxed);
    let renamed: i64 =
        (0..ROUNDS).map(|round| server.number(&format!("SELECT count(f) FROM x{round}"))).sum();
    assert_eq!((renamed + server.number("SELECT count(f) FROM x")) as u64, written);
    let answer = server.query("SELECT * FROM w");
    let series = &answer["results"][0]["series"][0];
    let columns = series["columns"].as_array().expect("columns");
    let rows = series["values"].as_array().expect("rows");
    assert_eq!(rows.len() as u64, written, "no point is in two series");
    for row in rows {
        let cells =
            || columns.iter().zip(row.as_array().expect("a row")).filter(|(_, value)| !value.is_null());
        let count = |start: &str| {
            cells().filter(|(name, _)| name.as_str().is_some_and(|name| name.starts_with(start))).count()
        };
        assert_eq!((count("f"), count("host")), (1, 1), "{row}");
    }
}

#[test]
fn a_kill_leaves_the_old_or_the_new() {
    for round in 0..6_u64 {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = started(dir.path(), &[]);
        let lines: String = (0..3000).map(|host| format!("w,host=h{host} f={host},g=1i 1\n")).collect();
        assert_eq!(server.write(&lines).status, 204);
        let statement = [
            "ALTER MEASUREMENT w RENAME TO x",
            "ALTER MEASUREMENT w RENAME TAG host TO zost",
            "ALTER MEASUREMENT w ALTER FIELD f TYPE integer",
        ][round as usize % 3];
        std::thread::scope(|scope| {
            let server = &server;
            scope.spawn(move || {
                let target = format!("/query?db=d&q={}", percent_encode(statement));
                // Nobody may be there to answer.
                let _ = server.send("POST", &target, b"");
            });
            std::thread::sleep(Duration::from_millis(3 + 60 * round));
            server.kill_9();
        });
        server.kill();
        let server = Process::start(dir.path(), &[]);
        let counts = |field: &str, condition: &str, name: &str| {
            server.number(&format!("SELECT count({field}) FROM {name} WHERE {condition}"))
        };
        let (old, new) = match round % 3 {
            0 => (counts("f", "host =~ /h/", "w"), counts("f", "host =~ /h/", "x")),
            1 => (counts("f", "host =~ /h/", "w"), counts("f", "zost =~ /h/", "w")),
            _ => {
                let keys = series(&server.query("SHOW FIELD KEYS FROM w"));
                let types =
                    |of: &str| keys[0][2].as_array().is_some_and(|all| all.contains(&json!(["f", of])));
                let points = counts("f", "host =~ /h/", "w");
                (points * i64::from(types("float")), points * i64::from(types("integer")))
            }
        };
        assert!(matches!((old, new), (3000, 0) | (0, 3000)), "{statement}: {old} {new}");
    }
}

#[test]
fn continuous_queries_and_subscriptions_stay_as_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    server.query("CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(c) INTO m FROM t GROUP BY time(1h) END");
    server.query("CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'udp://127.0.0.1:9'");
    let shown =
        |server: &Process| [server.query("SHOW CONTINUOUS QUERIES"), server.query("SHOW SUBSCRIPTIONS")];
    let before = shown(&server);
    done(&server, "ALTER MEASUREMENT t RENAME TO n KEEP ALIAS");
    assert_eq!(shown(&server), before);
    let server = killed(server, dir.path(), &[]);
    assert_eq!(shown(&server), before);
}
