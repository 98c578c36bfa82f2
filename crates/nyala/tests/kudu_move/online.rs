//! A server is moved while a client writes, overwrites, deletes and drops; the command, the server and the cluster are killed.

use super::loader::Loader;
use super::process::Process;
use super::sql::done;
use super::{DAY_SECONDS, TIMEOUT, client, cluster, command, kill_after, run, run_to_end, serve_cluster};
use kudu_client::test_cluster::Daemon;
use nyala_db::handover::LEASE;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CUT_OVER: [&str; 3] = ["--cut-over", "--stop-limit", "300"];
/// Both servers answer these in the same way.
const QUERIES: [&str; 5] = [
    "SELECT count(v), sum(v), last(v) FROM m GROUP BY host",
    "SELECT * FROM old WHERE host = 'h7' ORDER BY time DESC LIMIT 20",
    "SHOW SERIES",
    "SHOW FIELD KEYS",
    "SHOW RETENTION POLICIES; SHOW CONTINUOUS QUERIES",
];

/// A server that is always at the same address.
fn serve(dir: &Path, address: SocketAddr, log: &Path) -> Process {
    Process::spawn_logging(dir, address, &[], &[], log.to_owned())
}

fn fill(server: &Process) {
    server.query("CREATE DATABASE d WITH DURATION INF SHARD DURATION 1d");
    server
        .query("CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO means FROM m GROUP BY time(1h) END");
    done(server, "CREATE TABLE counts (n bigint PRIMARY KEY, v bigint)");
    for day in 0..3_i64 {
        let mut lines = String::new();
        for step in 0..500 {
            for host in 0..10 {
                let time = day * DAY_SECONDS + step * 100;
                writeln!(lines, "old,host=h{host} f={step}.5,s=\"a\" {time}000000000").expect("memory");
            }
        }
        assert_eq!(server.write(&lines).status, 204);
    }
}

