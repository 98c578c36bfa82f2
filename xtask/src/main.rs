//! Project chores: `cargo xtask tidy` checks that the layout is what `ARCHITECTURE.md` says.

mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy    check dependency directions, file sizes, module headers and where unsafe code stands";

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
        _ => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
