//! SHOW DATABASES, RETENTION POLICIES, MEASUREMENTS, SERIES, TAG KEYS, TAG VALUES and FIELD KEYS.

use super::first_rows::{FirstRows, rows_wanted};
use super::index_condition::{
    ValueTest, has_time, names_key, names_measurement, refuse_inequalities, series_filter, shows_measurement,
};
use super::{Answer, Chunks, database_of};
use crate::influxql::{Expr, MeasurementName, Show, TagKeys, go_duration, split_condition};
use crate::plan::QueryContext;
use crate::plan::compile_regex;
use crate::plan::condition::split_tags;
use arrow_array::{BooleanArray, Int64Array, StringArray};
use nyala_core::before_long_work;
use nyala_core::store::SeriesSet;
use nyala_core::{Error, Result, SeriesId, TimeRange};
use nyala_db::catalog::{Measurement, RetentionPolicy};
use nyala_db::ingest::{MEASUREMENT_SPECIALS, push_escaped, push_tag};
use nyala_db::series::{SeriesPin, TagFilter, Tags};
use nyala_db::users::Privilege;
use nyala_exec::{Column, Frame, GroupTags, QueryMemory, ResultBatch};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// After this many series a statement checks whether it must stop.
const SERIES_BETWEEN_LOOKS: usize = 1_024;

/// A table without times.
pub(super) fn table(name: &str, columns: Vec<(&str, Column)>) -> Frame {
    let names: Arc<[String]> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let batch = ResultBatch {
        name: name.into(),
        time_column: None,
        column_names: names.clone(),
        reference_names: names,
        times_ns: Vec::new().into(),
        columns: columns.into_iter().map(|(_, column)| column).collect(),
        instead: None,
    };
    Frame::of(GroupTags::none(), batch)
}

pub(super) fn text_column<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> Column {
    Column::String(StringArray::from_iter_values(values))
}

fn page<T>(rows: Vec<T>, limit: u64, offset: u64) -> Vec<T> {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limit = if limit == 0 { usize::MAX } else { count(limit) };
    rows.into_iter().skip(count(offset)).take(limit).collect()
}

pub(super) fn databases(context: &QueryContext) -> Answer {
    let names = context.catalog.databases().into_iter().map(|database| database.name.clone());
    let shown = |name: &String| {
        context.principal.may(Privilege::Read, name) || context.principal.may(Privilege::Write, name)
    };
    let table = table("databases", vec![("name", text_column(names.filter(shown)))]);
    Answer::Rows(vec![table], Chunks::Whole)
}

pub(super) fn retention_policies(database: Option<&str>, context: &QueryContext) -> Result<Answer> {
    let database = context.catalog.existing_database(database_of(database, context)?)?;
    let policies = &database.policies;
    let texts = |text: &dyn Fn(&RetentionPolicy) -> String| text_column(policies.iter().map(text));
    let replication = policies.iter().map(|policy| i64::from(policy.replication));
    let default: Vec<bool> = policies.iter().map(|policy| policy.name == database.default_policy).collect();
    let mut columns = vec![
        ("name", texts(&|policy| policy.name.clone())),
        ("duration", texts(&|policy| go_duration(policy.duration_ns))),
        ("shardGroupDuration", texts(&|policy| go_duration(policy.shard_duration_ns))),
        ("replicaN", Column::Integer(Int64Array::from_iter_values(replication))),
    ];
    // As in InfluxDB 1.12; without these columns the answer is that of 1.8.
    if policies.iter().any(|policy| policy.future_limit_ns != 0 || policy.past_limit_ns != 0) {
        columns.push(("futureWriteLimit", texts(&|policy| go_duration(policy.future_limit_ns))));
        columns.push(("pastWriteLimit", texts(&|policy| go_duration(policy.past_limit_ns))));
    }
    columns.push(("default", Column::Boolean(BooleanArray::from(default))));
    Ok(Answer::Rows(vec![table("", columns)], Chunks::Whole))
}

