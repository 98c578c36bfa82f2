//! A client that writes, overwrites, deletes and drops without a pause, sends again what was not acknowledged, and knows what
//! has to be there.

use super::client::{self, Request, Response, percent_encode};
use super::process::Process;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// 2026-01-01T00:00:00Z
const BEGIN_NS: i64 = 1_767_225_600_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;
const BATCH_ROWS: i64 = 20;
/// Batches whose points have a tag value in common.
const RUN_BATCHES: i64 = 20;

/// What was acknowledged.
#[derive(Default)]
pub(super) struct Known {
    /// Points of `m` by their times: the value, and the number of the run.
    points: BTreeMap<i64, (i64, i64)>,
    /// Rows of the table `counts`.
    rows: BTreeMap<i64, i64>,
    /// Of a change that was not acknowledged: points and rows that may be one thing or the other.
    doubtful_points: BTreeSet<i64>,
    doubtful_rows: BTreeSet<i64>,
}

/// A client in a thread of its own.
pub(super) struct Loader {
    is_over: Arc<AtomicBool>,
    changes: Arc<AtomicU64>,
    thread: JoinHandle<Known>,
}

struct Client {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    known: Known,
}

impl Loader {
    pub(super) fn start(address: SocketAddr) -> Self {
        let (is_over, changes) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (over, count) = (is_over.clone(), changes.clone());
        let thread = std::thread::spawn(move || {
            let mut client = Client { address, is_over: over, known: Known::default() };
            for number in 0.. {
                if !client.change(number) {
                    break;
                }
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
            }
            client.known
        });
        Self { is_over, changes, thread }
    }

