//! Which rows of a batch are rejected, and what the error says. The rules are InfluxDB's, because clients match on its
//! words and counts.
//!
//! First, rows outside of the times of the retention policy are left out. Of the others, single rows are rejected if
//! they would create a series or a name and may not, have a tag called `time`, have no field but `time`, have a string
//! that is too long for the store, or have a field of another type than in their shard. If a field that is
//! new in a shard then still has two types, nothing is stored in that shard.

use super::new_names::NewNames;
use super::new_series::NoSeries;
use super::{Dropped, WriteReport, field_type};
use crate::catalog::{FieldType, Measurement, ShardStarts};
use crate::ingest::{FieldColumn, FieldValues, RowGroup, UNRESOLVED_SERIES};
use arrow_buffer::BooleanBuffer;
use nyala_core::time::partition_time;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowOutcome {
    Stored,
    Expired,
    Dropped,
    Conflict,
}

/// The outcomes of the rows of a group; `None`: all are stored.
type Outcomes = Option<Vec<RowOutcome>>;

/// The phase in which a rule is applied. Errors of an earlier phase are reported first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Series,
    Fields,
}

/// The most shards of one batch, not counting one per measurement. Each shard costs memory, and a file when it is
/// flushed.
const SHARDS_MAX: usize = 4096;

/// The rejected rows of a batch.
pub(super) struct RejectedRows {
    /// The first and last time that may be written.
    writable_ns: Option<(i64, i64)>,
    /// Why rows without a series could get none, if memory, ids or a quota have run out. Otherwise their tags are invalid.
    no_series_reason: Option<NoSeries>,
    /// The most bytes that the store keeps in a cell.
    cell_bytes_max: usize,
    groups: Vec<Outcomes>,
    /// Where the shards of each group begin; `None` if its measurement does not exist.
    starts: Vec<Option<ShardStarts>>,
    /// The phase, line and message of the first rejected row.
    first: Option<(Phase, u32, String)>,
    /// The starts of the shards in which nothing is stored.
    conflicting: BTreeSet<i64>,
    /// The number of shards in which measurements have rows, beyond one each.
    shards: usize,
}

/// A field of a group.
struct Field<'a> {
    column: &'a FieldColumn,
    name: Cow<'a, str>,
    here: FieldType,
}

impl RejectedRows {
    pub(super) fn new(
        writable_ns: Option<(i64, i64)>,
        no_series_reason: Option<NoSeries>,
        cell_bytes_max: usize,
    ) -> Self {
        Self {
            writable_ns,
            no_series_reason,
            cell_bytes_max,
            groups: Vec::new(),
            starts: Vec::new(),
            first: None,
            conflicting: BTreeSet::new(),
            shards: 0,
        }
    }

    /// Rejects the rows of the next group: its measurement does not exist and may not be created.
    pub(super) fn reject_all(&mut self, group: &RowGroup, names: &NewNames) {
        self.begin(group, None);
        let message = || {
            let name = String::from_utf8_lossy(group.measurement());
            names.measurement_message(&name)
        };
        self.reject_rows(group, None, |_| true, Phase::Series, message);
    }

    /// Starts the next group, and leaves out rows outside of the times of the retention policy.
    fn begin(&mut self, group: &RowGroup, starts: Option<ShardStarts>) {
        self.groups.push(None);
        self.starts.push(starts);
        if let Some((first_ns, last_ns)) = self.writable_ns {
            let beyond = |row: &usize| !(first_ns..=last_ns).contains(&group.times_ns[*row]);
            let mut rows = (0..group.row_count()).filter(beyond).peekable();
            if rows.peek().is_some() {
                let outcomes = self.outcomes(group);
                rows.for_each(|row| outcomes[row] = RowOutcome::Expired);
            }
        }
    }

