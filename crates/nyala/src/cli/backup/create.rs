//! `nyala backup PLACE`: has a copy of the store made, and moves what is new of it to where backups are.

use super::source::Source;
use super::{print, shown};
use crate::backup::copies::{CopyPlace, name_behind};
use crate::backup::destination::Destination;
use crate::backup::files;
use crate::backup::layout::SharedFiles;
use crate::backup::manifest::Manifest;
use crate::backup::rate_limit::RateLimit;
use crate::backup::{failed, names_in};
use crate::cli::server::{Ended, MadeCopy, Server, ServerArgs};
use clap::Args;
use nyala_bench::report::progress::Progress;
use nyala_bench::time::rfc3339;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The command's priority, in steps of `nice`: a server beside it comes first.
const NICENESS: i32 = 15;
/// What a file system needs beside the files themselves.
const SPARE_BYTES: u64 = 16 << 20;

/// What to back up, and where to.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Where backups are: a directory, which is made if it is missing, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: Option<PathBuf>,
    /// Back up the data of a server that is stopped
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["url", "ca", "insecure", "username", "token"])]
    data_dir: Option<PathBuf>,
    /// Copy files also where links would do, which are on the same disk as the data
    #[arg(long)]
    copy: bool,
    /// Read, copy and send no faster than this, MiB in a second
    #[arg(long, value_name = "MIB")]
    rate_limit: Option<NonZeroU32>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn run(args: &CreateArgs) -> Result<(), String> {
    let begun = Instant::now();
    // Failing that, it takes a larger share of the cores.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let place = args.place.as_ref().ok_or("say where to: nyala backup DIRECTORY, or s3://BUCKET/PREFIX")?;
    let destination = Destination::open_to_add(place)?;
    let mut source = match &args.data_dir {
        Some(data_dir) => Source::of_directory(data_dir)?,
        None => Source::of_server(Server::of(&args.server)?, Duration::ZERO)?,
    };
    let limit = RateLimit::new(args.rate_limit.map(|limit| u64::from(limit.get()) << 20));
    let made = check_place(&destination, &source.place)
        .and_then(|()| back_up(&destination, &source, !args.copy, limit));
    let ended = source.end(match &made {
        Ok(manifest) => Ended::Finished { bytes: manifest.bytes, new_bytes: manifest.new_bytes },
        Err(_) => Ended::GivenUp,
    });
    let manifest = made?;
    let new = manifest.files.len();
    print(&format!(
        "{}: {} in {new} files, {} of them new, in {:.1} s\n",
        manifest.name,
        shown(manifest.bytes),
        shown(manifest.new_bytes),
        begun.elapsed().as_secs_f64()
    ))?;
    if let Some(newest) = manifest.parent.as_ref().filter(|_| !manifest.is_named_by_its_moment()) {
        print(&format!(
            "its moment is {}; its name is later, behind that of {newest}, which was made while a clock was ahead\n",
            rfc3339(manifest.time_ns.div_euclid(1_000_000_000))
        ))?;
    }
    ended.map_err(|words| {
        format!("the backup is done, but the copy it was made of is not removed yet: {words}")
    })
}

/// A copy in the directory of backups would be backed up again, or removed with the data.
fn check_place(destination: &Destination, place: &CopyPlace) -> Result<(), String> {
    let Some(directory) = destination.directory() else { return Ok(()) };
    let canonical = |path: &Path| path.canonicalize().map_err(|error| failed("find", path, error));
    let (backups, copy) = (canonical(directory)?, canonical(&place.dir)?);
    match copy.ancestors().nth(2) {
        Some(data_dir) if backups.starts_with(data_dir) => Err(format!(
            "{} is in the data directory: whoever loses that loses both. Choose another one",
            backups.display()
        )),
        _ => Ok(()),
    }
}

fn back_up(
    destination: &Destination,
    source: &Source,
    may_link: bool,
    mut limit: RateLimit,
) -> Result<Manifest, String> {
    let MadeCopy { time_ns, sequence, .. } = &source.copy;
    let parent = destination.names()?.pop();
    let name = &name_behind(parent.as_deref(), *time_ns)?;
    let known = SharedFiles::of(destination.shared_files()?);
    let mut manifest = Manifest::new(name, *time_ns, *sequence, parent);
    let dir = &source.place.dir;
    let rowsets = dir.join("rowsets");
    let mut new_rowsets = Vec::new();
    for name in names_in(&rowsets)? {
        let from = rowsets.join(name);
        match known.find(&from)? {
            Some(entry) => manifest.add(entry, false),
            None => new_rowsets.push(from),
        }
    }
    let own = own_files(dir)?;
    let length = |path: &PathBuf| path.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    let copied: u64 = own.iter().map(|path| length(&dir.join(path))).sum();
    let total = copied + new_rowsets.iter().map(length).sum::<u64>();
    if let Some(directory) = destination.directory() {
        let links = may_link && is_same_device(dir, directory);
        check_room(directory, if links { copied } else { total })?;
    }
    let (mut progress, mut done, begun) = (Progress::start("backing up"), 0, Instant::now());
    let mut watch = |bytes: u64| {
        done += bytes;
        progress.update(done as f64 / total.max(1) as f64, || {
            let rate = done as f64 / begun.elapsed().as_secs_f64();
            format!("{} of {}, {}/s", shown(done), shown(total), shown(rate as u64))
        });
    };
    destination.begin(name)?;
    for path in own {
        manifest.add(destination.add(name, dir, path, &mut limit, &mut watch)?, true);
    }
    for from in new_rowsets {
        manifest.add(destination.share(&from, may_link, &mut limit, &mut watch)?, true);
    }
    progress.clear();
    destination.finish(&manifest)?;
    Ok(manifest)
}

/// The files that backups do not share: manifest and log.
fn own_files(dir: &Path) -> Result<Vec<String>, String> {
    let manifests = names_in(dir)?.into_iter().filter(|name| name.starts_with("manifest-"));
    let log = names_in(&dir.join("wal"))?.into_iter().map(|name| format!("wal/{name}"));
    Ok(manifests.chain(log).collect())
}

fn is_same_device(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    device(one).is_some() && device(one) == device(other)
}

fn check_room(dir: &Path, bytes: u64) -> Result<(), String> {
    let free = files::free_bytes(dir)?;
    match free >= bytes + SPARE_BYTES {
        true => Ok(()),
        false => Err(format!(
            "there is no space: {} has {} left, and this backup needs {}",
            dir.display(),
            shown(free),
            shown(bytes + SPARE_BYTES)
        )),
    }
}
