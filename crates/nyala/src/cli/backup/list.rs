//! `nyala backup list`.

use super::{print, shown};
use crate::backup::destination::Destination;
use clap::Args;
use nyala_bench::time::rfc3339;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

/// Which backups.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Where backups are: a directory, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: PathBuf,
    /// Print JSON, an object in each line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ListArgs) -> Result<(), String> {
    let destination = Destination::open_to_read(&args.place)?;
    let mut text = String::new();
    for name in destination.names()? {
        let line = match (destination.manifest(&name), args.json) {
            (Ok(manifest), true) => json!({
                "name": name,
                "time": rfc3339(manifest.time_ns.div_euclid(1_000_000_000)),
                "time_ns": manifest.time_ns,
                "bytes": manifest.bytes,
                "new_bytes": manifest.new_bytes,
                "files": manifest.files.len(),
                "parent": manifest.parent,
                "version": manifest.version,
            })
            .to_string(),
            (Err(words), true) => json!({ "name": name, "error": words }).to_string(),
            (Ok(manifest), false) => {
                let of = match manifest.is_named_by_its_moment() {
                    true => String::new(),
                    false => format!(", of {}", rfc3339(manifest.time_ns.div_euclid(1_000_000_000))),
                };
                format!(
                    "{name}  {:>10} in {} files, {} new, by nyala {}{of}",
                    shown(manifest.bytes),
                    manifest.files.len(),
                    shown(manifest.new_bytes),
                    manifest.version
                )
            }
            (Err(words), false) => format!("{name}  damaged: {words}"),
        };
        writeln!(text, "{line}").expect("writing to memory does not fail");
    }
    if text.is_empty() && !args.json {
        text.push_str("there is no backup\n");
    }
    print(&text)
}
