//! SHOW STATS and SHOW DIAGNOSTICS: the server's reports, and what can be counted here.

use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::plan::QueryContext;
use crate::report::{Datum, Report, Topic};
use arrow_array::{BooleanArray, Int64Array};
use nyala_db::feed::FeedCounts;
use nyala_exec::{Column, Frame};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// The module that is measured only if it is named, because that takes long.
const INDEXES: &str = "indexes";

/// All statistics.
pub async fn statistics(context: &QueryContext) -> Vec<Report> {
    let mut all = (context.reporter)(Topic::Statistics);
    let (active, executed) = (context.running.all().len() as u64, context.running.count());
    let queries = [
        ("queriesActive", Datum::count(active)),
        ("queriesExecuted", Datum::count(executed)),
        ("queriesFinished", Datum::count(executed.saturating_sub(active))),
    ];
    all.push(Report::new("queryExecutor", queries));
    let counts = context.writer.counts();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (written, dropped) = (count(&counts.written), count(&counts.dropped));
    let feed = context.writer.feed().map(|feed| feed.counts());
    let fed = |of: fn(&FeedCounts) -> &AtomicU64| Datum::count(feed.map_or(0, |feed| count(of(feed))));
    let writes = [
        ("pointReq", Datum::count(written + dropped)),
        ("req", Datum::count(count(&counts.requests))),
        ("subWriteDrop", fed(|feed| &feed.dropped)),
        ("subWriteOk", fed(|feed| &feed.handed_on)),
        ("writeDrop", Datum::count(dropped)),
        ("writeError", Datum::count(count(&counts.failed))),
        ("writeOk", Datum::count(written)),
    ];
    all.push(Report::new("write", writes));
    for database in context.catalog.databases() {
        let (mut names, mut series) = (BTreeSet::new(), 0);
        for policy in &database.policies {
            for (name, count) in context.catalog.series_counts(&database.name, &policy.name) {
                names.insert(name);
                series += count.unwrap_or(0) as u64;
            }
        }
        // As in InfluxDB, a database that nothing was written to is left out.
        if names.is_empty() {
            continue;
        }
        let measurements = Datum::count(names.len() as u64);
        let values = [("numMeasurements", measurements), ("numSeries", Datum::count(series))];
        all.push(Report::new("database", values).with_tags(vec![("database", database.name.clone())]));
    }
    // Statistics have no place for an error; the other reports do not depend on it.
    for shard in context.catalog.shards().await.unwrap_or_default() {
        let sizes = [
            ("diskBytes", Datum::count(shard.disk_bytes)),
            ("memoryBytes", Datum::count(shard.memory_bytes)),
        ];
        let values = sizes.into_iter().chain(shard.rows.map(|rows| ("rows", Datum::count(rows))));
        let tags = vec![
            ("database", shard.database),
            ("id", shard.id.to_string()),
            ("retentionPolicy", shard.policy.name),
        ];
        all.push(Report::new("shard", values).with_tags(tags));
    }
    all.iter_mut().for_each(|report| report.values.sort_by(|(a, _), (b, _)| a.cmp(b)));
    all
}

pub(super) async fn show_stats(module: Option<&str>, context: &QueryContext) -> Answer {
    if module == Some(INDEXES) {
        let memory_bytes = Datum::count(context.catalog.measure_series_memory() as u64);
        return shown(vec![Report::new(INDEXES, [("memoryBytes", memory_bytes)])], None);
    }
    shown(statistics(context).await, module)
}

pub(super) fn show_diagnostics(module: Option<&str>, context: &QueryContext) -> Answer {
    let mut all = (context.reporter)(Topic::Diagnostics);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    shown(all, module)
}

/// The reports of a module, or of all, one row each.
fn shown(reports: Vec<Report>, module: Option<&str>) -> Answer {
    let wanted = |report: &Report| module.is_none_or(|module| module.is_empty() || module == report.name);
    let frames = reports.into_iter().filter(wanted).map(|report| {
        let columns = report.values.iter().map(|(name, value)| (name.as_str(), column(value))).collect();
        let tags = report.tags.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Frame { tags, ..table(&report.name, columns) }
    });
    Answer::Rows(frames.collect(), Chunks::Whole)
}

fn column(value: &Datum) -> Column {
    match value {
        Datum::Integer(value) => Column::Integer(Int64Array::from(vec![*value])),
        Datum::Boolean(value) => Column::Boolean(BooleanArray::from(vec![*value])),
        Datum::Text(text) => text_column([text]),
    }
}
