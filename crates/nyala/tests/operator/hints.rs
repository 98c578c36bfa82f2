//! Hints beside answers that are probably not what the user meant.

use crate::process::Process;
use crate::{send_with, text};

#[test]
fn a_hint_says_that_text_in_double_quotes_is_a_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(
        server.write("cpu,host=a,rack=a v=1,w=2 1\ncpu,host=b,rack=a v=2,w=2 2\nmem,a=1 v=1 1").status,
        204
    );
    let messages = |query: &str| server.query(query)["results"][0]["messages"].clone();
    for (query, parts) in [
        ("SELECT v FROM cpu WHERE host = \"a\"", &["\"a\" is no tag or field", "\"host\" = 'a'"][..]),
        (
            "SELECT mean(v) FROM cpu WHERE \"it's\" != host AND v > 0 GROUP BY time(1d)",
            &["\"host\" = 'it\\'s'"],
        ),
        ("SELECT v FROM cpu WHERE (host = \"b\" OR host = 'b') AND time < 10", &["'b'"]),
        ("SELECT max(v) FROM (SELECT v FROM cpu WHERE host = \"a\")", &["'a'"]),
        ("SELECT v FROM cpu WHERE host = a", &["'a'"]),
    ] {
        let messages = messages(query);
        assert_eq!(messages[0]["level"], "warning", "{query}: {messages}");
        let said = messages[0]["text"].as_str().expect("text");
        assert!(parts.iter().all(|part| said.contains(part)), "{query}: {said}");
    }
    for query in [
        "SELECT v FROM cpu WHERE host = 'a'",
        "SELECT v FROM cpu WHERE \"host\" = \"rack\"",
        "SELECT v FROM cpu WHERE v < w",
        "SELECT v FROM cpu WHERE \"hots\" = 'a'",
        "SELECT v FROM nothing WHERE host = \"a\"",
        // The name exists in one of the sources.
        "SELECT v FROM cpu, mem WHERE host = \"a\"",
        "SELECT v FROM cpu WHERE host = \"a\"::tag",
        "SELECT v FROM (SELECT v FROM cpu) WHERE host = \"a\"",
    ] {
        assert!(messages(query).is_null(), "{query}: {}", messages(query));
    }
    let answer = server
        .query("SELECT v FROM cpu WHERE host = 'a' OR host = \"a\"; SELECT v FROM cpu WHERE host = 'b'");
    assert!(
        answer["results"][0]["series"].is_array() && answer["results"][0]["messages"].is_array(),
        "{answer}"
    );
    assert!(answer["results"][1]["messages"].is_null(), "{answer}");
    let csv = send_with(
        &server,
        "GET",
        "/query?db=d&q=SELECT+v+FROM+cpu+WHERE+host=%22a%22",
        &[("Accept", "text/csv")],
    );
    assert_eq!(csv.status, 200, "{}", text(&csv));
}
