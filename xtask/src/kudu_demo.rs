//! `cargo xtask kudu-demo`: two nyala daemons on a real Kudu cluster, parts of which are killed while points are written.
//!
//! After every step, what a daemon counts is compared with what was acknowledged: a missing point ends the demonstration
//! with an error. Everything runs on this machine, listens on loopback only, and ends with this process; its data is removed.

mod interrupt;

use crate::kudu_cluster::test_cluster::{ClusterOptions, Daemon, TestCluster, kudu_home};
use crate::server::{Outcome, Scratch, Server, build};
use interrupt::Interrupt;
use nyala_bench::demo::{DemoSettings, Sample};
use nyala_client::query_escape;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Speaks to a person, who may have stopped listening.
macro_rules! say {
    ($($words:tt)*) => {
        let _ = writeln!(std::io::stdout(), $($words)*);
    };
}

const HELP: &str = "\
Shows nyala on a cluster. It starts Apache Kudu (1 master, 3 tablet servers) and two nyala daemons on this machine, writes
a sample through one daemon, asks the other, kills a tablet server and a daemon, and counts the points after each step.

usage: cargo xtask kudu-demo [OPTIONS]

  --hosts N         hosts whose CPU metrics are written, 1 to 10000 [default: 100]
  --exit            stop at the end instead of serving until Ctrl-C
  --nyala PROGRAM   use this nyala instead of building one
  --help            print this

Examples:
  cargo xtask kudu-demo                           the whole demonstration; then the daemons serve until Ctrl-C
  cargo xtask kudu-demo --hosts 10 --exit         a small sample; stop at the end
  cargo xtask kudu-demo --nyala target/debug/nyala
The first run fetches Kudu with Maven (about 200 MB; needs mvn and unzip) and builds nyala (some minutes).";

const TABLET_SERVERS: usize = 3;
/// The tablet server that is killed.
const VICTIM: usize = 0;
/// Ticks of all hosts in one request, while something is dead.
const TICKS_AT_ONCE: u64 = 6;
/// Requests after something was killed.
const ROUNDS: usize = 6;
/// How long a request is repeated: many times what a cluster needs to elect new leaders.
const ANSWERED_WITHIN: Duration = Duration::from_secs(300);
/// How long a tablet server may need to catch up. Its copies are made anew if it was gone for 5 min.
const HEALED_WITHIN: Duration = Duration::from_secs(600);

struct Options {
    hosts: u64,
    exits: bool,
    program: Option<PathBuf>,
}

/// Runs the demonstration.
pub(crate) fn run(arguments: &[String]) -> Outcome<()> {
    let Some(options) = parse(arguments)? else {
        say!("{HELP}");
        return Ok(());
    };
    let interrupt = Interrupt::listen()?;
    match demonstrate(&options, &interrupt) {
        // Ctrl-C reaches all processes of a terminal, so steps fail that had just begun.
        Err(_) if interrupt.has_come() => Err("interrupted; everything is stopped and removed".to_owned()),
        result => result,
    }
}

/// `None`: only help is wanted.
fn parse(arguments: &[String]) -> Outcome<Option<Options>> {
    let mut options = Options { hosts: DemoSettings::default().hosts, exits: false, program: None };
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let mut value = || left.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--exit" => options.exits = true,
            "--nyala" => options.program = Some(PathBuf::from(value()?)),
            "--hosts" => {
                let text = value()?;
                let hosts = text.parse().ok().filter(|hosts| (1..=10_000).contains(hosts));
                options.hosts =
                    hosts.ok_or_else(|| format!("--hosts {text:?}: give a number from 1 to 10000"))?;
            }
            other => {
                return Err(format!("unknown option {other:?}; cargo xtask kudu-demo --help lists them all"));
            }
        }
    }
    Ok(Some(options))
}

fn demonstrate(options: &Options, interrupt: &Interrupt) -> Outcome<()> {
    say!("Preparing: Kudu's programs (fetched at the first run), and nyala (built at the first run) …");
    kudu_home()?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let begun = Instant::now();
    let mut demo = Demonstration::start(options, program, interrupt)?;
    demo.write_and_ask()?;
    demo.lose_a_tablet_server()?;
    demo.lose_a_daemon()?;
    demo.get_both_back()?;
    say!(
        "\nDone in {:.0} s. {} points were acknowledged, and all of them are there.",
        begun.elapsed().as_secs_f64(),
        demo.acknowledged
    );
    if !options.exits {
        demo.invite();
        interrupt.wait();
        say!("\nStopping …");
    }
    demo.stop()
}

/// Fields are dropped in this order: daemons stop before what they stand on.
struct Demonstration<'a> {
    daemons: [Server; 2],
    cluster: TestCluster,
    scratch: Scratch,
    program: PathBuf,
    settings: DemoSettings,
    sample: Sample,
    acknowledged: u64,
    interrupt: &'a Interrupt,
}

