//! Checks that the last rows which a rowset keeps once more are the last rows of its series.

use crate::files::rowset::Rowset;
use crate::files::rowset::format::GroupEntry;
use crate::files::rowset::reader::LoadedFooter;
use crate::files::rowset::series::RowsetCursor;
use crate::files::schema_format::MARKER_COLUMN;
use crate::rows::projection::Projection;
use nyala_core::{Error, Result, SeriesId, TimeRange};
use std::sync::Arc;

/// Compares all last rows with the rows of their series.
pub(super) fn check(rowset: &Arc<Rowset>, footer: &LoadedFooter) -> Result<()> {
    let mut kept_rows = 0;
    for page in &footer.last_pages {
        let entries = rowset.group_page(page)?;
        kept_rows += (0..page.groups as usize)
            .map(|group| u64::from(GroupEntry::at(entries.bytes(), group).rows))
            .sum::<u64>();
    }
    if kept_rows == 0 {
        return Ok(());
    }
    let columns: Vec<_> = footer.columns[1..]
        .iter()
        .filter(|(id, _)| *id != MARKER_COLUMN)
        .map(|(id, column_type)| (*id, column_type.0))
        .collect();
    let types: Vec<_> = columns.iter().map(|(_, column_type)| *column_type).collect();
    let mut all = RowsetCursor::new(rowset.clone(), Projection::new(columns))?;
    let mut last = all.of_last_rows(true)?;
    let (mut least, mut parts, mut found) = (Some(0), Vec::new(), 0);
    while let Some(from) = least
        && let Some(series) = all.next_series(from)?
    {
        least = series.checked_add(1);
        let place = footer.last_pages[0].group_page;
        let wrong = |words: &str| {
            rowset.corrupt(place, &Error::invalid(format!("the last row of series {series} {words}")))
        };
        let Ok(part) = last.last_row(SeriesId(series))? else { continue };
        let part = part.ok_or_else(|| wrong("is missing"))?;
        found += 1;
        let kept = last.batch(&part, part.rows.clone())?;
        if kept.keys.last() == Some(&i64::MAX) {
            // Deletions were once kept of a time that no range of times holds.
            continue;
        }
        parts.clear();
        all.parts(SeriesId(series), TimeRange::ALL, &mut parts)?;
        let whole = parts.pop().ok_or_else(|| wrong("is of no row"))?;
        let expected = all.batch(&whole, whole.rows.end - 1..whole.rows.end)?;
        let cells = kept.columns.iter().zip(&expected.columns).zip(&types);
        let mut cells = cells.map(|((kept, expected), column_type)| {
            kept.state(0) == expected.state(0)
                && kept.value(0, *column_type) == expected.value(0, *column_type)
        });
        if kept.keys != expected.keys || kept.marker(0) != expected.marker(0) || !cells.all(|same| same) {
            return Err(wrong("is another than its rows end with"));
        }
    }
    if found == kept_rows {
        Ok(())
    } else {
        Err(Error::invalid(format!("{kept_rows} last rows are kept, of {found} series")))
    }
}
