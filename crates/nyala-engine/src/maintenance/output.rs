//! Writes the rows of flushes and compactions as rowsets, one behind the other by key.

use super::inputs::MergeInputs;
use super::series_merge::{MergedSeries, SeriesMerge};
use crate::files::fs::{Access, FileRef};
use crate::files::rowset::origin::Origin;
use crate::files::rowset::reader::Use;
use crate::files::rowset::writer::{RowsetLayout, RowsetWriter, sequenced_columns, value_columns};
use crate::files::rowset::{RowsetKind, RowsetMeta, RowsetSource};
use crate::memory::key_layers::KeyLayers;
use crate::memory::memtable::versions::for_each_replaced;
use crate::memory::publisher::VersionPublisher;
use crate::memory::version::TableVersion;
use crate::options::EngineOptions;
use crate::reading::scan::key_merge::KeyMerge;
use crate::reading::scan::partition::PartitionReader;
use crate::rows::byte_vec::ByteVec;
use crate::rows::key::KeyRange;
use crate::rows::merge::{self, RowBatch, gallop};
use crate::rows::projection::Projection;
use crate::stats::add;
use nyala_column::Preference;
use nyala_core::{Result, SeriesId, TimeRange};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a rowset ends and the next one begins.
#[derive(Clone, Copy)]
pub(crate) struct SplitPoints<'a> {
    /// Before these keys, ascending, in the form of [`Rowset::key_bounds`](crate::files::rowset::Rowset::key_bounds)
    /// has them.
    pub(crate) keys: &'a [Vec<u8>],
    /// When it has so many bytes. The rows of a series stay together.
    pub(crate) bytes_max: u64,
}

/// A rowset that no manifest names yet.
pub(crate) struct WrittenRowset {
    pub(crate) meta: RowsetMeta,
    /// Open until it is synced: the system reports an error of writing it back only to those who have it open.
    pub(super) file: Option<FileRef>,
}

/// Writes the rowsets of a store.
pub(crate) struct RowsetOutput {
    pub(crate) source: Arc<RowsetSource>,
    versions: Arc<VersionPublisher>,
    next_rowset: AtomicU64,
    encoding: Preference,
    last_rows_from: u64,
    /// Files of rowsets whose edit failed. They are removed once the manifest is known not to name them.
    abandoned: Mutex<Vec<String>>,
}

impl RowsetOutput {
    pub(crate) fn new(
        source: Arc<RowsetSource>,
        versions: Arc<VersionPublisher>,
        next_rowset: u64,
        options: &EngineOptions,
    ) -> Self {
        Self {
            source,
            versions,
            next_rowset: AtomicU64::new(next_rowset),
            encoding: options.encoding,
            last_rows_from: options.last_rows_from,
            abandoned: Mutex::default(),
        }
    }

    /// Writes the rows of some inputs as rowsets, which are not synced. After an error `written` has those that were
    /// finished.
    pub(crate) fn write(
        &self,
        table: &TableVersion,
        partition: (u64, TimeRange),
        inputs: &MergeInputs<'_>,
        splits: SplitPoints<'_>,
        written: &mut Vec<WrittenRowset>,
    ) -> Result<()> {
        let (layout, columns) = match inputs.keeps_sequences {
            true => (RowsetLayout::with_sequences(&table.schema), sequenced_columns(&table.schema)),
            false => (RowsetLayout::of_rows(&table.schema), value_columns(&table.schema)),
        };
        let meta = RowsetMeta {
            kind: inputs.kind,
            since_sequence: inputs.since_sequence,
            ..self.meta(table, partition.0, inputs)
        };
        let mut output = SplitWriter::new(self, (table, partition.1), (meta, layout), splits, written);
        output.written_rows = inputs.written_rows;
        let projection = Projection::new(columns);
        if table.schema.is_series_keyed() {
            write_series(&mut output, inputs, projection)?;
        } else {
            write_keyed(&mut output, inputs, projection)?;
        }
        output.end()
    }

    /// Writes all versions of rows of memtables of which newer ones or deleted ranges hide something.
    pub(super) fn write_versions(
        &self,
        table: &TableVersion,
        partition: (u64, TimeRange),
        inputs: &MergeInputs<'_>,
        written: &mut Vec<WrittenRowset>,
    ) -> Result<()> {
        let layout = RowsetLayout::of_versions(&table.schema);
        let meta = RowsetMeta { kind: RowsetKind::Versions, ..self.meta(table, partition.0, inputs) };
        let splits = SplitPoints { keys: &[], bytes_max: u64::MAX };
        let mut output = SplitWriter::new(self, (table, partition.1), (meta, layout), splits, written);
        let projection = Projection::new(sequenced_columns(&table.schema));
        for_each_replaced(inputs.memtables, inputs.tombstones, &projection, |batch| output.keyed(batch))?;
        output.end()
    }

