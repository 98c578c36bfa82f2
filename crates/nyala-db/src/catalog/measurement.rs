//! A measurement: a name, and points of some series of a table, its own or one that many share.
//!
//! Line protocol gives a measurement a table of its own. The metrics of Prometheus are thousands of names with a single
//! field: they are members of a *group*, one table for each retention policy. In the index of a group the tag `__name__`
//! says of which measurement a series is, as Prometheus writes it; where it says otherwise a series has a tag more, under the
//! empty key, which nobody can write. So a metric costs no more than a series does. Whoever reads a member sees its series
//! only ([`SeriesView`]), and never the tag that nobody wrote.
//!
//! In a group the field `value` is a float, in all shards that have any. Points that come to a member by line protocol may
//! bring other fields: their types stand under the member's name and theirs.

use super::field::{Field, FieldType, find};
use super::series_table::SeriesTable;
use super::series_view::{MEMBER_KEY, METRIC_KEY, SeriesView};
use crate::series::TagFilter;
use nyala_core::store::{PartitionInfo, RowStream, ScanRequest, SnapshotRef};
use nyala_core::{ColumnId, Result, TableId, TimeRange};
use roaring::RoaringBitmap;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A measurement of one retention policy of one database.
pub struct Measurement {
    name: String,
    stored: Arc<SeriesTable>,
    share: Share,
    /// It was dropped, though its table was not. Changes only while the table's membership is owned.
    ended: AtomicBool,
}

/// What of a table a measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// All of it.
    Whole,
    /// One of the members of a group.
    Member,
    /// The group, as samples are written to it: each series tells its member.
    Group,
}

/// The field that all members of a group have, a float.
const GROUP_FIELD: &str = "value";

impl Measurement {
    /// What a member of a group takes in memory besides its name, its series and its tables, about.
    pub(super) const MEMBER_BYTES: usize = 144;

    /// One with a table of its own.
    pub(super) fn whole(name: String, stored: Arc<SeriesTable>) -> Self {
        Self { name, stored, share: Share::Whole, ended: AtomicBool::new(false) }
    }

    /// The group that a table holds.
    pub(super) fn group(stored: Arc<SeriesTable>) -> Self {
        Self { name: String::new(), stored, share: Share::Group, ended: AtomicBool::new(false) }
    }

    /// A member of a group.
    pub(super) fn member(name: String, stored: Arc<SeriesTable>) -> Self {
        Self { name, stored, share: Share::Member, ended: AtomicBool::new(false) }
    }

    /// Its name; empty of a group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table in the store where its points are.
    pub fn table(&self) -> TableId {
        self.stored.table()
    }

    /// What is kept of the table where its points are.
    pub(crate) fn stored(&self) -> &Arc<SeriesTable> {
        &self.stored
    }

