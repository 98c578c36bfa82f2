//! SHOW STORAGE and SHOW MAINTENANCE: what measurements take on disk, column by column, and what maintenance does.
//! InfluxDB has neither.

use super::show::{table, text_column};
use super::{Answer, Chunks, database_of};
use crate::influxql::{MeasurementName, Show, TimeLiteral};
use crate::plan::QueryContext;
use arrow_array::{Float64Array, Int64Array};
use nyala_core::store::{MaintenanceTask, MaintenanceWork, PartStorage};
use nyala_core::time::TimeRange;
use nyala_core::{Error, Result, before_long_work};
use nyala_db::catalog::{StorageReport, TableName, TableSizes};
use nyala_exec::{Column, Frame};

/// The measurements and tables that are named, one frame each; or one frame of all that the database has.
pub(super) async fn show(show: &Show, context: &QueryContext) -> Result<Answer> {
    let database = database_of(show.database.as_deref(), context)?;
    if show.sources.is_empty() {
        before_long_work().await;
        let mut all = context.catalog.table_sizes(database).await?;
        if show.limit > 0 {
            all.truncate(show.limit as usize);
        }
        return Ok(Answer::Rows(vec![sizes_frame(&all)], Chunks::Whole));
    }
    if show.limit > 0 {
        return Err(Error::invalid("LIMIT of SHOW STORAGE is for the list of all: leave out FROM, or LIMIT"));
    }
    let mut frames = Vec::new();
    for source in &show.sources {
        let MeasurementName::Name(name) = &source.name else {
            return Err(Error::invalid("SHOW STORAGE takes names of measurements and tables, no patterns"));
        };
        let database = source.database.as_deref().unwrap_or(database);
        before_long_work().await;
        let reports = context.catalog.storage(database, source.retention_policy.as_deref(), name).await?;
        frames.extend(reports.iter().map(frame));
        context.check_running()?;
    }
    Ok(Answer::Rows(frames, Chunks::Whole))
}

fn sizes_frame(all: &[TableSizes]) -> Frame {
    let policies = all.iter().map(|own| own.table.policy.as_deref().unwrap_or(""));
    let rows = all.iter().map(|own| own.rows.map(|rows| rows as i64));
    table(
        "storage",
        vec![
            ("name", text_column(all.iter().map(|own| own.table.name.as_str()))),
            ("retention_policy", text_column(policies)),
            ("rows", Column::Integer(rows.collect())),
            ("bytes", counts(all.iter().map(|own| own.disk_bytes))),
            ("memory_bytes", counts(all.iter().map(|own| own.memory_bytes))),
        ],
    )
}

fn frame(report: &StorageReport) -> Frame {
    let parts = &report.parts;
    let mut columns: Vec<&str> = parts.iter().map(|part| part.column.as_str()).collect();
    let mut kinds: Vec<&str> = parts.iter().map(|part| part.kind).collect();
    let mut types: Vec<&str> = parts.iter().map(|part| part.value_type.as_str()).collect();
    let mut encodings: Vec<String> = parts.iter().map(|part| encodings_of(&part.storage)).collect();
    let mut sizes: Vec<(u64, u64)> =
        parts.iter().map(|part| (part.storage.values, part.storage.disk_bytes)).collect();
    // Rows that are in no file yet, so that a measurement that was just written does not look empty.
    if report.storage.memory_rows > 0 {
        columns.push("");
        kinds.push("memory");
        types.push("");
        encodings.push(String::new());
        sizes.push((report.storage.memory_rows, report.storage.memory_bytes));
    }
    let per_value = |(values, bytes): &(u64, u64)| (*values > 0).then(|| *bytes as f64 / *values as f64);
    let shown = table(
        &report.table.name,
        vec![
            ("column", text_column(columns)),
            ("kind", text_column(kinds)),
            ("type", text_column(types)),
            ("encoding", text_column(encodings)),
            ("values", counts(sizes.iter().map(|size| size.0))),
            ("bytes", counts(sizes.iter().map(|size| size.1))),
            ("bytes_per_value", Column::Float(sizes.iter().map(per_value).collect::<Float64Array>())),
        ],
    );
    let policy = report.table.policy.iter().map(|policy| ("retention_policy".to_owned(), policy.clone()));
    Frame { tags: policy.collect(), ..shown }
}

/// Such as `delta 90 %, constant 10 %`.
fn encodings_of(storage: &PartStorage) -> String {
    let all: u64 = storage.encodings.iter().map(|(_, values)| values).sum();
    let share = |values: u64| (values as f64 / all as f64 * 100.0).round();
    match storage.encodings.as_slice() {
        [] => String::new(),
        [(name, _)] => (*name).to_owned(),
        several => {
            let shares = several.iter().map(|(name, values)| format!("{name} {} %", share(*values)));
            shares.collect::<Vec<_>>().join(", ")
        }
    }
}

/// What runs, and what waits.
pub(super) fn show_maintenance(context: &QueryContext) -> Result<Answer> {
    let tasks = context.catalog.maintenance()?;
    let names = |of: fn(&TableName) -> &str| text_column(tasks.iter().map(|(_, name)| of(name)));
    let numbers = |of: fn(&MaintenanceTask) -> u64| counts(tasks.iter().map(|(task, _)| of(task)));
    let times = |of: fn(TimeRange) -> i64| {
        // A table that has no shards holds all times.
        let bounded = |task: &MaintenanceTask| task.range.filter(|range| *range != TimeRange::ALL);
        let shown = |task: &MaintenanceTask| {
            let time = bounded(task).map(|range| TimeLiteral::utc(of(range).into()).to_rfc3339_seconds());
            time.unwrap_or_default()
        };
        text_column(tasks.iter().map(|(task, _)| shown(task)))
    };
    let done = |task: &MaintenanceTask| {
        let done = task.rows_done?;
        Some((done * 100).checked_div(task.rows).unwrap_or(0) as i64)
    };
    let works = tasks.iter().map(|(task, _)| match task.work {
        MaintenanceWork::Flush => "flush",
        MaintenanceWork::Merge => "merge",
    });
    let states = tasks.iter().map(|(task, _)| if task.rows_done.is_some() { "runs" } else { "waits" });
    let frame = table(
        "maintenance",
        vec![
            ("work", text_column(works)),
            ("state", text_column(states)),
            ("database", names(|name| &name.database)),
            ("retention_policy", names(|name| name.policy.as_deref().unwrap_or(""))),
            ("measurement", names(|name| &name.name)),
            ("start_time", times(|range| range.start_ns)),
            ("end_time", times(|range| range.end_ns)),
            ("files", numbers(|task| task.files)),
            ("rows", numbers(|task| task.rows)),
            ("bytes", numbers(|task| task.bytes)),
            ("done_percent", Column::Integer(tasks.iter().map(|(task, _)| done(task)).collect())),
        ],
    );
    Ok(Answer::Rows(vec![frame], Chunks::Whole))
}

fn counts(numbers: impl Iterator<Item = u64>) -> Column {
    Column::Integer(Int64Array::from_iter_values(numbers.map(|number| number as i64)))
}
