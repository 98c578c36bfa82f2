//! Not a test: names the tests that were skipped in this run of `cargo test --workspace`, because a peer is missing.
//!
//! Cargo runs test programs in the order of their packages and names, so this is the last.

#![allow(clippy::print_stdout, reason = "it is a report for people")]

#[path = "../../crates/nyala/tests/support/peers.rs"]
mod peers;

use std::collections::BTreeMap;

fn main() {
    let records = peers::records();
    let mut skipped: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(&records).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        if let [peer, remedy, test] = text.lines().collect::<Vec<_>>()[..] {
            skipped.entry((peer.to_owned(), remedy.to_owned())).or_default().push(test.to_owned());
        }
    }
    // They are those of this run, and there is nothing else to tell of them.
    let _ = std::fs::remove_dir_all(&records);
    let count: usize = skipped.values().map(Vec::len).sum();
    if count == 0 {
        println!("\nNo test of this run was skipped for want of a peer.\n");
        return;
    }
    println!(
        "\n{count} tests were SKIPPED, because their peers are missing (NYALA_REQUIRE_PEERS=1 makes that a failure):"
    );
    for ((peer, remedy), mut tests) in skipped {
        tests.sort();
        println!("\n  no {peer} ({remedy}): {} skipped", tests.len());
        tests.iter().for_each(|test| println!("    {test}"));
    }
    println!();
}
