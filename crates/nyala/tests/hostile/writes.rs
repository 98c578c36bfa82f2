//! Invalid lines of every kind, and more series than memory can hold.

use crate::server::{ANSWER_LIMIT, START_LIMIT, Server, expect, request, text};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[test]
fn invalid_lines_of_every_kind() {
    let server = Server::start();
    let many = |count: usize, item: &dyn Fn(usize) -> String| -> String { (0..count).map(item).collect() };
    let tags = many(15_000, &|number| format!(",t{number}=v"));
    expect(&server.write(format!("m{tags} v=1 1").as_bytes()), 400, "max key length exceeded");
    let fields = many(70_000, &|number| format!("f{number}=1,"));
    expect(&server.write(format!("m {fields}v=1 1").as_bytes()), 400, "unable to parse");
    expect(&server.write(format!("{} v=1 1", "m".repeat(70_000)).as_bytes()), 400, "max key length exceeded");
    expect(&server.write(format!("m v={} 1", "9".repeat(1_000_000)).as_bytes()), 400, "unable to parse");
    expect(&server.write(b"m v=1e999 1"), 400, "unable to parse");
    expect(&server.write(b"m v=99999999999999999999i 1"), 400, "unable to parse");
    expect(&server.write(b"m v=1 99999999999999999999"), 400, "unable to parse");
    expect(&server.write(b"m v=NaN 1"), 400, "unable to parse");
    // Zero bytes count as spaces, and a line of spaces is no line.
    expect(&server.write(b"\0\0\0\0"), 204, "");
    expect(&server.write(b"\xff\xfe\xfd"), 400, "unable to parse");
    expect(&server.write(&b"=".repeat(1_000_000)), 400, "unable to parse");
    expect(&server.write(&b"x\n".repeat(1_000_000)), 400, "\"refused\":1000000");
    expect(&server.write(format!("m v=\"{} 1", "x".repeat(20_000_000)).as_bytes()), 400, "unbalanced quotes");
    // Invalid UTF-8 and zero bytes may be part of names.
    assert_eq!(server.write(b"zero\0name,t\0=a\0b v\0=1 1\n\xff,t=\xfe v=\"\xfd\" 1").status, 204);
    expect(&server.query("SHOW MEASUREMENTS"), 200, "zero\\u0000name");
    expect(&server.query("SELECT * FROM \"zero\0name\""), 200, "a\\u0000b");
    // Valid lines among invalid ones are stored.
    let response = server.write(b"good v=1 1\nbad\ngood v=2 2\n\0bad\ngood v=x 3\n");
    expect(&response, 400, "\"line\":2");
    expect(&server.query("SELECT count(v) FROM good"), 200, "[0,2]");
    server.is_well();
}

