//! Taking a change of points back.
//!
//! The store shows what was just before the change and just after it, and what is there now. Three scans go over the three
//! side by side (`part`). A cell is restored only if its value is still the one that the change left. Otherwise somebody
//! changed it later, and it stays. What is put back (`put_back`) is collected in a stage and becomes visible at once. Writers
//! of the measurements wait meanwhile. It is a change of its own, which can be taken back, too.
//!
//! Points that come back bring their series with them (`lost_series`).

mod lost_series;
mod part;
mod put_back;
mod rows;

use crate::catalog::{Catalog, Measurement, SeriesTable};
use crate::changes::{Author, Change, ChangeId, ChangedPart};
use crate::series::TagFilter;
use lost_series::LostSeries;
use nyala_core::store::{Stage, WriteBatch};
use nyala_core::{Error, ErrorKind, Result, Sequence, TimeRange, before_long_work};
use part::PartUndo;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Under which conditions a change is taken back.
pub struct UndoWork<'a> {
    /// Who takes it back; `None`: dry run, which only counts what would be put back.
    pub author: Option<&'a Author>,
    /// No series are made once the indexes take so many bytes.
    pub series_limit_bytes: usize,
    /// Fails if the statement must stop.
    pub check: &'a (dyn Fn() -> Result<()> + Send + Sync),
}

/// What was put back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Undone {
    /// Id of the change that this undo records.
    pub id: Option<ChangeId>,
    /// Points that got something back, or are deleted again.
    pub points: u64,
    /// Cells that got back what they had.
    pub cells: u64,
    /// Cells that somebody has changed since.
    pub left_alone: u64,
}

/// A part of a change, while it is taken back.
struct Undoing {
    part: ChangedPart,
    measurement: Arc<Measurement>,
    outcome: part::Outcome,
}

impl Catalog {
    /// Takes a change back.
    ///
    /// # Errors
    /// Missing if what was before is no longer known, or if a measurement was dropped. Conflict if a shard was dropped
    /// meanwhile. After an error nothing is changed.
    pub async fn undo(&self, change: &Change, work: &UndoWork<'_>) -> Result<Undone> {
        before_long_work().await;
        let mut parts = self.parts_of(change).await?;
        parts.sort_by_key(|part| part.table);
        let (mut undoing, mut pins) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            let measurement = self.measurement_in(part.table, &part.measurement).await?;
            pins.push(self.reload_series(&measurement, part.time, &TagFilter::All).await?);
            undoing.push(Undoing { part, measurement, outcome: part::Outcome::default() });
        }
        let mut locks = BTreeMap::new();
        for Undoing { part, measurement, .. } in &undoing {
            if let Entry::Vacant(place) = locks.entry(part.table) {
                place.insert(measurement.stored().table_lock().lock_exclusive().await);
            }
            if measurement.was_dropped() {
                return Err(Error::missing(format!("measurement {:?} was dropped", measurement.name())));
            }
        }
        let mut stage = self.store().stage().await?;
        let mut lost_series = Vec::new();
        for of_table in undoing.chunk_by_mut(|a, b| a.part.table == b.part.table) {
            let mut lost = LostSeries::default();
            for Undoing { part, measurement, outcome } in &mut *of_table {
                let undo = PartUndo::new(self, measurement, part, work, &mut lost).await?;
                *outcome = undo.run(&mut *stage).await?;
            }
            lost_series.push((of_table[0].measurement.stored().clone(), lost));
        }
        let mut undone = Undone::default();
        for Undoing { outcome, .. } in &undoing {
            undone.points += outcome.points;
            undone.cells += outcome.cells;
            undone.left_alone += outcome.left_alone;
        }
        let Some(author) = work.author else { return Ok(undone) };
        if undone.points == 0 {
            return Ok(undone);
        }
        (work.check)()?;
        let sequence = self.commit_undo(stage, &undoing, &lost_series).await?;
        let parts: Vec<ChangedPart> =
            undoing.iter().filter_map(|undoing| undoing.changed(sequence)).collect();
        undone.id = self.note_change(author, Some(undone.points), &parts).await?;
        for Undoing { measurement, outcome, .. } in &undoing {
            if let Some(time) = outcome.time.filter(|_| !outcome.deleted.is_empty()) {
                self.remove_empty(measurement, &outcome.deleted, time).await?;
            }
        }
        Ok(undone)
    }

    /// Makes everything visible, together with the records of series and fields that come back.
    async fn commit_undo(
        &self,
        mut stage: Box<dyn Stage>,
        undoing: &[Undoing],
        lost_series: &[(Arc<SeriesTable>, LostSeries)],
    ) -> Result<Sequence> {
        let (mut created, mut taken) = (Vec::new(), Vec::new());
        let committed = async {
            for (table, lost) in lost_series {
                created.push((table, lost.create(self, table)?));
            }
            for of_table in undoing.chunk_by(|a, b| a.part.table == b.part.table) {
                let table = of_table[0].measurement.stored();
                let mut written = RoaringBitmap::new();
                for Undoing { measurement, outcome, .. } in of_table {
                    outcome.claim_types(measurement);
                    written |= &outcome.written;
                }
                table.reactivate_all(&written);
                let records = table.unsaved_records(written.iter());
                let operations = records.operations(self.series_records());
                if !operations.is_empty() {
                    stage.write(WriteBatch { operations }).await?;
                }
                taken.push((table, records));
            }
            stage.commit().await
        };
        match committed.await {
            Ok(sequence) => {
                taken.iter().for_each(|(table, records)| table.saved(records));
                Ok(sequence)
            }
            Err(error) => {
                // Unknown: the stage may be committed, so its series stay.
                if error.kind() != ErrorKind::Unknown {
                    for (table, created) in &created {
                        self.remove_series(table, created).await?;
                    }
                }
                Err(match error.kind() {
                    ErrorKind::Conflict => error.context("nothing was put back, try again"),
                    _ => error,
                })
            }
        }
    }
}

impl Undoing {
    /// What was changed by taking it back.
    fn changed(&self, sequence: Sequence) -> Option<ChangedPart> {
        let time: TimeRange = self.outcome.time?;
        let series = self.outcome.written.clone() | &self.outcome.deleted;
        let part = self.measurement.changed_part(sequence, series, time);
        Some(match &self.part.columns {
            Some(columns) => part.of_columns(columns.clone()),
            None => part,
        })
    }
}
