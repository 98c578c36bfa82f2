//! The data directory: whose it is, who can read it, on which file system it lies, how much room it has, and when the log
//! is synced.

use super::process::ServerProcess;
use crate::cli::findings::{Finding, shown_bytes};
use crate::config::{Config, StoreKind, WalSync};
use crate::storage::disk::kept_free_bytes;
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(super) fn look(config: &Config, server: Option<&ServerProcess>) -> Vec<Finding> {
    if config.store == StoreKind::Kudu {
        return vec![Finding::ok("data-directory", "rows are kept in an Apache Kudu cluster")];
    }
    let mut findings = vec![judge_sync(config.wal_sync)];
    let directory = match std::path::absolute(&config.data_dir) {
        Ok(directory) => directory,
        Err(error) => {
            let found = format!("{}: {error}", config.data_dir.display());
            findings.push(cannot_be_used(found));
            return findings;
        }
    };
    // What does not exist yet is created there.
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    findings.push(match existing == directory {
        true => judge_owner(&directory, server),
        false => judge_parent(&directory, existing),
    });
    let existing = existing.canonicalize().unwrap_or_else(|_| existing.to_owned());
    if let Ok(disk) = statvfs(&existing) {
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
            findings.push(cannot_be_used(format!("{} is mounted read-only", existing.display())));
        }
        findings.push(judge_room(bytes(disk.f_blocks), bytes(disk.f_bavail), config.wal_limit.0 as u64));
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    findings.extend(mount_of(&existing, &mounts).map(|(kind, options)| judge_file_system(&kind, &options)));
    findings
}

fn judge_sync(sync: WalSync) -> Finding {
    let found = format!("wal-sync is {sync}");
    let lost = match sync {
        WalSync::Always => {
            return Finding::ok("wal-sync", "wal-sync is always: what was acknowledged survives a power cut");
        }
        WalSync::Interval(interval) => {
            format!("a power cut loses what was acknowledged in the last {interval:?}")
        }
        WalSync::Never => "a power cut loses what the system had not written yet, of any age".to_owned(),
    };
    Finding::warning("wal-sync", found, lost, "--wal-sync always, unless that loss is fine with you")
}

fn cannot_be_used(found: String) -> Finding {
    Finding::problem(
        "data-directory",
        found,
        "the server cannot write there",
        "say another --data-dir, or mend it",
    )
}

fn judge_owner(directory: &Path, server: Option<&ServerProcess>) -> Finding {
    let facts = match std::fs::metadata(directory) {
        Ok(facts) => facts,
        Err(error) => return cannot_be_used(format!("{}: {error}", directory.display())),
    };
    if !facts.is_dir() {
        return cannot_be_used(format!("{} is no directory", directory.display()));
    }
    let (owner, mode) = (facts.uid(), facts.mode() & 0o777);
    let shown = format!("{} belongs to user {owner}, mode {mode:03o}", directory.display());
    // Who does not run a server asks about one that they would start themselves, unless they are root.
    let own = rustix::process::geteuid().as_raw();
    let user = server.and_then(ServerProcess::user).or((own != 0).then_some(own));
    if user.is_some_and(|user| user != owner && user != 0) {
        return Finding::problem(
            "data-directory",
            shown,
            format!("the server would run as user {} and cannot use it", user.unwrap_or_default()),
            format!("chown -R {} {}", user.unwrap_or_default(), directory.display()),
        );
    }
    if mode & 0o077 != 0 {
        return Finding::warning(
            "data-directory",
            shown,
            "others can read the data, and the hashes of passwords",
            format!("chmod 700 {}", directory.display()),
        );
    }
    if server.and_then(ServerProcess::user) == Some(0) {
        return Finding::warning(
            "data-directory",
            format!("{shown}; the server runs as root"),
            "a mistake of the server would be one of root",
            "run it as a user of its own; the unit in deploy/systemd does",
        );
    }
    Finding::ok("data-directory", shown)
}

/// A directory that the server would create in `parent`, or below it.
fn judge_parent(directory: &Path, parent: &Path) -> Finding {
    match access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(
            "data-directory",
            format!("{} does not exist; the first start creates it", directory.display()),
        ),
        Err(error) => cannot_be_used(format!(
            "{} does not exist, and {}: {error}",
            directory.display(),
            parent.display()
        )),
    }
}

