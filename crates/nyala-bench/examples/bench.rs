//! Runs the benchmarks against a running server, which `--target URL` names. The `nyala` binary can also start one.

use clap::Parser;
use nyala_bench::BenchCommand;
use std::process::ExitCode;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    let mut launch = |_: &[(String, String)]| Err("give --target URL".into());
    match nyala_bench::run(&Arguments::parse().command, &mut launch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