    /// Waits until some more changes were acknowledged.
    pub(super) fn wait_for(&self, more: u64) {
        let wanted = self.changes.load(Ordering::SeqCst) + more;
        let begun = Instant::now();
        while self.changes.load(Ordering::SeqCst) < wanted {
            assert!(!self.thread.is_finished(), "the client has ended");
            assert!(begun.elapsed() < super::TIMEOUT, "no more changes are acknowledged");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it: what was not acknowledged until now is given up.
    pub(super) fn end(self) -> Known {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().expect("the client has not failed")
    }
}

impl Client {
    /// Does a change until it is acknowledged; false if it is to end.
    fn change(&mut self, number: i64) -> bool {
        let old = number / 2;
        match number {
            _ if number % 5 == 4 => {
                let some: Vec<_> = self.known.points.range(time_ns(old, 0)..).take(10).collect();
                let points: Vec<_> = some.into_iter().map(|(time_ns, (_, run))| (*time_ns, *run)).collect();
                self.write(number, &points)
            }
            _ if number % 7 == 6 => {
                let (from, to) = (time_ns(old, 5), time_ns(old + 1, 3));
                let gone: Vec<i64> = self.known.points.range(from..to).map(|(time_ns, _)| *time_ns).collect();
                self.delete(&format!("DELETE FROM m WHERE time >= {from} AND time < {to}"), gone)
            }
            _ if number % 60 == 59 => {
                let run = old / RUN_BATCHES;
                let points = self.known.points.iter().filter(|(_, (_, own))| *own == run);
                let gone = points.map(|(time_ns, _)| *time_ns).collect();
                self.delete(&format!("DROP SERIES FROM m WHERE run = 'r{run}'"), gone)
            }
            _ if number % 3 == 1 => self.count(number),
            _ => {
                let points: Vec<_> =
                    (0..BATCH_ROWS).map(|row| (time_ns(number, row), number / RUN_BATCHES)).collect();
                self.write(number, &points)
            }
        }
    }

    fn write(&mut self, value: i64, points: &[(i64, i64)]) -> bool {
        let line = |(time_ns, run): &(i64, i64)| {
            format!("m,host=h{},run=r{run} v={value}i {time_ns}", time_ns / (SECOND_NS / 10) % 5)
        };
        let lines: Vec<String> = points.iter().map(line).collect();
        let is_done = self.insist("/write?db=d", &lines.join("\n"), |answer| answer.status == 204);
        match is_done {
            true => self.known.points.extend(points.iter().map(|(time_ns, run)| (*time_ns, (value, *run)))),
            false => self.known.doubtful_points.extend(points.iter().map(|(time_ns, _)| *time_ns)),
        }
        is_done
    }

    fn delete(&mut self, statement: &str, gone: Vec<i64>) -> bool {
        let target = format!("/query?db=d&q={}", percent_encode(statement));
        let is_done = self.insist(&target, "", |answer| {
            let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            answer["results"][0].is_object() && answer["results"][0].get("error").is_none()
        });
        match is_done {
            true => self.known.points.retain(|time_ns, _| !gone.contains(time_ns)),
            false => self.known.doubtful_points.extend(gone),
        }
        is_done
    }

    /// A row of SQL comes, another is changed, and a third goes.
    fn count(&mut self, number: i64) -> bool {
        let (changed, gone) = (number / 2, number / 3);
        let statements = [
            format!("INSERT INTO counts VALUES ({number}, 1) ON CONFLICT (n) DO NOTHING"),
            format!("UPDATE counts SET v = {number} WHERE n = {changed}"),
            format!("DELETE FROM counts WHERE n = {gone}"),
        ];
        for (place, statement) in statements.iter().enumerate() {
            if !self.insist("/api/sql?db=d", statement, |answer| answer.status == 200) {
                self.known.doubtful_rows.insert([number, changed, gone][place]);
                return false;
            }
            let rows = &mut self.known.rows;
            match place {
                0 => rows.extend([(number, 1)]),
                1 => rows.iter_mut().filter(|(n, _)| **n == changed).for_each(|(_, value)| *value = number),
                _ => rows.retain(|n, _| *n != gone),
            }
        }
        true
    }

    /// Sends something until it is done; false if it is over before.
    fn insist(&self, target: &str, body: &str, is_done: impl Fn(&Response) -> bool) -> bool {
        let body = body.as_bytes().to_vec();
        let request = Request { method: "POST".into(), target: target.into(), headers: Vec::new(), body };
        loop {
            // There is none while the server is started again.
            let answer = client::send(self.address, &request);
            match &answer {
                Ok(answer) if is_done(answer) => return true,
                Ok(answer) => {
                    let words = String::from_utf8_lossy(&answer.body);
                    let is_later =
                        answer.status == 503 || words.contains("being moved") || words.contains("moved to");
                    assert!(is_later, "{target}: {} {words}", answer.status);
                }
                Err(_) => {}
            }
            if self.is_over.load(Ordering::SeqCst) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn time_ns(batch: i64, row: i64) -> i64 {
    BEGIN_NS + batch * 10 * SECOND_NS + row * SECOND_NS / 10
}

impl Known {
    /// Every acknowledged point and row is there, and nothing else.
    pub(super) fn assert_in(&self, server: &Process) {
        let answer = server.query("SELECT v FROM m");
        let rows = answer["results"][0]["series"][0]["values"].as_array().expect("points");
        let number = |value: &Value| value.as_i64().expect("a number");
        let found: BTreeMap<i64, i64> = rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect();
        let is_certain = |time_ns: &i64| !self.doubtful_points.contains(time_ns);
        let found: BTreeMap<i64, i64> =
            found.into_iter().filter(|(time_ns, _)| is_certain(time_ns)).collect();
        let points = self.points.iter().filter(|(time_ns, _)| is_certain(time_ns));
        let expected: BTreeMap<i64, i64> = points.map(|(time_ns, (value, _))| (*time_ns, *value)).collect();
        assert_eq_maps("points", &found, &expected);
        let answer = super::sql::answer(server, "SELECT n, v FROM counts");
        let rows = answer.as_array().expect("rows").iter().map(|row| (number(&row["n"]), number(&row["v"])));
        let found: BTreeMap<i64, i64> = rows.filter(|(n, _)| !self.doubtful_rows.contains(n)).collect();
        let rows = self.rows.iter().filter(|(n, _)| !self.doubtful_rows.contains(*n));
        assert_eq_maps("rows", &found, &rows.map(|(n, v)| (*n, *v)).collect());
    }
}

fn assert_eq_maps(what: &str, found: &BTreeMap<i64, i64>, expected: &BTreeMap<i64, i64>) {
    let lost: Vec<_> =
        expected.iter().filter(|(key, value)| found.get(*key) != Some(value)).take(5).collect();
    let surplus: Vec<_> = found.iter().filter(|(key, _)| !expected.contains_key(*key)).take(5).collect();
    assert!(lost.is_empty() && surplus.is_empty(), "{what} are lost or old: {lost:?}; surplus: {surplus:?}");
    assert!(!expected.is_empty());
}
