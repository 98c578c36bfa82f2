//! Writing a body as a whole: all of its points, which become visible at once, or none.
//!
//! What fits into one batch is written as one. More is collected in a stage, and the tables stay locked until it is committed,
//! so that no series is removed meanwhile. Records of new series are not staged; if nothing is written in the end, series that
//! have no points are removed again.

use super::{Form, LineWriter, WriteReport};
use crate::catalog::{Catalog, Measurement, TableLocks};
use crate::ingest::{ParseOptions, ParsedBatch, UNRESOLVED_SERIES};
use nyala_core::store::Stage;
use nyala_core::{Error, ErrorKind, Result, TableId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a body is written again because somebody else has written one of its points meanwhile.
const TRIES: u32 = 8;

/// A body that is written as a whole.
#[derive(Default)]
pub(super) struct WholeWrite {
    stage: Option<Box<dyn Stage>>,
    /// The series of its points so far.
    series: BTreeMap<TableId, (Arc<Measurement>, RoaringBitmap)>,
}

impl LineWriter {
    /// Writes all points of a body, which become visible at once; or none, if one of them is not stored: then the report
    /// says why.
    ///
    /// # Errors
    /// Unsupported, if the body does not fit into one batch and the store has no stages. Conflict, if others write the same
    /// points again and again.
    pub async fn write_whole(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
    ) -> Result<WriteReport> {
        let mut tries = 0;
        loop {
            let mut whole = Some(WholeWrite::default());
            let result = self.write_batches(database, policy, options, body, Form::Lines, &mut whole).await;
            if !is_tried_again(&result, &mut tries) {
                self.counts.note(&result);
                return result;
            }
        }
    }
}

/// Whether a write is tried once more, which is counted: somebody else has written one of its points meanwhile.
pub(super) fn is_tried_again(result: &Result<WriteReport>, tries: &mut u32) -> bool {
    let is_conflict = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict);
    let again = is_conflict && *tries < TRIES;
    *tries += u32::from(again);
    again
}

/// Waits until tables can be locked that cannot be locked beside those of earlier batches; the caller holds no locks any more.
/// Series of the earlier batches may be removed meanwhile, or their shards get another width, so the write begins anew:
/// the error says so.
pub(super) async fn begun_anew(measurements: &[Arc<Measurement>]) -> Error {
    drop(TableLocks::lock(measurements).await);
    Error::conflict(
        "measurements of the write are deleted from or altered again and again: send it again later",
    )
}

impl WholeWrite {
    /// Begins a batch, whose series are known. `has_more`: others follow.
    pub(super) async fn begin_batch(
        &mut self,
        catalog: &Catalog,
        batch: &ParsedBatch,
        measurements: &[Option<Arc<Measurement>>],
        has_more: bool,
    ) -> Result<()> {
        for (group, measurement) in batch.groups().zip(measurements) {
            let Some(measurement) = measurement else { continue };
            let (_, series) = self
                .series
                .entry(measurement.table())
                .or_insert_with(|| (measurement.clone(), RoaringBitmap::new()));
            series.extend(group.series_ids.iter().filter(|id| **id != UNRESOLVED_SERIES));
        }
        if has_more && self.stage.is_none() {
            self.stage = Some(catalog.store().stage().await?);
        }
        Ok(())
    }

    /// Where the batch is written to, unless that is the store.
    pub(super) fn stage(&mut self) -> Option<&mut Box<dyn Stage>> {
        self.stage.as_mut()
    }

    pub(super) fn is_staged(&self) -> bool {
        self.stage.is_some()
    }

    /// Makes everything visible.
    pub(super) async fn commit(&mut self) -> Result<()> {
        match self.stage.take() {
            Some(stage) => stage.commit().await.map(drop),
            None => Ok(()),
        }
    }

    /// Writes nothing. The tables are no longer locked.
    pub(super) async fn give_up(&mut self, catalog: &Catalog, report: WriteReport) -> Result<WriteReport> {
        self.stage = None;
        // Other servers may be about to write the same series.
        if !catalog.is_shared() {
            for (measurement, series) in std::mem::take(&mut self.series).into_values() {
                if !series.is_empty() && !measurement.was_dropped() {
                    let _excluded = catalog.exclude_writers(&measurement).await?;
                    catalog.remove_empty(&measurement, &series, TimeRange::ALL).await?;
                }
            }
        }
        Ok(WriteReport { written: 0, ..report })
    }
}
