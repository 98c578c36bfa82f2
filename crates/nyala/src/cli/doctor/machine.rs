//! The machine: open files, memory, huge pages, overcommitment, swap and the clock.

use super::process::{self, ServerProcess};
use crate::assemble::PROCESS_BYTES;
use crate::cli::findings::{Finding, shown_bytes};
use crate::config::Config;
use crate::server::{CONNECTIONS_MAX, HEAD_MAX_BYTES};
use std::path::Path;
use std::process::Command;

/// The process takes at most this percentage of `memory-limit`.
const LIMIT_PERCENT: u64 = 110;
/// Less is too little for any server: connections, files of data, the log.
const OPEN_FILES_MIN: u64 = 1024;

pub(super) fn look(config: &Config, server: Option<&ServerProcess>) -> Vec<Finding> {
    let folder = process::folder(server);
    let limit_bytes = config.memory_limit.0 as u64;
    let mut findings = Vec::new();
    findings.extend(open_files_allowed(&folder).map(|most| judge_open_files(most, limit_bytes)));
    if let Some((bytes, whose)) = memory_bytes(&folder) {
        findings.push(judge_memory(limit_bytes, bytes, whose));
    }
    let huge_pages =
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let refused = std::fs::read_to_string(format!("{folder}/status"))
        .is_ok_and(|status| status.lines().any(|line| line.trim() == "THP_enabled:\t0"));
    findings.extend(judge_huge_pages(&huge_pages, server.is_some(), refused));
    let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    findings.extend(judge_overcommit(overcommit.trim()));
    findings.extend(server.map(|server| judge_swap(server.swapped_bytes())));
    findings.push(judge_clock(is_clock_synchronised()));
    findings
}

/// The hard limit of open files.
fn open_files_allowed(folder: &str) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("{folder}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn judge_open_files(most: u64, memory_limit_bytes: u64) -> Finding {
    let data_bytes = memory_limit_bytes.saturating_sub(PROCESS_BYTES as u64);
    let connections = (data_bytes / 2 / HEAD_MAX_BYTES as u64).min(CONNECTIONS_MAX as u64);
    let wanted = (2 * connections).max(OPEN_FILES_MIN);
    let found = format!("the system allows {most} open files");
    let why = format!(
        "half of them may be connections, and the memory limit admits {connections}; files of the data need the others"
    );
    let advice = format!(
        "LimitNOFILE={0} in the unit of systemd, or `ulimit -Hn {0}` before the start",
        wanted.max(65_536)
    );
    match most {
        0..OPEN_FILES_MIN => Finding::problem("open-files", found, why, advice),
        most if most < wanted => Finding::warning("open-files", found, why, advice),
        _ => Finding::ok("open-files", found),
    }
}

/// The memory that the process can have, and of what.
fn memory_bytes(folder: &str) -> Option<(u64, &'static str)> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = machine.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = machine.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10;
    let groups = std::fs::read_to_string(format!("{folder}/cgroup")).unwrap_or_default();
    let group = group_limit_bytes(Path::new("/sys/fs/cgroup"), &groups).filter(|group| *group < machine);
    Some(group.map_or((machine, "this machine has"), |group| (group, "its cgroup allows")))
}

/// The least limit of a cgroup and those above it, of version 2 or version 1.
fn group_limit_bytes(root: &Path, groups: &str) -> Option<u64> {
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let memory = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|controller| controller == "memory").then_some(path)
    });
    let (folder, path, file) = match (memory, unified) {
        (Some(path), _) => (root.join("memory"), path, "memory.limit_in_bytes"),
        (None, Some(path)) => (root.to_owned(), path, "memory.max"),
        (None, None) => return None,
    };
    // Inside a container the path may be that of the machine, which is not there; the root is the container's then.
    let own = Path::new(path.trim_start_matches('/'));
    let limits =
        own.ancestors().filter_map(|group| std::fs::read_to_string(folder.join(group).join(file)).ok());
    // "max" is no number.
    limits.filter_map(|limit| limit.trim().parse().ok()).min()
}

fn judge_memory(limit_bytes: u64, available_bytes: u64, whose: &str) -> Finding {
    let most = limit_bytes.saturating_mul(LIMIT_PERCENT) / 100;
    let found =
        format!("memory-limit is {}, and {whose} {}", shown_bytes(limit_bytes), shown_bytes(available_bytes));
    if most > available_bytes {
        return Finding::problem(
            "memory",
            found,
            "the process may take 1.1 times its limit; the system would kill it",
            format!("--memory-limit {}MiB or less", (available_bytes / 4 * 3 * 100 / LIMIT_PERCENT) >> 20),
        );
    }
    if most > available_bytes / 8 * 7 {
        return Finding::warning(
            "memory",
            found,
            "nothing is left for other programs, and for files that the system would keep in memory",
            "leave a quarter free: a smaller memory-limit, or more memory",
        );
    }
    Finding::ok("memory", found)
}

/// `enabled` is what the system says: the mode in force in brackets.
fn judge_huge_pages(enabled: &str, runs: bool, refused: bool) -> Option<Finding> {
    if enabled.is_empty() {
        return None;
    }
    if !enabled.contains("[always]") {
        return Some(Finding::ok("huge-pages", "transparent huge pages are not `always`"));
    }
    if runs && !refused {
        return Some(Finding::warning(
            "huge-pages",
            "the system gives transparent huge pages to all, and the server could not refuse them",
            "they take memory beyond the limit",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ));
    }
    Some(Finding::ok("huge-pages", "the system gives transparent huge pages to all; the server refuses them"))
}

