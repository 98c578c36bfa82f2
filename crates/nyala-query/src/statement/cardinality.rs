//! SHOW … CARDINALITY.
//!
//! InfluxDB estimates the plainest forms and counts the others; nyala counts all. Conditions are evaluated for a row at time
//! 0 that has only the tags of a series: no comparison of a field holds.

use super::first_rows::FirstRows;
use super::index_condition::{TAG_KEY, has_time, text_comparison};
use super::show::{Found, add_series, key_filter, table};
use super::{Answer, Chunks, database_of};
use crate::influxql::{Binary, BinaryOperator, Counted, Expr, Show, ShowCardinality, split_condition};
use crate::plan::QueryContext;
use crate::plan::compile_regex;
use crate::plan::condition::split_tags;
use crate::plan::rewrite::{find_measurements, give_types};
use crate::plan::rewritten::RewrittenSource;
use nyala_core::{Error, Result, TimeRange};
use nyala_db::catalog::Measurement;
use nyala_db::series::TagFilter;
use nyala_exec::{Column, Frame, QueryMemory};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) async fn show(
    ShowCardinality { counted, exact, show: asked }: &ShowCardinality,
    context: &QueryContext,
    memory: &QueryMemory,
) -> Result<Answer> {
    let is_plain = !*exact
        && asked.sources.is_empty()
        && asked.condition.is_none()
        && asked.dimensions.is_empty()
        && (asked.limit, asked.offset) == (0, 0);
    if is_plain && matches!(counted, Counted::Series | Counted::Measurements) {
        return everything(counted, asked, context, memory).await;
    }
    let what = match counted {
        Counted::Series => "SERIES EXACT",
        Counted::Measurements => "MEASUREMENT EXACT",
        Counted::TagKeys => "TAG KEY EXACT",
        Counted::FieldKeys => "FIELD KEY",
        Counted::TagValues(_) => "",
    };
    if !what.is_empty() && asked.condition.as_ref().is_some_and(has_time) {
        return Err(Error::invalid(format!("SHOW {what} CARDINALITY doesn't support time in WHERE clause")));
    }
    let (found, condition) = found(counted, asked, context).await?;
    let mut frames = Vec::new();
    if let Counted::Measurements = counted {
        if !found.is_empty() {
            frames.push(row("", &[], found.len()));
        }
    } else {
        let names = group_keys(asked, &found)?;
        for (name, places) in &found {
            context.check_running()?;
            for (values, members) in groups(&names, places) {
                let count = count(counted, &members, condition.as_ref(), context, memory).await?;
                let tags: Vec<(String, String)> = names.iter().cloned().zip(values).collect();
                if count > 0 {
                    frames.push(row(name, &tags, count));
                }
            }
        }
    }
    // Each of them has one row.
    if asked.offset > 0 {
        frames.clear();
    }
    Ok(Answer::Rows(frames, Chunks::BySize))
}

/// All series or measurements of a database, in all its retention policies; none if the database does not exist.
async fn everything(
    counted: &Counted,
    asked: &Show,
    context: &QueryContext,
    memory: &QueryMemory,
) -> Result<Answer> {
    let database = database_of(asked.database.as_deref(), context)?;
    let mut by_name: BTreeMap<String, Vec<Arc<Measurement>>> = BTreeMap::new();
    if let Some(database) = context.catalog.database(database) {
        for policy in &database.policies {
            for measurement in context.catalog.measurements(&database.name, &policy.name).await? {
                if measurement.has_series() {
                    by_name.entry(measurement.name().to_owned()).or_default().push(measurement);
                }
            }
        }
    }
    let mut total = 0;
    for measurements in by_name.into_values() {
        context.check_running()?;
        total += match (counted, &*measurements) {
            (Counted::Measurements, _) => 1,
            (_, [only]) if !only.has_evicted_series() => only.count_series(),
            // A series in several policies counts once.
            _ => {
                let mut places = Vec::with_capacity(measurements.len());
                for measurement in measurements {
                    let pin = Arc::new(
                        context.catalog.reload_series(&measurement, TimeRange::ALL, &TagFilter::All).await?,
                    );
                    let series = measurement.series().all().into_owned();
                    places.push(Found { measurement, series, pin });
                }
                count(counted, &places, None, context, memory).await?
            }
        };
    }
    let column = Column::Integer(vec![total as i64].into());
    Ok(Answer::Rows(vec![table("", vec![("cardinality estimation", column)])], Chunks::Whole))
}

