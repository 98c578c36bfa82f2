//! Dependencies of our crates, on each other and on those of others.
//!
//! A new edge between crates fails here until it is argued for in `ARCHITECTURE.md` and added below. Why a crate of others is here
//! stands on a page of its own, which names each of them.

use crate::workspace::crates;
use std::collections::BTreeSet;
use std::path::Path;
use toml::{Table, Value};

const PAGE: &str = "docs/dependencies.md";

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

/// What their tests, benchmarks and build scripts may use, too.
const TEST_EDGES: [(&str, &[&str]); 3] = [
    // Its tests use a harness that it offers.
    ("kudu-client", &["kudu-client"]),
    ("nyala", &["kudu-client"]),
    ("nyala-engine", &["nyala-bench"]),
];

/// Crates of others that only these of ours know.
const KNOWN_BY: [(&str, &[&str]); 3] =
    [("arrow-flight", &["nyala-flight"]), ("datafusion", &["nyala-sql"]), ("tonic", &["nyala-flight"])];

/// A crate that another one names in its manifest.
struct Used {
    name: String,
    /// Whether not only tests, benchmarks and build scripts need it.
    is_built: bool,
}

/// Complaints about dependencies that the layout forbids, and about those that the page does not explain.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let (mut complaints, mut all) = (Vec::new(), BTreeSet::new());
    for (name, folder) in crates(root) {
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("{name} has no edges: add them to xtask/src/dependencies.rs"));
            continue;
        };
        match manifest(&folder.join("Cargo.toml")) {
            Ok(manifest) => {
                let used = used(&manifest);
                complaints.extend(forbidden(&name, allowed, &used));
                all.extend(used.into_iter().map(|used| used.name));
            }
            Err(error) => complaints.push(error),
        }
    }
    match manifest(&root.join("Cargo.toml")) {
        Ok(manifest) => {
            let offered = manifest.get("workspace").and_then(|own| own.get("dependencies")?.as_table());
            let unused = offered.into_iter().flat_map(Table::keys).filter(|name| !all.contains(*name));
            complaints.extend(unused.map(|name| format!("Cargo.toml has {name}, which no crate uses")));
        }
        Err(error) => complaints.push(error),
    }
    all.retain(|name| !is_ours(name));
    match std::fs::read_to_string(root.join(PAGE)) {
        Ok(page) => complaints.extend(unexplained(&page, &all)),
        Err(error) => complaints.push(format!("{PAGE}: {error}")),
    }
    complaints
}

fn manifest(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse::<Table>().map_err(|error| format!("{}: {error}", path.display()))
}

fn is_ours(name: &str) -> bool {
    EDGES.iter().any(|(ours, _)| *ours == name)
}

/// All that a manifest names, also for some platforms only.
fn used(manifest: &Table) -> Vec<Used> {
    let platforms = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let mut used = Vec::new();
    for table in platforms.filter_map(Value::as_table).chain([manifest]) {
        for (kind, is_built) in
            [("dependencies", true), ("dev-dependencies", false), ("build-dependencies", false)]
        {
            let names = table.get(kind).and_then(Value::as_table).into_iter().flat_map(Table::keys);
            used.extend(names.map(|name| Used { name: name.clone(), is_built }));
        }
    }
    used
}

fn forbidden(crate_name: &str, allowed: &[&str], used: &[Used]) -> Vec<String> {
    let is_forbidden = |used: &&Used| {
        let name = &*used.name;
        let is_of_tests =
            !used.is_built && TEST_EDGES.iter().any(|(own, more)| *own == crate_name && more.contains(&name));
        let is_hidden =
            KNOWN_BY.iter().any(|(hidden, users)| *hidden == name && !users.contains(&crate_name));
        is_hidden || is_ours(name) && !allowed.contains(&name) && !is_of_tests
    };
    let forbidden = used.iter().filter(is_forbidden);
    forbidden.map(|used| format!("{crate_name} must not depend on {}", used.name)).collect()
}

/// What is missing on the page, and what it explains that nobody uses. Its first table is that of crates.
fn unexplained(page: &str, used: &BTreeSet<String>) -> Vec<String> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| crate |"));
    let rows = rows.skip(2).map_while(|line| line.strip_prefix('|')?.split('|').next());
    let named: BTreeSet<&str> =
        rows.flat_map(|cell| cell.split(',')).filter_map(|name| name.split_whitespace().next()).collect();
    let missing = used.iter().filter(|name| !named.contains(name.as_str()));
    let stale = named.iter().filter(|name| !used.contains(**name));
    missing
        .map(|name| format!("{PAGE} does not name {name}"))
        .chain(stale.map(|name| format!("{PAGE} names {name}, which no crate uses")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_dependency_is_seen() {
        let manifest = "[dependencies]\nnyala-core = {}\nnyala-db = {}\n[dev-dependencies]\nnyala-bench = {}\n\
                        [build-dependencies]\nnyala-sql = {}\n[target.'cfg(unix)'.dependencies]\ndatafusion = {}\n";
        let used = used(&manifest.parse().unwrap());
        let mut found = forbidden("nyala-engine", &["nyala-core"], &used);
        found.sort();
        let names = ["datafusion", "nyala-db", "nyala-sql"];
        assert_eq!(found, names.map(|name| format!("nyala-engine must not depend on {name}")));
        assert_eq!(
            forbidden("nyala-sql", &["nyala-core", "nyala-db"], &used)[0],
            "nyala-sql must not depend on nyala-bench"
        );
    }

    #[test]
    fn the_page_explains_what_is_used_and_nothing_else() {
        let page = "x\n\n| crate | why |\n|---|---|\n| a, b (with c) | 1 |\n| d | 2, 3 |\n\n| package | why |\n|---|---|\n| p | 4 |\n";
        let used = ["a", "b", "e"].map(str::to_owned).into();
        let expected = ["does not name e", "names d, which no crate uses"];
        assert_eq!(unexplained(page, &used), expected.map(|words| format!("{PAGE} {words}")));
    }
}
