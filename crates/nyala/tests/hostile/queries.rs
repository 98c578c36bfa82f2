//! Queries and request parameters.

use crate::client::gzip;
use crate::server::{ANSWER_LIMIT, Server, expect, request, text};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn queries_that_are_deep_long_or_not_text() {
    let server = Server::start();
    let nested = |open: &str, inner: &str, close: &str, count: usize| {
        format!("{}{inner}{}", open.repeat(count), close.repeat(count))
    };
    let deep = [
        format!("SELECT {} FROM precious", nested("(", "v", ")", 100_000)),
        format!("SELECT v FROM precious WHERE {}", nested("(", "v = 1", ")", 100_000)),
        format!("SELECT {} FROM precious", nested("abs(", "v", ")", 10_000)),
        format!("SELECT v FROM {}", nested("(SELECT v FROM ", "precious", ")", 10_000)),
        format!("SELECT v{} FROM precious", " + v".repeat(100_000)),
        format!("SELECT {}v FROM precious", "-".repeat(100_000)),
    ];
    for query in deep {
        let response = server.query(&query);
        let shown = text(&response).chars().take(200).collect::<String>();
        assert!([200, 400].contains(&response.status) && shown.contains("error"), "{shown}");
    }
    let wide = format!("SELECT v FROM precious WHERE v = 42{}", " OR v = 1".repeat(20_000));
    expect(&server.query(&wide), 200, "");
    let statements = "SHOW DATABASES;".repeat(20_000);
    expect(&server.query(&statements), 200, "");
    expect(&server.query(&"x".repeat(1_000_000)), 400, "error parsing query");
    expect(
        &server.query(&format!("SELECT v FROM precious WHERE v = '{}", "x".repeat(100_000))),
        400,
        "error parsing",
    );
    expect(&server.query("SELECT v FROM \"\0\"; SELECT \u{fffd} FROM precious"), 400, "error parsing query");
    expect(
        &server.query("SELECT v FROM precious WHERE v = 99999999999999999999999999999"),
        400,
        "unable to parse integer",
    );
    expect(&server.query("SELECT v FROM precious WHERE time > 99999999999999999999d"), 400, "error");
    expect(&server.query("SELECT v FROM precious LIMIT 99999999999999999999"), 200, "[1,42]");
    expect(
        &server.query("SELECT v FROM precious LIMIT 9223372036854775807 OFFSET 9223372036854775807"),
        200,
        "",
    );
    for regex in ["(((a{100}){100}){100}){100}", "(", "[", "a**", "\\8", &"(".repeat(100_000)] {
        let response = server.query(&format!("SELECT v FROM /{regex}/"));
        let shown = text(&response);
        assert!(shown.contains("error"), "{regex:.40}: {shown:.300}");
    }
    let raw = |form: &[u8]| {
        let mut request = request("POST", "/query?db=x", form);
        request.headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
        server.send(&request)
    };
    expect(&raw(b"q=SELECT \xff\xfe FROM precious"), 400, "error parsing query");
    expect(&raw(b"q=%00%ff%fe"), 400, "error parsing query");
    expect(&raw(b"q=%"), 400, "missing required parameter");
    expect(&raw(b"&=&&=%3d;;=q"), 400, "missing required parameter");
    server.is_well();
}

#[test]
fn queries_that_ask_for_too_much() {
    let server = Server::start();
    let mut body = String::new();
    for number in 0..20_000 {
        body.push_str(&format!("wide,host=h{number} v={number} {}\n", number as i64 * 1_000_000_000_000));
    }
    assert_eq!(server.write(body.as_bytes()).status, 204);
    let all = "time >= '1970-01-01' AND time < '2262-01-01'";
    for query in [
        format!("SELECT mean(v) FROM precious WHERE {all} GROUP BY time(1ns)"),
        format!("SELECT count(v) FROM precious WHERE {all} GROUP BY time(1u) fill(0)"),
        format!("SELECT mean(v) FROM wide WHERE {all} GROUP BY time(1s), host fill(linear)"),
        format!(
            "SELECT mean(m) FROM (SELECT mean(v) AS m FROM wide WHERE {all} GROUP BY time(1s), host fill(0))"
        ),
        format!("SELECT percentile(v, 50) FROM wide WHERE {all} GROUP BY time(1ms), * fill(previous)"),
    ] {
        // Without a limit its answer would not come before the client gives it up.
        let response = server.query_with(&query, "&chunked=true");
        let shown = text(&response).chars().take(300).collect::<String>();
        assert!(shown.contains("error"), "{query}: {} {shown}", response.status);
    }
    expect(&server.query("SELECT distinct(v) FROM wide"), 200, "19999");
    expect(&server.query("SHOW SERIES; SHOW TAG VALUES WITH KEY = host"), 200, "h19999");
    server.is_well();
}

