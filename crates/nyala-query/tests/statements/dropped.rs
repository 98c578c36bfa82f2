//! Queries while tables and fields are dropped or added: they answer as before the change or as after it.

use super::query_context::query_context;
use futures::executor::block_on;
use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::memory::MemoryStore;
use nyala_db::catalog::Catalog;
use nyala_db::ingest::ParseOptions;
use nyala_db::write::LineWriter;
use nyala_exec::QueryMemory;
use nyala_query::exec::SelectStream;
use nyala_query::influxql::{Params, Statement, compile, parse_query};
use nyala_query::plan::rewrite::rewrite;
use nyala_query::plan::{Plan, QueryContext};
use nyala_query::statement::execute;
use std::sync::Arc;

const NOW_NS: i64 = 1 << 60;

fn context() -> Result<QueryContext> {
    let catalog = Arc::new(block_on(Catalog::open(Arc::new(MemoryStore::default())))?);
    block_on(catalog.create_database("db", None))?;
    let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    Ok(query_context(catalog, Arc::new(writer), "db", NOW_NS))
}

fn write(context: &QueryContext, lines: &str) -> Result<()> {
    let options = ParseOptions { now_ns: NOW_NS, ..ParseOptions::default() };
    block_on(context.writer.write("db", "", options, lines.as_bytes())).map(drop)
}

fn memory() -> QueryMemory {
    QueryMemory::new(1 << 30, &MemoryBudget::new(1 << 40))
}

fn plan(context: &QueryContext, query: &str) -> Result<Arc<Plan>> {
    let mut statements = parse_query(query, &Params::default()).expect("a query");
    let Statement::Select(select) = statements.remove(0) else { panic!("{query} is a SELECT") };
    let compiled = compile(*select, NOW_NS).expect("it can be compiled");
    let rewritten = block_on(rewrite(compiled.select, context))?;
    Plan::build(rewritten, compiled.extra_windows, context).map(Arc::new)
}

/// The rows of each result series of an answer. The snapshot is taken before `meanwhile`, if so chosen, or else after it.
fn rows(
    context: &QueryContext,
    query: &str,
    snapshot_first: bool,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Vec<(String, usize)>> {
    let plan = plan(context, query)?;
    let snapshot = || block_on(context.catalog.snapshot());
    let before = snapshot_first.then(snapshot).transpose()?;
    meanwhile()?;
    let snapshot = before.map_or_else(snapshot, Ok)?;
    block_on(async {
        let mut stream = SelectStream::open(plan, snapshot, memory()).await?;
        let mut rows = Vec::new();
        while let Some(frame) = stream.next().await? {
            rows.push((frame.name.to_string(), frame.span.len()));
        }
        Ok(rows)
    })
}

const QUERIES: [&str; 7] = [
    "SELECT v FROM a, b",
    "SELECT * FROM a, b",
    "SELECT v, host FROM b WHERE v > 0 LIMIT 3",
    "SELECT sum(v) FROM a, b GROUP BY host",
    "SELECT mean(v) FROM b WHERE time >= 0 AND time < 10u GROUP BY time(2u), host fill(none)",
    "SELECT max(s) FROM (SELECT sum(v) AS s FROM b GROUP BY host)",
    "SELECT last(v), w FROM /a|b/",
];

#[test]
fn a_table_dropped_between_plan_and_snapshot_has_no_rows() -> Result<()> {
    for query in QUERIES {
        for snapshot_first in [true, false] {
            let context = context()?;
            write(&context, "a,host=x v=1,w=1 1\nb,host=x v=1,w=2 1\nb,host=y v=2,w=3 2")?;
            let drop_it = || block_on(context.catalog.drop_measurement("db", "b")).map(|_| ());
            let rows = rows(&context, query, snapshot_first, drop_it)
                .unwrap_or_else(|error| panic!("{query}: {error}"));
            let of_b = rows.iter().any(|(name, _)| name == "b");
            let is_of_both = rows.is_empty() || of_b;
            assert!(if snapshot_first { is_of_both && !rows.is_empty() } else { !of_b }, "{query}: {rows:?}");
        }
    }
    Ok(())
}

#[test]
fn a_field_added_after_the_snapshot_is_not_read() -> Result<()> {
    for query in QUERIES {
        let context = context()?;
        write(&context, "a,host=x v=1,w=1 1\nb,host=x other=1 1")?;
        let add = || write(&context, "b,host=x v=1,w=2 1");
        let rows = rows(&context, query, true, add).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert!(!rows.iter().any(|(name, _)| name == "b") || query.contains('*'), "{query}: {rows:?}");
    }
    Ok(())
}

fn run(context: &QueryContext, statement: &str) -> Result<()> {
    let statements = parse_query(statement, &Params::default()).expect("a statement");
    block_on(execute(statements[0].clone(), context, memory())).map(|_| ())
}

#[test]
fn a_deletion_that_is_wrong_for_one_measurement_deletes_from_none() -> Result<()> {
    let context = context()?;
    // What is a tag of the first is a field of the second.
    write(&context, "a,x=y v=1 1\nb v=1,x=\"y\" 1")?;
    let error = run(&context, "DELETE WHERE x =~ /y/").expect_err("fields are compared with constants");
    assert!(error.to_string().contains("cannot be selected by"), "{error}");
    let left = rows(&context, "SELECT v FROM a, b", true, || Ok(()))?;
    assert_eq!(left, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    run(&context, "DELETE FROM a WHERE x = 'y'")?;
    assert_eq!(rows(&context, "SELECT v FROM a, b", true, || Ok(()))?, [("b".to_owned(), 1)]);
    Ok(())
}
