//! Divides the keys of a table into parts with about as many rows each, by the index of its largest rowset.

use crate::files::rowset::Rowset;
use crate::memory::version::TableVersion;
use crate::reading::scan::keyed_rows::{key_column, key_types};
use crate::rows::byte_vec::ByteVec;
use crate::rows::key::KeyRange;
use nyala_core::{Result, Value};
use std::sync::Arc;

/// With fewer groups in a part, dividing costs more than it gives.
const GROUPS_PER_PART_MIN: usize = 4;

/// The keys at which the parts begin but the first: at most `parts - 1`.
pub(crate) fn split_keys(table: &TableVersion, range: &KeyRange, parts: usize) -> Result<Vec<Vec<Value>>> {
    let rowsets = table.partitions.iter().flat_map(|partition| partition.rowsets.iter());
    let Some(largest) = rowsets.max_by_key(|rowset| rowset.meta.rows) else { return Ok(Vec::new()) };
    let firsts = first_keys(largest, range, parts * GROUPS_PER_PART_MIN)?;
    let parts = parts.min(firsts.len() / GROUPS_PER_PART_MIN);
    let mut splits = ByteVec::new();
    (1..parts).for_each(|part| splits.push(firsts.get(firsts.len() * part / parts)));
    let types = key_types(&table.schema);
    let columns: Vec<_> = (0..types.len()).map(|position| key_column(&splits, &types, position)).collect();
    let key = |row: usize| {
        let cells = columns.iter().zip(&types);
        cells.map(|(column, column_type)| column.value(row, *column_type)).collect::<Option<Vec<Value>>>()
    };
    Ok((0..splits.len()).filter_map(key).collect())
}

/// The first keys of the index pages that begin inside a range, or if they are fewer than so many, those of the groups.
fn first_keys(rowset: &Arc<Rowset>, range: &KeyRange, enough: usize) -> Result<ByteVec> {
    let footer = rowset.footer()?;
    let mut firsts = ByteVec::new();
    let of_pages = footer.pages.iter().map(|page| &page.first_key).filter(|key| range.contains(key));
    of_pages.for_each(|key| firsts.push(key));
    if firsts.len() >= enough {
        return Ok(firsts);
    }
    firsts = ByteVec::new();
    for (number, page) in footer.pages.iter().enumerate() {
        let ends_before =
            |next: usize| footer.pages.get(next).is_some_and(|next| next.first_key <= range.start);
        let begins_behind = range.end.as_ref().is_some_and(|end| *end <= page.first_key);
        if ends_before(number + 1) || begins_behind {
            continue;
        }
        let block = rowset.keyed_page(&footer, page)?;
        let keys = block.as_keyed_page().expect("was checked");
        let inside = (0..keys.groups()).map(|group| keys.first_key(group)).filter(|key| range.contains(key));
        inside.for_each(|key| firsts.push(key));
    }
    Ok(firsts)
}
