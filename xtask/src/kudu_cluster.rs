//! `cargo xtask kudu-cluster`: a real Kudu cluster on this machine, for people.
//!
//! Uses the harness of the client's tests, compiled in from its source: depending on the client itself would
//! make every chore wait for its build. The cluster ends with this process; its data is removed.

use std::io::{BufRead, Write};

#[path = "../../crates/kudu-client/src/test_cluster/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the client use more of it")]
pub(crate) mod test_cluster;

use test_cluster::{ClusterOptions, Daemon, TestCluster};

/// Speaks to a person, who may have stopped listening.
macro_rules! say {
    ($($words:tt)*) => {
        let _ = writeln!(std::io::stdout(), $($words)*);
    };
}

const HELP: &str = "\
commands: kill, restart, pause, resume, each with master N or tserver N (from 0);
          flag (master|tserver) N NAME VALUE; quit (or end of input)";

/// Starts a cluster, prints where it is, and obeys commands from the standard input.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut counts = Vec::new();
    let mut flags = Vec::new();
    let mut kerberos = false;
    for argument in arguments {
        match argument.parse::<usize>() {
            Ok(count) => counts.push(count),
            Err(_) if argument == "kerberos" => kerberos = true,
            Err(_) if argument.starts_with("--") => flags.push(argument.as_str()),
            Err(_) => {
                return Err(format!(
                    "what is {argument:?}? kudu-cluster [MASTERS [TSERVERS]] [kerberos] [--flag=value]…"
                ));
            }
        }
    }
    let masters = counts.first().copied().unwrap_or(1);
    let servers = counts.get(1).copied().unwrap_or(masters);
    let mut options = flags.into_iter().fold(ClusterOptions::new(masters, servers), ClusterOptions::flag);
    options.kerberos = kerberos;
    let started = std::time::Instant::now();
    let mut cluster = TestCluster::start(&options)?;
    say!("started in {:.1?}", started.elapsed());
    say!("masters: {}", cluster.masters().join(","));
    say!("tablet servers: {}", cluster.tablet_servers().join(","));
    say!("web: http://{}", cluster.master_web().join(" http://"));
    if kerberos {
        cluster.kinit("test-user")?;
        let environment = cluster.kerberos_environment()?;
        let words: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        say!("ticket of test-user: export {}", words.join(" "));
    }
    say!("{HELP}");
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let result = match words[..] {
            [] => continue,
            ["quit"] => break,
            ["kill", kind, number] => daemon(kind, number).and_then(|daemon| cluster.kill(daemon)),
            ["restart", kind, number] => daemon(kind, number).and_then(|daemon| cluster.restart(daemon)),
            ["pause", kind, number] => daemon(kind, number).and_then(|daemon| cluster.pause(daemon)),
            ["resume", kind, number] => daemon(kind, number).and_then(|daemon| cluster.resume(daemon)),
            ["flag", kind, number, name, value] => {
                daemon(kind, number).and_then(|daemon| cluster.set_flag(daemon, name, value))
            }
            _ => Err(HELP.to_owned()),
        };
        say!("{}", result.map_or_else(|error| error, |()| "done".to_owned()));
    }
    Ok(())
}

fn daemon(kind: &str, number: &str) -> Result<Daemon, String> {
    let number = number.parse().map_err(|_| format!("{number:?} is no number"))?;
    match kind {
        "master" => Ok(Daemon::Master(number)),
        "tserver" => Ok(Daemon::TabletServer(number)),
        other => Err(format!("{other:?} is neither master nor tserver")),
    }
}
