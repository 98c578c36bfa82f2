//! The run of a load: rowsets that a stage writes one behind the other while its rows come in order of their keys.
//!
//! Its files are not sealed before it is known what they are for. Mostly that is the commit, which adopts them as they
//! are: each row is encoded once. If somebody wants to read the rows earlier, the files become rowsets of the stage.
//! Their names end in `.staged` until they are adopted, so the next start removes what a load that was cut off leaves.

use super::output::{RowsetOutput, WrittenRowset};
use crate::files::fs::{Access, FileRef};
use crate::files::rowset::writer::unsealed::UnsealedRowset;
use crate::files::rowset::writer::{RowsetLayout, RowsetWriter};
use crate::files::rowset::{Rowset, RowsetKind, RowsetMeta, RowsetSource};
use crate::memory::version::TableVersion;
use crate::rows::byte_vec::ByteVec;
use crate::rows::merge::RowBatch;
use nyala_core::{Result, TimeRange};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows of one partition.
pub(crate) struct LoadedRun {
    /// As the stage sees it.
    table: Arc<TableVersion>,
    partition: u64,
    range: TimeRange,
    layout: RowsetLayout,
    /// The sequences of its batches, as the stage numbers them.
    sequences: Option<(u64, u64)>,
    /// The last of its rowsets, which takes more rows.
    open: Option<(RowsetMeta, RowsetWriter)>,
    /// The others.
    ended: VecDeque<(RowsetMeta, UnsealedRowset)>,
    last_key: Vec<u8>,
    source: Arc<RowsetSource>,
}

/// What a sealed file says of itself.
struct Seal<'a> {
    table: &'a TableVersion,
    partition: u64,
    range: TimeRange,
    kind: RowsetKind,
    sequences: (u64, u64),
}

impl LoadedRun {
    pub(crate) fn new(
        table: &Arc<TableVersion>,
        (partition, range): (u64, TimeRange),
        output: &RowsetOutput,
    ) -> Self {
        let (table, layout) = (table.clone(), RowsetLayout::of_rows(&table.schema));
        let (ended, last_key, source) = (VecDeque::new(), Vec::new(), output.source.clone());
        Self { table, partition, range, layout, sequences: None, open: None, ended, last_key, source }
    }

    pub(crate) fn table(&self) -> &Arc<TableVersion> {
        &self.table
    }

    /// The partition, as the stage numbers it.
    pub(crate) fn partition(&self) -> u64 {
        self.partition
    }

    /// Whether all its keys are less than another. No key is empty.
    pub(crate) fn is_before(&self, key: &[u8]) -> bool {
        self.last_key.as_slice() < key
    }

    /// Notes that it will have rows of a batch.
    pub(crate) fn note(&mut self, sequence: u64) {
        self.sequences = Some((self.sequences.map_or(sequence, |(first, _)| first), sequence));
    }