#[test]
fn more_series_than_memory_holds() {
    let server = Server::start();
    let text_of_tag = "long".repeat(100);
    let mut refused = None;
    for batch in 0..20 {
        let lines =
            (0..10_000).map(|number| format!("s,a={batch}-{number},b={text_of_tag}{batch}-{number} v=1 1\n"));
        let lines = lines.collect::<String>();
        let begun = Instant::now();
        let mut response = server.write(lines.as_bytes());
        // Rows of earlier batches must be flushed, and their buffers must be returned.
        while response.status == 503 {
            assert!(begun.elapsed() < START_LIMIT, "no memory for a batch: {}", text(&response));
            std::thread::sleep(Duration::from_millis(200));
            response = server.write(lines.as_bytes());
        }
        if response.status != 204 {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("200 000 series of 900 bytes do not fit into half of the memory limit");
    expect(&refused, 400, "no new series on measurement");
    // Existing series can be written and read as before.
    let begun = Instant::now();
    while server.write(b"precious v=43 2").status != 204 {
        assert!(begun.elapsed() < START_LIMIT, "no write to a series that is there");
        std::thread::sleep(Duration::from_millis(100));
    }
    while !text(&server.query("SELECT v FROM precious")).contains("[2,43]") {
        assert!(begun.elapsed() < START_LIMIT, "no query of a series that is there");
        std::thread::sleep(Duration::from_millis(100));
    }
    expect(&server.write(b"new v=1 1"), 400, "DROP SERIES or DELETE");
    expect(&server.query("DROP SERIES FROM s"), 200, "");
    server.is_well();
}

#[test]
fn removed_series_leave_memory_for_others() {
    let server = Server::start();
    let index_bytes = || -> u64 {
        let stats = text(&server.query("SHOW STATS FOR 'indexes'"));
        let digits = stats.rsplit("\"values\":[[").next().expect("an answer");
        digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect(&stats)
    };
    let empty = index_bytes();
    let text_of_tag = "long".repeat(100);
    // Each round takes a part of the memory for series; all together take more than there is.
    for round in 0..4 {
        for batch in 0..3 {
            let lines = (0..10_000).map(|number| {
                format!("s,a={round}-{batch}-{number},b={text_of_tag}{round}-{batch}-{number} v=1 {round}\n")
            });
            let body = lines.collect::<String>();
            let begun = Instant::now();
            loop {
                let response = server.write(body.as_bytes());
                match response.status {
                    204 => break,
                    // Rows of the last batches must be flushed.
                    503 => assert!(begun.elapsed() < ANSWER_LIMIT, "{}", text(&response)),
                    _ => panic!("round {round}: {}", text(&response)),
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        assert!(index_bytes() > empty + (10 << 20), "{} bytes", index_bytes());
        let gone = match round % 2 {
            0 => server.query("DROP SERIES FROM s WHERE a =~ /./"),
            _ => server.query(&format!("DELETE FROM s WHERE time <= {round}")),
        };
        expect(&gone, 200, "");
        assert!(index_bytes() < empty + (64 << 10), "{} bytes of {empty} before", index_bytes());
    }
    server.is_well();
}

/// What deletions in one database cost a loader of another: prints rows per second without and with them, alternately.
#[test]
#[ignore = "measures: run it alone, on a quiet machine"]
#[allow(clippy::print_stdout, reason = "a report")]
fn a_loader_beside_deletions() {
    const ROUND: Duration = Duration::from_secs(5);
    let server = Server::start();
    expect(&server.query("CREATE DATABASE loaded"), 200, "");
    let bodies: Vec<Vec<u8>> = (0..100)
        .map(|batch| {
            let lines =
                (0..1000).map(|host| format!("cpu,host=h{host} a={batch},b=2,c=3i,d=4i {}\n", batch + 1));
            lines.collect::<String>().into_bytes()
        })
        .collect();
    let load = || {
        let (begun, mut rows) = (Instant::now(), 0);
        for body in bodies.iter().cycle().take_while(|_| begun.elapsed() < ROUND) {
            match server.send(&request("POST", "/write?db=loaded", body)).status {
                204 => rows += 1000,
                status => assert_eq!(status, 503),
            }
        }
        rows as f64 / begun.elapsed().as_secs_f64()
    };
    load();
    let hosts = (0..10_000).map(|host| format!("m,host=h{host} v=1 1\n"));
    assert_eq!(server.write(hosts.collect::<String>().as_bytes()).status, 204);
    let hosts = AtomicU32::new(0);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        alone.push(load());
        let done = AtomicBool::new(false);
        let rate = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let next = Instant::now() + Duration::from_millis(100);
                    let host = hosts.fetch_add(1, Ordering::Relaxed);
                    expect(&server.query(&format!("DELETE FROM m WHERE host = 'h{host}'")), 200, "");
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            });
            let rate = load();
            done.store(true, Ordering::Relaxed);
            rate
        });
        beside.push(rate);
        println!("{:.0} rows/s alone, {rate:.0} beside deletions", alone[alone.len() - 1]);
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let share = median(&mut beside) / median(&mut alone);
    println!("{share:.3} of the rate");
    assert!(share >= 0.97, "a loader keeps {share:.3} of its rate beside deletions from another database");
}

#[test]
fn deletions_that_are_long_or_deep() {
    let server = Server::start();
    let delete = |predicate: &str| {
        let (start, stop) = ("1970-01-01T00:00:00Z", "2200-01-01T00:00:00Z");
        let body = serde_json::json!({"start": start, "stop": stop, "predicate": predicate}).to_string();
        server.send(&request("POST", "/api/v2/delete?bucket=x", body.as_bytes()))
    };
    let chain = |count: usize| format!("a=\"b\"{}", " AND a=\"b\"".repeat(count));
    expect(&delete(&chain(20_000)), 204, "");
    expect(&delete(&chain(100_000)), 413, "Too Large");
    expect(&delete(&format!("{}a=b{}", "(".repeat(50_000), ")".repeat(50_000))), 400, "levels deep");
    expect(&delete(&format!("a=b{}", " OR a=b".repeat(20_000))), 400, "not supported");
    server.is_well();
}

#[test]
fn changes_of_points_at_times_beyond_all_times() {
    let server = Server::start();
    let points = b"ends v=1 -9223372036854775806\nends v=2 0\nends v=3 9223372036854775806";
    assert_eq!(server.write(points).status, 204);
    let changes = [
        "DELETE FROM ends WHERE",
        "DELETE WHERE",
        "DELETE FIELD v FROM ends WHERE",
        "UPDATE ends SET v = 7 WHERE",
    ];
    let of_no_time = [
        "time > 9223372036854775807",
        "time > 9223372036854775806",
        "time >= 9223372036854775807",
        "time = 9223372036854775807",
        "time < -9223372036854775808",
        "time < -9223372036854775806",
        "9223372036854775807 < time",
        "time >= 10000000000000000000.0",
    ];
    let out_of_range =
        ["time > 9223372036854775807 + 1", "time < now() - (106751d + 106751d)", "time > 106751d * 3"];
    for change in changes {
        for condition in of_no_time {
            let answer = text(&server.query(&format!("{change} {condition}")));
            assert!(!answer.contains("error"), "{change} {condition}: {answer}");
        }
        for condition in out_of_range {
            expect(&server.query(&format!("{change} {condition}")), 200, "time bound out of range");
        }
        let answer = text(&server.query("SELECT v FROM ends"));
        let all = "[[-9223372036854775806,1],[0,2],[9223372036854775806,3]]";
        assert!(answer.contains(all), "after {change}: {answer}");
    }
    server.is_well();
}
