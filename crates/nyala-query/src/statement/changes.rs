//! SHOW CHANGES and UNDO: the changes of points that can be undone, and undoing them. InfluxDB has neither.

use super::show::text_column;
use super::{Answer, Chunks};
use crate::influxql::Statement;
use crate::plan::QueryContext;
use arrow_array::Int64Array;
use nyala_core::{Error, Result};
use nyala_db::changes::{Author, Change, ChangeId, RemoteClient};
use nyala_db::undo::{UndoWork, Undone};
use nyala_db::users::Privilege;
use nyala_exec::{Column, Frame, GroupTags, ResultBatch};
use std::sync::Arc;

/// Who executes a statement.
pub(super) fn author(statement: &Statement, database: &str, context: &QueryContext) -> Author {
    Author {
        user: context.principal.user_name().map(str::to_owned),
        // The audit log of InfluxQL has it from the request.
        client: RemoteClient::default(),
        database: database.to_owned(),
        statement: statement.to_string(),
        now_ns: context.now_ns,
    }
}

/// The changes of the databases that the user may read.
pub(super) async fn show(context: &QueryContext) -> Result<Answer> {
    let mut changes = context.catalog.changes().await?;
    changes.retain(|change| context.principal.may(Privilege::Read, &change.database));
    let numbers = changes.iter().map(|change| change.id.0 as i64);
    let points = changes.iter().map(|change| change.points.map(|points| points as i64));
    let columns = [
        ("change", Column::Integer(Int64Array::from_iter_values(numbers))),
        ("database", text_column(changes.iter().map(|change| change.database.as_str()))),
        ("user", text_column(changes.iter().map(|change| change.user.as_deref().unwrap_or("")))),
        ("points", Column::Integer(points.collect())),
        ("statement", text_column(changes.iter().map(|change| change.statement.as_str()))),
    ];
    let names: Arc<[String]> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let batch = ResultBatch {
        name: "".into(),
        time_column: Some("time".into()),
        column_names: names.clone(),
        reference_names: names,
        times_ns: changes.iter().map(|change| change.time_ns).collect::<Vec<_>>().into(),
        columns: columns.into_iter().map(|(_, column)| column).collect(),
        instead: None,
    };
    let frames = if changes.is_empty() { Vec::new() } else { vec![Frame::of(GroupTags::none(), batch)] };
    Ok(Answer::Rows(frames, Chunks::Whole))
}

/// Undoes a change. The answer says how much was put back, and how much was left alone.
pub(super) async fn undo((statement, number): (&Statement, u64), context: &QueryContext) -> Result<Answer> {
    let change = change(number, &[Privilege::Read, Privilege::Write], context).await?;
    let author = author(statement, &change.database, context);
    let undone =
        context.catalog.undo(&change, &work(Some(&author), &|| context.check_running(), context)).await?;
    let counts = counts(&undone).into_iter().chain([("change", undone.id.map(|id| id.0 as i64))]);
    Ok(Answer::Changed(vec![count_frame("", counts.collect())], undone.id))
}

/// Counts what would be put back.
pub(super) async fn would_undo(number: u64, context: &QueryContext) -> Result<Answer> {
    let change = change(number, &[Privilege::Read, Privilege::Write], context).await?;
    let undone = context.catalog.undo(&change, &work(None, &|| context.check_running(), context)).await?;
    Ok(Answer::Rows(vec![count_frame("", counts(&undone))], Chunks::Whole))
}

fn work<'a>(
    author: Option<&'a Author>,
    check: &'a (dyn Fn() -> Result<()> + Send + Sync),
    context: &QueryContext,
) -> UndoWork<'a> {
    UndoWork { author, series_limit_bytes: context.writer.series_limit_bytes(), check }
}

/// A change, if the user has rights to its database.
async fn change(number: u64, rights: &[Privilege], context: &QueryContext) -> Result<Change> {
    let change = context.catalog.change(ChangeId(number)).await?;
    let Some(lacking) = rights.iter().find(|right| !context.principal.may(**right, &change.database)) else {
        return Ok(change);
    };
    let (name, right) = (context.principal.user_name().unwrap_or_default(), lacking.name());
    // In the words of `authorize`.
    Err(Error::invalid(format!(
        "{name} not authorized to execute statement 'UNDO {number}', requires {right} on {}",
        change.database
    )))
}

fn counts(undone: &Undone) -> Vec<(&'static str, Option<i64>)> {
    let Undone { points, cells, left_alone, .. } = *undone;
    [("points", points), ("cells", cells), ("left_alone", left_alone)]
        .map(|(name, count)| (name, Some(count as i64)))
        .into()
}

/// A row of numbers. Those that are missing are left out.
pub(super) fn count_frame(measurement: &str, mut columns: Vec<(&str, Option<i64>)>) -> Frame {
    columns.retain(|(_, number)| number.is_some());
    let names: Arc<[String]> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let batch = ResultBatch {
        name: measurement.into(),
        time_column: Some("time".into()),
        column_names: names.clone(),
        reference_names: names,
        times_ns: vec![0].into(),
        columns: columns.into_iter().map(|(_, number)| Column::Integer(vec![number].into())).collect(),
        instead: None,
    };
    Frame::of(GroupTags::none(), batch)
}