/// How the daemons are called.
const NAMES: [&str; 2] = ["first", "second"];

impl<'a> Demonstration<'a> {
    fn start(options: &Options, program: PathBuf, interrupt: &'a Interrupt) -> Outcome<Self> {
        say!("\n1. A cluster of Apache Kudu: one master and {TABLET_SERVERS} tablet servers");
        let begun = Instant::now();
        let cluster = TestCluster::start(&ClusterOptions::new(1, TABLET_SERVERS))?;
        say!(
            "   {:.1} s: master {}, web page http://{}",
            seconds(begun),
            cluster.masters()[0],
            cluster.master_web()[0]
        );
        say!("   tablet servers {}", cluster.tablet_servers().join(", "));
        say!("\n2. Two nyala daemons on this cluster; it keeps three copies of each row");
        let scratch = Scratch::new("kudu-demo")?;
        let start = |number| -> Outcome<Server> {
            let begun = Instant::now();
            let daemon = serve(&program, &cluster, &scratch, number, Server::free_address()?)?;
            say!(
                "   {:.1} s: the {} is {} (process {})",
                seconds(begun),
                NAMES[number],
                daemon.url,
                daemon.pid()
            );
            Ok(daemon)
        };
        let daemons = [start(0)?, start(1)?];
        let settings = DemoSettings { hosts: options.hosts, repetitions: 2, ..DemoSettings::default() };
        let sample = Sample::new(&settings);
        Ok(Self { daemons, cluster, scratch, program, settings, sample, acknowledged: 0, interrupt })
    }

    fn write_and_ask(&mut self) -> Outcome<()> {
        let mut out = std::io::stdout();
        say!("\n3. The sample of `nyala demo` is written through the first daemon");
        let Self { daemons, settings, sample, interrupt, .. } = &mut *self;
        self.acknowledged = repeated(interrupt, || {
            // What there is of the sample is dropped.
            *sample = Sample::new(settings);
            sample.write(&daemons[0].url, &mut out).map_err(|error| error.to_string())
        })?;
        say!("\n4. The second daemon shows at once what the first has acknowledged");
        self.count(1)?;
        say!("\n   The fifteen queries of TSBS, asked through the second daemon:");
        repeated(self.interrupt, || {
            self.sample.ask(&self.daemons[1].url, &mut out).map_err(|error| error.to_string())
        })
    }

    fn lose_a_tablet_server(&mut self) -> Outcome<()> {
        let address = &self.cluster.tablet_servers()[VICTIM];
        say!("\n5. Tablet server {address} is killed (kill -9), while both daemons are written to and asked");
        self.cluster.kill(Daemon::TabletServer(VICTIM))?;
        say!("   It is dead. The first request waits until the other two have elected new leaders.");
        (0..ROUNDS).try_for_each(|round| self.write_more(round % 2, (round + 1) % 2))
    }

    fn lose_a_daemon(&mut self) -> Outcome<()> {
        let pid = self.daemons[0].pid();
        say!(
            "\n6. The first daemon (process {pid}) is killed (kill -9), through which the sample was written"
        );
        self.daemons[0].kill();
        say!("   It is dead, and so is the tablet server. The second daemon has everything and goes on:");
        self.count(1)?;
        (0..2).try_for_each(|_| self.write_more(1, 1))
    }

