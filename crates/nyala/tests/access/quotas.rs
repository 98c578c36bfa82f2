//! Quotas: what a user asks for and writes is bounded, whatever the protocol, and others are not touched.

use super::client::Response;
use super::prometheus::packed_samples;
use super::sender::{Server, Session, body};

/// A minute gives back a few queries, so that on a slow machine one may be answered before the next is refused.
const TRIES: usize = 10;

fn refused(ask: impl Fn() -> Response) -> Response {
    let mut answers = (0..TRIES).map(|_| ask());
    answers.find(|answer| answer.status == 429).expect("one of them is refused")
}

fn is_refused(session: &mut Session, statement: &str) -> bool {
    (0..TRIES).any(|_| session.run(statement).is_err_and(|error| error.starts_with("53400")))
}

/// A cursor is one query: its fetches need no other place among those that run.
#[test]
fn fetches_of_a_cursor_are_a_part_of_its_query() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON home TO bob");
    server.ask("SET QUOTA FOR bob concurrent_queries = 1");
    let open = || Session::open(server.postgres, "bob", "paper").map_err(drop).expect("it logs in");
    let (mut session, mut other) = (open(), open());
    assert_eq!(session.run("BEGIN"), Ok(0));
    assert_eq!(session.run("DECLARE c SCROLL CURSOR FOR SELECT n FROM generate_series(1, 5) AS s(n)"), Ok(0));
    assert_eq!(session.run("FETCH 2 FROM c"), Ok(2));
    assert_eq!(session.run("MOVE 1 IN c"), Ok(0));
    assert!(other.run("SELECT 1").is_err_and(|error| error.starts_with("53400")));
    assert_eq!(session.run("FETCH ALL FROM c"), Ok(2));
    assert_eq!(session.run("FETCH BACKWARD ALL FROM c"), Ok(5));
    assert_eq!(session.run("CLOSE c"), Ok(0));
    assert_eq!(other.run("SELECT 1"), Ok(1));
    assert_eq!(session.run("COMMIT"), Ok(0));
}

#[test]
fn a_user_gets_no_more_than_its_quota() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON home TO bob");
    let write = |user: &str, lines: &str| server.send("POST", &format!("/write?db=home&{user}"), &[], lines);
    let (bob, ann) = ("u=bob&p=paper", "u=ann&p=pencil");
    let lines: String = (0..1000).map(|number| format!("m v=1 {number}\n")).collect();
    let create = "CREATE TABLE t (id int PRIMARY KEY)";
    assert_eq!(server.send("POST", &format!("/api/sql?db=home&{ann}"), &[], create).status, 200);
    server.ask("SET QUOTA FOR bob points_per_second = 1, queries_per_minute = 3");
    assert_eq!(write(bob, &lines).status, 204, "a batch is never cut");
    let too_much = write(bob, "m v=1");
    assert_eq!(too_much.status, 429, "{}", body(&too_much));
    let wait: u32 = too_much.header("Retry-After").and_then(|value| value.parse().ok()).expect("seconds");
    assert!((500..=1000).contains(&wait), "{wait}");
    assert!(body(&too_much).contains("quota points_per_second = 1"), "{}", body(&too_much));
    assert_eq!(write(ann, "m v=1").status, 204);
    // The same by SQL over both protocols, each of which is a statement as well.
    let insert = "INSERT INTO m (time, v) VALUES (now(), 1)";
    let too_much = server.send("POST", &format!("/api/sql?db=home&{bob}"), &[], insert);
    assert_eq!(too_much.status, 429, "{}", body(&too_much));
    assert!(body(&too_much).contains("\"code\":\"53400\""), "{}", body(&too_much));
    let mut session = Session::open(server.postgres, "bob", "paper").map_err(drop).expect("it logs in");
    assert!(session.run(insert).is_err_and(|error| error.starts_with("53400")));
    // Refused ones were not begun. What is asked for is counted by all languages together.
    assert_eq!(server.query(bob, &[], "SELECT v FROM m LIMIT 1").status, 200);
    assert_eq!(session.run("SELECT v FROM m LIMIT 1"), Ok(1));
    assert_eq!(server.send("POST", &format!("/api/sql?db=home&{bob}"), &[], "SELECT 1").status, 200);
    let too_often = refused(|| server.query(bob, &[], "SELECT v FROM m LIMIT 1"));
    assert!(too_often.header("Retry-After").is_some());
    assert!(is_refused(&mut session, "SELECT 1"));
    assert!(is_refused(&mut session, "SELECT id FROM t WHERE id = 1"));
    assert_eq!(server.query(ann, &[], "SELECT v FROM m LIMIT 1").status, 200);
    assert!(server.metric("nyala_quota_refused_total{quota=\"points_per_second\"}") >= 3);
    assert!(server.metric("nyala_quota_refused_total{quota=\"queries_per_minute\"}") >= 2);
    let listed = server.ask("SHOW QUOTAS");
    assert!(listed.contains("[\"bob\",0,3,1,0,0,0,0]"), "{listed}");
    // A token of the user has the user's quota.
    let token = server.token("CREATE TOKEN t FOR bob");
    let header = format!("Token {token}");
    refused(|| server.query("", &[("Authorization", &header)], "SELECT v FROM m"));
    let unknown = server.query(ann, &[], "SET QUOTA FOR bob speed = 1");
    assert!(body(&unknown).contains("there are concurrent_queries"), "{}", body(&unknown));
    // It outlives a restart, and ends when it is set to nothing.
    let server = server.again(&[]);
    server.ask("SET QUOTA FOR bob points_per_second = 0, queries_per_minute = 0");
    assert!(!server.ask("SHOW QUOTAS").contains("bob"));
    assert_eq!(server.send("POST", &format!("/write?db=home&{bob}"), &[], &lines).status, 204);
    assert_eq!(server.send("POST", &format!("/write?db=home&{bob}"), &[], &lines).status, 204);
}

