//! DELETE and DROP SERIES.

use super::Answer;
use super::changes::author;
use super::show::named_by;
use crate::influxql::{BinaryOperator, DataType, Deletion, Expr, MeasurementName, Statement, split_deletion};
use crate::plan::condition::{predicates, split_tags};
use crate::plan::{QueryContext, fields_named};
use nyala_core::{Error, Result, TimeRange};
use nyala_db::catalog::Measurement;
use nyala_db::selection::PointSelection;
use nyala_db::series::TagFilter;
use std::sync::Arc;

/// Deletes points; `by_time` where a time may be named.
pub(super) async fn remove(
    (statement, deletion): (&Statement, &Deletion),
    context: &QueryContext,
    by_time: bool,
) -> Result<Answer> {
    let selected = selected(deletion, context, by_time).await?;
    let (mut parts, mut outcome) = (Vec::new(), Ok(()));
    for (measurement, selection) in selected {
        match context.catalog.delete_selected(&measurement, &selection, false).await {
            Ok(changed) => parts.extend(changed.part),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    let author = author(statement, &context.database, context);
    // What was deleted before an error can be undone, too.
    let id = context.catalog.note_change(&author, None, &parts).await;
    outcome?;
    Ok(Answer::Changed(Vec::new(), id?))
}

/// The points that a deletion selects, by measurement. All conditions are checked before anything is deleted.
pub(super) async fn selected(
    deletion: &Deletion,
    context: &QueryContext,
    by_time: bool,
) -> Result<Vec<(Arc<Measurement>, PointSelection)>> {
    let database = &*context.database;
    context.catalog.existing_database(database)?;
    let (mut time, mut condition) = (TimeRange::ALL, None);
    if let Some(written) = &deletion.condition {
        let split = split_deletion(written, context.now_ns)?;
        let (first, last) = (split.range.minimum, split.range.maximum);
        if !by_time && (first.is_some() || last.is_some()) {
            return Err(Error::invalid("DROP SERIES doesn't support time in WHERE clause"));
        }
        time = TimeRange::new(
            first.unwrap_or(i64::MIN),
            last.map_or(i64::MAX, |last_ns| last_ns.saturating_add(1)),
        );
        condition = split.condition;
    }
    if let Some(condition) = &mut condition {
        with_tag_key_as_tag(condition);
    }
    let mut chosen = Vec::new();
    for measurement in measurements_of(deletion, database, context).await? {
        let split = split_tags(&measurement, condition.as_ref())?;
        let mut selection = PointSelection::new(split.tags, time);
        match split.rows {
            None => {}
            Some(_) if !by_time => {
                return Err(Error::invalid("fields not supported in WHERE clause during deletion"));
            }
            Some(rows) => select_by_fields(&measurement, &rows, &mut selection)?,
        }
        chosen.push((measurement, selection));
    }
    Ok(chosen)
}

/// Restricts a selection to points that satisfy a condition on their fields.
pub(super) fn select_by_fields(
    measurement: &Measurement,
    condition: &Expr,
    selection: &mut PointSelection,
) -> Result<()> {
    if compares_unknown(measurement, condition) {
        selection.tags = TagFilter::None;
        return Ok(());
    }
    selection.predicates = predicates(measurement, Some(condition)).ok_or_else(|| {
        Error::invalid(format!(
            "points of {:?} cannot be selected by {condition}: compare its fields with constants, and join the \
             comparisons by AND",
            measurement.name()
        ))
    })?;
    Ok(())
}

/// Whether one of the comparisons that must all hold is with a name that is no field: no point satisfies it.
fn compares_unknown(measurement: &Measurement, condition: &Expr) -> bool {
    let is_unknown = |expr: &Expr| match expr {
        Expr::VarRef(reference) => fields_named(&measurement.fields(), &reference.name).is_empty(),
        _ => false,
    };
    match condition {
        Expr::Paren(inner) => compares_unknown(measurement, inner),
        Expr::Binary(binary) => match binary.op {
            BinaryOperator::And => {
                compares_unknown(measurement, &binary.lhs) || compares_unknown(measurement, &binary.rhs)
            }
            BinaryOperator::Or => false,
            _ => is_unknown(&binary.lhs) || is_unknown(&binary.rhs),
        },
        _ => false,
    }
}

/// Makes `_tagKey` and similar names ordinary tags, as deletions treat them. In SELECT a condition on `_tagKey` holds for
/// every series, and a condition on the others for none.
pub(super) fn with_tag_key_as_tag(condition: &mut Expr) {
    match condition {
        Expr::VarRef(reference) if ["_tagKey", "_tagValue", "_seriesKey"].contains(&&*reference.name) => {
            reference.data_type = Some(DataType::Tag);
        }
        Expr::Binary(binary) => {
            with_tag_key_as_tag(&mut binary.lhs);
            with_tag_key_as_tag(&mut binary.rhs);
        }
        Expr::Paren(inner) => with_tag_key_as_tag(inner),
        _ => {}
    }
}

/// The measurements that a deletion names. A statement cannot name a retention policy, so all policies are meant; a
/// deletion by `/api/v2/delete` names one.
async fn measurements_of(
    deletion: &Deletion,
    database: &str,
    context: &QueryContext,
) -> Result<Vec<Arc<Measurement>>> {
    let known = context.catalog.existing_database(database)?;
    let mut found = Vec::new();
    for policy in &known.policies {
        if deletion.sources.is_empty() {
            found.extend(context.catalog.measurements(database, &policy.name).await?);
            continue;
        }
        // Here an empty name names no measurement.
        let in_policy = |source: &&crate::influxql::Measurement| {
            source.name != MeasurementName::default()
                && source.retention_policy.as_ref().is_none_or(|wanted| *wanted == policy.name)
        };
        for source in deletion.sources.iter().filter(in_policy) {
            found.extend(named_by(source, database, &policy.name, context).await?);
        }
    }
    Ok(found)
}