    fn get_both_back(&mut self) -> Outcome<()> {
        say!("\n7. The tablet server and the daemon come back");
        let begun = Instant::now();
        self.cluster.restart(Daemon::TabletServer(VICTIM))?;
        say!("   {:.1} s: the tablet server runs again", seconds(begun));
        let begun = Instant::now();
        let address = self.daemons[0].address;
        self.daemons[0] = serve(&self.program, &self.cluster, &self.scratch, 0, address)?;
        say!(
            "   {:.1} s: the first daemon serves again; it had kept nothing on its own disk",
            seconds(begun)
        );
        let begun = Instant::now();
        while !self.is_healthy() {
            if begun.elapsed() > HEALED_WITHIN || self.interrupt.has_come() {
                return Err("kudu cluster ksck still finds tablets that lack a copy".to_owned());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        say!("   {:.1} s: every tablet has its three copies again (kudu cluster ksck)", seconds(begun));
        self.write_more(0, 1)?;
        self.count(0)
    }

    /// Writes points through one daemon and counts all through another.
    fn write_more(&mut self, writer: usize, reader: usize) -> Outcome<()> {
        let (body, points) = self.sample.more(self.settings.hosts * TICKS_AT_ONCE);
        let target = format!("/write?db={}", query_escape(&self.settings.database));
        let begun = Instant::now();
        self.ask(writer, "POST", &target, &body)?;
        say!("   {:6.2} s  {points} points written through the {} daemon", seconds(begun), NAMES[writer]);
        self.acknowledged += points;
        self.count(reader)
    }

    /// Counts all points through a daemon; other than those that were acknowledged are an error.
    fn count(&mut self, reader: usize) -> Outcome<()> {
        let query = "SELECT count(usage_user) FROM cpu";
        let target = format!("/query?db={}&q={}", query_escape(&self.settings.database), query_escape(query));
        let begun = Instant::now();
        let answer = self.ask(reader, "GET", &target, b"")?;
        let parsed: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        let found = parsed["results"][0]["series"][0]["values"][0][1].as_u64();
        let found = found.ok_or_else(|| format!("{query}: {answer}"))?;
        let (name, acknowledged) = (NAMES[reader], self.acknowledged);
        if found != acknowledged {
            return Err(format!(
                "the {name} daemon counts {found} points, but {acknowledged} were acknowledged"
            ));
        }
        say!(
            "   {:6.2} s  the {name} daemon counts {found} points: all that were acknowledged",
            seconds(begun)
        );
        Ok(())
    }

    /// Asks a daemon, again if it does not answer. A point that is written twice is the same point.
    fn ask(&mut self, daemon: usize, method: &str, target: &str, body: &[u8]) -> Outcome<String> {
        repeated(self.interrupt, || self.daemons[daemon].ask(method, target, body))
    }

    /// Whether every tablet has all its copies, as Kudu's own check says.
    fn is_healthy(&self) -> bool {
        let mut check = self.cluster.kudu();
        check.args(["cluster", "ksck", &self.cluster.masters()[0]]);
        check.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn invite(&self) {
        let database = &self.settings.database;
        let [first, second] = [0, 1].map(|number| &self.daemons[number].url);
        let curl = |url: &str, words: &str| {
            format!("curl -G '{url}/query' --data-urlencode 'db={database}' --data-urlencode 'q={words}'")
        };
        say!("\nBoth daemons serve until you press Ctrl-C. Try, in another terminal:");
        say!("  Write through one daemon, read through the other:");
        say!(
            "    curl -i -XPOST '{first}/write?db={database}' --data-binary 'temperature,room=kitchen celsius=21.5'"
        );
        say!("    {}", curl(second, "SELECT * FROM temperature"));
        say!("  Is a daemon well? Which daemons are there, and which one leads?");
        say!("    curl '{second}/health'");
        say!("    {}", curl(first, "SHOW DIAGNOSTICS FOR '\\''daemons'\\''"));
        say!("  Kill a daemon, and go on with the other:");
        say!("    kill -9 {}", self.daemons[0].pid());
        say!("  What the cluster says of itself:");
        say!(
            "    http://{}/tables   http://{}/tablet-servers",
            self.cluster.master_web()[0],
            self.cluster.master_web()[0]
        );
    }

    /// Stops everything. The data is removed.
    fn stop(self) -> Outcome<()> {
        let Self { daemons, cluster, scratch, interrupt, .. } = self;
        for daemon in daemons {
            match daemon.stop() {
                // The user killed it, or Ctrl-C reached it before.
                Err(_) if interrupt.has_come() => {}
                stopped => drop(stopped?),
            }
        }
        drop(cluster);
        drop(scratch);
        say!("Everything is stopped, and its data is removed.");
        Ok(())
    }
}

/// Does something, again if a daemon does not do its part in time.
fn repeated<T>(interrupt: &Interrupt, mut act: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let begun = Instant::now();
    loop {
        if interrupt.has_come() {
            return Err("interrupted".to_owned());
        }
        match act() {
            Err(why) if begun.elapsed() < ANSWERED_WITHIN => {
                say!("   {:6.2} s  not acknowledged, sent again: {}", seconds(begun), why.trim_end());
                std::thread::sleep(Duration::from_millis(200));
            }
            result => return result,
        }
    }
}

/// Starts a daemon, and waits until it is ready.
fn serve(
    program: &PathBuf,
    cluster: &TestCluster,
    scratch: &Scratch,
    number: usize,
    address: SocketAddr,
) -> Outcome<Server> {
    let masters = cluster.masters().join(",");
    let settings = ["--store", "kudu", "--kudu-masters", &masters, "--kudu-replicas", "3"];
    let (data, log) = (scratch.path.join(NAMES[number]), scratch.path.join(format!("{}.log", NAMES[number])));
    let mut daemon = Server::start(Command::new(program), &settings, &data, address, &log)?;
    daemon.wait_until_ready()?;
    Ok(daemon)
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = |words: &str| parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let options = parse("--hosts 10 --exit --nyala x").ok().flatten().unwrap();
        assert_eq!((options.hosts, options.exits, options.program), (10, true, Some(PathBuf::from("x"))));
        assert!(parse("--exit --help").is_ok_and(|options| options.is_none()));
        for wrong in ["--hosts", "--hosts 0", "--hosts x", "--exits", "7"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
