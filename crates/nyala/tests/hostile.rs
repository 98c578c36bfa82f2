//! What a hostile or broken client can send: each request is refused with the right status and words that help,
//! the server goes on, its memory stays within a bound, and nothing that was stored is lost.

#[allow(dead_code, reason = "the compatibility test uses the rest")]
#[path = "support/client.rs"]
mod client;

use client::{Request, Response, gzip, percent_encode};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What the server is told, and the most it may take with everything that is not counted: code, stacks, sockets,
/// and the bodies that are being read.
const MEMORY_LIMIT_MIB: u64 = 128;
const PEAK_MEMORY_MAX_MIB: u64 = 2 * MEMORY_LIMIT_MIB + 64;
const MAX_BODY_BYTES: usize = 25_000_000;
const START_LIMIT: Duration = Duration::from_secs(20);
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    /// A server with a database `x` and a point in it.
    fn start() -> Server {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let child = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(["serve", "--memory-limit", &format!("{MEMORY_LIMIT_MIB}MiB")])
            .args(["--http-bind", &address.to_string(), "--data-dir"])
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let server = Server { child, address, _directory: directory };
        let begun = Instant::now();
        let health = request("GET", "/health", b"");
        while !client::send(address, &health).is_ok_and(|response| response.status == 200) {
            assert!(begun.elapsed() < START_LIMIT, "not ready in {START_LIMIT:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(server.query("CREATE DATABASE x").status, 200);
        assert_eq!(server.write(b"precious v=42 1").status, 204);
        server
    }

    fn send(&self, request: &Request) -> Response {
        client::send(self.address, request)
            .unwrap_or_else(|error| panic!("{} {}: {error}", request.method, request.target))
    }

    fn query(&self, text: &str) -> Response {
        self.query_with(text, "")
    }

    fn query_with(&self, text: &str, parameters: &str) -> Response {
        let body = format!("q={}", percent_encode(text));
        let target = format!("/query?db=x&epoch=ns{parameters}");
        let mut request = request("POST", &target, body.as_bytes());
        request.headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
        self.send(&request)
    }

    fn write(&self, body: &[u8]) -> Response {
        self.send(&request("POST", "/write?db=x", body))
    }

    fn write_packed(&self, encoding: &str, body: Vec<u8>) -> Response {
        let mut request = request("POST", "/write?db=x", &body);
        request.headers.push(("Content-Encoding".into(), encoding.into()));
        self.send(&request)
    }

    /// Sends bytes as they are and returns what comes back until the server closes or is silent.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).expect("the server accepts");
        stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Asks whether all is as it was: called at the end of every test.
    fn is_well(&self) {
        assert_eq!(self.write(b"after v=1 1").status, 204);
        let answer = text(&self.query("SELECT v FROM precious; SELECT v FROM after"));
        assert!(answer.contains("[1,42]") && answer.contains("[1,1]"), "{answer}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it lives");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!(peak_kib >> 10 <= PEAK_MEMORY_MAX_MIB, "took {} MiB of memory", peak_kib >> 10);
    }
}

fn request(method: &str, target: &str, body: &[u8]) -> Request {
    Request { method: method.into(), target: target.into(), headers: Vec::new(), body: body.to_vec() }
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// Checks the status and some words of an answer.
#[track_caller]
fn expect(response: &Response, status: u16, words: &str) {
    let text = text(response);
    let shown: String = text.chars().take(600).collect();
    assert_eq!(response.status, status, "{shown}");
    assert!(text.contains(words), "no {words:?} in {shown}");
}

/// The status of each answer on a connection.
fn statuses(answers: &str) -> Vec<u16> {
    let lines = answers.split("HTTP/1.1 ").skip(1);
    lines.filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
}

#[test]
fn bodies_that_are_too_large_or_broken() {
    let server = Server::start();
    let zeros = vec![b'\n'; 400 << 20];
    let zstd_bomb = zstd::bulk::compress(&zeros, 19).expect("it packs");
    let gzip_bomb = gzip(&zeros);
    drop(zeros);
    expect(&server.write_packed("gzip", gzip_bomb), 413, "Too Large");
    expect(&server.write_packed("zstd", zstd_bomb), 413, "Too Large");

    let line = b"m v=1 1\n";
    expect(&server.write(&line.repeat(MAX_BODY_BYTES / line.len() + 1)), 413, "Too Large");
    let mut told = request("POST", "/write?db=x", b"m v=1 1");
    told.headers.push(("Content-Length".into(), "99999999999".into()));
    expect(&server.send(&told), 413, "Too Large");
    // In chunks nothing tells the length before it is exceeded.
    let chunk = [b"8000\r\n".as_slice(), &b"x".repeat(0x8000), b"\r\n"].concat();
    let head = b"POST /write?db=x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let endless = [head.as_slice(), &chunk.repeat(MAX_BODY_BYTES / 0x8000 + 2)].concat();
    let answer = server.raw(&endless);
    assert_eq!(statuses(&answer), [413], "{answer}");

    let packed = gzip(b"m v=1 1\nm v=2 2\n");
    expect(&server.write_packed("gzip", packed[..packed.len() - 9].to_vec()), 400, "unexpected EOF");
    expect(&server.write_packed("gzip", b"weather temperature=1 1".to_vec()), 400, "gzip: ");
    let mut damaged = packed.clone();
    damaged[14] ^= 0x55;
    expect(&server.write_packed("gzip", damaged), 400, "error");
    let packed = zstd::bulk::compress(b"m v=1 1\nm v=2 2\n", 1).expect("it packs");
    expect(&server.write_packed("zstd", packed[..packed.len() - 3].to_vec()), 400, "zstd: ");
    expect(&server.write_packed("zstd", b"m v=1 1".to_vec()), 400, "zstd: ");
    // A body that is packed in no way we know is line protocol.
    expect(&server.write_packed("br", b"\x8b\x03\x80".to_vec()), 400, "unable to parse");
    let answer = text(&server.query("SELECT v FROM m"));
    assert!(!answer.contains("series"), "something of a refused body was stored: {answer}");
    server.is_well();
}

#[test]
fn many_bodies_at_once_that_never_end() {
    let server = Server::start();
    let head = format!("POST /write?db=x HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY_BYTES}\r\n\r\n");
    let most = b"#".repeat(MAX_BODY_BYTES - 1);
    let mut refused = 0;
    let mut open = Vec::new();
    for _ in 0..12 {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&most));
        let mut answer = [0; 512];
        let length = stream.read(&mut answer).unwrap_or(0);
        let answer = String::from_utf8_lossy(&answer[..length]);
        if !answer.is_empty() {
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after"), "{answer}");
            refused += 1;
        }
        open.push(stream);
    }
    assert!(refused > 0, "12 bodies of 25 MB were all held");
    // Queries go on meanwhile; and once the clients are gone, so do writes.
    expect(&server.query("SELECT v FROM precious"), 200, "[1,42]");
    drop(open);
    let begun = Instant::now();
    while server.write(b"again v=1 1").status != 204 {
        assert!(begun.elapsed() < START_LIMIT, "no write after the slow clients had gone");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.is_well();
}

#[test]
fn heads_that_are_no_http_or_too_large() {
    let server = Server::start();
    let cases: [(Vec<u8>, &[u16]); 10] = [
        (b"nonsense\r\n\r\n".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\nBad\0Name: y\r\n\r\n".to_vec(), &[400]),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\0b\r\n\r\n".to_vec(), &[400]),
        (b"POST /write?db=x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n".to_vec(), &[400]),
        (
            b"POST /write?db=x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
                .to_vec(),
            &[400],
        ),
        (
            b"POST /write?db=x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
            &[400],
        ),
        (format!("GET /query?q={} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000)).into_bytes(), &[414]),
        (
            format!("GET /ping HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(2_000_000)).into_bytes(),
            &[431],
        ),
        (format!("GET /ping HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5_000)).into_bytes(), &[431]),
    ];
    for (bytes, expected) in cases {
        let answer = server.raw(&bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(statuses(&answer), expected, "{shown:?}: {answer:?}");
    }
    for (method, target, status) in [
        ("PUT", "/write?db=x", 405),
        ("DELETE", "/query?q=DROP+DATABASE+x", 405),
        ("BREW", "/ping", 405),
        ("POST", "/metrics", 405),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/write/../query", 404),
    ] {
        assert_eq!(server.send(&request(method, target, b"")).status, status, "{method} {target}");
    }
    server.is_well();
}

#[test]
fn connections_that_are_slow_half_closed_or_hasty() {
    let server = Server::start();
    let ping = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n";
    let last = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = server.raw(&[ping.repeat(500).as_slice(), last].concat());
    assert_eq!(statuses(&answer), [204; 501]);

    // Clients that say nothing, or a word of a head and then nothing.
    let mut idle = Vec::new();
    for number in 0..400 {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        if number % 2 == 0 {
            stream.write_all(b"POST /write?db=x HTTP/1.1\r\nHo").expect("it is read");
        }
        idle.push(stream);
    }
    expect(&server.query("SELECT v FROM precious"), 200, "[1,42]");

    // A body that breaks off is not stored, whatever lines of it had come.
    let mut stream = TcpStream::connect(server.address).expect("the server accepts");
    let head =
        b"POST /write?db=x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf v=1 1\nhalf v=2 2\n";
    stream.write_all(head).expect("it is read");
    stream.shutdown(Shutdown::Both).expect("it was open");
    // A client that asks for much and leaves.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        let query = "GET /query?db=x&q=SELECT+v+FROM+%2F.*%2F HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(query.as_bytes()).expect("it is read");
        stream.shutdown(Shutdown::Write).expect("it was open");
    }
    let answer = text(&server.query("SELECT v FROM half"));
    assert!(!answer.contains("series"), "{answer}");
    server.is_well();
}

#[test]
fn queries_that_are_deep_long_or_no_text() {
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
        let begun = Instant::now();
        let response = server.query_with(&query, "&chunked=true");
        let shown = text(&response).chars().take(300).collect::<String>();
        assert!(shown.contains("error"), "{query}: {} {shown}", response.status);
        assert!(begun.elapsed() < ANSWER_LIMIT / 2, "{query} took {:?}", begun.elapsed());
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
    // What comes back in a header cannot begin another one.
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
fn lines_of_every_bad_kind() {
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
    // Zero bytes are blanks, and a line of blanks is none.
    expect(&server.write(b"\0\0\0\0"), 204, "");
    expect(&server.write(b"\xff\xfe\xfd"), 400, "unable to parse");
    expect(&server.write(&b"=".repeat(1_000_000)), 400, "unable to parse");
    expect(&server.write(&b"x\n".repeat(1_000_000)), 400, "\"refused\":1000000");
    expect(&server.write(format!("m v=\"{} 1", "x".repeat(20_000_000)).as_bytes()), 400, "unbalanced quotes");
    // Bytes that are no text, or zero, are part of names like any other.
    assert_eq!(server.write(b"zero\0name,t\0=a\0b v\0=1 1\n\xff,t=\xfe v=\"\xfd\" 1").status, 204);
    expect(&server.query("SHOW MEASUREMENTS"), 200, "zero\\u0000name");
    expect(&server.query("SELECT * FROM \"zero\0name\""), 200, "a\\u0000b");
    // Good lines among bad ones are stored.
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
        let response = server.write(lines.collect::<String>().as_bytes());
        match response.status {
            204 => {}
            // The rows of the first batches wait to be flushed.
            503 => std::thread::sleep(Duration::from_millis(200)),
            _ => {
                refused = Some(response);
                break;
            }
        }
    }
    let refused = refused.expect("200 000 series of 900 bytes do not fit into half of the memory limit");
    expect(&refused, 400, "no new series on measurement");
    // What is there can be written and read as before.
    let begun = Instant::now();
    while server.write(b"precious v=43 2").status != 204 {
        assert!(begun.elapsed() < START_LIMIT, "no write to a series that is there");
        std::thread::sleep(Duration::from_millis(100));
    }
    expect(&server.query("SELECT v FROM precious"), 200, "[2,43]");
    expect(&server.write(b"new v=1 1"), 400, "drop some");
    expect(&server.query("DROP SERIES FROM s"), 200, "");
}