fn judge_overcommit(mode: &str) -> Option<Finding> {
    match mode {
        "" => None,
        "2" => Some(Finding::warning(
            "overcommit",
            "vm.overcommit_memory is 2",
            "the allocator reserves address space that it does not use; the system counts it as used, and may refuse memory that is free",
            "sysctl vm.overcommit_memory=0",
        )),
        mode => Some(Finding::ok("overcommit", format!("vm.overcommit_memory is {mode}"))),
    }
}

fn judge_swap(swapped_bytes: u64) -> Finding {
    // Pages that are never used are no harm.
    if swapped_bytes < 32 << 20 {
        return Finding::ok("swap", "the server is not swapped out");
    }
    Finding::warning(
        "swap",
        format!("{} of the server are swapped out", shown_bytes(swapped_bytes)),
        "queries and writes wait for the disk when they need these pages",
        "a smaller memory-limit, more memory, or `sysctl vm.swappiness=1`",
    )
}

/// Whether the clock is synchronised, if a program on the machine knows.
fn is_clock_synchronised() -> Option<bool> {
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Some(true);
    }
    let said = |program: &str, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if let Some(said) = said("timedatectl", &["show", "--property=NTPSynchronized", "--value"]) {
        return match said.trim() {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        };
    }
    let tracking = said("chronyc", &["-n", "tracking"])?;
    Some(tracking.lines().any(|line| line.starts_with("Leap status") && line.ends_with("Normal")))
}

fn judge_clock(is_synchronised: Option<bool>) -> Finding {
    match is_synchronised {
        Some(true) => Finding::ok("clock", "the clock is synchronised"),
        Some(false) => Finding::warning(
            "clock",
            "the clock is not synchronised",
            "points without a time get a wrong one, `now()` is wrong, and shards expire too early or too late",
            "run chrony or systemd-timesyncd",
        ),
        None => Finding::ok(
            "clock",
            "cannot tell whether the clock is synchronised (no systemd-timesyncd, no chrony)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::findings::Grade;

    #[test]
    fn open_files_are_judged_by_what_memory_admits() {
        let grade = |most, limit_mib: u64| judge_open_files(most, limit_mib << 20).grade;
        assert_eq!(grade(1000, 64), Grade::Problem);
        assert_eq!(grade(1024, 64), Grade::Ok);
        assert_eq!(grade(1024, 512), Grade::Warning);
        assert_eq!(grade(7776, 512), Grade::Ok);
        assert_eq!(grade(32_767, 1 << 20), Grade::Warning);
        assert_eq!(grade(32_768, 1 << 20), Grade::Ok);
        assert_eq!(grade(u64::MAX, 1 << 20), Grade::Ok);
    }

    #[test]
    fn memory_is_judged_by_the_least_limit_above_the_process() {
        let grade = |limit_mib: u64, there_mib: u64| judge_memory(limit_mib << 20, there_mib << 20, "").grade;
        assert_eq!(grade(1000, 1099), Grade::Problem);
        assert_eq!(grade(1000, 1100), Grade::Warning);
        assert_eq!(grade(1000, 1300), Grade::Ok);
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, limit: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, limit).unwrap();
        };
        let limit = |groups: &str| group_limit_bytes(root.path(), groups);
        assert_eq!(limit(""), None);
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/memory.max", "1000\n");
        write("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), Some(1000));
        write("a/b/memory.max", "500\n");
        assert_eq!(limit("0::/a/b\n"), Some(500));
        write("memory/c/memory.limit_in_bytes", "700\n");
        assert_eq!(limit("3:cpu,cpuacct:/\n2:memory:/c\n0::/a/b\n"), Some(700));
        write("memory.max", "300\n");
        assert_eq!(limit("0::/of/the/machine\n"), Some(300));
    }

    #[test]
    fn other_facts_are_judged() {
        let grade = |finding: Option<Finding>| finding.map(|finding| finding.grade);
        assert_eq!(grade(judge_huge_pages("", true, false)), None);
        assert_eq!(grade(judge_huge_pages("always [madvise] never", true, false)), Some(Grade::Ok));
        assert_eq!(grade(judge_huge_pages("always madvise [never]", true, false)), Some(Grade::Ok));
        assert_eq!(grade(judge_huge_pages("[always] madvise never", true, false)), Some(Grade::Warning));
        assert_eq!(grade(judge_huge_pages("[always] madvise never", true, true)), Some(Grade::Ok));
        assert_eq!(grade(judge_huge_pages("[always] madvise never", false, false)), Some(Grade::Ok));
        assert_eq!(grade(judge_overcommit("2")), Some(Grade::Warning));
        assert_eq!(grade(judge_overcommit("1")), Some(Grade::Ok));
        assert_eq!((judge_swap(0).grade, judge_swap(1 << 30).grade), (Grade::Ok, Grade::Warning));
        assert_eq!(judge_clock(Some(false)).grade, Grade::Warning);
        assert_eq!((judge_clock(None).grade, judge_clock(Some(true)).grade), (Grade::Ok, Grade::Ok));
    }
}