/// A measurement and the series of it that a SHOW statement selects.
pub(super) struct Found {
    pub(super) measurement: Arc<Measurement>,
    pub(super) series: RoaringBitmap,
    /// Keeps the series in memory.
    pub(super) pin: Arc<SeriesPin>,
}

/// How the series of a SHOW statement are selected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// As in SHOW SERIES and SHOW FIELD KEYS: like a SELECT, from an existing retention policy.
    Select,
    /// As in SHOW TAG KEYS and SHOW TAG VALUES.
    Tags,
}

/// The measurements and series that sources and a condition select, by name. A name that is in several retention policies
/// occurs more than once.
async fn find(show: &Show, rules: Rules, context: &QueryContext) -> Result<BTreeMap<String, Vec<Found>>> {
    let (mut time, mut rest) = (TimeRange::ALL, None);
    if let Some(condition) = &show.condition {
        let split = split_condition(condition, context.now_ns, None)?;
        time = TimeRange::new(
            split.range.minimum.unwrap_or(i64::MIN),
            split.range.maximum.map_or(i64::MAX, |last_ns| last_ns.saturating_add(1)),
        );
        rest = split.condition;
    }
    // No shard begins after the last time, and the last one ends there.
    if time.start_ns == i64::MAX {
        return Ok(BTreeMap::new());
    }
    let mut found: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for (measurement, shard_ns) in named(show, rules, context).await? {
        context.check_running()?;
        let Some(tags) = selected(&measurement, rest.as_ref(), time, rules)? else { continue };
        // InfluxDB answers from the shards that a time range touches.
        let shards = match time == TimeRange::ALL {
            true => time,
            false => measurement.shards_around(time, shard_ns).await?,
        };
        let pin = Arc::new(context.catalog.reload_series(&measurement, shards, &tags).await?);
        let mut series = measurement.series().select(&tags);
        if time != TimeRange::ALL {
            let ids = SeriesSet::Ids(series.iter().map(SeriesId).collect());
            let snapshot = context.snapshot().await?;
            series = measurement.series_with_points(&snapshot, ids, shards).await?;
        }
        if !series.is_empty() {
            found.entry(measurement.name().to_owned()).or_default().push(Found { measurement, series, pin });
        }
    }
    Ok(found)
}

/// The measurements that sources name, each with the width of its policy's shards.
async fn named(show: &Show, rules: Rules, context: &QueryContext) -> Result<Vec<(Arc<Measurement>, i64)>> {
    let default_database = database_of(show.database.as_deref(), context)?;
    let everything = [crate::influxql::Measurement::default()];
    let sources = if show.sources.is_empty() { &everything[..] } else { &show.sources };
    let mut all = Vec::new();
    for source in sources {
        let database =
            context.catalog.existing_database(source.database.as_deref().unwrap_or(default_database))?;
        let wanted = match (source.retention_policy.as_deref(), rules) {
            (name, Rules::Select) => Some(&*database.existing_policy(name.unwrap_or(""))?.name),
            (name, Rules::Tags) => name,
        };
        let has_name = |policy: &&RetentionPolicy| wanted.is_none_or(|wanted| wanted == policy.name);
        for policy in database.policies.iter().filter(has_name) {
            let measurements = named_by(source, &database.name, &policy.name, context).await?;
            all.extend(measurements.into_iter().map(|own| (own, policy.shard_duration_ns)));
        }
    }
    Ok(all)
}

/// The same, sorted by name, without measurements that have no series.
async fn named_with_series(
    show: &Show,
    rules: Rules,
    context: &QueryContext,
) -> Result<BTreeMap<String, Vec<Arc<Measurement>>>> {
    let mut by_name: BTreeMap<String, Vec<Arc<Measurement>>> = BTreeMap::new();
    for (measurement, _) in named(show, rules, context).await? {
        if measurement.has_series() {
            by_name.entry(measurement.name().to_owned()).or_default().push(measurement);
        }
    }
    Ok(by_name)
}

