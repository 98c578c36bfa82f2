//! Prints what was found: lines for people, or one JSON object, always the worst first.

use super::{Finding, Grade};
use crate::cli::log;
use std::fmt::Write as _;
use std::io::Write;

/// Returns the worst grade; an error, which was printed, if the report could not be written.
pub(in crate::cli) fn print(findings: &[Finding], as_json: bool) -> Result<Grade, NotWritten> {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    let text = if as_json { json(&sorted) } else { lines(&sorted) };
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        log::print_error(&format!("writing the report: {error}"));
        return Err(NotWritten);
    }
    Ok(sorted.first().map_or(Grade::Ok, |worst| worst.grade))
}

/// Nobody has seen what was found.
pub(in crate::cli) struct NotWritten;

fn count(findings: &[&Finding], grade: Grade) -> usize {
    findings.iter().filter(|finding| finding.grade == grade).count()
}

fn json(findings: &[&Finding]) -> String {
    let report = serde_json::json!({
        "problems": count(findings, Grade::Problem),
        "warnings": count(findings, Grade::Warning),
        "findings": findings,
    });
    format!("{report}\n")
}

fn lines(findings: &[&Finding]) -> String {
    let mut text = String::new();
    let mut write = || -> std::fmt::Result {
        for Finding { check, grade, found, why, advice } in findings {
            let word = match grade {
                Grade::Ok => "ok",
                Grade::Warning => "warning",
                Grade::Problem => "PROBLEM",
            };
            writeln!(text, "{word:<8} {check}: {found}")?;
            if *grade != Grade::Ok {
                writeln!(text, "         why: {why}\n         do:  {advice}\n")?;
            }
        }
        let [problems, warnings] = [Grade::Problem, Grade::Warning].map(|grade| count(findings, grade));
        match problems + warnings {
            0 => writeln!(text, "all is well"),
            _ => writeln!(text, "{problems} must be changed, {warnings} should be changed"),
        }
    };
    write().expect("writing to memory does not fail");
    text
}