/// Waits for a server whose health is bad, because it takes no writes.
fn wait_until_it_answers(server: &Process) {
    let begun = Instant::now();
    while server.status("/ready") != 200 {
        assert!(begun.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn api(server: &Process, method: &str, query: &str) -> (u16, String) {
    let answer = server.send(method, &format!("/api/move{query}"), b"").expect("an answer");
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

#[test]
fn a_server_moves_while_clients_write_however_often_anything_is_killed() {
    let Some(mut cluster) = cluster::start(1, 1) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let dir: PathBuf = place.path().join("data");
    let (address, log) = (client::free_address(), place.path().join("log"));
    let mut server = serve(&dir, address, &log);
    server.wait_until_ready(TIMEOUT);
    fill(&server);
    let (url, kudu) = (format!("http://{address}"), format!("kudu://{}", cluster.masters().join(",")));
    let loader = Loader::start(address);
    loader.wait_for(50);
    for wait_ms in [300, 900] {
        kill_after(command(&url, &kudu, &[]).spawn().expect("the command starts"), wait_ms);
        loader.wait_for(5);
    }
    // One round to its end; the server goes on.
    let (code, text) = run_to_end(|| command(&url, &kudu, &[]));
    assert!(code == 0 && text.contains("everything that the server had was moved"), "{text}");
    loader.wait_for(20);
    // A move that goes on waits 10 s before it compares, so it is never at its end by then.
    kill_after(command(&url, &kudu, &CUT_OVER).spawn().expect("the command starts"), 3000);
    loader.wait_for(20);
    // The server dies while it is moved.
    let child = command(&url, &kudu, &CUT_OVER).spawn().expect("the command starts");
    std::thread::sleep(Duration::from_millis(500));
    server.kill();
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2), "{errors}");
    drop(server);
    let server = serve(&dir, address, &log);
    server.wait_until_ready(TIMEOUT);
    loader.wait_for(20);
    // The cluster dies while it is moved to, and comes back.
    let child = command(&url, &kudu, &CUT_OVER).spawn().expect("the command starts");
    std::thread::sleep(Duration::from_millis(700));
    cluster.kill(Daemon::TabletServer(0)).expect("it dies");
    loader.wait_for(20);
    cluster.restart(Daemon::TabletServer(0)).expect("it starts again");
    let output = child.wait_with_output().expect("it ends");
    let [text, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    // It has waited for the cluster, or gives up so that it can be started again.
    let (code, text) = match output.status.code() {
        Some(0) => (0, text),
        code => {
            assert!(code == Some(2), "{text}{errors}");
            run_to_end(|| command(&url, &kudu, &CUT_OVER))
        }
    };
    assert!(code == 0 && text.contains("everything was moved, and both sides are equal"), "{text}");
    assert!(text.contains("d.autogen.old: 15000 points of 3 days, equal"), "{text}");
    assert!(text.contains("writes were held off for"), "{text}");
    let known = loader.end();

    // The server answers queries and takes no writes, after a restart, too.
    known.assert_in(&server);
    let refused = server.write("m,host=new v=1i 1");
    assert!(refused.status == 503 && refused.header("Retry-After").is_some());
    assert!(String::from_utf8_lossy(&refused.body).contains("everything was moved to kudu://"));
    assert!(server.stop().success());
    let server = serve(&dir, address, &log);
    wait_until_it_answers(&server);
    // Now without what was in memory of series whose points were refused.
    let expected: Vec<_> = QUERIES.iter().map(|query| server.query(query)).collect();
    assert_eq!(server.write("m,host=new v=1i 1").status, 503);
    assert_eq!(server.status("/health"), 503);
    let (code, text) = run_to_end(|| command(&url, &kudu, &CUT_OVER));
    assert!(code == 0 && text.contains("the move was finished before"), "{text}");
    let (code, text) = run(command(&url, &kudu, &["--give-up"]));
    assert!(code == 2 && text.contains("clients may have written to"), "{text}");

    let daemon = serve_cluster(&cluster, &place.path().join("none"));
    known.assert_in(&daemon);
    for (query, expected) in QUERIES.iter().zip(&expected) {
        assert_eq!(&daemon.query(query), expected, "{query}");
    }
    assert_eq!(daemon.write("m,host=new v=1i 1").status, 204);
}

/// Holds the writers of a server off, for [`LEASE`] since nobody renews it; gives the number of the hold.
fn hold_off(server: &Process) -> String {
    let (status, text) = api(server, "POST", "?step=hold&seconds=20");
    assert!(status == 200, "{text}");
    text.chars().filter(char::is_ascii_digit).collect()
}

/// Does what has to be done while a hold lasts, again if it may have ended before.
fn in_time<T>(act: impl Fn() -> Option<T>) -> T {
    loop {
        let begun = Instant::now();
        match act() {
            Some(done) => return done,
            None => assert!(begun.elapsed() >= LEASE, "the hold has ended too soon"),
        }
    }
}

#[test]
fn a_command_that_dies_in_the_cut_over_leaves_a_server_that_goes_on_or_a_move_that_is_ended() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("data");
    let server = Process::start(&dir, &[]);
    fill(&server);
    let (url, kudu) =
        (format!("http://{}", server.address), format!("kudu://{}", cluster.masters().join(",")));
    let (code, text) = run(command(&dir.display().to_string(), &kudu, &CUT_OVER));
    assert!(code == 2 && text.contains("are for a server that runs"), "{text}");
    let (code, text) = run_to_end(|| command(&url, &kudu, &[]));
    assert!(code == 0, "{text}");

    // It died while it held the writers off. They go on by themselves.
    let hold = in_time(|| {
        let hold = hold_off(&server);
        (server.write("m v=1i 1").status == 503).then_some(hold)
    });
    assert_eq!(server.number("SELECT count(f) FROM old"), 15_000, "queries are answered");
    let begun = Instant::now();
    while server.write("m v=1i 1").status == 503 {
        assert!(begun.elapsed() < TIMEOUT, "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    // A command that held them off then, and was frozen, cannot cut over any more.
    let left = api(&server, "POST", &format!("?step=leave&hold={hold}&to=x"));
    assert!(left.0 == 404 && left.1.contains("the hold is over"), "{left:?}");

    // It died when the server had left its store, and the target was not finished.
    let leave = || {
        let to = client::percent_encode(&format!("{kudu}, prefix nyala"));
        in_time(|| {
            let (status, _) =
                api(&server, "POST", &format!("?step=leave&hold={}&to={to}", hold_off(&server)));
            (status == 204).then_some(())
        });
    };
    leave();
    assert_eq!(server.write("m v=2i 2").status, 503);
    // Given up: the server goes on.
    let (code, text) = run(command(&url, &kudu, &["--give-up"]));
    assert!(code == 0 && text.contains("the server takes writes"), "{text}");
    assert_eq!(server.write("m v=2i 2").status, 204);
    server.query("DELETE FROM old WHERE host = 'h3'");
    // Ended: after a restart, when nothing is known of what was changed.
    leave();
    assert!(server.stop().success());
    let server = Process::spawn(&dir, &[]);
    let url = format!("http://{}", server.address);
    wait_until_it_answers(&server);
    let (code, text) = run_to_end(|| command(&url, &kudu, &CUT_OVER));
    assert!(code == 0 && text.contains("everything was moved, and both sides are equal"), "{text}");
    assert!(text.contains("the server has taken no writes since the cut-over"), "{text}");
    let daemon = serve_cluster(&cluster, &place.path().join("none"));
    assert_eq!(daemon.number("SELECT count(f) FROM old"), 13_500);
    assert_eq!(daemon.number("SELECT count(v) FROM m"), 2);
}
