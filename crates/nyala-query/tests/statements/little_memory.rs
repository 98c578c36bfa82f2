//! A query with less memory than its rows take gives the same answer, or an error that says why not.

use super::query_context::query_context;
use futures::executor::block_on;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::memory::MemoryStore;
use nyala_core::{ErrorKind, Result};
use nyala_db::catalog::Catalog;
use nyala_db::ingest::{ParseOptions, Precision};
use nyala_db::write::LineWriter;
use nyala_exec::{Frame, QueryMemory};
use nyala_query::influxql::{Params, parse_query};
use nyala_query::plan::QueryContext;
use nyala_query::statement::{Answer, execute};
use std::fmt::Write;
use std::sync::Arc;

const HOSTS: usize = 20;
const ROWS: usize = 7_000;
/// Less than the values of a column take.
const LITTLE_BYTES: usize = 1_100_000;
const MUCH_BYTES: usize = 1 << 30;

/// Rows of hosts: floats of both signs, integers of which many are equal, and gaps.
fn lines() -> String {
    let mut lines = String::new();
    let mut state = 7_u64;
    for row in 0..ROWS {
        for host in 0..HOSTS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = (state >> 40) as f64 / 1000.0 - 8000.0;
            let few = (state >> 33) % 5;
            let gap = if (state >> 20).is_multiple_of(7) { String::new() } else { format!(",few={few}i") };
            writeln!(lines, "m,host=h{host} value={value}{gap} {}", row * 1000).expect("fits");
        }
    }
    lines
}

fn context() -> Result<QueryContext> {
    let catalog = block_on(Catalog::open(Arc::new(MemoryStore::default())))?;
    block_on(catalog.create_database("db", None))?;
    let catalog = Arc::new(catalog);
    let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    let context = query_context(catalog, Arc::new(writer), "db", 1 << 60);
    let options =
        ParseOptions { precision: Precision::Nanosecond, now_ns: 1 << 60, ..ParseOptions::default() };
    block_on(context.writer.write("db", "", options, lines().as_bytes()))?;
    Ok(context)
}

fn ask(context: &QueryContext, query: &str, memory_bytes: usize) -> Result<Vec<String>> {
    let statements = parse_query(query, &Params::default()).expect("a query");
    let memory = QueryMemory::new(memory_bytes, &MemoryBudget::new(1 << 40));
    block_on(async {
        let Answer::Stream(mut stream) = execute(statements[0].clone(), context, memory).await? else {
            panic!("{query} is a SELECT");
        };
        let mut frames = Vec::new();
        while let Some(Frame { tags, sheet, .. }) = stream.next().await? {
            frames.push(format!("{tags:?} {:?} {:?}", sheet.times_ns, sheet.columns));
        }
        Ok(frames)
    })
}

#[test]
fn answers_are_the_same_with_little_memory() -> Result<()> {
    let context = context()?;
    let queries = [
        "SELECT percentile(value, 95) FROM m",
        "SELECT percentile(value, 0.0001) FROM m",
        "SELECT percentile(few, 50) FROM m",
        "SELECT percentile(few, 50), host, value FROM m",
        "SELECT percentile(value, 37), host FROM m WHERE time >= 1s",
        "SELECT median(value) FROM m",
        "SELECT median(few) FROM m",
        "SELECT median(value), count(value), stddev(value), max(few) FROM m",
        "SELECT stddev(value) FROM m WHERE time < 6ms",
        "SELECT percentile(value, 10), median(few), count(distinct(few)) FROM m WHERE time < 7ms GROUP BY time(1ms)",
        "SELECT percentile(value, 10), host FROM m WHERE time < 7ms GROUP BY time(4ms)",
        "SELECT mode(few) FROM m WHERE time < 7ms GROUP BY time(100u) fill(none)",
        "SELECT max(value), host FROM m WHERE value < 7000",
        "SELECT last(value), host, few FROM m",
    ];
    for query in queries {
        let expected = ask(&context, query, MUCH_BYTES)?;
        assert_eq!(ask(&context, query, LITTLE_BYTES)?, expected, "{query}");
    }
    Ok(())
}

