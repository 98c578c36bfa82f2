//! The layout check: what a compiler does not see.
//!
//! A new edge between crates fails here until it is argued for in `ARCHITECTURE.md` and added below.

use crate::workspace::{crates, rust_files};
use crate::{circles, coverage, documents, replaced};
use std::path::Path;

/// Which crates of ours each crate may use.
const EDGES: [(&str, &[&str]); 19] = [
    ("nyala-column", &[]),
    ("nyala-core", &[]),
    ("nyala-engine", &["nyala-column", "nyala-core"]),
    ("kudu-client", &[]),
    ("nyala-db", &["nyala-core"]),
    ("nyala-exec", &["nyala-core", "nyala-db"]),
    ("nyala-files", &[]),
    ("nyala-query", &["nyala-column", "nyala-core", "nyala-db", "nyala-exec"]),
    ("nyala-sql", &["nyala-core", "nyala-db", "nyala-exec", "nyala-files"]),
    ("nyala-postgres", &["nyala-core", "nyala-db", "nyala-exec", "nyala-files", "nyala-sql"]),
    ("nyala-flight", &["nyala-core", "nyala-db", "nyala-exec", "nyala-sql"]),
    ("nyala-kudu", &["kudu-client", "nyala-core"]),
    ("nyala-influxdb", &[]),
    ("nyala-inputs", &["nyala-core"]),
    ("nyala-client", &[]),
    ("nyala-bench", &["nyala-client"]),
    ("nyala-shell", &["nyala-client"]),
    (
        "nyala",
        &[
            "nyala-bench",
            "nyala-client",
            "nyala-core",
            "nyala-db",
            "nyala-engine",
            "nyala-exec",
            "nyala-files",
            "nyala-flight",
            "nyala-influxdb",
            "nyala-inputs",
            "nyala-kudu",
            "nyala-postgres",
            "nyala-query",
            "nyala-shell",
            "nyala-sql",
        ],
    ),
    ("xtask", &["nyala-bench", "nyala-client"]),
];

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
/// A longer file is two things.
const LINES_MAX: usize = 600;

/// All complaints about the workspace at `root`.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut complaints = coverage::check(root);
    complaints.extend(circles::check(root));
    complaints.extend(documents::check(root));
    for (name, allowed) in EDGES {
        let folder = if name == "xtask" { root.join("xtask") } else { root.join("crates").join(name) };
        check_edges(name, allowed, &folder, &mut complaints);
        for file in rust_files(&folder) {
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            match std::fs::read_to_string(&file) {
                Ok(text) => {
                    check_file(name, &shown, &text, &mut complaints);
                    replaced::check(name, &shown, &text, &mut complaints);
                }
                Err(error) => complaints.push(format!("{shown}: {error}")),
            }
        }
    }
    for (name, _) in crates(root) {
        if !EDGES.iter().any(|(known, _)| *known == name) {
            complaints.push(format!("{name} is not in the layout check: add its edges to xtask/src/tidy.rs"));
        }
    }
    complaints
}

fn check_edges(name: &str, allowed: &[&str], folder: &Path, complaints: &mut Vec<String>) {
    let path = folder.join("Cargo.toml");
    let manifest = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let manifest = manifest.and_then(|text| text.parse::<toml::Table>().map_err(|error| error.to_string()));
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(error) => return complaints.push(format!("{}: {error}", path.display())),
    };
    let used =
        manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
    let ours = |dependency: &&String| EDGES.iter().any(|(ours, _)| ours == dependency);
    for dependency in used.filter(ours) {
        if !allowed.contains(&dependency.as_str()) {
            complaints.push(format!("{name} must not depend on {dependency}"));
        }
    }
}

fn check_file(name: &str, shown: &str, text: &str, complaints: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!("{shown} has {lines} lines, more than {LINES_MAX}: it is two things"));
    }
    let is_test = shown.contains("/tests/") || shown.ends_with("/tests.rs") || shown.contains("/benches/");
    if !is_test && !text.starts_with("//!") {
        complaints.push(format!("{shown} has no header that says what it is"));
    }
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
