//! Circles of modules: siblings that refer to each other, directly or through others.
//!
//! Siblings are the children of one module. A reference from anywhere below one of them to anywhere below another is an
//! edge, and it is an edge too if the path goes through a name that their parent, or any module further up, re-exports.
//! Parents and children may refer to each other.

use crate::modules::{Crate, Edge, ModulePath, Place};
use crate::workspace::crates;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crate, parent, siblings.
type Known = (&'static str, &'static str, &'static [&'static str]);

/// Circles that are not broken up yet. Entries may be removed, but none may be added.
const KNOWN: &[Known] = &[
    ("kudu-client", "crate", &["alter", "client", "create", "scan", "table", "tablets", "write"]),
    ("kudu-client", "crate", &["schema", "value"]),
    ("kudu-client", "crate::rpc", &["kerberos", "negotiation"]),
    ("kudu-client", "crate::scan", &["scanner", "sorted"]),
    ("nyala", "crate::server", &["health", "http", "report"]),
    ("nyala", "crate::server::http", &["body", "unpack"]),
    ("nyala", "crate::server::http", &["pieces", "response"]),
    ("nyala", "crate::subscriber", &["destination", "lane"]),
    ("nyala-bench", "crate", &["query", "verify", "workload"]),
    ("nyala-bench", "crate::client", &["connection", "target"]),
    ("nyala-bench", "crate::workload", &["cpu", "cpu_lines"]),
    ("nyala-column", "crate", &["bytes", "float", "integer", "kernels", "scratch"]),
    ("nyala-column", "crate::integer", &["delta", "dictionary", "entropy", "frame", "runs", "vector"]),
    ("nyala-core", "crate", &["schema", "store"]),
    ("nyala-db", "crate", &["catalog", "idle"]),
    ("nyala-db", "crate::catalog", &["continuous", "database", "subscription"]),
    (
        "nyala-db",
        "crate::catalog",
        &[
            "measurement",
            "membership",
            "record",
            "series_directory",
            "series_table",
            "series_view",
            "shard_types",
            "unsaved",
        ],
    ),
    (
        "nyala-engine",
        "crate",
        &[
            "aggregate",
            "catalog",
            "compaction",
            "effort",
            "flush",
            "maintenance",
            "orphans",
            "output",
            "rowset",
            "scan",
            "schema_format",
            "shared",
            "snapshot",
            "sweep",
            "version",
        ],
    ),
    ("nyala-engine", "crate::memtable", &["piece", "stripe"]),
    ("nyala-engine", "crate::rowset", &["ahead", "series"]),
    ("nyala-engine", "crate::wal", &["queue", "writer"]),
    ("nyala-query", "crate::exec", &["aggregate", "group", "inner", "ordered", "raw", "select"]),
    ("nyala-query", "crate::exec", &["measurement", "order"]),
    ("nyala-query", "crate::exec::reduce", &["datum", "kept"]),
    ("nyala-query", "crate::influxql::regex", &["class", "translate"]),
    ("nyala-query", "crate::plan", &["condition", "expression", "hint", "rewrite", "types"]),
];

/// Siblings each of which reaches each other one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    crate_name: String,
    parent: String,
    modules: BTreeSet<String>,
    /// Every edge within the circle, with its places.
    edges: Vec<String>,
}

/// Complaints about circles that are not known, and about known ones that are gone.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let (circles, mut complaints) = find(root, false);
    complaints.extend(compare(&circles, KNOWN));
    complaints
}

/// Every circle of the workspace at `root`, known or not, with all references.
pub(crate) fn list(root: &Path) -> Vec<String> {
    let (circles, mut complaints) = find(root, true);
    complaints.extend(circles.iter().map(Circle::to_string));
    complaints
}

fn compare(circles: &[Circle], known: &[Known]) -> Vec<String> {
    let is = |circle: &Circle, (crate_name, parent, modules): &Known| {
        circle.crate_name == *crate_name
            && circle.parent == *parent
            && circle.modules.iter().eq(modules.iter().copied().collect::<BTreeSet<_>>())
    };
    let new = circles.iter().filter(|circle| !known.iter().any(|entry| is(circle, entry)));
    let gone = known.iter().filter(|entry| !circles.iter().any(|circle| is(circle, entry)));
    let gone = gone.map(|(crate_name, parent, modules)| {
        let modules = modules.join(", ");
        format!("{crate_name}: the circle {modules} in {parent} is gone: remove it from KNOWN in circles.rs")
    });
    new.map(Circle::to_string).chain(gone).collect()
}

/// All circles, and files that could not be read. Each edge shows its first reference, or all of them.
fn find(root: &Path, show_all: bool) -> (Vec<Circle>, Vec<String>) {
    let (mut circles, mut complaints) = (Vec::new(), Vec::new());
    for (name, folder) in crates(root) {
        for file in ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)) {
            if file.exists() {
                let read = Crate::read(&file);
                circles.extend(circles_of(&name, read.edges(), root, show_all));
                complaints.extend(read.complaints);
            }
        }
    }
    (circles, complaints)
}

fn circles_of(
    crate_name: &str,
    edges: BTreeMap<Edge, BTreeSet<Place>>,
    root: &Path,
    show_all: bool,
) -> Vec<Circle> {
    let mut levels: BTreeMap<&ModulePath, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for edge in edges.keys() {
        levels.entry(&edge.parent).or_default().entry(&edge.from).or_default().insert(&edge.to);
    }
    let mut circles = Vec::new();
    for (parent, next) in levels {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            next.keys().map(|from| (*from, reachable(&next, from))).collect();
        let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|found| found.contains(to));
        let mut seen = BTreeSet::new();
        for start in next.keys().filter(|name| reaches(name, name)) {
            if seen.contains(start) {
                continue;
            }
            let members: BTreeSet<&str> =
                reached[start].iter().copied().filter(|other| reaches(other, start)).collect();
            let within = edges.iter().filter(|(edge, _)| {
                edge.parent == *parent
                    && members.contains(edge.from.as_str())
                    && members.contains(edge.to.as_str())
            });
            circles.push(Circle {
                crate_name: crate_name.to_owned(),
                parent: std::iter::once("crate")
                    .chain(parent.iter().map(String::as_str))
                    .collect::<Vec<_>>()
                    .join("::"),
                modules: members.iter().map(|name| (*name).to_owned()).collect(),
                edges: within.map(|(edge, places)| show(edge, places, root, show_all)).collect(),
            });
            seen.extend(members);
        }
    }
    circles
}

fn reachable<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        open.extend(next.get(name).into_iter().flatten().filter(|to| found.insert(**to)));
    }
    found
}

fn show(edge: &Edge, places: &BTreeSet<Place>, root: &Path, show_all: bool) -> String {
    let shown = places.iter().take(if show_all { usize::MAX } else { 1 });
    let shown = shown
        .map(|Place { file, line }| format!("{}:{line}", file.strip_prefix(root).unwrap_or(file).display()));
    let rest = if show_all { 0 } else { places.len() - 1 };
    let rest = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    format!("{} -> {}  {}{rest}", edge.from, edge.to, shown.collect::<Vec<_>>().join(" "))
}

impl std::fmt::Display for Circle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let modules = self.modules.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        write!(out, "{}: modules of {} form a circle: {modules}", self.crate_name, self.parent)?;
        self.edges.iter().try_for_each(|edge| write!(out, "\n    {edge}"))
    }
}

#[cfg(test)]
mod tests;
