//! DELETE, DROP SERIES, DROP MEASUREMENT.

use super::Answer;
use crate::influxql::{DataType, Deletion, Expr, MeasurementName, split_deletion};
use crate::plan::QueryContext;
use crate::plan::compile_regex;
use crate::plan::condition::split_tags;
use nyala_core::{Error, Result, TimeRange};
use nyala_db::catalog::Measurement;
use std::sync::Arc;

pub(super) async fn drop_measurement(name: &str, context: &QueryContext) -> Result<Answer> {
    context.catalog.drop_measurement(&context.database, name).await?;
    Ok(Answer::Done)
}

pub(super) async fn delete(deletion: &Deletion, context: &QueryContext) -> Result<Answer> {
    remove(deletion, context, true).await
}

pub(super) async fn drop_series(deletion: &Deletion, context: &QueryContext) -> Result<Answer> {
    remove(deletion, context, false).await
}

async fn remove(deletion: &Deletion, context: &QueryContext, by_time: bool) -> Result<Answer> {
    let database = &*context.database;
    context.catalog.existing_database(database)?;
    let (mut time, mut condition) = (TimeRange::ALL, None);
    if let Some(written) = &deletion.condition {
        let split =
            split_deletion(written, context.now_ns).map_err(|error| Error::invalid(error.to_string()))?;
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
    // All conditions are checked before anything is deleted.
    let mut chosen = Vec::new();
    for measurement in measurements_of(deletion, database, context).await? {
        let split = split_tags(&measurement, condition.as_ref())?;
        if split.rows.is_some() {
            return Err(Error::invalid("fields not supported in WHERE clause during deletion"));
        }
        chosen.push((measurement, split.tags));
    }
    for (measurement, tags) in chosen {
        context.catalog.delete_points(&measurement, &tags, time).await?;
    }
    Ok(Answer::Done)
}

/// Makes `_tagKey` and similar names ordinary tags, as deletions treat them. Elsewhere a condition on `_tagKey` holds for
/// every series, and a condition on the others for none.
fn with_tag_key_as_tag(condition: &mut Expr) {
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

/// The measurements that a deletion names, in all retention policies unless one is named (which no statement can).
async fn measurements_of(
    deletion: &Deletion,
    database: &str,
    context: &QueryContext,
) -> Result<Vec<Arc<Measurement>>> {
    let known = context.catalog.existing_database(database)?;
    let mut found = Vec::new();
    for policy in &known.policies {
        let all = context.catalog.measurements(database, &policy.name).await?;
        if deletion.sources.is_empty() {
            found.extend(all);
            continue;
        }
        let in_policy = |source: &&crate::influxql::Measurement| {
            source.retention_policy.as_ref().is_none_or(|wanted| *wanted == policy.name)
        };
        for source in deletion.sources.iter().filter(in_policy) {
            let regex = match &source.name {
                MeasurementName::Regex(regex) => Some(compile_regex(regex)?),
                MeasurementName::Name(_) => None,
            };
            let wanted = |measurement: &&Arc<Measurement>| match (&source.name, &regex) {
                (_, Some(regex)) => regex.is_match(measurement.name().as_bytes()),
                (MeasurementName::Name(name), None) => measurement.name() == name,
                (MeasurementName::Regex(_), None) => false,
            };
            found.extend(all.iter().filter(wanted).cloned());
        }
    }
    Ok(found)
}
