//! Runs the README's example.

#[path = "../examples/quickstart.rs"]
mod quickstart;
mod support;

use support::*;

#[test]
fn the_example_of_the_readme_runs() {
    let strip = |text: &str| text.split_whitespace().collect::<String>();
    let readme = include_str!("../README.md");
    let shown = readme.split("```").nth(1).and_then(|block| block.split_once("kudu_client::Result<()> {"));
    let shown = shown.and_then(|(_, rest)| rest.split_once("# Ok(())")).expect("an example").0;
    let runs = include_str!("../examples/quickstart.rs");
    assert!(strip(runs).contains(&strip(shown)), "the example in the README is not the one that runs");

    if !have_kudu() {
        return;
    }
    let cluster = shared().expect("a cluster");
    assert_eq!(run(quickstart::quickstart(cluster.masters().to_vec())).unwrap(), 10);
}