/// A point of OpenTelemetry.
const METRICS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"temperature","gauge":{"dataPoints":[
    {"asDouble":1,"timeUnixNano":"1767225600000000000","attributes":[{"key":"h","value":{"stringValue":"g"}}]}]}}]}]}]}"#;

/// What a server says of the series of a measurement.
fn series(server: &Server, measurement: &str) -> usize {
    server.ask(&format!("SHOW SERIES FROM {measurement}")).matches(&format!("\"{measurement},")).count()
}

#[test]
fn a_user_creates_no_more_series_than_its_quota_in_every_language() {
    let options = ["--otlp-database", "home"];
    let server = Server::start(&options);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON home TO bob");
    server.ask("SET QUOTA FOR bob series_per_database = 3");
    let (bob, ann) = ("u=bob&p=paper", "u=ann&p=pencil");
    let write = |server: &Server, user: &str, lines: &str| {
        server.send("POST", &format!("/write?db=home&{user}"), &[], lines)
    };
    // The lines that need no new series are stored, and those before it was too many.
    let refused =
        write(&server, bob, "m,h=a v=1 1\nm,h=b v=1 1\nm,h=c v=1 1\nm,h=d v=1 1\nm,h=e v=1 1\nm,h=a v=2 2");
    assert_eq!(refused.status, 400, "{}", body(&refused));
    let words = body(&refused);
    assert!(words.contains("partial write: max-series-per-database limit exceeded: (3)"), "{words}");
    assert!(words.contains("quota series_per_database") && words.contains("dropped=2"), "{words}");
    assert_eq!(series(&server, "m"), 3);
    let again = write(&server, bob, "m,h=c v=2 2\nm,h=d v=1 1");
    assert!(again.status == 400 && body(&again).contains("dropped=1"), "{}", body(&again));
    // Nor a measurement without series.
    assert!(body(&write(&server, bob, "other v=1 1")).contains("no new measurement"));
    assert!(!server.ask("SHOW MEASUREMENTS").contains("other"));
    assert_eq!(write(&server, bob, "m,h=a w=1i 3").status, 204, "a field is no series");
    // Others are not bounded, and what they have created can be written to.
    assert_eq!(write(&server, ann, "m,h=d v=1 1\nm,h=x v=1 1").status, 204);
    assert_eq!(write(&server, bob, "m,h=d v=2 2").status, 204);
    // The same in all other languages.
    let other = server.send("POST", &format!("/api/v2/write?bucket=home/autogen&{bob}"), &[], "m,h=f v=1 1");
    assert!(other.status == 400 && body(&other).contains("max-series-per-database"), "{}", body(&other));
    let into = server.query(bob, &[], "SELECT v INTO copy FROM m GROUP BY h");
    assert!(body(&into).contains("max-series-per-database"), "{}", body(&into));
    let mut session = Session::open(server.postgres, "bob", "paper").map_err(drop).expect("it logs in");
    let insert =
        |host: &str| format!("INSERT INTO m (time, h, v) VALUES (now(), '{host}', 1), (now(), 'a', 1)");
    let refused = session.run(&insert("g")).expect_err("it is refused");
    assert!(refused.starts_with("53400") && refused.contains("series_per_database"), "{refused}");
    assert_eq!(session.run(&insert("d")), Ok(0));
    let copy = "/api/sql?db=home&u=bob&p=paper&q=COPY%20m%20(time,h,v)%20FROM%20STDIN%20(FORMAT%20csv)";
    let csv = [("Content-Type", "text/csv")];
    let rows = |host: &str| format!("2026-01-01 00:00:00,{host},1\n");
    let refused = server.send("POST", copy, &csv, &rows("g"));
    assert!(refused.status >= 400 && body(&refused).contains("53400"), "{}", body(&refused));
    assert_eq!(server.send("POST", copy, &csv, &rows("d")).status, 200);
    let json = [("Content-Type", "application/json")];
    let exported = server.send("POST", &format!("/v1/metrics?{bob}"), &json, METRICS);
    let words = body(&exported);
    assert!(words.contains("rejectedDataPoints") && words.contains("max-series-per-database"), "{words}");
    assert_eq!(server.send("POST", &format!("/v1/metrics?{ann}"), &json, METRICS).status, 200);
    let samples = |host: &str| packed_samples(&[("__name__", "m"), ("h", host)], std::iter::once((7.0, 1)));
    let remote_write =
        |user: &str, host: &str| server.send_bytes("/api/v1/prom/write?db=home", user, &[], &samples(host));
    let refused = remote_write(bob, "g");
    assert!(
        refused.status == 400 && body(&refused).contains("max-series-per-database"),
        "{}",
        body(&refused)
    );
    assert!(!server.ask("SHOW SERIES FROM m").contains("h=g"));
    assert_eq!(remote_write(ann, "p").status, 204);
    assert_eq!(remote_write(bob, "p").status, 204);
    let arrow = |user: &str, host: &str| server.send_arrow(user, &points_of(&["d", host]));
    let refused = arrow(bob, "g");
    assert!(refused.status >= 400 && body(&refused).contains("53400"), "{}", body(&refused));
    assert!(body(&refused).contains("series_per_database"), "{}", body(&refused));
    assert_eq!(arrow(ann, "k").status, 200);
    assert_eq!(arrow(bob, "k").status, 200);
    assert_eq!(arrow(bob, "a").status, 200);
    server.ask("DROP SERIES WHERE h = 'k' OR h = 'p'");
    assert!(server.metric("nyala_quota_refused_total{quota=\"series_per_database\"}") >= 9);
    // What there is counts, whoever has created it: after a restart, and less when some of it is removed.
    let server = server.again(&options);
    assert_eq!(write(&server, bob, "m,h=y v=1 1").status, 400);
    assert_eq!(write(&server, bob, "m,h=x v=2 2").status, 204);
    server.ask("DROP MEASUREMENT temperature");
    server.ask("DROP SERIES FROM m WHERE h = 'x' OR h = 'd' OR h = 'c'");
    let partly = write(&server, bob, "m,h=y v=1 1\nm,h=z v=1 1");
    assert!(partly.status == 400 && body(&partly).contains("dropped=1"), "{}", body(&partly));
    assert_eq!(series(&server, "m"), 3);
    // A batch of many requests at once does not slip through.
    server.ask("SET QUOTA FOR bob series_per_database = 20");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (server, write) = (&server, &write);
            scope.spawn(move || {
                for number in 0..5 {
                    write(server, bob, &format!("m{writer},h=q{number} v=1 1\nm,h=w{writer}n{number} v=1 1"));
                }
            });
        }
    });
    let all: usize = (0..8).map(|writer| series(&server, &format!("m{writer}"))).sum();
    assert_eq!(all + series(&server, "m"), 20);
}