/// The measurements that a statement names, and the condition on their series.
async fn found(
    counted: &Counted,
    asked: &Show,
    context: &QueryContext,
) -> Result<(BTreeMap<String, Vec<Found>>, Option<Expr>)> {
    let mut named = context.clone();
    database_of(asked.database.as_deref(), context)?.clone_into(&mut named.database);
    let mut all = Vec::new();
    for source in &asked.sources {
        all.extend(find_measurements(source, &named).await?);
    }
    if asked.sources.is_empty() {
        let database = named.catalog.existing_database(&named.database)?;
        if let Some(policy) = database.policy(&named.retention_policy) {
            all = named.catalog.measurements(&database.name, &policy.name).await?;
        }
    }
    let mut found: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    let mut condition = None;
    if let Some(written) = &asked.condition {
        let split = split_condition(written, context.now_ns, None)?;
        let (first_ns, last_ns) = (split.range.minimum.unwrap_or(0), split.range.maximum.unwrap_or(0));
        if first_ns > 0 || last_ns < 0 {
            return Ok((found, None));
        }
        condition = split.condition;
    }
    if let Some(condition) = &mut condition {
        let source = |measurement: &Arc<Measurement>| {
            RewrittenSource::Measurement(measurement.clone(), measurement.fields())
        };
        give_types(condition, &all.iter().map(source).collect::<Vec<_>>());
    }
    for measurement in all {
        context.check_running()?;
        let tags = match &condition {
            Some(condition) => filter(counted, condition, &measurement, None)?,
            None => TagFilter::All,
        };
        let pin =
            Arc::new(context.catalog.reload_series(&measurement, TimeRange::ALL, &TagFilter::All).await?);
        let series = measurement.series().select(&tags);
        if !series.is_empty() {
            found.entry(measurement.name().to_owned()).or_default().push(Found { measurement, series, pin });
        }
    }
    Ok((found, condition))
}

/// The series of a measurement that a condition selects; with a key, for the values of that key.
fn filter(
    counted: &Counted,
    condition: &Expr,
    measurement: &Measurement,
    key: Option<&str>,
) -> Result<TagFilter> {
    let of = |part: &Expr| filter(counted, part, measurement, key);
    let holds = |holds: bool| if holds { TagFilter::All } else { TagFilter::None };
    match condition {
        Expr::Paren(inner) => of(inner),
        Expr::Binary(binary) if binary.op == BinaryOperator::And => {
            Ok(TagFilter::And(vec![of(&binary.lhs)?, of(&binary.rhs)?]))
        }
        Expr::Binary(binary) if binary.op == BinaryOperator::Or => {
            Ok(TagFilter::Or(vec![of(&binary.lhs)?, of(&binary.rhs)?]))
        }
        Expr::Binary(binary) => match key.and_then(|key| names_key(binary, key)) {
            Some(named) => Ok(holds(named)),
            None => {
                let split = split_tags(measurement, Some(condition))?;
                let tags = if split.rows.is_some() { TagFilter::None } else { split.tags };
                Ok(if let Counted::TagValues(_) = counted { of_present_tags(tags) } else { tags })
            }
        },
        Expr::Boolean(boolean) => Ok(holds(*boolean)),
        _ => Ok(TagFilter::None),
    }
}

/// Whether a tag key satisfies a comparison; `None`: it compares something else.
fn names_key(binary: &Binary, key: &str) -> Option<bool> {
    match &binary.lhs {
        Expr::VarRef(reference) if reference.name == TAG_KEY => {
            Some(text_comparison(binary, key).unwrap_or(false))
        }
        _ => None,
    }
}

