//! `nyala backup verify`.

use super::{print, shown};
use crate::backup::destination::Destination;
use crate::backup::verify::verify;
use crate::cli::log;
use clap::Args;
use nyala_bench::report::progress::Progress;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const DAMAGED: u8 = 1;
const NOT_VERIFIED: u8 = 2;

/// Which backups.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Where backups are: a directory, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: PathBuf,
    /// Only this backup; all of them by default
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
}

pub(super) fn run(args: &VerifyArgs) -> ExitCode {
    match verified(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DAMAGED),
        Err(message) => {
            log::print_error(&message);
            ExitCode::from(NOT_VERIFIED)
        }
    }
}

/// Whether all backups are sound.
fn verified(args: &VerifyArgs) -> Result<bool, String> {
    let begun = Instant::now();
    let destination = Destination::open_to_read(&args.place)?;
    let mut names = destination.names()?;
    if let Some(wanted) = &args.backup {
        names.retain(|name| name == wanted);
    }
    if names.is_empty() {
        let which = args.backup.as_ref().map_or("no backup".to_owned(), |name| format!("no backup {name:?}"));
        return Err(format!("there is {which} in {}", args.place.display()));
    }
    let mut progress = Progress::start("verifying");
    let found = verify(&destination, &names, &mut |done, total| {
        progress.update(done as f64 / total.max(1) as f64, || {
            let rate = done as f64 / begun.elapsed().as_secs_f64();
            format!("{} of {}, {}/s", shown(done), shown(total), shown(rate as u64))
        });
    });
    progress.clear();
    let mut text = String::new();
    for name in &names {
        let words = match found.damage.get(name) {
            None => "sound".to_owned(),
            Some(damage) => format!("damaged\n  {}", damage.join("\n  ")),
        };
        writeln!(text, "{name}  {words}").expect("writing to memory does not fail");
    }
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(text, "{} in {} files were read in {seconds:.1} s", shown(found.bytes), found.files)
        .expect("writing to memory does not fail");
    print(&text)?;
    Ok(found.damage.is_empty())
}
