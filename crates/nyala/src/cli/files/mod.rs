//! `nyala export`, and `nyala import` of Parquet, CSV and line protocol: rows between a server and files of this machine, or objects of S3.
//!
//! Both ask a server over HTTP ([`source`]: one that runs, or one that this process is for a data directory), and rows come
//! and go as Arrow IPC. A [`name`] says which. [`export`] writes one file ([`written`]), or with [`parts`] a folder of them. [`import`] reads files ([`inputs`]), for a
//! table ([`table`]) or a measurement ([`points`]), which are sent in [`pieces`]; [`lines`] sends line protocol as it is ([`line_file`]). A [`journal`] says how far an interrupted command came.

mod csv;
pub(super) mod export;
pub(super) mod import;
mod inputs;
mod journal;
mod line_file;
pub(super) mod lines;
mod name;
mod parts;
mod pieces;
mod points;
mod query;
mod source;
mod table;
mod written;

use nyala_files::{Bucket, Directory, Folder};
use std::path::Path;
use std::time::Instant;

/// The folder and the name of a file that the user names. Symbolic links in its path are followed: unlike the server's, this path
/// is the user's own.
fn folder_and_name(path: &Path) -> Result<(Folder, String), String> {
    if let Some(url) = path.to_str().filter(|text| Bucket::is_url(text)) {
        let (bucket, name) = bucket_and_name(url)?;
        return Ok((Folder::Bucket(bucket), name));
    }
    let name = path.file_name().ok_or_else(|| format!("{} names no file", path.display()))?;
    let name = name.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let directory = Directory::open(folder).map_err(|error| error.to_string())?;
    Ok((Folder::Directory(directory), name.to_owned()))
}

/// The place in a bucket and the name there that a URL stands for. Objects that are read are fetched to the system's temporary
/// directory first.
fn bucket_and_name(url: &str) -> Result<(Bucket, String), String> {
    let url = url.trim_end_matches('/');
    let begin = url.find("://").map_or(0, |at| at + 3);
    let (place, name) = url[begin..]
        .rsplit_once('/')
        .map_or((url, ""), |(before, name)| (&url[..begin + before.len()], name));
    let bucket = Bucket::open(place, &std::env::temp_dir()).map_err(|error| error.to_string())?;
    Ok((bucket, name.to_owned()))
}

/// A number with its thousands apart.
fn shown(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// The text beside the progress bar.
fn note(rows: u64, begun: Instant) -> String {
    let rate = rows as f64 / begun.elapsed().as_secs_f64().max(1e-3);
    format!("{} rows, {} rows/s", shown(rows), shown(rate as u64))
}
