//! The data directory: versions of its files, what the first start changes in it, and the space that this takes.

use crate::cli::findings::{Finding, shown_bytes};
use nyala_core::{Error, ErrorKind};
use nyala_db::catalog::earlier_records;
use nyala_engine::fs::{FsRef, RealFs};
use nyala_engine::{FileKind, Files, FormatReport, formats};
use rustix::fs::statvfs;
use std::path::Path;
use std::sync::Arc;

const KINDS: [FileKind; 3] = [FileKind::Manifest, FileKind::Log, FileKind::Rowset];

pub(super) fn look(data_dir: &Path) -> Vec<Finding> {
    let fs: FsRef = Arc::new(RealFs);
    let shown = data_dir.display();
    let report = match formats(&fs, data_dir) {
        Ok(Some(report)) => report,
        Ok(None) => {
            return vec![Finding::warning(
                "data-directory",
                format!("there are no data in {shown}"),
                "nothing has to be upgraded, unless the data are elsewhere",
                "say the --data-dir of the server, if it is another one",
            )];
        }
        Err(error) => return vec![judge_error(&error)],
    };
    let mut findings = Vec::new();
    if report.is_in_use {
        findings.push(Finding::warning(
            "data-directory",
            format!("a server uses {shown}: only the versions of its files were looked at"),
            "what the manifest and the log hold changes meanwhile",
            "stop the server, and look again before you start the new program",
        ));
    }
    findings.extend(KINDS.iter().filter_map(|kind| judge_versions(*kind, &report)));
    findings.extend(report.obstacles.iter().map(|words| judge_obstacle(words)));
    let unlisted = report.obstacle_count - report.obstacles.len() as u64;
    if unlisted > 0 {
        findings.push(judge_obstacle(&format!("and {unlisted} times the like")));
    }
    if !report.has_unknown_version() {
        findings.push(judge_way_back(data_dir, &report));
        if !report.is_in_use
            && let Ok(disk) = statvfs(data_dir)
        {
            findings.push(judge_room(&report, disk.f_bavail.saturating_mul(disk.f_frsize)));
        }
    }
    findings
}

fn judge_error(error: &Error) -> Finding {
    let advice = match error.kind() {
        ErrorKind::Conflict => "say the --data-dir of the server",
        ErrorKind::Corrupt => "do what it says, before the upgrade, with the program that wrote the data",
        _ => "mend that, or run this as the user of the server",
    };
    Finding::problem("data-directory", error.to_string(), "no program can be started on it", advice)
}

fn judge_obstacle(words: &str) -> Finding {
    Finding::problem(
        "contents",
        words,
        "data are damaged or of a newer program: this one refuses to start, or answers without them",
        "`nyala check` of the program that wrote them says more; mend it with that program, before the upgrade",
    )
}

fn name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Manifest => "manifest",
        FileKind::Log => "log",
        FileKind::Rowset => "rowsets",
    }
}

/// The versions of a kind of file that are there.
fn versions(kind: FileKind, report: &FormatReport) -> Vec<(u32, Files)> {
    let of_kind = report.files.iter().filter(|((found, _), _)| *found == kind);
    of_kind.map(|((_, version), files)| (*version, *files)).collect()
}

fn has_earlier(kind: FileKind, report: &FormatReport) -> bool {
    versions(kind, report).iter().any(|(version, _)| *version < kind.written_version())
}

fn judge_versions(kind: FileKind, report: &FormatReport) -> Option<Finding> {
    let (found, written) = (versions(kind, report), kind.written_version());
    let words: Vec<String> = found
        .iter()
        .map(|(version, files)| {
            let unit = if files.count == 1 { "file" } else { "files" };
            format!("version {version} ({} {unit}, {})", files.count, shown_bytes(files.bytes))
        })
        .collect();
    let newest = found.last()?.0;
    let words = words.join(", ");
    Some(if newest > written {
        Finding::problem(
            name(kind),
            format!("{words}, and this program reads up to version {written}"),
            "a newer program wrote it, and this one does not use it",
            "start that program or a newer one, or restore a backup from before its first start",
        )
    } else if !has_earlier(kind, report) {
        Finding::ok(name(kind), format!("{words}, as this program writes it"))
    } else if kind == FileKind::Rowset {
        Finding::ok(
            name(kind),
            format!("{words}; earlier ones are read as they are, until compaction writes version {written}"),
        )
    } else {
        Finding::ok(name(kind), format!("{words}; the first start goes on in version {written}"))
    })
}

/// What an earlier program would not understand after the first start.
fn judge_way_back(data_dir: &Path, report: &FormatReport) -> Finding {
    let mut changed: Vec<String> = KINDS
        .iter()
        .filter(|kind| has_earlier(**kind, report))
        .map(|kind| format!("{} in version {}", name(*kind), kind.written_version()))
        .collect();
    let records = earlier_records(report.schemas.iter().map(|schema| &**schema));
    if !records.is_empty() {
        changed.push(format!("the records of {} in their new form", records.join(", ")));
    }
    if changed.is_empty() {
        return Finding::ok(
            "way-back",
            "this program writes the versions that it has found: the one that wrote them can be started again, as long as \
             nothing is used that it does not know",
        );
    }
    let (shown, bytes) = (data_dir.display(), report.files.values().map(|files| files.bytes).sum());
    Finding::warning(
        "way-back",
        format!("this program writes {}", changed.join(", ")),
        "after its first start an earlier program refuses the directory, or takes what it does not know for damage",
        format!(
            "keep what was before: `nyala backup --data-dir {shown} DIRECTORY`, which links files on the same disk, or \
             `cp -a {shown} DIRECTORY`, which takes {}",
            shown_bytes(bytes)
        ),
    )
}

fn judge_room(report: &FormatReport, free_bytes: u64) -> Finding {
    let mut found = format!("the first start needs up to {} of free space", shown_bytes(report.start_bytes));
    if report.merge_bytes > 0 {
        found += &format!(", and merging earlier rowsets up to {}", shown_bytes(report.merge_bytes));
    }
    let found = format!("{found}; {} are free", shown_bytes(free_bytes));
    let advice = "make room before the upgrade";
    if free_bytes < report.start_bytes {
        return Finding::problem("disk", found, "the server does not start, or refuses writes", advice);
    }
    match free_bytes < report.merge_bytes {
        true => Finding::warning("disk", found, "such merges fail and are tried again", advice),
        false => Finding::ok("disk", found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::findings::Grade;

    #[test]
    fn free_space_is_judged() {
        let report = FormatReport { start_bytes: 10 << 20, merge_bytes: 30 << 20, ..FormatReport::default() };
        let grade = |free: u64| judge_room(&report, free << 20).grade;
        assert_eq!([9, 10, 29, 30].map(grade), [Grade::Problem, Grade::Warning, Grade::Warning, Grade::Ok]);
    }
}
