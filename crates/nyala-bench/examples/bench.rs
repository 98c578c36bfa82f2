//! The benchmarks against a server that runs already: `--target URL` is needed, since nothing here can
//! start one. The `nyala` binary is this with a launcher.

use clap::Parser;
use nyala_bench::BenchCommand;
use std::process::ExitCode;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    let mut launch = || Err("give --target URL".into());
    match nyala_bench::run(&Arguments::parse().command, &mut launch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
