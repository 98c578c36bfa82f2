//! The resource use of the server process, from `/proc`: CPU time, memory, bytes written; and its data on disk.
//!
//! All of it is optional: for a server on another machine, of another user, or on a system without `/proc`, only its
//! answers are measured.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Linux reports CPU time to programs in hundredths of a second on every architecture it runs on here.
const TICKS_PER_SECOND: f64 = 100.0;

/// The server process to measure.
#[derive(Clone, Debug, Default)]
pub struct ServerProbe {
    /// Its process.
    pub pid: Option<u32>,
    /// Where it keeps its data.
    pub data_dir: Option<PathBuf>,
}

/// What the server has used up to one moment. The difference of two is what a phase used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time of all its threads.
    pub cpu_seconds: Option<f64>,
    /// Resident memory now.
    pub resident_bytes: Option<u64>,
    /// The maximum of resident memory so far.
    pub peak_resident_bytes: Option<u64>,
    /// Bytes written to storage so far.
    pub written_bytes: Option<u64>,
}

impl Usage {
    /// CPU seconds since `earlier`.
    pub fn cpu_since(&self, earlier: &Usage) -> Option<f64> {
        Some(self.cpu_seconds? - earlier.cpu_seconds?)
    }

    /// Bytes written since `earlier`.
    pub fn written_since(&self, earlier: &Usage) -> Option<u64> {
        self.written_bytes?.checked_sub(earlier.written_bytes?)
    }
}

impl ServerProbe {
    /// What the server uses now.
    pub fn usage(&self) -> Usage {
        let Some(pid) = self.pid else { return Usage::default() };
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let status = read("status");
        let member = |text: &Option<String>, name| labelled_number(text.as_deref()?, name);
        Usage {
            cpu_seconds: read("stat").as_deref().and_then(cpu_seconds),
            resident_bytes: member(&status, "VmRSS:").map(|kib| kib * 1024),
            peak_resident_bytes: member(&status, "VmHWM:").map(|kib| kib * 1024),
            written_bytes: member(&read("io"), "write_bytes:"),
        }
    }

    /// Bytes of storage that the data directory takes.
    pub fn disk_bytes(&self) -> Option<u64> {
        self.data_dir.as_deref().map(|directory| allocated_bytes(directory, 0))
    }
}

/// The sum of user and system time in `/proc/<pid>/stat`, whose second field may contain any characters.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_ascii_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some((times.next()? + times.next()?) as f64 / TICKS_PER_SECOND)
}

fn labelled_number(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// `stat` counts blocks of this size, whatever the file system uses.
const STAT_BLOCK_BYTES: u64 = 512;
/// Depth of directories that are followed; data directories are far shallower.
const DEPTH_LIMIT: usize = 64;

/// Files come and go while a server works; a file that vanishes counts as empty.
fn allocated_bytes(path: &Path, depth: usize) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let own = metadata.blocks() * STAT_BLOCK_BYTES;
    if !metadata.is_dir() || depth == DEPTH_LIMIT {
        return own;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    own + entries.map(|entry| allocated_bytes(&entry.path(), depth + 1)).sum::<u64>()
}

/// Asks the system to drop its cache of the files under `directory`. Files for which this fails stay cached.
pub fn evict_cached_files(directory: &Path) {
    fn evict(path: &Path, depth: usize) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if metadata.is_dir() && depth < DEPTH_LIMIT {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.for_each(|entry| evict(&entry.path(), depth + 1));
        } else if metadata.is_file()
            && let Ok(file) = fs::File::open(path)
        {
            let _ = file.sync_all();
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
    evict(directory, 0);
}

/// The process of this machine that listens on `port`, if its `/proc` entries can be read.
pub fn listening_process(port: u16) -> Option<u32> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| table.lines().filter_map(|line| listener_inode(line, port)).collect::<Vec<_>>())
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| inodes.iter().any(|inode| inode == link)))
    })
}

/// The inode of a line of `/proc/net/tcp` that is a listener on `port`.
fn listener_inode(line: &str, port: u16) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (_, local_port) = fields.next()?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let listens = u16::from_str_radix(local_port, 16).ok()? == port && state == "0A";
    fields.nth(5)?.parse().ok().filter(|_| listens)
}

/// The machine that a benchmark ran on, for its report: cores, processor, memory.
pub fn machine() -> (usize, String, u64) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").ok();
    let memory_bytes = memory.and_then(|text| labelled_number(&text, "MemTotal:")).unwrap_or(0) * 1024;
    (cores, processor, memory_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn this_process_is_found_and_measured() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pid = listening_process(port);
        assert_eq!(pid, Some(std::process::id()));
        let probe = ServerProbe { pid, data_dir: None };
        let before = probe.usage();
        let started = std::time::Instant::now();
        let mut random = crate::random::Random::new(0, 0);
        // However long it takes until a busy machine has given it so much.
        let after = loop {
            for _ in 0..100_000 {
                std::hint::black_box(random.bits());
            }
            let usage = probe.usage();
            if usage.cpu_since(&before).unwrap() >= 0.02 {
                break usage;
            }
            assert!(started.elapsed().as_secs() < 60, "what it uses is measured");
        };
        assert!(after.peak_resident_bytes.unwrap() >= after.resident_bytes.unwrap());
        drop(listener);
        assert_eq!(listening_process(port), None);
    }

    #[test]
    fn a_directory_counts_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let probe = ServerProbe { pid: None, data_dir: Some(directory.path().to_owned()) };
        let empty = probe.disk_bytes().unwrap();
        fs::create_dir(directory.path().join("deeper")).unwrap();
        fs::write(directory.path().join("deeper/file"), vec![1; 100_000]).unwrap();
        assert!(probe.disk_bytes().unwrap() >= empty + 100_000);
        assert_eq!(probe.usage(), Usage::default());
    }

    #[test]
    fn process_names_with_brackets_do_not_confuse() {
        let stat = "7 (a) b (c) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("garbage"), None);
    }
}
