//! What flushes and compactions write: the rows of some sources as rowsets, one behind the other by key.

use crate::files::fs::{Access, FileRef};
use crate::files::rowset::origin::Origin;
use crate::files::rowset::writer::{RowsetWriter, value_columns};
use crate::files::rowset::{Rowset, RowsetMeta};
use crate::maintenance::Signal;
use crate::maintenance::series_merge::{Sweep, Swept};
use crate::memory::memtable::{Memtable, Wanted};
use crate::memory::version::TableVersion;
use crate::reading::scan::keyed::KeyedMerge;
use crate::reading::scan::partition::PartitionReader;
use crate::rows::column_buffer::ByteVec;
use crate::rows::key::KeyRange;
use crate::rows::merge::{self, Piece, gallop};
use crate::rows::tombstone::Tombstone;
use crate::shared::Shared;
use nyala_core::{Result, SeriesId, TimeRange};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which rows rowsets are made of.
pub(crate) struct Sources<'a> {
    pub(crate) rowsets: &'a [Arc<Rowset>],
    pub(crate) memtables: &'a [Arc<Memtable>],
    /// Those that may hide rows of them.
    pub(crate) tombstones: &'a [Arc<Tombstone>],
    /// Nothing older is in the partition: deletes can go.
    pub(crate) oldest: bool,
    /// The sequences of their batches.
    pub(crate) sequences: (u64, u64),
    /// Rows and deletes up to here count.
    pub(crate) sequence: u64,
    /// Given up when the engine closes: a compaction, which may take minutes.
    pub(crate) cancelled_by: Option<&'a Signal>,
}

impl Sources<'_> {
    fn check_running(&self) -> Result<()> {
        self.cancelled_by.map_or(Ok(()), Signal::check_running)
    }
}

/// Where a rowset ends and another one begins.
#[derive(Clone, Copy)]
pub(crate) struct Cuts<'a> {
    /// Before the first of these keys, ascending, that is not in it any more: keys as [`Rowset::key_bounds`] has them.
    pub(crate) keys: &'a [Vec<u8>],
    /// Where it is that long. The rows of a series stay together.
    pub(crate) bytes_max: u64,
}

/// A rowset that no manifest names yet.
pub(crate) struct WrittenRowset {
    pub(crate) meta: RowsetMeta,
    /// Open until it is synced: an error of writing it back is told to those who have it open.
    file: Option<FileRef>,
}

impl Shared {
    /// Writes the rows of some sources as rowsets, which are not synced. After an error those are there that were
    /// finished.
    pub(crate) fn write_rowsets(
        &self,
        table: &TableVersion,
        place: (u64, TimeRange),
        sources: &Sources<'_>,
        cuts: Cuts<'_>,
        written: &mut Vec<WrittenRowset>,
    ) -> Result<()> {
        let mut output = Output {
            shared: self,
            table,
            place,
            sequences: sources.sequences,
            cuts,
            current: None,
            last_series: None,
            written,
        };
        let wanted = Wanted::new(value_columns(&table.schema));
        if table.schema.is_series_keyed() {
            write_series(&mut output, sources, wanted)?;
        } else {
            write_keyed(&mut output, sources, wanted)?;
        }
        output.end()
    }

    /// Puts rowsets on disk that are not yet, all together.
    pub(crate) fn sync_rowsets<'a>(
        &self,
        written: impl Iterator<Item = &'a mut WrittenRowset>,
    ) -> Result<()> {
        let files: Vec<FileRef> = written.filter_map(|rowset| rowset.file.take()).collect();
        self.options.fs.sync_files(&files)
    }
}

/// Takes rows in order of their keys.
struct Output<'a> {
    shared: &'a Shared,
    table: &'a TableVersion,
    /// Partition and its times.
    place: (u64, TimeRange),
    sequences: (u64, u64),
    /// Its keys are those still ahead.
    cuts: Cuts<'a>,
    current: Option<(RowsetMeta, RowsetWriter)>,
    last_series: Option<SeriesId>,
    written: &'a mut Vec<WrittenRowset>,
}

