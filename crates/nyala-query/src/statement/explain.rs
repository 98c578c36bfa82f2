//! EXPLAIN: what a SELECT would read, and how its functions would be computed. EXPLAIN ANALYZE: what it cost.

use super::show::{table, text_column};
use super::{Answer, Chunks, plan_of};
use crate::exec::{MeasurementRows, SelectStream, is_pushed_down};
use crate::influxql::{DataType, Select};
use crate::plan::{
    CallPlan, Function, MeasurementPlan, Plan, PlanSource, QueryContext, Reference, ReferenceKind,
};
use nyala_core::store::{ServerReads, SnapshotRef};
use nyala_core::{Result, TimeRange};
use nyala_exec::{QueryMemory, TimeBounds};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) async fn explain(select: &Select, context: &QueryContext) -> Result<Answer> {
    let plan = plan_of(select.clone(), context).await?;
    let snapshot = context.snapshot().await?;
    let mut reads = Vec::new();
    describe(&plan, &snapshot, &mut reads).await?;
    let mut lines = reads.join(&[String::new()][..]);
    if lines.is_empty() {
        lines.push(String::new());
    }
    Ok(Answer::Rows(vec![table("", vec![("QUERY PLAN", text_column(lines))])], Chunks::Whole))
}

/// The lines about each read of a measurement, including those of inner queries.
async fn describe(plan: &Plan, snapshot: &SnapshotRef, reads: &mut Vec<Vec<String>>) -> Result<()> {
    for source in &plan.sources {
        match source {
            PlanSource::Subquery(inner) => Box::pin(describe(inner, snapshot, reads)).await?,
            PlanSource::Measurement(source) => {
                let rows = MeasurementRows::find(plan, source, snapshot.clone()).await;
                if plan.calls.is_empty() {
                    reads.push(describe_read(None, plan, source, &rows).await?);
                }
                for call in &plan.calls {
                    reads.push(describe_read(Some(call), plan, source, &rows).await?);
                }
            }
        }
    }
    Ok(())
}

async fn describe_read(
    call: Option<&CallPlan>,
    plan: &Plan,
    source: &MeasurementPlan,
    rows: &MeasurementRows,
) -> Result<Vec<String>> {
    let pushed_down = is_pushed_down(plan, rows);
    let mut lines = Vec::new();
    let expression = match call {
        None => "<nil>".to_owned(),
        Some(CallPlan { function: None, argument, .. }) => with_type(argument),
        Some(CallPlan { function: Some(function), argument, .. }) => {
            format!("{}({})", name_of(*function), with_type(argument))
        }
    };
    lines.push(format!("EXPRESSION: {expression}"));
    if !plan.references.is_empty() {
        let references: Vec<String> = plan.references.iter().map(with_type).collect();
        lines.push(format!("AUXILIARY FIELDS: {}", references.join(", ")));
    }
    let TimeBounds { first_ns, last_ns } = plan.times.within(plan.stored);
    let time = TimeRange::new(first_ns, last_ns.saturating_add(1));
    let shards = source.measurement.partitions().await?;
    let shards = shards.iter().filter(|shard| !shard.range.intersect(time).is_empty()).count();
    lines.push(format!("NUMBER OF SHARDS: {shards}"));
    lines.push(format!("NUMBER OF SERIES: {}", source.measurement.series().select(&source.tags).len()));
    let references = call.map_or(&*plan.references, |call| std::slice::from_ref(&call.argument));
    let asked = rows.estimate_reads(references, pushed_down).await?;
    let computed_by = match (pushed_down, asked) {
        (false, _) => "the query, from rows",
        (true, None) => "the store, from encoded blocks",
        (true, Some(_)) => "the store, from rows as tablets send them",
    };
    lines.push(format!("COMPUTED BY: {computed_by}"));
    if let Some(ServerReads { tablets, scans, bytes }) = asked {
        lines.push(format!("NUMBER OF TABLETS: {tablets}"));
        lines.push(format!("NUMBER OF SCANS: {scans}"));
        lines.push(format!("SIZE OF TABLETS: {bytes}"));
    }
    Ok(lines)
}

fn with_type(reference: &Reference) -> String {
    let name = &reference.name;
    match reference.kind {
        ReferenceKind::Field(value_type) => format!("{name}::{}", DataType::of(value_type).as_str()),
        ReferenceKind::Tag | ReferenceKind::GroupTag => format!("{name}::tag"),
        ReferenceKind::AnyField => format!("{name}::field"),
        ReferenceKind::Nothing => name.clone(),
    }
}

fn name_of(function: Function) -> &'static str {
    match function {
        Function::Count => "count",
        Function::CountDistinct => "count distinct",
        Function::Sum => "sum",
        Function::Mean => "mean",
        Function::Median => "median",
        Function::Mode => "mode",
        Function::Spread => "spread",
        Function::Stddev => "stddev",
        Function::Distinct => "distinct",
        Function::First => "first",
        Function::Last => "last",
        Function::Min => "min",
        Function::Max => "max",
        Function::Percentile(_) => "percentile",
        Function::Top(_) => "top",
        Function::Bottom(_) => "bottom",
        Function::Sample { .. } => "sample",
    }
}

pub(super) async fn analyze(select: &Select, context: &QueryContext, memory: QueryMemory) -> Result<Answer> {
    let begun = Instant::now();
    let plan = plan_of(select.clone(), context).await?;
    let planned = begun.elapsed();
    let snapshot = context.snapshot().await?;
    let mut stream = SelectStream::open(Arc::new(plan), snapshot.clone(), memory).await?;
    let (mut rows, mut series, mut last) = (0, 0, None);
    while let Some(frame) = stream.next().await? {
        rows += frame.rows();
        let current = Some((frame.name.clone(), frame.tags.clone()));
        series += usize::from(current != last);
        last = current;
    }
    let total = begun.elapsed();
    let mut lines = vec![
        ".".to_owned(),
        "└── select".to_owned(),
        format!("    ├── execution_time: {}", shown(total - planned)),
        format!("    ├── planning_time: {}", shown(planned)),
        format!("    ├── total_time: {}", shown(total)),
        format!("    ├── statement: {}", super::select_with_full_names(select, context)),
        format!("    ├── series: {series}"),
    ];
    if let Some(ServerReads { tablets, scans, bytes }) = snapshot.reads() {
        lines.push(format!("    ├── tablets: {tablets}"));
        lines.push(format!("    ├── scans: {scans}"));
        lines.push(format!("    ├── bytes_received: {bytes}"));
    }
    lines.extend([format!("    └── rows: {rows}"), String::new()]);
    Ok(Answer::Rows(vec![table("", vec![("EXPLAIN ANALYZE", text_column(lines))])], Chunks::Whole))
}

/// A duration as Go shows it, to the microsecond.
fn shown(duration: Duration) -> String {
    match duration.as_micros() {
        micros @ 0..1_000 => format!("{micros}µs"),
        micros @ 1_000..1_000_000 => format!("{}ms", micros as f64 / 1e3),
        micros => format!("{}s", micros as f64 / 1e6),
    }
}