    /// Checks the rows of the next group.
    pub(super) fn check(
        &mut self,
        group: &RowGroup,
        measurement: &Measurement,
        starts: &ShardStarts,
        names: &mut NewNames,
    ) {
        self.begin(group, Some(starts.clone()));
        if group.series_ids.contains(&UNRESOLVED_SERIES) {
            let no_series_reason = self.no_series_reason.clone();
            let message = || {
                let place = described(measurement);
                if let Some(reason) = &no_series_reason {
                    return reason.message(&place);
                }
                format!("invalid tag key: input tag \"time\" on {place} is invalid")
            };
            self.reject_rows(
                group,
                None,
                |row| group.series_ids[row] == UNRESOLVED_SERIES,
                Phase::Series,
                message,
            );
        }
        let fields: Vec<Field<'_>> = group
            .columns
            .iter()
            .filter(|column| column.name() != b"time")
            .map(|column| Field {
                column,
                name: String::from_utf8_lossy(column.name()),
                here: field_type(column.kind()),
            })
            .collect();
        if fields.len() < group.columns.len() {
            let message = || {
                let name = measurement.name();
                format!("invalid field name: input field \"time\" on measurement \"{name}\" is invalid")
            };
            let only_time = |row| !fields.iter().any(|field| field.column.is_present(row));
            self.reject_rows(group, None, only_time, Phase::Fields, message);
        }
        self.check_lengths(group, measurement, &fields);
        self.check_types(group, measurement, starts, &fields, names);
    }