    /// Whether it is no more: its name may stand for another. Does not change while its membership is shared.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.stored.membership().has_ended()
    }

    /// It was dropped, by who owns the membership.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the points of others are in its table too.
    pub fn is_member(&self) -> bool {
        self.share == Share::Member
    }

    /// Whether it is a group, whose series tell their members.
    pub(crate) fn is_group(&self) -> bool {
        self.share == Share::Group
    }

    /// Its series, once they are loaded.
    pub fn series(&self) -> SeriesView<'_> {
        SeriesView::new(self.stored.series(), self.is_member().then_some(&*self.name))
    }

    /// A condition on tags as the index of its table has to be asked.
    pub(crate) fn within<'a>(&self, tags: &'a TagFilter) -> Cow<'a, TagFilter> {
        if !self.is_member() {
            return Cow::Borrowed(tags);
        }
        let is = |key: &str, value: &str| TagFilter::Equal(key.to_owned(), value.to_owned());
        let by_metric = TagFilter::And(vec![is(METRIC_KEY, &self.name), is(MEMBER_KEY, "")]);
        let own = TagFilter::Or(vec![is(MEMBER_KEY, &self.name), by_metric]);
        Cow::Owned(TagFilter::And(vec![own, tags.without(MEMBER_KEY).into_owned()]))
    }

    /// The tags under which the index of its table has a series, given those of a point; `metric`: the name in the line.
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

    /// How many series it has, in memory or not; of a member those in memory.
    pub fn count_series(&self) -> usize {
        match self.is_member() {
            true => self.series().len(),
            false => self.stored.count_series(),
        }
    }

    /// Whether it has a series, or may have one that is not in memory.
    pub fn has_series(&self) -> bool {
        self.count_series() > 0 || self.is_partly_known()
    }

    /// How many series it has, if they are loaded.
    pub(crate) fn series_count(&self) -> Option<usize> {
        self.stored.is_loaded().then(|| self.count_series())
    }

    /// Bytes it takes in memory, about: a member of a group without what the group takes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self.is_member() {
            true => Self::MEMBER_BYTES + self.name.len(),
            false => self.stored.memory_bytes(),
        }
    }

    /// Whether a series of it has a tag key. Of a member whose series are not all in memory: whether one may have it.
    pub fn has_tag_key(&self, key: &str) -> bool {
        self.series().has_key(key) || key != MEMBER_KEY && self.stored.idle().lock().has_key(key)
    }

    /// The tag keys of its series, sorted; of a member those of its series in memory.
    pub fn tag_keys(&self) -> Vec<String> {
        if !self.is_member() {
            return self.stored.tag_keys();
        }
        let series = self.series();
        series.keys_of(&series.all()).into_iter().map(str::to_owned).collect()
    }

    /// Whether it is a member of a group whose series are not all in memory: how many it has and their tag keys are only
    /// known of those that are.
    pub fn is_partly_known(&self) -> bool {
        self.is_member() && self.stored.has_away()
    }

    /// Its range partitions. One that was dropped has none.
    pub async fn partitions(&self) -> Vec<PartitionInfo> {
        self.stored.partitions().await
    }

    /// A scan of some rows of it as of a snapshot; `None`: the snapshot does not have its table, or a column.
    pub async fn scan(
        &self,
        snapshot: &SnapshotRef,
        request: ScanRequest,
    ) -> Result<Option<Box<dyn RowStream>>> {
        self.stored.scan(snapshot, request).await
    }

    /// The shards of a range of times, for [`Self::narrow`]; `None` where that would do nothing.
    pub async fn shards_within(&self, time: TimeRange) -> Option<Vec<TimeRange>> {
        self.stored.shards_within(time).await
    }

    /// Leaves those of some series that may have points in some shards, where there are so many that looking for rows of
    /// all of them costs more than that.
    pub fn narrow(&self, ids: &mut RoaringBitmap, shards: Option<&[TimeRange]>) {
        self.stored.narrow(ids, shards);
    }

    /// Its fields by name, then type. A name is there once per type it has in some shard.
    pub fn fields(&self) -> Arc<Vec<Field>> {
        match self.is_member() {
            true => self.stored.fields_of_member(&self.name),
            false => self.stored.fields(),
        }
    }

    /// Its fields as of the shards that hold times from `first_ns` to `last_ns`.
    pub async fn fields_between(&self, first_ns: i64, last_ns: i64) -> Result<Arc<Vec<Field>>> {
        let member = self.is_member().then_some(&*self.name);
        self.stored.fields_between(member, first_ns, last_ns).await
    }

    /// The columns of fields; `None`: no shard has one of them yet.
    pub(crate) fn shown_columns(&self, wanted: &[(String, FieldType)]) -> Option<Vec<ColumnId>> {
        let fields = self.fields();
        wanted.iter().map(|(name, field_type)| find(&fields, name, *field_type)).collect()
    }

    /// Takes note that some shard has these fields, which have columns.
    pub(crate) fn show_fields(&self, fields: &[(String, FieldType)]) {
        // Those of members are looked up in the types of shards.
        let fields = fields.iter().filter(|(name, _)| !self.is_member() || name == GROUP_FIELD);
        self.stored.show_fields(fields);
    }

    /// The type a field has in a shard, if it has any there.
    pub(crate) fn shard_type(&self, shard_start_ns: i64, field: &str) -> Option<FieldType> {
        self.stored.shard_type(self.owner_of(field), shard_start_ns, field)
    }

    /// The type a field has in a shard; the one given if the field is new there.
    pub(crate) fn claim_shard_type(
        &self,
        shard_start_ns: i64,
        field: &str,
        field_type: FieldType,
    ) -> FieldType {
        self.stored.claim_shard_type(self.owner_of(field), shard_start_ns, field, field_type)
    }

    /// The type that a field has in every shard, whether that has it already or not.
    pub(crate) fn fixed_type(&self, field: &str) -> Option<FieldType> {
        (self.share != Share::Whole && field == GROUP_FIELD).then_some(FieldType::Float)
    }

    /// The member of a group that has a field for itself.
    fn owner_of(&self, field: &str) -> Option<&str> {
        (self.is_member() && field != GROUP_FIELD).then_some(&*self.name)
    }
}