/// The measurements of a retention policy that a source names. A name may be an alias; a pattern finds none.
pub(super) async fn named_by(
    source: &crate::influxql::Measurement,
    database: &str,
    policy: &str,
    context: &QueryContext,
) -> Result<Vec<Arc<Measurement>>> {
    match &source.name {
        MeasurementName::Name(name) if !name.is_empty() => {
            Ok(context.catalog.measurement(database, policy, name).await?.into_iter().collect())
        }
        _ => {
            let is_named = name_test(source)?;
            let mut measurements = context.catalog.measurements(database, policy).await?;
            measurements.retain(|measurement| is_named(measurement.name()));
            Ok(measurements)
        }
    }
}

/// Whether a source names a measurement. One with an empty name names all.
pub(super) fn name_test(source: &crate::influxql::Measurement) -> Result<impl Fn(&str) -> bool> {
    let regex = match &source.name {
        MeasurementName::Regex(regex) => Some(compile_regex(regex)?),
        MeasurementName::Name(_) => None,
    };
    Ok(move |name: &str| match (&source.name, &regex) {
        (MeasurementName::Name(own), _) => own.is_empty() || own == name,
        (_, regex) => regex.as_ref().is_some_and(|regex| regex.is_match(name.as_bytes())),
    })
}

/// The series of a measurement that a condition without time selects; `None`: the measurement is left out.
fn selected(
    measurement: &Measurement,
    condition: Option<&Expr>,
    time: TimeRange,
    rules: Rules,
) -> Result<Option<TagFilter>> {
    let Some(condition) = condition else { return Ok(Some(TagFilter::All)) };
    match rules {
        Rules::Select if time == TimeRange::ALL => series_filter(condition, measurement, false),
        Rules::Select => {
            let split = split_tags(measurement, Some(condition))?;
            // A condition on fields selects no series, as in InfluxDB.
            Ok(split.rows.is_none().then_some(split.tags))
        }
        Rules::Tags if names_measurement(condition, measurement.name())? == Some(false) => Ok(None),
        Rules::Tags => Ok(Some(series_filter(condition, measurement, true)?.unwrap_or(TagFilter::All))),
    }
}

pub(super) async fn measurements(show: &Show, context: &QueryContext) -> Result<Answer> {
    if show.condition.as_ref().is_some_and(has_time) {
        return Err(Error::invalid("SHOW MEASUREMENTS doesn't support time in WHERE clause"));
    }
    let database = database_of(show.database.as_deref(), context)?;
    // A measurement that does not exist has no series to show.
    let Some(database) = context.catalog.database(database) else {
        return Ok(Answer::Rows(Vec::new(), Chunks::Whole));
    };
    let is_named = show.sources.first().map(name_test).transpose()?;
    let mut names = BTreeSet::new();
    for policy in &database.policies {
        for measurement in context.catalog.measurements(&database.name, &policy.name).await? {
            context.check_running()?;
            let is_named = is_named.as_ref().is_none_or(|is_named| is_named(measurement.name()));
            if !measurement.has_series() || !is_named {
                continue;
            }
            if let Some(condition) = &show.condition {
                let _pin =
                    context.catalog.reload_series(&measurement, TimeRange::ALL, &TagFilter::All).await?;
                match shows_measurement(condition, &measurement) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => return Ok(Answer::Refused(error)),
                }
            }
            names.insert(measurement.name().to_owned());
        }
    }
    let names = page(names.into_iter().collect(), show.limit, show.offset);
    let frames = match names.is_empty() {
        true => Vec::new(),
        false => vec![table("measurements", vec![("name", text_column(names))])],
    };
    Ok(Answer::Rows(frames, Chunks::Whole))
}