/// A query of one point for each of these hosts.
fn points_of(hosts: &[&str]) -> String {
    let rows = hosts.iter().map(|host| format!("(TIMESTAMP '2026-01-01 00:00:00', '{host}', 1.5::float8)"));
    format!("SELECT * FROM (VALUES {}) AS p(time, h, v)", rows.collect::<Vec<_>>().join(", "))
}

#[test]
fn bytes_are_counted_in_every_language() {
    let options = ["--otlp-database", "home"];
    let server = Server::start(&options);
    assert_eq!(server.send("POST", "/write?db=home&u=ann&p=pencil", &[], "m,h=a v=1 1").status, 204);
    let long = "x".repeat(2000);
    let csv = [("Content-Type", "text/csv")];
    let json = [("Content-Type", "application/json")];
    type Sender<'a> = (&'a str, Box<dyn Fn(&str) -> u16 + 'a>);
    let text = format!("INSERT INTO m (time, h, note) VALUES (now(), 'a', '{long}')");
    let ways: Vec<Sender<'_>> = vec![
        (
            "lines",
            Box::new(|user| {
                let lines = format!("m,h=a note=\"{long}\" 1");
                server.send("POST", &format!("/write?db=home&{user}"), &[], &lines).status
            }),
        ),
        (
            "samples",
            Box::new(|user| {
                let samples =
                    packed_samples(&[("__name__", "m"), ("h", "a")], (0..200).map(|time| (0.1, time)));
                server.send_bytes("/api/v1/prom/write?db=home", user, &[], &samples).status
            }),
        ),
        (
            "metrics",
            Box::new(|user| {
                let metrics = METRICS.to_owned() + &" ".repeat(2000);
                server.send("POST", &format!("/v1/metrics?{user}"), &json, &metrics).status
            }),
        ),
        (
            "a statement over HTTP",
            Box::new(|user| server.send("POST", &format!("/api/sql?db=home&{user}"), &[], &text).status),
        ),
        (
            "a statement of PostgreSQL's protocol",
            Box::new(|user| {
                let name = user.trim_start_matches("u=").split('&').next().expect("a name");
                let mut session =
                    Session::open(server.postgres, name, "paper").map_err(drop).expect("it logs in");
                if session.run(&text).is_ok() { 200 } else { 500 }
            }),
        ),
        (
            "CSV",
            Box::new(|user| {
                let statement = "COPY%20m%20(time,h,note)%20FROM%20STDIN%20(FORMAT%20csv)";
                let rows = format!("2026-01-01 00:00:00,a,{long}\n");
                server.send("POST", &format!("/api/sql?db=home&{user}&q={statement}"), &csv, &rows).status
            }),
        ),
        (
            "Arrow",
            Box::new(|user| {
                let hosts = ["a"; 100];
                server.send_arrow(user, &points_of(&hosts)).status
            }),
        ),
    ];
    for (number, (name, way)) in ways.iter().enumerate() {
        server.ask(&format!("CREATE USER bob{number} WITH PASSWORD 'paper'"));
        server.ask(&format!("GRANT ALL ON home TO bob{number}"));
        server.ask(&format!("SET QUOTA FOR bob{number} bytes_per_second = 1"));
        let user = format!("u=bob{number}&p=paper");
        let status = way(&user);
        assert!((200..300).contains(&status), "{name}: {status}");
        let refused = server.send("POST", &format!("/write?db=home&{user}"), &[], "m,h=a v=1");
        assert_eq!(refused.status, 429, "{name}: {}", body(&refused));
        assert!(body(&refused).contains("quota bytes_per_second = 1"), "{name}: {}", body(&refused));
        let status = way(&user);
        assert!(!(200..300).contains(&status), "{name}: it is not refused itself, but {status}");
    }
}

