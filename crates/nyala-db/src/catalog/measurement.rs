//! A measurement: a name, and the points of some series of a table. The table is its own, or many measurements share
//! it.
//!
//! A measurement created by line protocol has a table of its own. The metrics of Prometheus are thousands of names with
//! a single field each, so they are members of a *group*, which is one table per retention policy. In the index of a
//! group, the tag `__name__` says to which measurement a series belongs, as Prometheus writes it. A series whose
//! `__name__` says something else has one more tag, under the empty key, which no client can write. So a metric costs
//! no more than a series. Readers of a member see only its series ([`SeriesView`]), and never the extra tag.
//!
//! In a group the field `value` is a float in every shard. Points that line protocol writes to a member may have other
//! fields. Their types are recorded under the names of the member and the field.

use super::field::{Field, FieldType, find};
use super::series_table::SeriesTable;
use super::series_view::{MEMBER_KEY, METRIC_KEY, SeriesView};
use crate::series::TagFilter;
use nyala_core::store::{PartitionInfo, RowStream, ScanRequest, SnapshotRef};
use nyala_core::{ColumnId, Error, Result, TableId, TimeRange};
use roaring::RoaringBitmap;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A measurement of one retention policy of one database.
pub struct Measurement {
    name: String,
    stored: Arc<SeriesTable>,
    share: Share,
    /// It was dropped, but its table was not. Changes only under the exclusive table lock.
    dropped: AtomicBool,
}

/// Which part of a table a measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// All of it.
    Whole,
    /// One of the members of a group.
    Member,
    /// The group as a whole, as samples are written to it: each series names its member.
    Group,
}

/// The field that all members of a group have. It is a float.
const GROUP_FIELD: &str = "value";

impl Measurement {
    /// The approximate memory of a member of a group besides its name, its series and its table.
    pub(super) const MEMBER_BYTES: usize = 144;

    /// A measurement with a table of its own.
    pub(super) fn whole(name: String, stored: Arc<SeriesTable>) -> Self {
        Self { name, stored, share: Share::Whole, dropped: AtomicBool::new(false) }
    }

    /// The group that a table holds.
    pub(super) fn group(stored: Arc<SeriesTable>) -> Self {
        Self { name: String::new(), stored, share: Share::Group, dropped: AtomicBool::new(false) }
    }

    /// A member of a group.
    pub(super) fn member(name: String, stored: Arc<SeriesTable>) -> Self {
        Self { name, stored, share: Share::Member, dropped: AtomicBool::new(false) }
    }

    /// Its name; empty for a group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table in the store where its points are.
    pub fn table(&self) -> TableId {
        self.stored.table()
    }

    /// What is known of the table where its points are.
    pub(crate) fn stored(&self) -> &Arc<SeriesTable> {
        &self.stored
    }