pub(super) async fn series(show: &Show, context: &QueryContext, memory: &QueryMemory) -> Result<Answer> {
    if let Some(condition) = show.condition.as_ref().filter(|condition| !has_time(condition)) {
        refuse_inequalities(condition)?;
    }
    let found = find(show, Rules::Select, context).await?;
    let wanted = rows_wanted(show.limit, show.offset);
    let mut keys = Vec::new();
    for (name, places) in &found {
        // Sorted by names and values before they are escaped.
        let mut of_measurement = FirstRows::new(wanted.saturating_sub(keys.len()), memory);
        for place in places {
            add_series(place, &mut of_measurement, context).await?;
        }
        keys.extend(of_measurement.into_iter().map(|tags| series_key(name, &tags)));
        if keys.len() >= wanted {
            break;
        }
    }
    let keys = page(keys, show.limit, show.offset);
    let frames = match keys.is_empty() {
        true => Vec::new(),
        false => vec![table("", vec![("key", text_column(keys))])],
    };
    Ok(Answer::Rows(frames, Chunks::BySize))
}

/// Adds the tags of series, and lets writers of new series and other queries run in between.
pub(super) async fn add_series(
    Found { measurement, series, .. }: &Found,
    rows: &mut FirstRows<'_, Tags>,
    context: &QueryContext,
) -> Result<()> {
    let mut left = series.iter().peekable();
    while left.peek().is_some() {
        {
            let index = measurement.series();
            for id in left.by_ref().take(SERIES_BETWEEN_LOOKS) {
                let tags = index.tags_of(SeriesId(id));
                let text =
                    |(key, value): &(String, String)| key.len() + value.len() + size_of::<[String; 2]>();
                let text_bytes = tags.iter().map(text).sum();
                rows.insert(tags, text_bytes)?;
            }
        }
        context.check_running()?;
        before_long_work().await;
    }
    Ok(())
}

/// A series in the form of line protocol.
fn series_key(name: &str, tags: &[(String, String)]) -> String {
    let mut key = String::new();
    push_escaped(&mut key, name, MEASUREMENT_SPECIALS);
    for (tag, value) in tags {
        key.push(',');
        push_tag(&mut key, tag, value);
    }
    key
}

pub(super) async fn tag_keys(show: &Show, context: &QueryContext) -> Result<Answer> {
    let asked = match OfTags::of(show.condition.as_ref(), context) {
        Ok(asked) => asked,
        Err(error) => return Ok(Answer::Refused(error)),
    };
    let mut by_name: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if show.condition.is_none() {
        // No series must be read.
        for (name, places) in named_with_series(show, Rules::Tags, context).await? {
            let mut pins = Vec::new();
            for measurement in places.iter().filter(|measurement| measurement.has_evicted_series()) {
                pins.push(context.catalog.reload_series(measurement, TimeRange::ALL, &TagFilter::All).await?);
            }
            by_name.insert(name, places.iter().flat_map(|measurement| measurement.tag_keys()).collect());
        }
    } else {
        for (name, places) in find(show, Rules::Tags, context).await? {
            context.check_running()?;
            let keys = by_name.entry(name).or_default();
            for Found { measurement, series, .. } in &places {
                let index = measurement.series();
                let shown = |key: &&str| match &asked.values {
                    None => true,
                    Some(test) => index.values_of(key, series).iter().any(|value| test.holds(value)),
                };
                keys.extend(index.keys_of(series).into_iter().filter(shown).map(str::to_owned));
            }
        }
    }
    let mut frames = Vec::new();
    for (name, keys) in &by_name {
        let keys = page(keys.iter().collect(), show.limit, show.offset);
        if !keys.is_empty() {
            frames.push(table(name, vec![("tagKey", text_column(keys))]));
        }
    }
    // InfluxDB accepts SLIMIT and SOFFSET and ignores them.
    Ok(Answer::Rows(frames, Chunks::PerSeries))
}

/// The condition on tags alone, independent of series.
struct OfTags {
    /// The condition without its bounds on time.
    condition: Option<Expr>,
    /// The condition on values.
    values: Option<ValueTest>,
}