#[test]
fn parameters_of_the_wrong_kind() {
    let server = Server::start();
    let select = "SELECT v FROM precious";
    for (parameters, status, words) in [
        ("&epoch=nonsense", 200, "[1,42]"),
        ("&chunked=true&chunk_size=-1", 200, "[1,42]"),
        ("&chunked=true&chunk_size=0", 200, "[1,42]"),
        ("&chunked=true&chunk_size=abc", 200, "[1,42]"),
        ("&chunked=true&chunk_size=99999999999999999999", 200, "[1,42]"),
        ("&chunked=yes&pretty=1", 200, "[1,42]"),
        ("&params=%7B", 400, "unexpected EOF"),
        ("&params=%5B1%5D", 400, "cannot unmarshal array"),
        ("&params=1", 400, "cannot unmarshal number"),
        ("&params=%7B%22a%22%3A1e999%7D", 400, "error parsing json value"),
        ("&params=%7B%22a%22%3A%7B%22a%22%3A%7B%7D%7D%7D", 200, "[1,42]"),
        ("&params=%ff%fe", 400, "error parsing query parameters"),
    ] {
        let response = server.query_with(select, parameters);
        let shown = text(&response);
        assert!(
            response.status == status && shown.contains(words),
            "{parameters}: {} {shown}",
            response.status
        );
    }
    let nested = format!("&params=%7B%22a%22%3A{}", "%5B".repeat(10_000));
    expect(&server.query_with(select, &nested), 400, "error parsing query parameters");
    for (target, status, words) in [
        ("/write", 400, "database is required"),
        ("/write?db=", 400, "database is required"),
        ("/write?db=%00", 404, "database not found: \\\"\\\\x00\\\""),
        ("/write?db=nope", 404, "database not found"),
        ("/write?db=x&rp=nope", 500, "retention policy not found"),
        ("/write?db=x&precision=fortnight", 400, "invalid precision"),
        ("/write?db=x&consistency=some", 400, "invalid consistency level"),
    ] {
        expect(&server.send(&request("POST", target, b"m v=1 1")), status, words);
    }
    // Text that is returned in a header cannot begin another header.
    let response = server.write(b"m v=\r\nX-Evil: 1\r\n\r\n<script> 1");
    expect(&response, 400, "unable to parse");
    assert_eq!(response.header("X-Evil"), None);
    let response = server.send(&request("POST", "/write?db=a%0d%0aX-Evil:%201", b"m v=1 1"));
    assert_eq!((response.status, response.header("X-Evil")), (404, None));
    let mut form = request("POST", "/query", b"q=SHOW DATABASES");
    form.headers.push(("Content-Type".into(), "application/vnd.unknown".into()));
    expect(&server.send(&form), 400, "missing required parameter");
    server.is_well();
}

#[test]
fn queries_whose_parsed_form_or_answer_is_huge() {
    let server = Server::start();
    let form = |text: &str| {
        let mut request = request("POST", "/query?db=x", &gzip(format!("q={text}").as_bytes()));
        request.headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
        request.headers.push(("Content-Encoding".into(), "gzip".into()));
        request
    };
    let long = form(&format!("SELECT+a{}+FROM+precious", ",a".repeat(1_000_000)));
    let send = || {
        let response = server.send(&long);
        let shown = text(&response).chars().take(200).collect::<String>();
        assert!([400, 422, 503].contains(&response.status) && shown.contains("error"), "{shown}");
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(send))));

    let rows: String = (0..1_024).map(|row| format!("rows v={row} {row}\n")).collect();
    assert_eq!(server.write(rows.as_bytes()).status, 204);
    let wide = form(&format!("SELECT+v{}+FROM+rows", ",v".repeat(20_000)));
    let mut stream = TcpStream::connect(server.address).expect("the server accepts");
    let length = wide.body.len();
    let mut head =
        format!("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n", wide.target);
    wide.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    stream.write_all(&[head.as_bytes(), b"\r\n", &wide.body].concat()).expect("it is read");
    // The beginning of an answer of 150 MB.
    stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
    assert!(stream.read(&mut [0; 4096]).expect("an answer") > 0);
    server.is_well();
}

#[test]
fn queries_of_many_regular_expressions() {
    let server = Server::start();
    let query = |count: usize, pattern: &str| {
        let any: Vec<String> = (0..count).map(|number| format!("host =~ /{pattern}{number}/")).collect();
        server.query(&format!("SELECT v FROM precious WHERE {}", any.join(" OR ")))
    };
    expect(&query(100, "^h"), 200, "{\"statement_id\":0}");
    expect(&query(4, "\\pL{20}"), 200, "{\"statement_id\":0}");
    let refused = query(100, "\\pL{100}");
    expect(&refused, 422, "too many or too large regular expressions");
    let too_large = "\\pL{1000}\\pL{1000}";
    expect(&query(1, too_large), 200, "expression too large");
    server.is_well();
}
