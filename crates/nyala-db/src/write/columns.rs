//! Writing points that come as columns, from the files of another database or from a statement, without lines in between.
//!
//! The rules are the same as for lines, and so is the way from the parsed batch on. Nobody else removes series meanwhile,
//! so locks are held from the start of each batch to its end.

use super::whole::{WholeWrite, begun_anew, is_tried_again};
use super::writer_cache::WriterCache;
use super::{BatchWrite, Form, LineWriter, NewNames, WriteReport, reload_evicted, renew_series};
use crate::catalog::{Database, Measurement, RetentionPolicy, TableLocks};
use crate::ingest::ColumnBatch;
use nyala_core::store::Feature;
use nyala_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The outcome of writing columns.
#[derive(Debug, Clone, Default)]
pub struct ColumnReport {
    /// Points that were stored, and not.
    pub points: WriteReport,
    /// The number of stored values of each measurement.
    pub values: BTreeMap<String, u64>,
}

/// Batches of a write, from the first one on each time.
pub type ColumnBatches<'a> =
    dyn Fn() -> Box<dyn Iterator<Item = Result<ColumnBatch>> + Send + 'a> + Sync + 'a;

impl LineWriter {
    /// Writes columns as one batch, which is empty afterwards.
    pub async fn write_columns(
        &self,
        database: &str,
        policy: &str,
        now_ns: i64,
        columns: &mut ColumnBatch,
    ) -> Result<ColumnReport> {
        self.refuse_shared()?;
        let columns = std::mem::take(columns);
        let (_, policy) = self.policy(database, policy)?;
        let mut report = WriteReport { values: Some(BTreeMap::new()), ..WriteReport::default() };
        let batch_write = self.batch_write(database, &policy, now_ns, None);
        let (mut locks, mut names) = (TableLocks::default(), NewNames::default());
        let mut cache = self.caches.take(database, &policy.name, Form::Lines);
        batch_write.write_columns(columns, &mut cache, &mut locks, &mut names, &mut report, None).await?;
        self.caches.give_back(cache);
        let values = report.values.take().unwrap_or_default();
        Ok(ColumnReport { points: report, values })
    }

    /// Whether points of a policy may come as columns: subscribers want lines, and so does a store of several servers.
    pub fn takes_columns(&self, database: &str, policy: &str) -> bool {
        let has_subscribers = |database: Arc<Database>| database.has_subscription(policy);
        !self.catalog.is_shared() && !self.catalog.database(database).is_some_and(has_subscribers)
    }

    /// Writes all points of some batches, which become visible at once; or none, if one of them is not stored: then the report
    /// says why. Subscribers do not hear of them. No series is created once the database has `series_max`.
    ///
    /// # Errors
    /// Unsupported, if several servers share the store, or if there are several batches and the store has no stages. Conflict,
    /// if others write the same points again and again.
    pub async fn write_columns_whole(
        &self,
        database: &str,
        policy: &str,
        now_ns: i64,
        series_max: Option<u64>,
        batches: &ColumnBatches<'_>,
    ) -> Result<WriteReport> {
        self.refuse_shared()?;
        let mut tries = 0;
        loop {
            let result = self.try_columns_whole(database, policy, now_ns, series_max, batches).await;
            if !is_tried_again(&result, &mut tries) {
                self.counts.note(&result);
                return result;
            }
        }
    }

    async fn try_columns_whole(
        &self,
        database: &str,
        policy: &str,
        now_ns: i64,
        series_max: Option<u64>,
        batches: &ColumnBatches<'_>,
    ) -> Result<WriteReport> {
        let (_, policy) = self.policy(database, policy)?;
        let batch_write = self.batch_write(database, &policy, now_ns, series_max);
        let (mut locks, mut names) = (TableLocks::default(), NewNames::default());
        let (mut report, mut whole) = (WriteReport::default(), WholeWrite::default());
        let mut cache = self.caches.take(database, &policy.name, Form::Lines);
        let mut batches = batches();
        let mut next = batches.next().transpose()?;
        while let Some(columns) = next {
            next = batches.next().transpose()?;
            let whole_write = Some((&mut whole, next.is_some()));
            let written = batch_write.write_columns(
                columns,
                &mut cache,
                &mut locks,
                &mut names,
                &mut report,
                whole_write,
            );
            written.await?;
            if report.complaint().is_some() {
                drop(locks);
                return whole.give_up(&self.catalog, report).await;
            }
        }
        whole.commit().await?;
        self.caches.give_back(cache);
        Ok(report)
    }

    fn refuse_shared(&self) -> Result<()> {
        match self.catalog.is_shared() {
            true => Err(Feature::StagedWrites
                .refused()
                .context("columns are written to a store of one server only")),
            false => Ok(()),
        }
    }

    fn batch_write<'a>(
        &'a self,
        database: &'a str,
        policy: &'a RetentionPolicy,
        now_ns: i64,
        series_max: Option<u64>,
    ) -> BatchWrite<'a> {
        let (catalog, series_limit_bytes) = (&self.catalog, self.series_limit_bytes);
        let (series_quotas, form) = (&self.series_quotas, Form::Lines);
        BatchWrite { catalog, database, policy, now_ns, series_limit_bytes, series_max, series_quotas, form }
    }
}

impl BatchWrite<'_> {
    /// Writes a batch of columns; as a part of a larger write, others of which follow or not, or for itself.
    async fn write_columns(
        &self,
        mut columns: ColumnBatch,
        writer_cache: &mut WriterCache,
        locks: &mut TableLocks,
        names: &mut NewNames,
        report: &mut WriteReport,
        whole: Option<(&mut WholeWrite, bool)>,
    ) -> Result<()> {
        let measurements = self.measurements_of(columns.rows(), names).await?;
        let existing: Vec<Arc<Measurement>> = measurements.iter().flatten().cloned().collect();
        // What is staged already needs its tables locked until the commit.
        let is_staged = whole.as_ref().is_some_and(|(whole, _)| whole.is_staged());
        if !locks.try_cover(&existing, is_staged) {
            // Released before others are locked.
            *locks = TableLocks::default();
            if is_staged {
                return Err(begun_anew(&existing).await);
            }
            *locks = TableLocks::lock(&existing).await;
        }
        if !locks.cover(&existing) {
            return Err(Error::retry("a measurement was dropped meanwhile"));
        }
        let mut was_full = self.is_memory_full();
        let no_series_reason = {
            let (mut lease, _) = writer_cache.lease().await;
            let cache = lease.cache();
            let mut handles = columns.find(cache);
            if renew_series(cache, columns.rows(), &measurements) {
                // Series without an id are listed again.
                handles = columns.find(cache);
            }
            let room = match cache.pending().is_empty() {
                true => None,
                false => self.series_room().await?,
            };
            was_full |= room.as_ref().is_some_and(|room| room.left == 0);
            reload_evicted(cache, columns.rows(), &measurements, was_full).await?;
            let no_series_reason = self.resolve_series(cache, columns.rows(), &measurements, was_full, room);
            columns.resolve(cache, &handles);
            no_series_reason
        };
        let rows = columns.rows();
        let whole = match whole {
            None => None,
            Some((whole, has_more)) => {
                whole.begin_batch(self.catalog, rows, &measurements, has_more).await?;
                Some(whole)
            }
        };
        self.write(rows, &measurements, no_series_reason, names, report, whole).await.map(drop)
    }
}
