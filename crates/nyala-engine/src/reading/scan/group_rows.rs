//! The rows of a group that need not be merged with others: which of them a request leaves, and their columns.

use super::filter::test;
use super::pending_batch::{KeyColumns, PendingBatch};
use super::scan_spec::{ColumnSource, ResolvedPrefilter, ScanSpec};
use crate::files::rowset::keyed_group::KeyedGroup;
use crate::rows::column_buffer::{Column, Kind, VALUE, Values};
use crate::rows::merge::DELETED;
use nyala_core::{ColumnType, Result};

/// The most groups for which a prefilter is not asked again.
const PAUSE_GROUPS_MAX: u32 = 64;

/// Whether a prefilter is worth being asked: not for a while, longer each time, after it left nearly all rows of a group.
#[derive(Default)]
pub(super) struct Usefulness {
    groups_left_out: u32,
    next_pause_groups: u32,
}

impl Usefulness {
    fn asks(&mut self) -> bool {
        let asks = self.groups_left_out == 0;
        self.groups_left_out = self.groups_left_out.saturating_sub(1);
        asks
    }

    fn learn(&mut self, kept: usize, rows: usize) {
        let was_useful = kept * 8 <= rows * 7;
        self.next_pause_groups =
            if was_useful { 0 } else { (self.next_pause_groups * 2).clamp(1, PAUSE_GROUPS_MAX) };
        self.groups_left_out = self.next_pause_groups;
    }
}

/// Rows of a group, tested.
pub(super) struct GroupRows<'a> {
    group: KeyedGroup<'a>,
    /// The first columns of the projection, of all rows.
    tested: Vec<Column>,
    /// The rows that are left, ascending; nothing if all are.
    kept: Option<Vec<u32>>,
}

impl<'a> GroupRows<'a> {
    /// Reads and tests what conditions look at.
    pub(super) fn of(
        group: KeyedGroup<'a>,
        spec: &ScanSpec,
        key_types: &[ColumnType],
        usefulness: &mut Usefulness,
    ) -> Result<Self> {
        let rows = group.rows();
        let prefilter = spec.prefilter.as_ref().filter(|_| usefulness.asks());
        let mut keys = KeyColumns::new(key_types, |position| is_tested(spec, prefilter, position));
        if !keys.is_empty() {
            group.each_key(0..rows, |key| keys.push(key))?;
        }
        let mut tested = spec.projection.empty_columns(prefilter.map_or(spec.tested, |own| own.cells));
        for (column, values) in tested.iter_mut().enumerate() {
            group.decode(column, 0..rows, values)?;
        }
        let key = |position: usize| keys.column(position).clone();
        let mut keep = test(spec, rows as usize, &tested, key);
        leave_out_deleted(&group, &mut keep)?;
        if let Some(own) = prefilter
            && let Some(useful) = own.keep(&tested, key)?
        {
            usefulness.learn(useful.count_set_bits(), rows as usize);
            let keep = keep.get_or_insert_with(|| vec![true; rows as usize]);
            keep.iter_mut().zip(&useful).for_each(|(keep, useful)| *keep &= useful);
        }
        let kept = keep.map(|keep| (0..rows).filter(|row| keep[*row as usize]).collect());
        Ok(Self { group, tested, kept })
    }

    /// Appends the first of the rows that are left. Returns how many.
    pub(super) fn append_to(mut self, pending: &mut PendingBatch<'_>, most: usize) -> Result<usize> {
        let added = match &mut self.kept {
            None => {
                let taken = 0..self.group.rows().min(u32::try_from(most).unwrap_or(u32::MAX));
                for (column, values) in pending.columns.iter_mut().enumerate() {
                    match self.tested.get(column) {
                        Some(tested) => values.extend(tested, 0..taken.len()),
                        None => self.group.decode(column, taken.clone(), values)?,
                    }
                }
                self.append_keys(pending, taken.clone())?;
                taken.len()
            }
            Some(kept) => {
                kept.truncate(most);
                // Nothing is read for no row.
                let kept = std::mem::take(kept);
                for (column, values) in pending.columns.iter_mut().enumerate().filter(|_| !kept.is_empty()) {
                    match self.tested.get(column) {
                        Some(tested) => values.extend(&tested.take(&kept), 0..kept.len()),
                        None => self.group.gather(column, &kept, values)?,
                    }
                }
                self.append_keys(pending, kept.iter().copied())?;
                kept.len()
            }
        };
        pending.rows += added;
        Ok(added)
    }

    fn append_keys(&self, pending: &mut PendingBatch<'_>, rows: impl Iterator<Item = u32>) -> Result<()> {
        if pending.keys.is_empty() {
            return Ok(());
        }
        self.group.each_key(rows, |key| pending.keys.push(key))
    }
}

/// Whether conditions look at a column of the key.
fn is_tested(spec: &ScanSpec, prefilter: Option<&ResolvedPrefilter>, position: usize) -> bool {
    let key = ColumnSource::Key(position);
    spec.predicates.iter().any(|(place, ..)| *place == key)
        || prefilter.is_some_and(|own| own.columns.iter().any(|(place, _)| *place == key))
}

fn leave_out_deleted(group: &KeyedGroup<'_>, keep: &mut Option<Vec<bool>>) -> Result<()> {
    if !group.has_deletes()? {
        return Ok(());
    }
    let mut markers = Column::new(Kind::Word);
    group.markers(&mut markers)?;
    let keep = keep.get_or_insert_with(|| vec![true; markers.len()]);
    if let Values::Word(words) = &markers.values {
        let is_deleted = |row: usize| words[row] == u64::from(DELETED) && markers.state(row) == VALUE;
        keep.iter_mut().enumerate().for_each(|(row, keep)| *keep &= !is_deleted(row));
    }
    Ok(())
}