    /// Begins a rowset in a file of its own. The metadata gets its number.
    pub(super) fn begin(
        &self,
        (table, range): (&TableVersion, TimeRange),
        meta: RowsetMeta,
        layout: &RowsetLayout,
    ) -> Result<(RowsetMeta, RowsetWriter)> {
        let meta = RowsetMeta { id: self.next_rowset.fetch_add(1, Ordering::Relaxed), ..meta };
        let file = self.source.open_file(&self.source.dir.join(meta.file_name()), Access::Create)?;
        let (origin, Self { encoding, last_rows_from, .. }) = (self.origin(table, range, &meta), self);
        let writer =
            RowsetWriter::new(file, &origin, layout, *encoding, *last_rows_from, &self.source.budget);
        Ok((meta, writer))
    }

    /// The origin that is written to a rowset.
    pub(super) fn origin(&self, table: &TableVersion, range: TimeRange, meta: &RowsetMeta) -> Origin {
        let catalog = self.versions.catalog.lock();
        let known = catalog.state.tables.get(&table.id);
        Origin {
            table: table.id,
            partition: meta.partition,
            range,
            min_sequence: meta.min_sequence,
            max_sequence: meta.max_sequence,
            revision: catalog.log.revision,
            schema: table.schema.clone(),
            dropped_columns: known.map_or_else(Vec::new, |table| table.dropped_columns.clone()),
        }
    }

    /// The metadata of a rowset of some inputs that is to be written.
    fn meta(&self, table: &TableVersion, partition: u64, inputs: &MergeInputs<'_>) -> RowsetMeta {
        let (min_sequence, max_sequence) = inputs.sequences;
        RowsetMeta { table: table.id, partition, min_sequence, max_sequence, ..RowsetMeta::unknown(0, 0) }
    }

    /// Syncs the files of rowsets that were written, all together.
    pub(super) fn sync<'a>(&self, written: impl Iterator<Item = &'a mut WrittenRowset>) -> Result<()> {
        let files: Vec<FileRef> = written.filter_map(|rowset| rowset.file.take()).collect();
        self.source.fs.sync_files(&files)
    }

    /// Syncs the names of the files.
    pub(crate) fn sync_names(&self) -> Result<()> {
        self.source.fs.sync_dir(&self.source.dir)
    }

    /// Removes a file that no manifest names.
    pub(super) fn remove(&self, meta: &RowsetMeta) {
        // A file that stays is an orphan.
        let _ = self.source.fs.remove(&self.source.dir.join(meta.file_name()));
    }

    /// Gives up files of rowsets that were written for an edit that failed.
    pub(crate) fn abandon<'a>(&self, metas: impl Iterator<Item = &'a RowsetMeta>) {
        self.abandoned.lock().extend(metas.map(RowsetMeta::file_name));
        self.remove_abandoned();
    }

    /// Removes files that were given up earlier, if the manifest surely does not name them: a disk that is full gets
    /// its space back without a restart.
    pub(crate) fn remove_abandoned(&self) {
        let mut abandoned = self.abandoned.lock();
        if abandoned.is_empty() || !self.versions.catalog.lock().settle() {
            return;
        }
        for name in abandoned.drain(..) {
            if let Err(error) = self.source.fs.remove(&self.source.dir.join(&name)) {
                tracing::warn!(%error, "a file that is not needed stays until the next start");
            }
        }
    }
}

/// Takes rows in order of their keys, and begins another rowset at each split point.
struct SplitWriter<'a> {
    output: &'a RowsetOutput,
    table: &'a TableVersion,
    /// The times of the partition.
    range: TimeRange,
    /// Of a rowset, without its number and its size.
    meta: RowsetMeta,
    layout: RowsetLayout,
    /// Its keys are those that no row has passed.
    splits: SplitPoints<'a>,
    current: Option<(RowsetMeta, RowsetWriter)>,
    last_series: Option<SeriesId>,
    written: &'a mut Vec<WrittenRowset>,
    written_rows: Option<&'a AtomicU64>,
}

impl<'a> SplitWriter<'a> {
    fn new(
        output: &'a RowsetOutput,
        (table, range): (&'a TableVersion, TimeRange),
        (meta, layout): (RowsetMeta, RowsetLayout),
        splits: SplitPoints<'a>,
        written: &'a mut Vec<WrittenRowset>,
    ) -> Self {
        let (current, last_series, written_rows) = (None, None, None);
        Self { output, table, range, meta, layout, splits, current, last_series, written, written_rows }
    }

    fn writer(&mut self) -> Result<&mut RowsetWriter> {
        if self.current.is_none() {
            let begun = self.output.begin((self.table, self.range), self.meta.clone(), &self.layout)?;
            self.current = Some(begun);
        }
        Ok(self.current.as_mut().map(|(_, writer)| writer).expect("was begun"))
    }

    fn series(&mut self, series: SeriesId, batch: &RowBatch<Vec<i64>>) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        if self.last_series.replace(series) != Some(series) {
            self.split_before(&series.0.to_be_bytes())?;
        }
        self.count(batch.rows());
        self.writer()?.push_series(series, batch)
    }