fn judge_room(size_bytes: u64, free_bytes: u64, log_limit_bytes: u64) -> Finding {
    let found = format!("{} of {} are free", shown_bytes(free_bytes), shown_bytes(size_bytes));
    let why = "without free space writes are refused, and compaction, which needs room for a while, stops";
    let advice = "drop what is not needed (docs/operations/durability.md), or enlarge the disk";
    let kept_bytes = kept_free_bytes(size_bytes, log_limit_bytes);
    if free_bytes < kept_bytes {
        let found = format!("{found}: {} are needed", shown_bytes(kept_bytes));
        return Finding::problem("disk", found, why, advice);
    }
    match free_bytes < kept_bytes * 3 {
        true => Finding::warning("disk", found, why, advice),
        false => Finding::ok("disk", found),
    }
}

/// Kind and options of the file system that a path lies on.
fn mount_of(path: &Path, mounts: &str) -> Option<(String, String)> {
    let lines = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let at = PathBuf::from(unescaped(at));
        path.starts_with(&at).then(|| (at.as_os_str().len(), kind.to_owned(), options.to_owned()))
    });
    // Of those at one place, the last hides the others.
    lines.max_by_key(|(length, ..)| *length).map(|(_, kind, options)| (kind, options))
}

/// A path of `/proc/mounts`, where spaces and the like are written in octal digits.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (octal, letter)| text.replace(octal, letter))
}

fn judge_file_system(kind: &str, options: &str) -> Finding {
    let found = format!("the data lie on {kind} ({options})");
    let has = |option: &str| options.split(',').any(|own| own == option);
    match kind {
        "tmpfs" | "ramfs" => Finding::problem(
            "file-system",
            found,
            "it is in memory: a restart of the machine loses everything",
            "say a --data-dir on a disk",
        ),
        "overlay" | "aufs" => Finding::warning(
            "file-system",
            found,
            "it is the layer of a container: data are gone with the container, and are written through another layer",
            "mount a volume at data-dir",
        ),
        _ if kind.starts_with("nfs")
            || kind.starts_with("fuse")
            || ["cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "afs", "vboxsf"].contains(&kind) =>
        {
            Finding::warning(
                "file-system",
                found,
                "nyala needs locks, renames and syncs that hold; not every file system over a network or in user space keeps them",
                "use a local file system: ext4, XFS, ZFS or btrfs",
            )
        }
        _ if has("nobarrier") || has("barrier=0") => Finding::problem(
            "file-system",
            found,
            "without barriers the disk may lose what was synced",
            "mount it without nobarrier",
        ),
        _ => Finding::ok("file-system", format!("the data lie on {kind}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::findings::Grade;
    use std::time::Duration;

    #[test]
    fn the_file_system_of_the_longest_place_counts_and_the_last_of_them() {
        let mounts = "/dev/a / ext4 rw,relatime 0 0\nb /srv tmpfs rw 0 0\nc /srv/my\\040data nfs4 rw,vers=4 0 0\n\
                      d /srv/my\\040data xfs rw 0 0\n";
        let kind = |path: &str| mount_of(Path::new(path), mounts).map(|(kind, _)| kind);
        assert_eq!(kind("/srv/my data/x").as_deref(), Some("xfs"));
        assert_eq!(kind("/srv/my").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/srvother").as_deref(), Some("ext4"));
        assert_eq!(mount_of(Path::new("/x"), ""), None);
    }

    #[test]
    fn file_systems_and_room_are_judged() {
        let grade = |kind: &str, options: &str| judge_file_system(kind, options).grade;
        assert_eq!(grade("ext4", "rw,relatime"), Grade::Ok);
        assert_eq!(grade("xfs", "rw,nobarrier"), Grade::Problem);
        assert_eq!(grade("tmpfs", "rw"), Grade::Problem);
        assert_eq!(grade("nfs4", "rw"), Grade::Warning);
        assert_eq!(grade("fuse.sshfs", "rw"), Grade::Warning);
        assert_eq!(grade("overlay", "rw"), Grade::Warning);
        let room = |free: u64, log: u64| judge_room(1000 << 20, free << 20, log << 20).grade;
        assert_eq!((room(49, 1), room(50, 1), room(149, 1), room(150, 1)), {
            (Grade::Problem, Grade::Warning, Grade::Warning, Grade::Ok)
        });
        assert_eq!(room(500, 512), Grade::Problem);
        assert_eq!(judge_sync(WalSync::Always).grade, Grade::Ok);
        assert_eq!(judge_sync(WalSync::Interval(Duration::from_secs(1))).grade, Grade::Warning);
        assert_eq!(judge_sync(WalSync::Never).grade, Grade::Warning);
    }
}