    /// Adds rows, whose keys ascend and are behind those of its rows. After an error it is of no use.
    pub(crate) fn push(
        &mut self,
        output: &RowsetOutput,
        rows: &RowBatch<ByteVec>,
        bytes_max: u64,
    ) -> Result<()> {
        let Some(last) = rows.keys.len().checked_sub(1) else { return Ok(()) };
        if self.open.is_none() {
            let (table, partition, kind) = (self.table.id, self.partition, RowsetKind::Staged);
            let meta = RowsetMeta { table, partition, kind, ..RowsetMeta::unknown(0, 0) };
            self.open = Some(output.begin((&self.table, self.range), meta, &self.layout)?);
        }
        let (_, writer) = self.open.as_mut().expect("was begun");
        self.last_key = rows.keys.get(last).to_vec();
        writer.push_keyed(rows)?;
        if writer.length_bytes() >= bytes_max {
            // While more rows come the disk can write these, and the file need not stay open.
            let file = self.end()?;
            self.source.fs.sync_files(&file.into_iter().collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Ends the last rowset, and returns its file.
    fn end(&mut self) -> Result<Option<FileRef>> {
        let Some((meta, writer)) = self.open.take() else { return Ok(None) };
        match writer.end_rows() {
            Ok((unsealed, file)) => {
                self.ended.push_back((meta, unsealed));
                Ok(Some(file))
            }
            Err(error) => {
                remove(&self.source, &meta);
                Err(error)
            }
        }
    }

    /// Makes rowsets of it that only the stage sees.
    pub(crate) fn seal_for_stage(mut self, output: &RowsetOutput) -> Result<Vec<Arc<Rowset>>> {
        let (table, partition, range) = (self.table.clone(), self.partition, self.range);
        let (kind, sequences) = (RowsetKind::Staged, self.sequences.unwrap_or_default());
        let seal = Seal { table: &table, partition, range, kind, sequences };
        let mut written = Vec::new();
        let outcome = self.seal(output, &seal, &mut written);
        let rowset = |WrittenRowset { meta, .. }: WrittenRowset| {
            let (last, rowset) = (meta.max_sequence, Rowset::new(meta, output.source.clone()));
            rowset.set_obsolete();
            rowset.set_clean_to(last);
            rowset
        };
        // After an error the files that were finished go at once.
        let rowsets = written.into_iter().map(rowset).collect();
        outcome.map(|()| rowsets)
    }

    /// Makes rowsets of it that a partition of the store can adopt, with one sequence. After an error `written` has those
    /// that were finished. Their names are not synced.
    pub(crate) fn seal_for_store(
        mut self,
        output: &RowsetOutput,
        (partition, range): (u64, TimeRange),
        sequence: u64,
        written: &mut Vec<WrittenRowset>,
    ) -> Result<()> {
        let table = self.table.clone();
        let (kind, sequences) = (RowsetKind::Rows, (sequence, sequence));
        self.seal(output, &Seal { table: &table, partition, range, kind, sequences }, written)
    }

    fn seal(
        &mut self,
        output: &RowsetOutput,
        seal: &Seal<'_>,
        written: &mut Vec<WrittenRowset>,
    ) -> Result<()> {
        let mut last = self.end()?;
        while let Some((meta, unsealed)) = self.ended.pop_front() {
            let file = if self.ended.is_empty() { last.take() } else { None };
            let sealed = seal.put_on(output, &meta, unsealed, file);
            if sealed.is_err() {
                remove(&self.source, &meta);
            }
            written.push(sealed?);
        }
        Ok(())
    }
}

impl Drop for LoadedRun {
    /// Removes the files that were not sealed.
    fn drop(&mut self) {
        let ended = self.ended.iter().map(|(meta, _)| meta);
        self.open.iter().map(|(meta, _)| meta).chain(ended).for_each(|meta| remove(&self.source, meta));
    }
}

impl Seal<'_> {
    /// Completes a file, which may be open. For the store it is synced, and gets its name.
    fn put_on(
        &self,
        output: &RowsetOutput,
        staged: &RowsetMeta,
        unsealed: UnsealedRowset,
        file: Option<FileRef>,
    ) -> Result<WrittenRowset> {
        let RowsetSource { fs, dir, .. } = &*output.source;
        let path = dir.join(staged.file_name());
        let file = match file {
            Some(file) => file,
            None => output.source.open_file(&path, Access::Write)?,
        };
        let mut meta = RowsetMeta { kind: self.kind, partition: self.partition, ..staged.clone() };
        (meta.min_sequence, meta.max_sequence) = self.sequences;
        let sealed = unsealed.seal(file.clone(), &output.origin(self.table, self.range, &meta))?;
        (meta.rows, meta.length_bytes) = (sealed.rows, sealed.length_bytes);
        (meta.min_time_ns, meta.max_time_ns) = (sealed.min_time_ns, sealed.max_time_ns);
        if self.kind != RowsetKind::Staged {
            fs.sync_files(&[file])?;
            fs.rename(&path, &dir.join(meta.file_name()))?;
        }
        Ok(WrittenRowset { meta, file: None })
    }
}

/// Removes a file that nobody needs.
fn remove(source: &RowsetSource, meta: &RowsetMeta) {
    // One that stays is removed by the next start.
    let _ = source.fs.remove(&source.dir.join(meta.file_name()));
}