    fn count(&self, rows: usize) {
        if let Some(counter) = self.written_rows {
            add(counter, rows as u64);
        }
    }

    fn keyed(&mut self, batch: &RowBatch<ByteVec>) -> Result<()> {
        self.count(batch.rows());
        let mut start = 0;
        while start < batch.rows() {
            self.split_before(batch.keys.get(start))?;
            let end = match self.splits.keys.first() {
                Some(cut) => gallop(start + 1, batch.rows(), |row| batch.keys.get(row) < cut.as_slice()),
                None => batch.rows(),
            };
            if (start, end) == (0, batch.rows()) {
                return self.writer()?.push_keyed(batch);
            }
            let mut part = RowBatch::empty(&self.writer()?.kinds);
            part.append(batch, start..end);
            self.writer()?.push_keyed(&part)?;
            start = end;
        }
        Ok(())
    }

    /// Ends the rowset at hand if the next key belongs to another one.
    fn split_before(&mut self, key: &[u8]) -> Result<()> {
        let passed = self.splits.keys.iter().take_while(|cut| cut.as_slice() <= key).count();
        self.splits.keys = &self.splits.keys[passed..];
        let is_full =
            |(_, writer): &(RowsetMeta, RowsetWriter)| writer.length_bytes() >= self.splits.bytes_max;
        if passed > 0 || self.current.as_ref().is_some_and(is_full) { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        let Some((_, writer)) = &mut self.current else { return Ok(()) };
        let written = writer.finish()?;
        let (mut meta, writer) = self.current.take().expect("was there");
        meta.rows = written.rows;
        meta.length_bytes = written.length_bytes;
        (meta.min_time_ns, meta.max_time_ns) = (written.min_time_ns, written.max_time_ns);
        // A flush may write one rowset for each of ten thousand tables.
        self.written.reserve_exact(usize::from(self.written.is_empty()));
        self.written.push(WrittenRowset { meta, file: Some(writer.into_file()) });
        Ok(())
    }
}

impl Drop for SplitWriter<'_> {
    /// Removes a file that was not finished.
    fn drop(&mut self) {
        if let Some((meta, _)) = self.current.take() {
            self.output.remove(&meta);
        }
    }
}

fn write_series(
    output: &mut SplitWriter<'_>,
    inputs: &MergeInputs<'_>,
    projection: Projection,
) -> Result<()> {
    let mut reader = PartitionReader::of(
        inputs.rowsets,
        inputs.memtables.iter(),
        inputs.tombstones,
        inputs.sequence,
        TimeRange::ALL,
        projection.clone(),
    )?;
    reader.read_once();
    let finish = |mut batch: RowBatch<Vec<i64>>| {
        if inputs.oldest {
            batch = merge::finish(batch, &projection.kinds);
            batch.markers = None;
        }
        batch
    };
    let mut merge = SeriesMerge::new(inputs, &projection)?;
    while let Some((series, rows)) = merge.next(|series| reader.has_tombstones_of(series))? {
        match rows {
            MergedSeries::Rows(batch) if batch.markers.is_none() => output.series(series, batch)?,
            MergedSeries::Rows(batch) => output.series(series, &finish(batch.clone()))?,
            MergedSeries::Deferred => {
                let mut ranges = Vec::new();
                reader.cut(series, TimeRange::ALL, &mut ranges);
                if ranges.is_empty() {
                    ranges.push(TimeRange::ALL);
                }
                for range in ranges {
                    for segment in reader.segments(series, range)? {
                        let batch = finish(reader.read_with_deletes(series, segment)?);
                        output.series(series, &batch)?;
                    }
                }
            }
        }
        inputs.step()?;
    }
    Ok(())
}

fn write_keyed(output: &mut SplitWriter<'_>, inputs: &MergeInputs<'_>, projection: Projection) -> Result<()> {
    let kinds = projection.kinds.clone();
    let visible = (inputs.tombstones, inputs.sequence);
    let schema = output.table.schema.clone();
    let mut merged = KeyMerge::new(schema, visible, projection, KeyRange::all(), false, Use::Once);
    merged.add(&Arc::new(KeyLayers::of(inputs.rowsets)?), inputs.memtables.iter(), usize::MAX)?;
    while let Some(mut batch) = merged.next_batch()? {
        if inputs.oldest {
            batch = merge::finish(batch, &kinds);
            batch.markers = None;
        }
        output.keyed(&batch)?;
        inputs.step()?;
    }
    Ok(())
}