impl Output<'_> {
    fn writer(&mut self) -> Result<&mut RowsetWriter> {
        if self.current.is_none() {
            let meta = RowsetMeta {
                table: self.table.id,
                partition: self.place.0,
                min_sequence: self.sequences.0,
                max_sequence: self.sequences.1,
                ..RowsetMeta::unknown(self.shared.next_rowset.fetch_add(1, Ordering::Relaxed), 0)
            };
            let path = self.shared.rowset_dir().join(meta.file_name());
            let file = self.shared.source.open_file(&path, Access::Create)?;
            let options = &self.shared.options;
            let writer = RowsetWriter::new(
                file,
                &self.origin(),
                options.encoding,
                options.last_rows_from,
                &self.shared.budget,
            );
            self.current = Some((meta, writer));
        }
        Ok(self.current.as_mut().map(|(_, writer)| writer).expect("was begun"))
    }

    /// What a rowset says of itself.
    fn origin(&self) -> Origin {
        let (table, catalog) = (self.table, self.shared.catalog.lock());
        let known = catalog.state.tables.get(&table.id);
        Origin {
            table: table.id,
            partition: self.place.0,
            range: self.place.1,
            min_sequence: self.sequences.0,
            max_sequence: self.sequences.1,
            revision: catalog.revision(),
            schema: table.schema.clone(),
            dropped_columns: known.map_or_else(Vec::new, |table| table.dropped_columns.clone()),
        }
    }

    fn series(&mut self, series: SeriesId, piece: &Piece<Vec<i64>>) -> Result<()> {
        if piece.rows() == 0 {
            return Ok(());
        }
        if self.last_series.replace(series) != Some(series) {
            self.cut_before(&series.0.to_be_bytes())?;
        }
        self.writer()?.push_series(series, piece)
    }

    fn keyed(&mut self, piece: &Piece<ByteVec>) -> Result<()> {
        let mut start = 0;
        while start < piece.rows() {
            self.cut_before(piece.keys.get(start))?;
            let end = match self.cuts.keys.first() {
                Some(cut) => gallop(start + 1, piece.rows(), |row| piece.keys.get(row) < cut.as_slice()),
                None => piece.rows(),
            };
            if (start, end) == (0, piece.rows()) {
                return self.writer()?.push_keyed(piece);
            }
            let mut part = Piece::empty(&self.writer()?.kinds);
            part.append(piece, start..end);
            self.writer()?.push_keyed(&part)?;
            start = end;
        }
        Ok(())
    }

    /// Ends the rowset at hand if the next key belongs to another one.
    fn cut_before(&mut self, key: &[u8]) -> Result<()> {
        let passed = self.cuts.keys.iter().take_while(|cut| cut.as_slice() <= key).count();
        self.cuts.keys = &self.cuts.keys[passed..];
        let is_full = |(_, writer): &(RowsetMeta, RowsetWriter)| {
            writer.length_bytes() >= self.cuts.bytes_max || writer.is_full()
        };
        if passed > 0 || self.current.as_ref().is_some_and(is_full) { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        let Some((_, writer)) = &mut self.current else { return Ok(()) };
        let written = writer.finish()?;
        let (mut meta, writer) = self.current.take().expect("was there");
        meta.rows = written.rows;
        meta.length_bytes = written.length_bytes;
        (meta.min_time_ns, meta.max_time_ns) = (written.min_time_ns, written.max_time_ns);
        // Flushes have one rowset of each of perhaps ten thousands of tables.
        self.written.reserve_exact(usize::from(self.written.is_empty()));
        self.written.push(WrittenRowset { meta, file: Some(writer.into_file()) });
        Ok(())
    }
}

impl Drop for Output<'_> {
    /// What was not finished goes.
    fn drop(&mut self) {
        if let Some((meta, _)) = self.current.take() {
            // A file that stays is an orphan.
            let _ = self.shared.options.fs.remove(&self.shared.rowset_dir().join(meta.file_name()));
        }
    }
}

fn write_series(output: &mut Output<'_>, sources: &Sources<'_>, wanted: Wanted) -> Result<()> {
    let mut reader = PartitionReader::of(
        sources.rowsets,
        sources.memtables.iter(),
        sources.tombstones,
        sources.sequence,
        TimeRange::ALL,
        wanted.clone(),
    )?;
    reader.read_once();
    let finish = |mut piece: Piece<Vec<i64>>| {
        if sources.oldest {
            piece = merge::finish(piece, &wanted.kinds);
            piece.markers = None;
        }
        piece
    };
    let mut sweep = Sweep::new(sources, &wanted, !sources.tombstones.is_empty())?;
    while let Some((series, rows)) = sweep.next()? {
        match rows {
            Swept::Rows(piece) if piece.markers.is_none() => output.series(series, piece)?,
            Swept::Rows(piece) => output.series(series, &finish(piece.clone()))?,
            Swept::Unread => {
                let mut ranges = Vec::new();
                reader.cut(series, TimeRange::ALL, &mut ranges);
                if ranges.is_empty() {
                    ranges.push(TimeRange::ALL);
                }
                for range in ranges {
                    for segment in reader.segments(series, range)? {
                        let piece = finish(reader.read_with_deletes(series, segment)?);
                        output.series(series, &piece)?;
                    }
                }
            }
        }
        sources.check_running()?;
    }
    Ok(())
}

fn write_keyed(output: &mut Output<'_>, sources: &Sources<'_>, wanted: Wanted) -> Result<()> {
    let kinds = wanted.kinds.clone();
    let mut merged = KeyedMerge::new(sources.tombstones, sources.sequence, wanted, false);
    let schema = &output.table.schema;
    merged.add(schema, sources.rowsets, sources.memtables.iter(), &KeyRange::all(), usize::MAX)?;
    while let Some(mut piece) = merged.next_piece()? {
        if sources.oldest {
            piece = merge::finish(piece, &kinds);
            piece.markers = None;
        }
        output.keyed(&piece)?;
        sources.check_running()?;
    }
    Ok(())
}