    fn check_lengths(&mut self, group: &RowGroup, measurement: &Measurement, fields: &[Field<'_>]) {
        /// A byte that is not UTF-8 is stored as a character of three bytes.
        const GROWTH: usize = 3;
        let cell_bytes_max = self.cell_bytes_max;
        for field in fields {
            let FieldValues::String(strings) = field.column.values() else { continue };
            if strings.bytes.len() <= cell_bytes_max / GROWTH {
                continue;
            }
            let is_too_long = |row| {
                let string: &[u8] = strings.get(row);
                string.len() > cell_bytes_max / GROWTH
                    && String::from_utf8_lossy(string).len() > cell_bytes_max
            };
            let message = || {
                let (field, name) = (&field.name, measurement.name());
                format!("field \"{field}\" on measurement \"{name}\" is longer than {cell_bytes_max} bytes")
            };
            self.reject_rows(group, None, is_too_long, Phase::Fields, message);
        }
    }

    fn check_types(
        &mut self,
        group: &RowGroup,
        measurement: &Measurement,
        starts: &ShardStarts,
        fields: &[Field<'_>],
        names: &mut NewNames,
    ) {
        let bounds = group
            .times_ns
            .iter()
            .fold((i64::MAX, i64::MIN), |(least, most), time_ns| (least.min(*time_ns), most.max(*time_ns)));
        let first = starts.range_of(bounds.0);
        if first.contains(partition_time(bounds.1)) {
            return self.check_shard(first.start_ns, None, group, measurement, fields, names);
        }
        let mut rows_of: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let outcomes = self.groups.last().and_then(Option::as_ref);
        for (row, time_ns) in group.times_ns.iter().enumerate() {
            if outcomes.is_none_or(|outcomes| outcomes[row] == RowOutcome::Stored) {
                rows_of.entry(starts.start_of(*time_ns)).or_default().push(row);
            }
        }
        for (number, (start_ns, rows)) in rows_of.into_iter().enumerate() {
            self.shards += usize::from(number > 0);
            if self.shards > SHARDS_MAX {
                let message =
                    || format!("points in more than {SHARDS_MAX} shards: write them in several requests");
                self.reject_rows(group, Some(&rows), |_| true, Phase::Fields, message);
                continue;
            }
            self.check_shard(start_ns, Some(&rows), group, measurement, fields, names);
        }
    }

    /// Checks the types of fields in one shard. `rows` are the rows in it; `None` means all rows of the group.
    fn check_shard(
        &mut self,
        start_ns: i64,
        rows: Option<&[usize]>,
        group: &RowGroup,
        measurement: &Measurement,
        fields: &[Field<'_>],
        names: &mut NewNames,
    ) {
        for field in fields {
            let known = measurement.fixed_type(&field.name);
            let Some(known) = known.or_else(|| measurement.shard_type(start_ns, &field.name)) else {
                continue;
            };
            if known == field.here {
                continue;
            }
            let message = || {
                format!(
                    "field type conflict: input field \"{}\" on measurement \"{}\" is type {}, already exists as type {}",
                    field.name,
                    measurement.name(),
                    field.here.name(),
                    known.name()
                )
            };
            self.reject_rows(group, rows, |row| field.column.is_present(row), Phase::Fields, message);
        }
        let is_new = |field: &&Field<'_>| {
            measurement.shard_type(start_ns, &field.name).is_none()
                && measurement.fixed_type(&field.name).is_none_or(|fixed| fixed == field.here)
        };
        let new: Vec<&Field<'_>> = fields.iter().filter(is_new).collect();
        for field in &new {
            if !names.admits_field(measurement, &field.name, field.here) {
                let message = || {
                    let name = measurement.name();
                    names.message(&format!("field \"{}\" on measurement \"{name}\"", field.name))
                };
                self.reject_rows(group, rows, |row| field.column.is_present(row), Phase::Fields, message);
            }
        }
        // If a field has several types, that of the first row counts.
        let mut new: Vec<(usize, &Field<'_>)> =
            new.into_iter().filter_map(|field| Some((self.first_row(field, rows, group)?, field))).collect();
        new.sort_by_key(|(row, _)| *row);
        for (_, field) in new {
            if measurement.claim_shard_type(start_ns, &field.name, field.here) != field.here {
                self.conflicting.insert(start_ns);
            }
        }
    }

    /// The first stored row that has a field.
    fn first_row(&self, field: &Field<'_>, rows: Option<&[usize]>, group: &RowGroup) -> Option<usize> {
        let outcomes = self.groups.last().and_then(Option::as_ref);
        let is_first = |row: &usize| {
            outcomes.is_none_or(|outcomes| outcomes[*row] == RowOutcome::Stored)
                && field.column.is_present(*row)
        };
        match rows {
            Some(rows) => rows.iter().copied().find(is_first),
            None => (0..group.row_count()).find(is_first),
        }
    }

    fn outcomes(&mut self, group: &RowGroup) -> &mut Vec<RowOutcome> {
        let outcomes = self.groups.last_mut().expect("a group is being checked");
        outcomes.get_or_insert_with(|| vec![RowOutcome::Stored; group.row_count()])
    }

    fn reject_rows(
        &mut self,
        group: &RowGroup,
        rows: Option<&[usize]>,
        is_bad: impl Fn(usize) -> bool,
        phase: Phase,
        message: impl Fn() -> String,
    ) {
        let outcomes = self.outcomes(group);
        let mut first = None;
        let mut judge = |row: usize| {
            if outcomes[row] == RowOutcome::Stored && is_bad(row) {
                outcomes[row] = RowOutcome::Dropped;
                first.get_or_insert(group.lines[row]);
            }
        };
        match rows {
            Some(rows) => rows.iter().for_each(|row| judge(*row)),
            None => (0..group.row_count()).for_each(judge),
        }
        let Some(line) = first else { return };
        if self.first.as_ref().is_none_or(|(known, before, _)| (phase, line) < (*known, *before)) {
            self.first = Some((phase, line, message()));
        }
    }

    /// Adds the rejected rows to the report. Returns per group which rows are stored; `None` means all.
    pub(super) fn finish<'a>(
        mut self,
        groups: impl Iterator<Item = &'a RowGroup>,
        report: &mut WriteReport,
    ) -> Vec<Option<BooleanBuffer>> {
        if !self.conflicting.is_empty() {
            report.conflict = true;
            for ((group, outcomes), starts) in groups.zip(&mut self.groups).zip(&self.starts) {
                let Some(starts) = starts else { continue };
                let outcomes = outcomes.get_or_insert_with(|| vec![RowOutcome::Stored; group.row_count()]);
                for (outcome, time_ns) in outcomes.iter_mut().zip(&group.times_ns) {
                    if *outcome == RowOutcome::Stored && self.conflicting.contains(&starts.start_of(*time_ns))
                    {
                        *outcome = RowOutcome::Conflict;
                    }
                }
            }
        }
        let count = |outcome: RowOutcome| {
            self.groups.iter().flatten().flatten().filter(|other| **other == outcome).count() as u64
        };
        report.expired += count(RowOutcome::Expired);
        let dropped = count(RowOutcome::Dropped);
        match (&mut report.dropped, self.first.take()) {
            (Some(before), _) => before.count += dropped,
            (none, Some((_, _, reason))) => *none = Some(Dropped { reason, count: dropped }),
            (None, None) => {}
        }
        let keep = |outcomes: Vec<RowOutcome>| {
            BooleanBuffer::collect_bool(outcomes.len(), |row| outcomes[row] == RowOutcome::Stored)
        };
        self.groups.into_iter().map(|outcomes| outcomes.map(keep)).collect()
    }
}

/// A measurement in an error message. A group has many metrics, and it is not known here which one was meant.
fn described(measurement: &Measurement) -> String {
    match measurement.is_group() {
        true => "a metric".to_owned(),
        false => format!("measurement \"{}\"", measurement.name()),
    }
}
