//! Project chores: `cargo xtask tidy` checks that the layout is what `ARCHITECTURE.md` says;
//! `cargo xtask coverage` makes the table of what scripts show;
//! `cargo xtask kudu-cluster` starts a real Kudu cluster on this machine; `cargo xtask kudu-demo` shows two daemons of
//! nyala on one, and kills parts of it; `cargo xtask instructions` counts what writes and queries cost.

mod banned;
mod circles;
mod coverage;
mod dependencies;
mod documents;
mod instructions;
mod kudu_cluster;
mod kudu_demo;
mod modules;
mod replaced;
mod server;
mod tidy;
mod tokens;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy [ROOT]
          check dependency directions, circles of modules, names that were replaced, file sizes, module headers, where
          unsafe code stands, and that documents tell of every dependency, setting, metric and statement;
          ROOT is a checkout, by default this one
  circles [ROOT]
          list every circle of modules with all references that make it
  coverage
          make the table of what InfluxDB has and which scripts show it, in docs/compat/influxdb.md
  instructions [--record]
          count the instructions of writes and queries under valgrind, and compare them with testdata/instructions.txt
  kudu-cluster [MASTERS [TSERVERS]] [kerberos] [--flag=value]...
          start a Kudu cluster on this machine (1 + 1 unless said otherwise) until the input ends
  kudu-demo [--hosts N] [--exit] [--nyala PROGRAM] [--help]
          show two nyala daemons on a Kudu cluster of this machine, of which one server and one daemon are killed";

#[allow(clippy::print_stderr, clippy::print_stdout, reason = "this program speaks to a person")]
fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => match tidy::check(&root()) {
            complaints if complaints.is_empty() => {
                println!("tidy: the layout is in order");
                ExitCode::SUCCESS
            }
            complaints => {
                complaints.iter().for_each(|complaint| eprintln!("tidy: {complaint}"));
                ExitCode::FAILURE
            }
        },
        Some("circles") => {
            circles::list(&root()).iter().for_each(|circle| println!("{circle}"));
            ExitCode::SUCCESS
        }
        Some("coverage") => match coverage::write(&workspace::root()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(complaint) => {
                eprintln!("coverage: {complaint}");
                ExitCode::FAILURE
            }
        },
        Some("kudu-cluster") => match kudu_cluster::run(&std::env::args().skip(2).collect::<Vec<_>>()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(complaint) => {
                eprintln!("kudu-cluster: {complaint}");
                ExitCode::FAILURE
            }
        },
        Some("kudu-demo") => match kudu_demo::run(&std::env::args().skip(2).collect::<Vec<_>>()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(complaint) => {
                eprintln!("kudu-demo: {complaint}");
                ExitCode::FAILURE
            }
        },
        Some("instructions") => match instructions::run(&std::env::args().skip(2).collect::<Vec<_>>()) {
            Ok(report) => {
                println!("{report}");
                ExitCode::SUCCESS
            }
            Err(complaint) => {
                eprintln!("instructions: {complaint}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout that the command is about.
fn root() -> PathBuf {
    std::env::args_os().nth(2).map_or_else(workspace::root, PathBuf::from)
}