#[test]
fn inner_queries_are_not_held() -> Result<()> {
    let context = context()?;
    let queries = [
        "SELECT max(d), host FROM (SELECT derivative(value, 1u) AS d FROM m GROUP BY host)",
        "SELECT mean(d), last(d) FROM (SELECT derivative(value, 1u) AS d FROM m GROUP BY *) GROUP BY host
            ORDER BY time DESC",
        "SELECT count(v), sum(v) FROM (SELECT cumulative_sum(few) AS v FROM m GROUP BY host) WHERE v > 0 AND
            time >= 0 AND time < 7ms GROUP BY time(1ms)",
    ];
    for query in queries {
        let expected = ask(&context, query, MUCH_BYTES)?;
        assert!(!expected.is_empty(), "{query}");
        // Their times and values alone take more.
        let with_little = ask(&context, query, HOSTS * ROWS * 12);
        assert_eq!(with_little.unwrap_or_else(|error| panic!("{query}: {error}")), expected, "{query}");
    }
    Ok(())
}

#[test]
fn rows_of_inner_queries_that_are_merged_are_charged() -> Result<()> {
    let context = context()?;
    let inner = "SELECT max(value) AS top FROM m WHERE time >= 0 AND time < 7ms GROUP BY time(1u), host";
    let apart = format!("SELECT top FROM ({inner}) GROUP BY host");
    // Enough for the rows of the inner query, not for the two copies that merging makes.
    let mut enough_bytes = LITTLE_BYTES;
    while ask(&context, &apart, enough_bytes).is_err() {
        enough_bytes += enough_bytes / 5;
    }
    for order in ["", "ORDER BY time DESC"] {
        let merged = format!("SELECT top FROM ({inner}) {order}");
        assert!(!ask(&context, &merged, MUCH_BYTES)?.is_empty(), "{merged}");
        let refused = ask(&context, &merged, enough_bytes).expect_err("does not fit");
        assert_eq!(refused.kind(), ErrorKind::Limit, "{merged}: {refused}");
    }
    Ok(())
}

#[test]
fn windows_without_rows_take_no_memory() -> Result<()> {
    let context = context()?;
    let options = ParseOptions { now_ns: 1 << 60, ..ParseOptions::default() };
    let rows = b"far v=1 320000000000000000\nfar v=2 1760000000000000000";
    block_on(context.writer.write("db", "", options, rows))?;
    for zone in ["", "tz('Europe/Berlin')"] {
        let query = format!(
            "SELECT count(v), max(v) FROM far WHERE time >= '1980-01-01' AND time < '2026-01-01'
                GROUP BY time(90s) fill(none) {zone}"
        );
        let answer = ask(&context, &query, LITTLE_BYTES).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert!(answer[0].contains("[319999950000000000, 1759999950000000000]"), "{answer:?}");
    }
    Ok(())
}

#[test]
fn groups_free_their_memory() -> Result<()> {
    let context = context()?;
    let query = "SELECT percentile(value, 50), median(few) FROM m GROUP BY host";
    assert_eq!(ask(&context, query, 500_000)?, ask(&context, query, MUCH_BYTES)?);
    Ok(())
}

#[test]
fn an_answer_that_does_not_fit_is_refused() -> Result<()> {
    let error = ask(&context()?, "SELECT distinct(value) FROM m", LITTLE_BYTES).expect_err("does not fit");
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("needs more than its 1 MiB"), "{error}");
    Ok(())
}

#[test]
fn shown_rows_are_charged_and_a_limit_saves_memory() -> Result<()> {
    let context = context()?;
    let show = |text: &str, memory_bytes: usize| -> Result<usize> {
        let statements = parse_query(text, &Params::default()).expect("a query");
        let memory = QueryMemory::new(memory_bytes, &MemoryBudget::new(1 << 40));
        match block_on(execute(statements[0].clone(), &context, memory))? {
            Answer::Rows(frames, _) => Ok(frames.iter().map(Frame::rows).sum::<usize>()),
            _ => panic!("{text} answers with rows"),
        }
    };
    for (statement, limited_bytes) in [("SHOW SERIES", 600), ("SHOW TAG VALUES WITH KEY = host", 300)] {
        let all = show(statement, 1 << 20)?;
        assert!(all > 3, "{statement}");
        assert_eq!(show(&format!("{statement} LIMIT 1 OFFSET 1"), limited_bytes)?, 1);
        let refused = show(statement, limited_bytes).expect_err("more than that");
        assert_eq!(refused.kind(), nyala_core::ErrorKind::Limit, "{refused}");
    }
    Ok(())
}
