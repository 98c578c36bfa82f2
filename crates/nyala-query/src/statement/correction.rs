//! UPDATE, DELETE FIELD and DRY RUN: correcting stored points. InfluxDB has none of them.

use super::alter_measurement::would_alter;
use super::changes::{author, count_frame, would_undo};
use super::deletion::{select_by_fields, selected, with_tag_key_as_tag};
use super::{Answer, database_of};
use crate::influxql::{Expr, MeasurementName, Statement, Update, split_deletion};
use crate::plan::condition::split_tags;
use crate::plan::{QueryContext, fields_named, literal_value};
use nyala_core::{Error, Result, TimeRange, Value};
use nyala_db::catalog::{Field, FieldType, Measurement};
use nyala_db::changes::Changed;
use nyala_db::selection::PointSelection;
use nyala_exec::{Chunks, Scalar};
use std::sync::Arc;

/// Points that a statement changes, and how.
struct Change {
    measurement: Arc<Measurement>,
    selection: PointSelection,
    assignments: Vec<(Field, Option<Value>)>,
}

/// Executes UPDATE or DELETE FIELD. The answer says how many points were changed.
pub(super) async fn update(
    (statement, update): (&Statement, &Update),
    context: &QueryContext,
) -> Result<Answer> {
    let Change { measurement, selection, assignments } = change_of(update, context).await?;
    let Changed { points, part } = context.catalog.set_fields(&measurement, &selection, assignments).await?;
    let database = database_of(update.measurement.database.as_deref(), context)?;
    let author = author(statement, database, context);
    let id = context.catalog.note_change(&author, Some(points), part.as_slice()).await?;
    let columns = vec![("updated", Some(points as i64)), ("change", id.map(|id| id.0 as i64))];
    Ok(Answer::Changed(vec![count_frame(measurement.name(), columns)], id))
}

/// Counts the points that a statement would change. Everything that can be wrong with it is found.
pub(super) async fn dry_run(statement: &Statement, context: &QueryContext) -> Result<Answer> {
    let counted = match statement {
        Statement::Delete(deletion) => selected(deletion, context, true).await?,
        Statement::Update(update) => {
            let Change { measurement, selection, .. } = change_of(update, context).await?;
            vec![(measurement, selection)]
        }
        Statement::AlterMeasurement(alter) => return would_alter(alter, context).await,
        Statement::Undo { change } => return would_undo(*change, context).await,
        other => return Err(Error::unsupported(format!("DRY RUN of {other}"))),
    };
    let mut frames = Vec::new();
    for (measurement, selection) in counted {
        let points = context.catalog.count_points(&measurement, &selection).await?;
        frames.push(count_frame(measurement.name(), vec![("points", Some(points as i64))]));
    }
    Ok(Answer::Rows(frames, Chunks::Whole))
}

async fn change_of(update: &Update, context: &QueryContext) -> Result<Change> {
    let measurement = measurement_of(update, context).await?;
    let mut selection = PointSelection::new(nyala_db::series::TagFilter::All, TimeRange::ALL);
    if let Some(written) = &update.condition {
        let split = split_deletion(written, context.now_ns)?;
        let (first, last) = (split.range.minimum, split.range.maximum);
        selection.time.start_ns = first.unwrap_or(i64::MIN);
        selection.time.end_ns = last.map_or(i64::MAX, |last_ns| last_ns.saturating_add(1));
        if let Some(mut condition) = split.condition {
            with_tag_key_as_tag(&mut condition);
            let split = split_tags(&measurement, Some(&condition))?;
            selection.tags = split.tags;
            if let Some(rows) = split.rows {
                select_by_fields(&measurement, &rows, &mut selection)?;
            }
        }
    }
    let mut assignments = Vec::new();
    for (name, value) in &update.fields {
        assign(&measurement, name, value.as_ref(), &mut assignments)?;
    }
    Ok(Change { measurement, selection, assignments })
}

/// The measurement that is changed: of the policy that is named, or of the request's.
async fn measurement_of(update: &Update, context: &QueryContext) -> Result<Arc<Measurement>> {
    let written = &update.measurement;
    let database = database_of(written.database.as_deref(), context)?;
    let known = context.catalog.existing_database(database)?;
    let policy = written.retention_policy.as_deref().unwrap_or(&context.retention_policy);
    let policy = &known.existing_policy(policy)?.name;
    let MeasurementName::Name(name) = &written.name else {
        return Err(Error::invalid("UPDATE changes one measurement, which is named"));
    };
    let found = context.catalog.measurement(database, policy, name).await?;
    found.ok_or_else(|| Error::missing(format!("measurement not found: {name}")))
}

/// Adds an assignment of a field: to the column of its type, or, if its value is taken away, to all its columns.
fn assign(
    measurement: &Measurement,
    name: &str,
    value: Option<&Expr>,
    assignments: &mut Vec<(Field, Option<Value>)>,
) -> Result<()> {
    let fields = measurement.fields();
    let fields = fields_named(&fields, name);
    if fields.is_empty() {
        let what = if measurement.has_tag_key(name) { "is a tag, not a field" } else { "has no such field" };
        let owner = measurement.name();
        return Err(Error::invalid(format!("cannot set {name:?}: of {owner:?} it {what}")).context("UPDATE"));
    }
    let Some(value) = value else {
        assignments.extend(fields.iter().map(|field| (field.clone(), None)));
        return Ok(());
    };
    let literal =
        literal_value(value)?.ok_or_else(|| Error::invalid(format!("{value} is no value of a field")))?;
    // If the field has several types, that of the literal comes first.
    let is_own = |field: &&Field| {
        matches!(
            (field.field_type, &literal),
            (FieldType::Float, Scalar::Float(_)) | (FieldType::Integer, Scalar::Integer(_))
        )
    };
    let by_preference = fields.iter().filter(is_own).chain(fields);
    let mut fitting =
        by_preference.filter_map(|field| Some((field.clone(), stored_value(&literal, field.field_type)?)));
    let (field, value) = fitting.next().ok_or_else(|| {
        Error::invalid(format!(
            "field {name:?} is of type {}, and {value} is not",
            fields[0].field_type.name()
        ))
    })?;
    assignments.push((field, Some(value)));
    Ok(())
}

/// A literal as a value of a type, if nothing is lost.
fn stored_value(literal: &Scalar, field_type: FieldType) -> Option<Value> {
    Some(match (field_type, literal) {
        (FieldType::Float, Scalar::Float(value)) => Value::Float(*value),
        (FieldType::Float, Scalar::Integer(value)) if *value as f64 as i64 == *value => {
            Value::Float(*value as f64)
        }
        (FieldType::Integer, Scalar::Integer(value)) => Value::Int(*value),
        (FieldType::Unsigned, Scalar::Integer(value)) => Value::UInt(u64::try_from(*value).ok()?),
        (FieldType::Unsigned, Scalar::Unsigned(value)) => Value::UInt(*value),
        (FieldType::String, Scalar::String(text)) => Value::String(text.clone()),
        (FieldType::Boolean, Scalar::Boolean(value)) => Value::Bool(*value),
        _ => return None,
    })
}