#[test]
fn queries_of_a_user_hold_no_more_memory_than_its_quota() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON home TO bob");
    let (bob, ann) = ("u=bob&p=paper", "u=ann&p=pencil");
    let lines: String = (0..200_000).map(|number| format!("m v={}.5 {number}\n", number % 9973)).collect();
    assert_eq!(server.send("POST", &format!("/write?db=home&{ann}"), &[], &lines).status, 204);
    server.ask("SET QUOTA FOR bob query_memory_bytes = 1048576");
    let sql = |user: &str, text: &str| server.send("POST", &format!("/api/sql?db=home&{user}"), &[], text);
    let held = "SELECT cardinality(array_agg(v)) AS held FROM m";
    for user in [bob, ann] {
        let light = server.query(user, &[], "SELECT count(v) FROM m");
        assert!(body(&light).contains("200000"), "{}", body(&light));
        assert_eq!(sql(user, "SELECT count(*) AS c FROM m").status, 200);
        let median = body(&server.query(user, &[], "SELECT median(v) FROM m"));
        let array = sql(user, held);
        if user == ann {
            assert!(!median.contains("error") && array.status == 200, "{median} {}", body(&array));
            continue;
        }
        let words =
            "queries of user \\\"bob\\\" need more memory than its quota query_memory_bytes = 1048576";
        assert!(median.contains(words), "{median}");
        assert!(body(&array).contains("\"code\":\"53200\"") && array.status >= 400, "{}", body(&array));
        assert!(body(&array).contains("query_memory_bytes"), "{}", body(&array));
    }
    let mut session = Session::open(server.postgres, "bob", "paper").map_err(drop).expect("it logs in");
    assert!(session.run(held).is_err_and(|error| error.starts_with("53200")));
    assert_eq!(server.metric("nyala_quota_refused_total{quota=\"query_memory_bytes\"}"), 3);
    // Nothing is stored of which there is no memory to return what was asked for.
    assert_eq!(session.run("CREATE TABLE t (id int PRIMARY KEY, s text)"), Ok(0));
    let returning = "INSERT INTO t VALUES (1, repeat('x', 3000000)) RETURNING s, s, s";
    assert!(session.run(returning).is_err_and(|error| error.starts_with("53200")));
    assert_eq!(session.run("SELECT id FROM t"), Ok(0));
    // What was refused is given back.
    server.ask("SET QUOTA FOR bob query_memory_bytes = 67108864");
    assert_eq!(session.run(returning), Ok(1));
    assert_eq!(sql(bob, held).status, 200);
    assert_eq!(session.run(held), Ok(1));
}
