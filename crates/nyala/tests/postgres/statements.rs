//! Prepared statements of messages and those of SQL are the same, and cursors keep what they have passed.

use super::hostile::{Raw, contains, message};
use super::server::Server;

pub(crate) fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

pub(crate) fn query(raw: &mut Raw, statement: &str) -> String {
    raw.send(&message(b'Q', &text(statement)));
    String::from_utf8_lossy(&raw.until_ready()).into_owned()
}

/// Executes statements, none of which fails.
pub(crate) fn does(raw: &mut Raw, statements: &[&str]) {
    for statement in statements {
        let answer = query(raw, statement);
        assert!(!answer.contains("SERROR"), "{statement}: {answer}");
    }
}

#[test]
fn sql_and_messages_keep_the_same_statements() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    // What a message has prepared, EXECUTE executes.
    let parse = [text("of_message"), text("SELECT $1 || 'x' AS shown"), vec![0, 1, 0, 0, 0, 25]].concat();
    raw.send(&[message(b'P', &parse), message(b'S', b"")].concat());
    assert!(!contains(&raw.until_ready(), "ERROR"));
    let shown = query(&mut raw, "EXECUTE of_message ('value-')");
    assert!(shown.contains("value-x"), "{shown}");
    let listed = query(&mut raw, "SELECT name, from_sql, statement FROM pg_prepared_statements");
    assert!(listed.contains("of_message") && listed.contains("SELECT $1 || 'x' AS shown"), "{listed}");
    // What PREPARE has prepared, a message binds.
    query(&mut raw, "PREPARE of_sql (int) AS SELECT $1 + 40 AS shown");
    let bind = [text(""), text("of_sql"), vec![0, 0, 0, 1, 0, 0, 0, 1, b'2', 0, 0]].concat();
    let execute = [text(""), vec![0; 4]].concat();
    let described = [vec![b'S'], text("of_sql")].concat();
    raw.send(
        &[message(b'D', &described), message(b'B', &bind), message(b'E', &execute), message(b'S', b"")]
            .concat(),
    );
    let answered = raw.until_ready();
    assert!(contains(&answered, "42") && contains(&answered, "shown"), "{answered:?}");
    // A name is taken, whoever took it, and free again when it was forgotten, however that was.
    let taken = [text("of_sql"), text("SELECT 1"), vec![0, 0]].concat();
    raw.send(&[message(b'P', &taken), message(b'S', b"")].concat());
    assert!(contains(&raw.until_ready(), "C42P05"));
    assert!(query(&mut raw, "PREPARE of_message AS SELECT 1").contains("C42P05"));
    let close = [vec![b'S'], text("of_sql")].concat();
    raw.send(&[message(b'C', &close), message(b'S', b"")].concat());
    raw.until_ready();
    assert!(query(&mut raw, "EXECUTE of_sql (1)").contains("C26000"));
    assert!(query(&mut raw, "DEALLOCATE of_message").contains("DEALLOCATE"));
    let bind = [text(""), text("of_message"), vec![0, 0, 0, 0, 0, 0]].concat();
    raw.send(&[message(b'B', &bind), message(b'S', b"")].concat());
    assert!(contains(&raw.until_ready(), "C26000"));
    let again = query(
        &mut raw,
        "PREPARE of_message AS SELECT 'again'; EXECUTE of_message; EXPLAIN EXECUTE of_message",
    );
    assert!(again.contains("again") && again.contains("Projection"), "{again}");
    let limited =
        (0..2100).map(|number| format!("PREPARE p{number} AS SELECT 1")).collect::<Vec<_>>().join(";");
    assert!(query(&mut raw, &limited).contains("C54000"));
}

/// What has more digits than a column has equals none of its numbers: it is not rounded to them.
#[test]
fn numbers_of_a_list_are_compared_with_all_of_their_digits() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    does(
        &mut raw,
        &["CREATE TABLE p (a int PRIMARY KEY, c numeric(10,2))", "INSERT INTO p VALUES (1, 1.00), (2, 1.01)"],
    );
    let statement = text("SELECT 'found ' || a AS shown FROM p WHERE c = ANY($1)");
    let parse = [text(""), statement, vec![0, 0]].concat();
    for (list, wanted) in [("{1.004,1.005}", "SELECT 0\0"), ("{1.010,7}", "found 2")] {
        let length = (list.len() as u32).to_be_bytes();
        let bind = [&[0_u8, 0, 0, 0, 0, 1][..], &length[..], list.as_bytes(), &[0, 0][..]].concat();
        raw.send(&[message(b'P', &parse), message(b'B', &bind), message(b'E', &[0; 5])].concat());
        raw.send(&message(b'S', b""));
        let answer = raw.until_ready();
        assert!(contains(&answer, wanted), "{list}: {}", String::from_utf8_lossy(&answer));
    }
}

