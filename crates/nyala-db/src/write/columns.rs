//! Writing columns of points that were read from the files of another database, without lines in between.
//!
//! The rules are the same as for lines, and so is the way from the parsed batch on. Nobody else removes series meanwhile,
//! so locks are held from the start of each batch to its end.

use super::{BatchWrite, Form, LineWriter, NewNames, WriteReport, reload_evicted};
use crate::catalog::{Measurement, TableLocks};
use crate::ingest::{ColumnRows, FieldSlice, ParsedBatch, SeriesCache, SeriesCacheLimits};
use nyala_core::store::Feature;
use nyala_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of columns that are collected for a batch.
#[derive(Debug)]
pub struct ColumnBatch {
    cache: SeriesCache,
    batch: ParsedBatch,
    rows: ColumnRows,
}

impl Default for ColumnBatch {
    fn default() -> Self {
        let limits = SeriesCacheLimits::default();
        Self { cache: SeriesCache::new(limits), batch: ParsedBatch::new(), rows: ColumnRows::default() }
    }
}

impl ColumnBatch {
    /// Adds rows of a series, whose key is written as in line protocol. Columns have a value for each row in which they
    /// are present. The error says what is wrong with the key; nothing was added then.
    pub fn append(
        &mut self,
        key: &[u8],
        times_ns: &[i64],
        fields: &[FieldSlice<'_>],
    ) -> std::result::Result<(), String> {
        self.rows.append(&mut self.cache, &mut self.batch, key, times_ns, fields)
    }

    /// The number of cells, with those that are absent.
    pub fn cells(&self) -> usize {
        self.rows.cells()
    }

    /// The number of columns, which may be new to the database.
    pub fn columns(&self) -> usize {
        self.rows.columns()
    }

    /// Bytes of strings.
    pub fn text_bytes(&self) -> usize {
        self.rows.text_bytes()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.batch.row_count() == 0
    }
}

/// The outcome of writing columns.
#[derive(Debug, Clone, Default)]
pub struct ColumnReport {
    /// Points that were stored, and not.
    pub points: WriteReport,
    /// The number of stored values of each measurement.
    pub values: BTreeMap<String, u64>,
}

impl LineWriter {
    /// Writes columns as one batch, which is empty afterwards.
    pub async fn write_columns(
        &self,
        database: &str,
        policy: &str,
        now_ns: i64,
        columns: &mut ColumnBatch,
    ) -> Result<ColumnReport> {
        if self.catalog.is_shared() {
            return Err(Feature::StagedWrites
                .refused()
                .context("columns are written to a store of one server only"));
        }
        let ColumnBatch { mut cache, mut batch, rows } = std::mem::take(columns);
        let (_, policy) = self.policy(database, policy)?;
        let batch_write = BatchWrite {
            catalog: &self.catalog,
            database,
            policy: &policy,
            now_ns,
            series_limit_bytes: self.series_limit_bytes,
            form: Form::Lines,
        };
        let mut report = WriteReport { values: Some(BTreeMap::new()), ..WriteReport::default() };
        let mut names = NewNames::default();
        let measurements = batch_write.measurements_of(&batch, &mut names).await?;
        let existing: Vec<Arc<Measurement>> = measurements.iter().flatten().cloned().collect();
        let locks = TableLocks::lock(&existing).await;
        if !locks.cover(&existing) {
            return Err(Error::retry("a measurement was dropped meanwhile"));
        }
        let was_full = batch_write.is_memory_full();
        reload_evicted(&cache, &batch, &measurements, was_full).await?;
        let no_series_reason = batch_write.resolve_series(&mut cache, &mut batch, &measurements, was_full);
        rows.resolve(&cache, &mut batch);
        batch_write.write(&mut batch, &measurements, no_series_reason, &mut names, &mut report, None).await?;
        let values = report.values.take().unwrap_or_default();
        Ok(ColumnReport { points: report, values })
    }
}
