//! The layout check: what a compiler does not see.

use crate::workspace::{crates, files_below, rust_files};
use crate::{circles, coverage, dependencies, documents, replaced};
use std::path::Path;

/// Imports that a part of a crate must not have: (files below, text, why).
const FOREIGN: [(&str, &str, &str); 9] = [
    ("crates/nyala-query/src/influxql", "crate::exec", "the language does not know how it is executed"),
    ("crates/nyala-query/src/influxql", "crate::plan", "the language does not know how it is planned"),
    ("crates/nyala-query/src/influxql", "nyala_db", "the language does not know what is stored"),
    (
        "crates/nyala-query/src/influxql",
        "nyala_exec::{",
        "of what executes it the language knows zones and functions",
    ),
    ("crates/nyala/src/server/format", "nyala_query", "answers are written for every query language"),
    ("crates/nyala/src/server/http/output.rs", "nyala_query", "answers are sent for every query language"),
    ("crates/nyala/src/server", "nyala_engine", "only storage/ names a concrete store"),
    ("crates/nyala/src/server", "crate::storage", "the server stands on the contract"),
    ("crates/nyala/src/assemble.rs", "nyala_engine", "only storage/ names a concrete store"),
];

/// The only crate with unsafe code.
const UNSAFE_CRATE: &str = "nyala-column";
/// Files elsewhere that may have it: calls into a foreign library, fenced in one file with their proof.
const UNSAFE_FILES: [&str; 3] = [
    "crates/kudu-client/src/rpc/gssapi.rs",
    "crates/nyala/src/allocator.rs",
    "crates/nyala/src/server/http/body/inflate.rs",
];
/// The sources of the web console.
const CONSOLE: &str = "console/src";
/// A longer file is two things.
const LINES_MAX: usize = 600;

/// All complaints about the workspace at `root`.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut complaints = coverage::check(root);
    complaints.extend(circles::check(root));
    complaints.extend(documents::check(root));
    complaints.extend(dependencies::check(root));
    let fuzzed = ("fuzz".to_owned(), root.join("fuzz"));
    for (name, folder) in crates(root).into_iter().chain([fuzzed]) {
        for file in rust_files(&folder) {
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            match std::fs::read_to_string(&file) {
                Ok(text) => {
                    check_file(&name, &shown, &text, &mut complaints);
                    replaced::check(&name, &shown, &text, &mut complaints);
                }
                Err(error) => complaints.push(format!("{shown}: {error}")),
            }
        }
    }
    for file in files_below(&root.join(CONSOLE), &["ts", "tsx"]) {
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        match std::fs::read_to_string(&file) {
            Ok(text) => check_length_and_header(&shown, &text, "//", &mut complaints),
            Err(error) => complaints.push(format!("{shown}: {error}")),
        }
    }
    complaints
}

fn check_file(name: &str, shown: &str, text: &str, complaints: &mut Vec<String>) {
    let is_test = shown.contains("/tests/") || shown.ends_with("/tests.rs") || shown.contains("/benches/");
    check_length_and_header(shown, text, if is_test { "" } else { "//!" }, complaints);
    let may_be_unsafe = name == UNSAFE_CRATE || name == "xtask" || UNSAFE_FILES.contains(&shown);
    if !may_be_unsafe && text.lines().any(has_unsafe) {
        complaints.push(format!(
            "{shown} has unsafe code, which belongs in {UNSAFE_CRATE}, or fenced in UNSAFE_FILES"
        ));
    }
    for (folder, import, reason) in FOREIGN {
        if shown.starts_with(folder)
            && text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(import))
        {
            complaints.push(format!("{shown} uses {import}: {reason}"));
        }
    }
}

fn check_length_and_header(shown: &str, text: &str, header: &str, complaints: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!("{shown} has {lines} lines, more than {LINES_MAX}: it is two things"));
    }
    if !text.starts_with(header) {
        complaints.push(format!("{shown} has no header that says what it is"));
    }
}

fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait"].iter().any(|word| code.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn the_layout_is_in_order() {
        assert_eq!(check(&workspace::root()), Vec::<String>::new());
    }

    #[test]
    fn faults_are_found() {
        let mut complaints = Vec::new();
        check_file("nyala-db", "crates/nyala-db/src/x.rs", "fn f() { unsafe { g() } }\n", &mut complaints);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        check_file("nyala-db", "crates/nyala-db/src/x.rs", &long, &mut complaints);
        let import = "//! x\nuse crate::exec::Frame;\n";
        check_file("nyala-query", "crates/nyala-query/src/influxql/x.rs", import, &mut complaints);
        assert_eq!(complaints.len(), 4, "{complaints:?}");
    }
}