impl OfTags {
    /// The error is the index's for a condition on anything but equality.
    fn of(condition: Option<&Expr>, context: &QueryContext) -> Result<Self> {
        // Errors in times are reported where times are evaluated.
        let split = condition.and_then(|condition| split_condition(condition, context.now_ns, None).ok());
        let condition = split.and_then(|split| split.condition);
        let mut values = None;
        if let Some(condition) = &condition {
            names_measurement(condition, "")?;
            values = ValueTest::of(condition)?;
        }
        Ok(Self { condition, values })
    }

    /// Whether a key satisfies it.
    fn names_key(&self, key: &str) -> Result<bool> {
        let named = self.condition.as_ref().map(|condition| names_key(condition, key)).transpose()?;
        Ok(named.flatten().unwrap_or(true))
    }
}

pub(super) async fn tag_values(
    keys: &TagKeys,
    show: &Show,
    context: &QueryContext,
    memory: &QueryMemory,
) -> Result<Answer> {
    let asked = match OfTags::of(show.condition.as_ref(), context) {
        Ok(asked) => asked,
        Err(error) => return Ok(Answer::Refused(error)),
    };
    let found = find(show, Rules::Tags, context).await?;
    let wanted = key_filter(keys)?;
    let mut frames = Vec::new();
    for (name, places) in &found {
        let mut pairs = FirstRows::new(rows_wanted(show.limit, show.offset), memory);
        for Found { measurement, series, .. } in places {
            let index = measurement.series();
            for key in index.keys_of(series) {
                context.check_running()?;
                match asked.names_key(key) {
                    Ok(named) if named && wanted(key) => {}
                    Ok(_) => continue,
                    Err(error) => return Ok(Answer::Refused(error)),
                }
                let values = index.values_of(key, series).into_iter();
                for value in values.filter(|value| asked.values.as_ref().is_none_or(|test| test.holds(value)))
                {
                    let text_bytes = key.len() + value.len();
                    pairs.insert((key.to_owned(), value), text_bytes)?;
                }
            }
        }
        let pairs = page(pairs.into_iter().collect(), show.limit, show.offset);
        if !pairs.is_empty() {
            let keys = text_column(pairs.iter().map(|(key, _)| key));
            let values = text_column(pairs.iter().map(|(_, value)| value));
            frames.push(table(name, vec![("key", keys), ("value", values)]));
        }
    }
    Ok(Answer::Rows(frames, Chunks::PerSeries))
}

/// Whether `WITH KEY` selects a key.
pub(super) fn key_filter(keys: &TagKeys) -> Result<impl Fn(&str) -> bool> {
    let regex = match keys {
        TagKeys::Matches(regex) | TagKeys::NotMatches(regex) => Some(compile_regex(regex)?),
        _ => None,
    };
    Ok(move |key: &str| match keys {
        TagKeys::In(keys) => keys.iter().any(|wanted| wanted == key),
        TagKeys::Equal(wanted) => wanted == key,
        TagKeys::NotEqual(unwanted) => unwanted != key,
        TagKeys::Matches(_) => regex.as_ref().is_some_and(|regex| regex.is_match(key.as_bytes())),
        TagKeys::NotMatches(_) => regex.as_ref().is_some_and(|regex| !regex.is_match(key.as_bytes())),
    })
}

pub(super) async fn field_keys(show: &Show, context: &QueryContext) -> Result<Answer> {
    let found = named_with_series(show, Rules::Select, context).await?;
    let mut frames = Vec::new();
    for (name, places) in &found {
        let mut fields = BTreeSet::new();
        for measurement in places {
            let own = measurement.fields();
            fields.extend(own.iter().map(|field| (field.name.clone(), field.field_type.name())));
        }
        let fields = page(fields.into_iter().collect(), show.limit, show.offset);
        if !fields.is_empty() {
            let names = text_column(fields.iter().map(|(name, _)| name));
            let types = text_column(fields.iter().map(|(_, field_type)| *field_type));
            frames.push(table(name, vec![("fieldKey", names), ("fieldType", types)]));
        }
    }
    Ok(Answer::Rows(frames, Chunks::BySize))
}
