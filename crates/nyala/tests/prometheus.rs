//! Prometheus remote read and write: rights and limits. The form of answers is in
//! `testdata/influx/read_prometheus.script` and `write_prometheus.script`.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/prometheus.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod prometheus;

use process::Process;

fn read(server: &Process, login: &str, text: &str) -> (u16, String) {
    let body = prometheus::packed(text).expect("a request");
    let target = format!("/api/v1/prom/read?db=d&{login}");
    let mut answer = server.send("POST", &target, &body).expect("an answer");
    prometheus::unpack(&mut answer).expect("an answer that can be read");
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

fn ask(server: &Process, login: &str, query: &str) {
    let target = format!("/query?db=d&{login}&q={}", client::percent_encode(query));
    let answer = server.send("POST", &target, b"").expect("an answer");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 200 && !text.contains("error"), "{text}");
}

#[test]
fn only_users_with_the_right_read_a_database() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    ask(&server, "", "CREATE USER ann WITH PASSWORD 'a' WITH ALL PRIVILEGES");
    for statement in [
        "CREATE DATABASE d",
        "CREATE USER reader WITH PASSWORD 'b'",
        "CREATE USER writer WITH PASSWORD 'b'",
        "GRANT READ ON d TO reader",
        "GRANT WRITE ON d TO writer",
    ] {
        ask(&server, "u=ann&p=a", statement);
    }
    let written = server.send("POST", "/write?db=d&u=ann&p=a", b"up,h=a value=1 1000000").expect("an answer");
    assert_eq!(written.status, 204);
    let one = "read 1 2\n__name__ = up";
    for login in ["u=ann&p=a", "u=reader&p=b"] {
        assert_eq!(read(&server, login, one), (200, "result 0\n  h=a\n    1 1.0\n".to_owned()));
    }
    assert_eq!(read(&server, "", one).0, 401);
    let (status, words) = read(&server, "u=writer&p=b", one);
    assert!(status == 403 && words.contains("not authorized to read database"), "{words}");
}

#[test]
fn requests_that_need_too_much_memory_are_refused() {
    const SAMPLES: usize = 300_000;
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "64MiB"]);
    server.query("CREATE DATABASE d");
    for batch in 0..30 {
        let row = |row: usize| format!("up,h=a value=1.5 {}000000\n", batch * SAMPLES / 30 + row + 1);
        assert_eq!(server.write(&(0..SAMPLES / 30).map(row).collect::<String>()).status, 204);
    }
    let (status, words) = read(&server, "", "read 0 0\n__name__ = up");
    assert!(status == 422 && words.contains("memory"), "{status} {words}");
    let (status, some) = read(&server, "", "read 100001 150000\n__name__ = up");
    assert_eq!((status, some.lines().count()), (200, 50_002));
    let many = format!("read 1 2{}", "\n__name__ =~ .*".repeat(100));
    assert_eq!(read(&server, "", &many).0, 422);
    // A declared length of 4 GiB without data.
    let lie = server.send("POST", "/api/v1/prom/read?db=d", b"\xff\xff\xff\xff\x0f").expect("an answer");
    assert_eq!(lie.status, 413);
    let whole = prometheus::packed("read 1 2\n__name__ = up").expect("a request");
    for length in 0..whole.len() {
        let cut = server.send("POST", "/api/v1/prom/read?db=d", &whole[..length]).expect("an answer");
        assert_eq!(cut.status, 400, "{length}");
    }
}

