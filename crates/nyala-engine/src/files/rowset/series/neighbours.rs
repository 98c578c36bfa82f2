//! Reads the blocks of several columns of a group at once. They lie one behind the other and are short: a read of each would cost
//! more than its bytes, where the cache does not have them.

use super::{LoadedBlock, Part, RowsetCursor, Slot};
use crate::files::rowset::format::{BlockRef, ColumnEntry};
use crate::files::rowset::verified::VerifiedBlock;
use nyala_core::Result;
use std::sync::Arc;

/// What is read at once, at most.
const SPAN_BYTES_MAX: u64 = 64 << 10;
/// What may lie between two blocks that are read at once: blocks of columns that are not asked for.
const GAP_BYTES_MAX: u64 = 2 << 10;

impl RowsetCursor {
    /// Reads a block that is not in the cache. The second one of a group brings with it those of the other columns of the
    /// projection: a reader that goes beyond the first column, by which it may have judged the group, goes on to the rest.
    pub(super) fn read_block(
        &mut self,
        part: &Part,
        source: usize,
        place: BlockRef,
        rows: u32,
    ) -> Result<Arc<VerifiedBlock>> {
        let group = (part.page, part.group);
        if self.missed.replace(group) == Some(group) {
            let together = self.neighbours(part, source, place);
            if together.len() > 1
                && let Some(block) = self.read_together(part, source, &together, rows)?
            {
                return Ok(block);
            }
        }
        self.rowset.read_column_block(place, self.sources[source].column_type, rows, self.use_of)
    }

    /// Reads blocks that lie one behind the other. Those that are wanted only soon are kept if they are right; what is wrong with the
    /// others is said when they are asked for. Returns the block that is wanted now; `None`: it has to be read alone.
    fn read_together(
        &mut self,
        part: &Part,
        wanted: usize,
        together: &[(usize, BlockRef)],
        rows: u32,
    ) -> Result<Option<Arc<VerifiedBlock>>> {
        let begin = together[0].1.offset;
        let end = together.iter().filter_map(|(_, place)| place.end()).max().unwrap_or(begin);
        let bytes = self.rowset.read_bytes(begin, (end - begin) as usize)?;
        let mut found = None;
        for (source, place) in together {
            let column_type = self.sources[*source].column_type;
            let from = (place.offset - begin) as usize;
            let own = &bytes[from..from + place.length as usize];
            let Some(block) = self.rowset.column_block_of(*place, own, column_type, rows, self.use_of) else {
                continue;
            };
            self.remember(part, *source, &block);
            match *source == wanted {
                true => found = Some(block),
                false => {
                    let place = *place;
                    self.blocks[*source] = Slot::Found(LoadedBlock { place, column_type, rows, block });
                }
            }
        }
        Ok(found)
    }

    /// The blocks of a group that nobody has read and that lie beside one, in the order in which they lie there, with this one.
    fn neighbours(&mut self, part: &Part, source: usize, place: BlockRef) -> Vec<(usize, BlockRef)> {
        let mut missing = vec![(source, place)];
        // The last source are the markers of rows, which few groups have.
        for other in (0..self.sources.len() - 1).filter(|other| *other != source) {
            if !matches!(self.blocks[other], Slot::Unknown) {
                continue;
            }
            // What is wrong with its index page is said when it is asked for.
            let Ok(Some(page)) = self.column_page(part, other) else { continue };
            let own = ColumnEntry::block_at(page.bytes(), part.group);
            if own.length > 0 && page.find(part.group).is_none() && !self.rowset.is_cached(own) {
                missing.push((other, own));
            }
        }
        let length_bytes = self.rowset.meta.length_bytes;
        missing.retain(|(_, own)| own.end().is_some_and(|end| end <= length_bytes));
        missing.sort_unstable_by_key(|(_, own)| own.offset);
        let Some(at) = missing.iter().position(|(own, _)| *own == source) else { return Vec::new() };
        let end_of = |(_, own): &(usize, BlockRef)| own.offset + u64::from(own.length);
        let (mut first, mut last) = (at, at);
        let fits =
            |first: usize, last: usize| end_of(&missing[last]) - missing[first].1.offset <= SPAN_BYTES_MAX;
        let is_near = |before: usize| {
            missing[before + 1]
                .1
                .offset
                .checked_sub(end_of(&missing[before]))
                .is_some_and(|gap| gap <= GAP_BYTES_MAX)
        };
        while last + 1 < missing.len() && is_near(last) && fits(first, last + 1) {
            last += 1;
        }
        while first > 0 && is_near(first - 1) && fits(first - 1, last) {
            first -= 1;
        }
        missing[first..=last].to_vec()
    }
}
