//! A rowset that has all its rows, but does not say yet where they come from.
//!
//! Rows of a load are written before anybody knows which sequence its commit will have. Origin and footer come last in a
//! file, so they are written when that is known.

use super::{BufferedFile, MAGIC, RowsetWriter, VERSION, Written};
use crate::files::fs::FileRef;
use crate::files::rowset::format::{Footer, GroupList};
use crate::files::rowset::origin::Origin;
use nyala_core::Result;
use nyala_core::memory::Charge;

/// What the end of the file will say.
pub(crate) struct UnsealedRowset {
    footer: Footer,
    written: u64,
    times: (i64, i64),
    _charge: Charge,
}

impl RowsetWriter {
    /// Writes all that is pending. The file is not synced.
    pub(crate) fn end_rows(mut self) -> Result<(UnsealedRowset, FileRef)> {
        self.write_pending()?;
        self.out.flush()?;
        let Self { out, footer, min_time_ns, max_time_ns, mut charge, .. } = self;
        charge.set(footer.memory_bytes());
        let (written, times) = (out.written, (min_time_ns, max_time_ns));
        Ok((UnsealedRowset { footer, written, times, _charge: charge }, out.file))
    }

    pub(super) fn write_pending(&mut self) -> Result<()> {
        self.end_group()?;
        self.end_page(GroupList::All)?;
        self.end_last_group()?;
        self.end_page(GroupList::LastRows)
    }
}

impl UnsealedRowset {
    /// Completes the file, which must be the same and writable. It is not synced.
    pub(crate) fn seal(mut self, file: FileRef, origin: &Origin) -> Result<Written> {
        let mut out = BufferedFile { file, buffer: Vec::new(), written: self.written };
        seal(&mut out, &mut self.footer, &origin.encode(), self.times)
    }
}

/// Writes origin, footer and tail.
pub(super) fn seal(
    out: &mut BufferedFile,
    footer: &mut Footer,
    origin: &[u8],
    (min_time_ns, max_time_ns): (i64, i64),
) -> Result<Written> {
    footer.origin = out.append(origin)?;
    let place = out.append(&footer.encode(VERSION))?;
    let mut tail = Vec::new();
    place.put(&mut tail);
    tail.extend_from_slice(&MAGIC);
    out.append(&tail)?;
    out.flush()?;
    Ok(Written { rows: footer.rows, length_bytes: out.written, min_time_ns, max_time_ns })
}
