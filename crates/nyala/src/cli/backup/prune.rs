//! `nyala backup prune`.

use super::{print, shown};
use crate::backup::destination::Destination;
use crate::backup::remove::keep_newest;
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Which backups are kept.
#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// Where backups are: a directory, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: PathBuf,
    /// Keep the newest so many
    #[arg(long, value_name = "COUNT")]
    keep: NonZeroUsize,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &PruneArgs) -> Result<(), String> {
    let destination = Destination::open_to_remove(&args.place)?;
    let removed = keep_newest(&destination, args.keep.get(), args.dry_run)?;
    let word = if args.dry_run { "would be removed" } else { "removed" };
    let mut text: String = removed.backups.iter().map(|name| format!("{name}  {word}\n")).collect();
    let (backups, files, bytes) = (removed.backups.len(), removed.files, shown(removed.bytes));
    text.push_str(&format!(
        "{backups} backups, and {files} files with {bytes} that no other needs: {word}\n"
    ));
    print(&text)
}
