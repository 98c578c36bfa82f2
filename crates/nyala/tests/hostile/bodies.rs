//! Bodies that are too large, broken, or never end.

use crate::client::gzip;
use crate::server::{MAX_BODY_BYTES, START_LIMIT, Server, expect, request, statuses, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

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
    // A chunked body declares no length.
    let chunk = [b"8000\r\n".as_slice(), &b"x".repeat(0x8000), b"\r\n"].concat();
    let head = b"POST /write?db=x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
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
    // A body with an unknown encoding is read as line protocol.
    expect(&server.write_packed("br", b"\x8b\x03\x80".to_vec()), 400, "unable to parse");
    let answer = text(&server.query("SELECT v FROM m"));
    assert!(!answer.contains("series"), "something of a refused body was stored: {answer}");
    server.is_well();
}

#[test]
fn many_bodies_at_once_that_never_end() {
    let server = Server::start();
    let head =
        format!("POST /write?db=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_BODY_BYTES}\r\n\r\n");
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
    // Queries are answered meanwhile. When the clients are gone, writes are accepted again.
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
fn bodies_that_are_declared_and_not_sent() {
    let server = Server::start();
    let before_mib = server.memory_mib("VmRSS:");
    let head = "POST /write?db=x HTTP/1.1\r\nHost: x\r\nContent-Length: 25000000\r\n\r\n";
    let beginning = [head.as_bytes(), &b"#".repeat(32 << 10)].concat();
    let mut open = Vec::new();
    for _ in 0..800 {
        let mut stream = TcpStream::connect(server.address).expect("the server accepts");
        // The server may refuse it before all is sent.
        let _ = stream.write_all(&beginning);
        open.push(stream);
    }
    // The kernel forms huge pages of sparsely used memory only after a while.
    std::thread::sleep(Duration::from_secs(3));
    // The server measures several times a second what else it holds, and may still be reading.
    let begun = Instant::now();
    loop {
        let held_mib = server.memory_mib("VmRSS:");
        let charged: u64 = ["in_flight", "uncharged"]
            .map(|component| server.metric(&format!("nyala_memory_bytes{{component=\"{component}\"}}")))
            .iter()
            .sum();
        // The program itself takes 26 MiB of the limit. Both numbers are measured at slightly different times.
        if (charged >> 20) + 28 >= held_mib {
            break;
        }
        // Then the server would give the first of them up, which have sent nothing for 30 s.
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{held_mib} MiB are held, {charged} bytes charged"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(open);
    let begun = Instant::now();
    while server.memory_mib("VmRSS:") > before_mib + 8 {
        assert!(begun.elapsed() < START_LIMIT, "{} MiB", server.memory_mib("VmRSS:"));
        std::thread::sleep(Duration::from_millis(100));
    }
    server.is_well();
}

#[test]
fn windows_of_zstd_that_are_huge() {
    let server = Server::start();
    let lines = b"m v=1 1\n".repeat(1_000_000);
    let packed = |window_log: u32, is_told: bool| {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.window_log(window_log).expect("a window");
        encoder.long_distance_matching(true).expect("a long window");
        if is_told {
            encoder.set_pledged_src_size(Some(lines.len() as u64)).expect("a size");
        }
        encoder.write_all(&lines).and_then(|()| encoder.finish()).expect("it packs")
    };
    expect(&server.write_packed("zstd", packed(23, false)), 204, "");
    expect(&server.write_packed("zstd", packed(27, true)), 204, "");
    expect(&server.write_packed("zstd", packed(27, false)), 400, "zstd: the window is larger than 8 MiB");
    server.is_well();
}

#[test]
fn forms_with_very_many_parameters() {
    let server = Server::start();
    let send = |body: &[u8]| {
        let mut form = request("POST", "/query?db=x", &gzip(body));
        form.headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
        form.headers.push(("Content-Encoding".into(), "gzip".into()));
        server.send(&form)
    };
    expect(&send(&b"a&".repeat(12_400_000)), 413, "Too Large");
    expect(&send(&b"a&".repeat(4_000_000)), 400, "missing required parameter");
    let few = "a=1&".repeat(500);
    expect(&send(format!("{few}q=SELECT v FROM precious&{few}{few}").as_bytes()), 200, ",42]");
    let mut parts = request("POST", "/query?db=x", &gzip(&b"--a".repeat(2_700_000)));
    parts.headers.push(("Content-Type".into(), "multipart/form-data; boundary=a".into()));
    parts.headers.push(("Content-Encoding".into(), "gzip".into()));
    expect(&server.send(&parts), 400, "missing required parameter");
    server.is_well();
}

#[cfg(feature = "sql")]
#[test]
fn rows_of_arrow_that_all_name_one_long_text() {
    use crate::client::percent_encode;
    use arrow_array::types::Int8Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let server = Server::start();
    let body = |rows: usize, text: &str| {
        let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let column = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0; rows]), text);
        let rows = RecordBatch::try_from_iter([("a", Arc::new(column) as ArrayRef)]).expect("a column");
        let writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &rows.schema());
        let mut writer = writer.expect("a stream");
        writer.write(&rows).and_then(|()| writer.into_inner()).expect("memory grows")
    };
    let copy = |table: &str, body: &[u8]| {
        let statement = format!("COPY {table} FROM STDIN (FORMAT arrow)");
        let target = format!("/api/sql?db=x&q={}", percent_encode(&statement));
        let mut rows = request("POST", &target, &gzip(body));
        rows.headers.push(("Content-Type".into(), "application/vnd.apache.arrow.stream".into()));
        rows.headers.push(("Content-Encoding".into(), "gzip".into()));
        server.send(&rows)
    };
    for table in ["short (a varchar(10))", "long (a text)"] {
        let created = request("POST", "/api/sql?db=x", format!("CREATE TABLE {table}").as_bytes());
        expect(&server.send(&created), 200, "");
    }
    // Gigabytes of texts, none of which the column can have.
    expect(&copy("short", &body(1_000_000, &"x".repeat(2000))), 400, "22001");
    // More than the memory limit, of which the column can have all: they are written, or there is an error that says why not.
    let answer = copy("long", &body(3_000, &"x".repeat(64 << 10)));
    assert!(answer.status == 200 || text(&answer).contains("memory"), "{}", text(&answer));
    server.is_well();
}