    /// Whether it was dropped. Another measurement may have its name by now. Does not change while the table lock is
    /// held shared.
    pub fn was_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire) || self.stored.table_lock().was_dropped()
    }

    /// Missing if it was dropped.
    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        match self.was_dropped() {
            true => Err(Error::missing(format!("measurement {:?} was dropped", self.name))),
            false => Ok(()),
        }
    }

    /// Marks it as dropped. The caller holds the table lock exclusively.
    pub(super) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Whether it shares its table with other measurements.
    pub fn is_member(&self) -> bool {
        self.share == Share::Member
    }

    /// Whether it is a group, whose series name their members.
    pub(crate) fn is_group(&self) -> bool {
        self.share == Share::Group
    }

    /// Its series, which must be loaded.
    pub fn series(&self) -> SeriesView<'_> {
        SeriesView::new(self.stored.series(), self.is_member().then_some(&*self.name))
    }

    /// A condition on tags, in the form for the index of its table.
    pub(crate) fn within<'a>(&self, tags: &'a TagFilter) -> Cow<'a, TagFilter> {
        if !self.is_member() {
            return Cow::Borrowed(tags);
        }
        let is = |key: &str, value: &str| TagFilter::Equal(key.to_owned(), value.to_owned());
        let by_metric = TagFilter::And(vec![is(METRIC_KEY, &self.name), is(MEMBER_KEY, "")]);
        let own = TagFilter::Or(vec![is(MEMBER_KEY, &self.name), by_metric]);
        Cow::Owned(TagFilter::And(vec![own, tags.without(MEMBER_KEY).into_owned()]))
    }

    /// Adds to the tags of a point what the index of its table has besides them. `metric`: the name in the line.
    pub(crate) fn stored_tags<'a>(&'a self, tags: &mut Vec<(&'a str, &'a str)>, metric: &'a str) {
        let member = match self.share {
            Share::Whole => return,
            Share::Member => &*self.name,
            Share::Group => metric,
        };
        if !tags.contains(&(METRIC_KEY, member)) {
            tags.insert(0, (MEMBER_KEY, member));
        }
    }

    /// The number of its series, in memory or not; for a member of a group only those in memory.
    pub fn count_series(&self) -> usize {
        match self.is_member() {
            true => self.series().len(),
            false => self.stored.count_series(),
        }
    }

    /// The times of the shards that a range of times touches. `width_ns` is that of new ones.
    pub async fn shards_around(&self, time: TimeRange, width_ns: i64) -> Result<TimeRange> {
        let starts = self.stored.shard_starts(width_ns).await?;
        let last_ns = time.end_ns.saturating_sub(1);
        Ok(TimeRange::new(starts.start_of(time.start_ns), starts.range_of(last_ns).end_ns))
    }

    /// Whether it has a series, or may have an evicted one.
    pub fn has_series(&self) -> bool {
        self.count_series() > 0 || self.has_evicted_series()
    }

    /// The number of its series, if they are loaded.
    pub(crate) fn series_count_if_loaded(&self) -> Option<usize> {
        self.stored.is_loaded().then(|| self.count_series())
    }

    /// The approximate memory that it takes, bytes; for a member without what its group takes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self.is_member() {
            true => Self::MEMBER_BYTES + self.name.len(),
            false => self.stored.memory_bytes(),
        }
    }

    /// Whether one of its series has a tag key. For a member with evicted series: whether one may have it.
    pub fn has_tag_key(&self, key: &str) -> bool {
        self.series().has_key(key) || key != MEMBER_KEY && self.stored.idle().lock().has_key(key)
    }

    /// The tag keys of its series, sorted; for a member only those of series in memory.
    pub fn tag_keys(&self) -> Vec<String> {
        if !self.is_member() {
            return self.stored.tag_keys();
        }
        let series = self.series();
        series.keys_of(&series.all()).into_iter().map(str::to_owned).collect()
    }

    /// Whether it is a member of a group with evicted series: then the number of its series and their tag keys are only
    /// known for series in memory.
    pub fn has_evicted_series(&self) -> bool {
        self.is_member() && self.stored.has_evicted()
    }

    /// Its range partitions; none if it was dropped.
    pub async fn partitions(&self) -> Result<Vec<PartitionInfo>> {
        self.stored.partitions().await
    }

    /// A scan of some of its rows in a snapshot; `None` if the snapshot lacks its table or a column.
    pub async fn scan(
        &self,
        snapshot: &SnapshotRef,
        request: ScanRequest,
    ) -> Result<Option<Box<dyn RowStream>>> {
        self.stored.scan(snapshot, request).await
    }

    /// The shards of a time range, for [`Self::narrow`]; `None` if narrowing would change nothing.
    pub async fn shards_within(&self, time: TimeRange) -> Option<Vec<TimeRange>> {
        self.stored.shards_within(time).await
    }

    /// Removes series that have no points in the given shards, if there are so many series that searching rows of all
    /// would cost more than narrowing.
    pub fn narrow(&self, ids: &mut RoaringBitmap, shards: Option<&[TimeRange]>) {
        self.stored.narrow(ids, shards);
    }

    /// Its fields by name, then type. A field occurs once for each type that it has in some shard.
    pub fn fields(&self) -> Arc<Vec<Field>> {
        match self.is_member() {
            true => self.stored.fields_of_member(&self.name),
            false => self.stored.fields(),
        }
    }

    /// Its fields in the shards that contain times from `first_ns` to `last_ns`.
    pub async fn fields_between(&self, first_ns: i64, last_ns: i64) -> Result<Arc<Vec<Field>>> {
        let member = self.is_member().then_some(&*self.name);
        self.stored.fields_between(member, first_ns, last_ns).await
    }

    /// The columns of fields; `None` if no shard has one of them yet.
    pub(crate) fn shown_columns(&self, wanted: &[(String, FieldType)]) -> Option<Vec<ColumnId>> {
        let fields = self.fields();
        wanted.iter().map(|(name, field_type)| find(&fields, name, *field_type)).collect()
    }

    /// Notes that some shard has these fields, which have columns.
    pub(crate) fn show_fields(&self, fields: &[(String, FieldType)]) {
        // Fields of members are looked up in the types of shards.
        let fields = fields.iter().filter(|(name, _)| !self.is_member() || name == GROUP_FIELD);
        self.stored.show_fields(fields);
    }

    /// The type a field has in a shard, if it has any there.
    pub(crate) fn shard_type(&self, shard_start_ns: i64, field: &str) -> Option<FieldType> {
        self.stored.shard_type(self.owner_of(field), shard_start_ns, field)
    }

    /// The type of a field in a shard. If the field is new there, it gets the given type.
    pub(crate) fn claim_shard_type(
        &self,
        shard_start_ns: i64,
        field: &str,
        field_type: FieldType,
    ) -> FieldType {
        self.stored.claim_shard_type(self.owner_of(field), shard_start_ns, field, field_type)
    }

    /// The type that a field must have in every shard, if it is fixed.
    pub(crate) fn fixed_type(&self, field: &str) -> Option<FieldType> {
        (self.share != Share::Whole && field == GROUP_FIELD).then_some(FieldType::Float)
    }

    /// The member that has a field for itself, if the field belongs to one member of a group.
    fn owner_of(&self, field: &str) -> Option<&str> {
        (self.is_member() && field != GROUP_FIELD).then_some(&*self.name)
    }
}
