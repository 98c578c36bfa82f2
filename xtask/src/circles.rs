//! Circles of modules: siblings that refer to each other, directly or through others.
//!
//! Siblings are the children of one module. A reference from anywhere below one of them to anywhere below another is an
//! edge, and it is an edge too if the path goes through a name that their parent, or any module further up, re-exports.
//! Parents and children may refer to each other.

use crate::modules::{Crate, Edge, ModulePath, Place};
use crate::workspace::crates;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Siblings each of which reaches each other one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    crate_name: String,
    parent: String,
    modules: BTreeSet<String>,
    /// Every edge within the circle, with its places.
    edges: Vec<String>,
}

/// A complaint for each circle, with one place for each of its edges.
pub(crate) fn check(root: &Path) -> Vec<String> {
    all(root, false)
}

/// Every circle of the workspace at `root`, with all references.
pub(crate) fn list(root: &Path) -> Vec<String> {
    all(root, true)
}

fn all(root: &Path, show_all: bool) -> Vec<String> {
    let (circles, mut complaints) = find(root, show_all);
    complaints.extend(circles.iter().map(Circle::to_string));
    complaints
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
