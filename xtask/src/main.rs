//! Project chores: `cargo xtask tidy` checks that the layout is what `ARCHITECTURE.md` says;
//! `cargo xtask coverage` makes the table of what scripts show;
//! `cargo xtask kudu-cluster` starts a real Kudu cluster on this machine; `cargo xtask instructions` counts what writes
//! and queries cost.

mod coverage;
mod instructions;
mod kudu_cluster;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy    check dependency directions, file sizes, module headers and where unsafe code stands
  coverage
          make the table of what InfluxDB has and which scripts show it, in docs/compat/influxdb.md
  instructions [--record]
          count the instructions of writes and queries under valgrind, and compare them with testdata/instructions.txt
  kudu-cluster [MASTERS [TSERVERS]] [kerberos] [--flag=value]...
          start a Kudu cluster on this machine (1 + 1 unless said otherwise) until the input ends";

#[allow(clippy::print_stderr, clippy::print_stdout, reason = "this program speaks to a person")]
fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => match tidy::check(&tidy::workspace_root()) {
            complaints if complaints.is_empty() => {
                println!("tidy: the layout is in order");
                ExitCode::SUCCESS
            }
            complaints => {
                complaints.iter().for_each(|complaint| eprintln!("tidy: {complaint}"));
                ExitCode::FAILURE
            }
        },
        Some("coverage") => match coverage::write(&tidy::workspace_root()) {
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
