use super::*;

/// A workspace of one crate `a` with these files below `src`.
fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (file, text) in files {
        let path = folder.path().join("crates/a/src").join(file);
        std::fs::create_dir_all(path.parent().expect("below src")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    folder
}

/// The edges of all circles, without places, and complaints.
fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let folder = workspace(files);
    let (circles, complaints) = find(folder.path(), false);
    let edges = circles.iter().flat_map(|circle| &circle.edges);
    edges.map(|edge| edge.split("  ").next().unwrap_or("").to_owned()).chain(complaints).collect()
}

const BOTH: [&str; 2] = ["b -> c", "c -> b"];
const ROOT: (&str, &str) = ("lib.rs", "mod b; mod c;");
const C: (&str, &str) = ("c.rs", "use crate::b::X; pub struct Y;");

#[test]
fn every_way_to_name_a_sibling_is_an_edge() {
    let ways = [
        "use crate::c::Y;",
        "use crate::{\n    c::Y,\n    other::Z,\n};",
        "use super::c;",
        "use super::{c::{self, Y as Z}};",
        "use crate::c::*;",
        "fn f() -> crate::c::Y { todo!() }",
        "fn f() { use super::c::Y; }",
        "fn f() { vec![1, super::c::f(2)]; }",
        "macro_rules! m { () => { $crate::c::f() } }",
        "fn f() { m! { use crate::{c::Y, other::Z}; } }",
        "impl crate::c::T for X {}",
        "fn f(y: u8) { match y { super::c::N => {} _ => {} } }",
        "use super::*; fn f() { c::f() }",
        "use crate as root; fn f() { root::c::f() }",
        "mod deep { use super::super::c::Y; }",
        "pub mod deep { pub mod deeper { fn f() { crate::c::f() } } }",
    ];
    for way in ways {
        assert_eq!(edges(&[ROOT, ("b.rs", &format!("pub struct X; {way}")), C]), BOTH, "{way}");
    }
}

#[test]
fn names_that_a_module_above_brings_in_are_edges() {
    let roots = [
        "mod b; mod c; pub use c::Y;",
        "mod b; mod c; pub(crate) use self::c::{Y, Z};",
        "mod b; mod c; use crate::c::Y;",
        "mod b; mod c; pub use c::*;",
        "mod b; mod c; pub use c::Inner as Y;",
        "mod b; mod c; pub use again::Y; mod again { pub use super::c::Y; }",
    ];
    for root in roots {
        for way in ["use crate::Y;", "fn f(y: super::Y) {}", "use super::*; fn f(y: Y) {}"] {
            let files = [("lib.rs", root), ("b.rs", &format!("pub struct X; {way}")), C];
            // Through a third module the edges go by that one.
            let expected: &[&str] =
                if root.contains("again") { &["again -> c", "b -> again", "c -> b"] } else { &BOTH };
            assert_eq!(edges(&files), expected, "{root} {way}");
        }
    }
}

#[test]
fn tests_parents_children_and_other_crates_are_no_edges() {
    let ways = [
        "#[cfg(test)] mod tests { use crate::c::Y; }",
        "#[cfg(test)] use crate::c::Y;",
        "#[cfg(all(test, unix))] fn f() { crate::c::f() }",
        "struct S; impl S { #[cfg(test)] fn f() { crate::c::f() } }",
        "mod tests;",
        "/// See [`crate::c::Y`].\nfn f() { /* crate::c::Y */ }",
        "fn f() -> &'static str { \"crate::c::Y\" }",
        "use c::Y;",
        "use other::{c::Y, b};",
        "use ::c::Y;",
        "use crate::Root; use super::Root as R;",
        "mod c { pub fn f() {} } use c::f; fn g() { self::c::f() }",
        "pub(in crate::c) fn f() {}",
        "use super::*; fn f(y: Unknown) { y.c() }",
    ];
    for way in ways {
        let root = ("lib.rs", "mod b; mod c; struct Root;");
        assert_eq!(
            edges(&[root, ("b.rs", &format!("pub struct X; {way}")), C]),
            Vec::<String>::new(),
            "{way}"
        );
    }
}

#[test]
fn circles_are_found_at_each_level_and_through_others() {
    let deep = [
        ("lib.rs", "mod a; mod z;"),
        ("a/mod.rs", "mod b; mod c; mod d; mod e; pub use e::E;"),
        ("a/b.rs", "use super::c::X;"),
        ("a/c.rs", "use crate::a::d::X; use super::e::Y;"),
        ("a/d.rs", "use super::b::X;"),
        ("a/e.rs", "use crate::z::Z;"),
        ("z.rs", ""),
    ];
    let folder = workspace(&deep);
    let (circles, complaints) = find(folder.path(), false);
    assert_eq!(complaints, Vec::<String>::new());
    let shown: Vec<String> = circles.iter().map(Circle::to_string).collect();
    assert_eq!(
        shown,
        ["a: modules of crate::a form a circle: b, c, d\n    \
          b -> c  crates/a/src/a/b.rs:1\n    \
          c -> d  crates/a/src/a/c.rs:1\n    \
          d -> b  crates/a/src/a/d.rs:1"]
    );
}

#[test]
fn places_are_counted_or_all_shown() {
    let files = [ROOT, ("b.rs", "pub struct X;\nuse crate::c::Y;\n\nfn f() { crate::c::g() }"), C];
    let folder = workspace(&files);
    let first = |show_all| find(folder.path(), show_all).0[0].edges[0].clone();
    assert_eq!(first(false), "b -> c  crates/a/src/b.rs:2 and 1 more");
    assert_eq!(first(true), "b -> c  crates/a/src/b.rs:2 crates/a/src/b.rs:4");
}

#[test]
fn files_that_are_missing_or_no_rust_are_told() {
    let complaints = edges(&[ROOT, ("b.rs", "fn {")]);
    assert_eq!(complaints.len(), 2, "{complaints:?}");
}
