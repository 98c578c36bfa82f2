//! Runs the benchmarks against a real InfluxDB 1.8, whose answers must all be the computed ones. Only then can
//! verification judge a server that is compatible with it.
//!
//! Without one these tests are skipped (`nyala/tests/support/peers.rs`).

#[path = "../../nyala/tests/support/peers.rs"]
mod peers;

use clap::Parser;
use nyala_bench::{BenchCommand, BenchError, ServerUnderTest};
use std::cell::RefCell;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: BenchCommand,
}

/// A server in a temporary directory, stopped and removed when it is dropped.
struct Influxd {
    program: PathBuf,
    directory: tempfile::TempDir,
    ports: [u16; 2],
    child: Child,
}

/// Two ports that are free at this moment.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("it listens").port())
}

/// `None` if the program ended because another one took a port meanwhile.
fn spawn(program: &Path, directory: &Path, ports: [u16; 2]) -> Option<Child> {
    let mut command = Command::new(program);
    command
        .env("INFLUXDB_HTTP_BIND_ADDRESS", format!("127.0.0.1:{}", ports[0]))
        .env("INFLUXDB_BIND_ADDRESS", format!("127.0.0.1:{}", ports[1]))
        .env("INFLUXDB_DATA_DIR", directory.join("data"))
        .env("INFLUXDB_DATA_WAL_DIR", directory.join("wal"))
        .env("INFLUXDB_META_DIR", directory.join("meta"))
        .env("INFLUXDB_REPORTING_DISABLED", "true")
        .env("INFLUXDB_MONITOR_STORE_ENABLED", "false")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("influxd starts");
    let started = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", ports[0])).is_err() {
        if child.try_wait().expect("it is ours").is_some() {
            return None;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "influxd does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(child)
}

impl Influxd {
    fn start(program: PathBuf) -> Influxd {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let begin = || {
            let ports = free_ports();
            spawn(&program, directory.path(), ports).map(|child| (ports, child))
        };
        let (ports, child) = (0..5).find_map(|_| begin()).expect("influxd starts");
        Influxd { program, directory, ports, child }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }
}

impl Drop for Influxd {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bench(arguments: &str, server: Option<&Influxd>) -> Result<(), BenchError> {
    let mut words: Vec<String> =
        std::iter::once("bench").chain(arguments.split(' ')).map(str::to_owned).collect();
    words.extend(server.map(|server| format!("--target={}", server.url())));
    let mut launch = |_: &[(String, String)]| -> Result<ServerUnderTest, Box<dyn std::error::Error>> {
        let program = peers::influxd().ok_or("no influxd")?;
        let server = Rc::new(RefCell::new(Influxd::start(program)));
        let restarted = Rc::clone(&server);
        let started = server.borrow();
        Ok(ServerUnderTest {
            url: started.url(),
            postgres: None,
            flight: None,
            files_dir: None,
            pid: Some(started.child.id()),
            data_dir: Some(started.directory.path().to_owned()),
            restart: Some(Box::new(move || {
                let mut server = restarted.borrow_mut();
                server.stop();
                server.child =
                    spawn(&server.program, server.directory.path(), server.ports).ok_or("influxd ended")?;
                Ok(server.child.id())
            })),
            guard: Box::new(Rc::clone(&server)),
        })
    };
    nyala_bench::run(&Arguments::parse_from(words).command, &mut launch)
}

const QUICK: &str = "--query-count 20 --heavy-count 2 --query-limit 5s --settle 1s --verify";

#[test]
fn all_tsbs_answers_are_the_computed_ones() {
    let Some(program) = peers::influxd() else { return };
    let server = Influxd::start(program);
    let results = tempfile::tempdir().unwrap();
    let (json, page) = (results.path().join("a.json"), results.path().join("a.html"));
    let files = format!("--json {} --html {}", json.display(), page.display());
    bench(&format!("tsbs --scale 12 --duration 1d --gzip --batch-size 7000 {QUICK} {files}"), Some(&server))
        .unwrap();
    bench(&format!("compare {} {}", json.display(), json.display()), None).unwrap();
    assert!(std::fs::read_to_string(page).unwrap().contains("double-groupby-all"));

    let again =
        format!("tsbs --scale 12 --duration 1d {QUICK} --queries groupby-orderby-limit-desc,lastpoint");
    let refused = bench(&again, Some(&server)).unwrap_err();
    assert!(matches!(refused, BenchError::Invalid(_)), "the existing database is not dropped: {refused}");
    bench(&format!("{again} --query-only"), Some(&server)).unwrap();
    let other_data = bench(&format!("{again} --query-only --seed 124"), Some(&server)).unwrap_err();
    assert!(matches!(other_data, BenchError::WrongAnswers { wrong: 6, compared: 6 }), "{other_data}");
}

#[test]
fn all_narrow_and_devops_answers_are_the_computed_ones() {
    if peers::influxd().is_none() {
        return;
    }
    bench(&format!("narrow --series 700 --duration 30m --interval 15s --late-by 2m {QUICK}"), None).unwrap();
    bench(&format!("devops --scale 9 --duration 13h --interval 1m {QUICK}"), None).unwrap();
    bench("mixed --scale 10 --duration 2h --query-count 20 --settle 1s --queries single-groupby-1-1-1", None)
        .unwrap();
}