#[test]
fn a_write_takes_about_its_size_in_memory() {
    const SAMPLES: usize = 28_000;
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "92MiB"]);
    server.query("CREATE DATABASE d");
    let write = |body: &[u8]| {
        let answer = server.send("POST", "/api/v1/prom/write?db=d", body).expect("an answer");
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    let padding = "x".repeat(40);
    let labels = [("__name__", "up"), ("job", "a"), ("padding", &*padding)];
    let samples = (0..SAMPLES).map(|time_ms| (1.5, time_ms as i64));
    assert_eq!(write(&prometheus::packed_samples(&labels, samples)), (204, String::new()));
    assert_eq!(server.number("SELECT count(value) FROM up"), SAMPLES as i64);
    // Declared lengths of 4 GiB, and of one byte more than a body may have.
    assert_eq!(write(b"\xff\xff\xff\xff\x0f").0, 413);
    assert_eq!(write(b"\xc1\xf0\xf5\x0b").0, 413);
    let vars = server.send("GET", "/debug/vars", b"").expect("an answer");
    let vars: serde_json::Value = serde_json::from_slice(&vars.body).expect("JSON");
    let of_requests = vars.as_object().expect("an object").values().find(|part| part["name"] == "httpd");
    assert_eq!(of_requests.expect("there")["values"]["promWriteReq"], 3, "{vars}");
}

#[test]
fn a_metric_of_any_name_is_stored() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE d");
    for (name, measurement) in
        [("#up", "\"\\\\#up\""), ("\tup", "\"\\\\\tup\""), ("", "prom_metric_not_specified")]
    {
        let body = prometheus::packed_samples(&[("__name__", name)], std::iter::once((7.0, 1)));
        assert_eq!(server.send("POST", "/api/v1/prom/write?db=d", &body).expect("an answer").status, 204);
        assert_eq!(server.number(&format!("SELECT count(value) FROM {measurement}")), 1, "{name:?}");
    }
}

#[test]
fn rejected_samples_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("own other=1i 1").status, 204);
    let long = "x".repeat(70_000);
    for name in ["own", "shared"] {
        let labels = [("__name__", name), ("long", &*long)];
        let body = prometheus::packed_samples(&labels, std::iter::once((7.0, 1)));
        let answer = server.send("POST", "/api/v1/prom/write?db=d", &body).expect("an answer");
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 400 && said.contains("max key length exceeded"), "{name}: {said}");
    }
}

#[test]
fn a_damaged_record_of_a_metric_affects_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &[]);
    for database in ["d", "lines"] {
        server.query(&format!("CREATE DATABASE {database}"));
    }
    assert_eq!(server.send("POST", "/write?db=lines", b"m v=1 1").expect("an answer").status, 204);
    let sample = |name: &str| prometheus::packed_samples(&[("__name__", name)], std::iter::once((7.0, 1)));
    assert_eq!(server.send("POST", "/api/v1/prom/write?db=d", &sample("up")).expect("an answer").status, 204);
    assert!(server.stop().success());
    let mut rowsets = std::fs::read_dir(data_dir.join("rowsets")).expect("listed");
    let of_series = |path: std::path::PathBuf| {
        let (bytes, name) = (std::fs::read(&path).expect("read"), b"nyala.series");
        bytes.windows(name.len()).any(|window| window == name).then_some((path, bytes))
    };
    let found = rowsets.find_map(|entry| of_series(entry.expect("an entry").path()));
    let (path, mut bytes) = found.expect("a rowset of series");
    bytes[40] ^= 4;
    std::fs::write(&path, bytes).expect("written");
    let server = Process::start(&data_dir, &[]);
    let health = server.send("GET", "/health", b"").expect("an answer");
    assert!(String::from_utf8_lossy(&health.body).contains("damaged or lost"), "{health:?}");
    assert!(server.log().contains("cannot be read"), "{}", server.log());
    server.query("CREATE DATABASE another");
    assert_eq!(server.send("POST", "/write?db=another", b"m v=1 1").expect("an answer").status, 204);
    // Whether the name is a metric is not known, so it is neither missing nor created.
    for query in ["SELECT+*+FROM+up", "SHOW+MEASUREMENTS"] {
        let answer = server.send("GET", &format!("/query?db=d&q={query}"), b"").expect("an answer");
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(said.contains("cannot be read"), "{said}");
    }
    for (target, body) in [("/write?db=d", b"new v=1 1".to_vec()), ("/api/v1/prom/write?db=d", sample("up"))]
    {
        let answer = server.send("POST", target, &body).expect("an answer");
        assert!(answer.status >= 500, "{target}: {}", answer.status);
    }
}