/// The filter with the rule of rows: no comparison of an absent tag holds.
fn of_present_tags(filter: TagFilter) -> TagFilter {
    use TagFilter::{All, And, Equal, Matches, MatchesNot, None, NotEqual, Or};
    let each = |filters: Vec<TagFilter>| filters.into_iter().map(of_present_tags).collect();
    match filter {
        And(filters) => And(each(filters)),
        Or(filters) => Or(each(filters)),
        Equal(_, value) if value.is_empty() => None,
        Equal(..) | All | None => filter,
        NotEqual(ref key, _) | Matches(ref key, _) | MatchesNot(ref key, _) => {
            And(vec![NotEqual(key.clone(), String::new()), filter])
        }
    }
}

/// The tags that series are grouped by.
fn group_keys(asked: &Show, found: &BTreeMap<String, Vec<Found>>) -> Result<Vec<String>> {
    let mut keys = BTreeSet::new();
    for dimension in &asked.dimensions {
        let regex = match dimension {
            Expr::VarRef(reference) => {
                keys.insert(reference.name.clone());
                continue;
            }
            Expr::Wildcard(_) => None,
            Expr::Regex(regex) => Some(compile_regex(regex)?),
            other => {
                return Err(Error::invalid(format!("only tag dimensions are allowed here, not {other}")));
            }
        };
        for Found { measurement, .. } in found.values().flatten() {
            let index = measurement.series();
            let all = index.keys_of(&index.all());
            let wanted = |key: &&str| regex.as_ref().is_none_or(|regex| regex.is_match(key.as_bytes()));
            keys.extend(all.into_iter().filter(wanted).map(str::to_owned));
        }
    }
    Ok(keys.into_iter().collect())
}

/// The series of a measurement by the values of tags.
fn groups(keys: &[String], places: &[Found]) -> BTreeMap<Vec<String>, Vec<Found>> {
    let mut all: BTreeMap<Vec<String>, Vec<Found>> = BTreeMap::new();
    for Found { measurement, series, pin } in places {
        let groups = measurement.series().group(series, keys);
        let mut members = vec![RoaringBitmap::new(); groups.values.len()];
        for (id, group) in groups.members {
            members[group as usize].insert(id.0);
        }
        for (group, series) in members.into_iter().enumerate() {
            let values = groups.values.of(group).map(str::to_owned).collect();
            let (measurement, pin) = (measurement.clone(), pin.clone());
            all.entry(values).or_default().push(Found { measurement, series, pin });
        }
    }
    all
}

async fn count(
    counted: &Counted,
    places: &[Found],
    condition: Option<&Expr>,
    context: &QueryContext,
    memory: &QueryMemory,
) -> Result<usize> {
    if let Counted::Series | Counted::Measurements = counted {
        if let [Found { series, .. }] = places {
            return Ok(series.len() as usize);
        }
        let mut all = FirstRows::new(usize::MAX, memory);
        for place in places {
            add_series(place, &mut all, context).await?;
        }
        return Ok(all.len());
    }
    let mut names = FirstRows::new(usize::MAX, memory);
    let mut add = |name: String| {
        let text_bytes = name.len();
        names.insert(name, text_bytes)
    };
    for Found { measurement, series, .. } in places {
        match counted {
            Counted::TagValues(keys) => {
                let wanted = key_filter(keys)?;
                let keys = owned(measurement.series().keys_of(series));
                for key in keys.filter(|key| wanted(key)) {
                    let with_key = |condition| filter(counted, condition, measurement, Some(&key));
                    let filter = condition.map(with_key).transpose()?.unwrap_or(TagFilter::All);
                    let index = measurement.series();
                    let members = index.select(&filter) & series;
                    index.values_of(&key, &members).into_iter().try_for_each(&mut add)?;
                }
            }
            Counted::FieldKeys => {
                measurement.fields().iter().map(|field| field.name.clone()).try_for_each(&mut add)?;
            }
            _ => owned(measurement.series().keys_of(series)).try_for_each(&mut add)?,
        }
    }
    Ok(names.len())
}

fn owned(keys: Vec<&str>) -> std::vec::IntoIter<String> {
    keys.into_iter().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn row(name: &str, tags: &[(String, String)], count: usize) -> Frame {
    let column = Column::Integer(vec![count as i64].into());
    Frame { tags: tags.iter().cloned().collect(), ..table(name, vec![("count", column)]) }
}
