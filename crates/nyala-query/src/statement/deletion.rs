//! DELETE and DROP SERIES.

use super::show::name_test;
use crate::influxql::{DataType, Deletion, Expr, MeasurementName, split_deletion};
use crate::plan::QueryContext;
use crate::plan::condition::split_tags;
use nyala_core::{Error, Result, TimeRange};
use nyala_db::catalog::Measurement;
use std::sync::Arc;

/// Deletes points; `by_time` where a time may be named.
pub(super) async fn remove(deletion: &Deletion, context: &QueryContext, by_time: bool) -> Result<()> {
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
    Ok(())
}

/// Makes `_tagKey` and similar names ordinary tags, as deletions treat them. In SELECT a condition on `_tagKey` holds for
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
        let all = context.catalog.measurements(database, &policy.name).await?;
        if deletion.sources.is_empty() {
            found.extend(all);
            continue;
        }
        // Here an empty name names no measurement.
        let in_policy = |source: &&crate::influxql::Measurement| {
            source.name != MeasurementName::default()
                && source.retention_policy.as_ref().is_none_or(|wanted| *wanted == policy.name)
        };
        for source in deletion.sources.iter().filter(in_policy) {
            let is_named = name_test(source)?;
            found.extend(all.iter().filter(|measurement| is_named(measurement.name())).cloned());
        }
    }
    Ok(found)
}