/// Drivers read times by the zone that they were told of last.
#[test]
fn settings_that_a_query_changes_are_told_to_the_client() {
    let server = Server::start(&[]);
    let mut raw = Raw::open(server.address);
    let set = |zone: &str| format!("SELECT set_config('TimeZone', '{zone}', false)");
    let answer = query(&mut raw, &set("Asia/Tokyo"));
    assert!(answer.contains("TimeZone\0Asia/Tokyo\0"), "{answer}");
    let parse = [text(""), text(&set("Europe/Berlin")), vec![0, 0]].concat();
    raw.send(&[message(b'P', &parse), message(b'B', &[0; 8]), message(b'E', &[0; 5])].concat());
    raw.send(&message(b'S', b""));
    let answer = raw.until_ready();
    assert!(contains(&answer, "TimeZone\0Europe/Berlin\0"), "{answer:?}");
    let answer = query(&mut raw, &set("Europe/Berlin"));
    assert!(!answer.contains("TimeZone\0"), "it knows that already: {answer}");
}

/// Clients of InfluxDB drop the measurement of a prepared statement, write it again, and give it more columns.
#[test]
fn a_prepared_statement_follows_its_measurement() {
    let server = Server::start(&[]);
    let post = |target: &str, body: &str| {
        let answer = server.process.send("POST", target, body.as_bytes()).expect("an answer");
        assert!(answer.status < 300, "{target}: {}", answer.status);
    };
    let mut raw = Raw::open(server.address);
    let counted =
        "SELECT 'found ' || count(*) || ' up to ' || coalesce(max(usage)::text, '') AS shown FROM cpu";
    does(&mut raw, &[&format!("PREPARE counted AS {counted}")]);
    let mut answers = |wanted: &str| {
        let answer = query(&mut raw, "EXECUTE counted");
        assert!(answer.contains(wanted), "{wanted}: {answer}");
    };
    answers("found 3 up to 2.5");
    post("/query?db=d&q=DROP%20MEASUREMENT%20cpu", "");
    answers("C42P01");
    post("/write?db=d", "cpu usage=7 1");
    answers("found 1 up to 7");
    post("/write?db=d", "cpu,rack=z other=1i 2");
    answers("found 2 up to 7");
    post("/query?db=d&q=DROP%20MEASUREMENT%20cpu", "");
    post("/write?db=d", "cpu usage=8i 1");
    answers("found 1 up to 8");
}

/// The rows of a cursor that goes back are more than its memory holds: they go to the disk, and are gone with it.
#[test]
fn a_cursor_that_goes_back_keeps_its_rows_on_the_disk() {
    let server = Server::start(&["--memory-limit", "128MiB"]);
    let mut raw = Raw::open(server.address);
    let used = || -> u64 {
        let answer = server.process.send("GET", "/metrics", b"").expect("an answer");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let found =
            text.lines().find_map(|line| line.strip_prefix("nyala_sql_spilled_bytes ")?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no metric of spilled bytes: {text}"))
    };
    query(&mut raw, "BEGIN");
    let declare = "DECLARE c SCROLL CURSOR FOR SELECT n, repeat('x', 100) AS words FROM generate_series(1, 50000) AS s(n)";
    let declared = query(&mut raw, declare);
    assert!(declared.contains("DECLARE CURSOR"), "{declared}");
    assert!(query(&mut raw, "MOVE LAST IN c").contains("MOVE 1"));
    assert!(used() > 1 << 20, "{}", used());
    let back = query(&mut raw, "FETCH ABSOLUTE 12345 FROM c");
    assert!(back.contains("12345"), "{back}");
    let last = query(&mut raw, "FETCH LAST FROM c");
    assert!(last.contains("50000"), "{last}");
    assert!(query(&mut raw, "COMMIT").contains("COMMIT"));
    assert_eq!(used(), 0);
    server.process.assert_within_memory_limit(128);
}
