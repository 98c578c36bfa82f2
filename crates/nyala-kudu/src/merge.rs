//! Rows of several sheets, put together by their keys.

use crate::rows::{RowFilter, Rows};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{ArrayRef, TimestampNanosecondArray, UInt32Array, new_null_array};
use async_trait::async_trait;
use nyala_core::Result;
use nyala_core::arrays::take_rows_or_null;
use nyala_core::store::{Batch, RowStream};
use std::sync::Arc;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1 << 13;

/// The rows that any of some sheets has, in the order of series and time.
pub(crate) struct MergedRows {
    sheets: Vec<SheetRows>,
    /// Judges whole rows.
    filter: RowFilter,
    /// Where the columns stand that the filter reads, after the key: a sheet and a place in its rows. `None`: in no sheet.
    places: Vec<Option<(usize, usize)>>,
    rows_left: usize,
}

/// The rows of a sheet: the key, then its columns.
struct SheetRows {
    rows: Rows,
    batch: Option<Batch>,
    /// The next row of the batch.
    position: usize,
}

impl SheetRows {
    /// Reads on where the batch is used up.
    async fn fill(&mut self) -> Result<()> {
        while self.batch.as_ref().is_some_and(|batch| self.position == batch.rows) {
            self.batch = self.rows.next().await?;
            self.position = 0;
        }
        Ok(())
    }

    /// The key of the next row.
    fn key(&self) -> Option<(u32, i64)> {
        let batch = self.batch.as_ref().filter(|batch| self.position < batch.rows)?;
        let series = batch.columns[0].as_primitive::<UInt32Type>();
        let times = batch.columns[1].as_primitive::<TimestampNanosecondType>();
        Some((series.value(self.position), times.value(self.position)))
    }
}

/// Rows put together, by where they are in the sheets' batches.
#[derive(Default)]
struct Joined {
    series: Vec<u32>,
    times: Vec<i64>,
    /// By sheet.
    rows: Vec<Vec<Option<u32>>>,
}

impl MergedRows {
    /// `places` says of each column that the filter reads after the key where it stands.
    pub(crate) async fn open(
        sheets: Vec<Rows>,
        filter: RowFilter,
        places: Vec<Option<(usize, usize)>>,
        limit: Option<usize>,
    ) -> Result<Self> {
        let mut opened = Vec::with_capacity(sheets.len());
        for mut rows in sheets {
            let batch = rows.next().await?;
            opened.push(SheetRows { rows, batch, position: 0 });
        }
        Ok(Self { sheets: opened, filter, places, rows_left: limit.unwrap_or(usize::MAX) })
    }

    /// The next rows, until a sheet's batch is used up.
    fn join(&mut self) -> Joined {
        let mut joined = Joined { rows: vec![Vec::new(); self.sheets.len()], ..Joined::default() };
        let mut keys: Vec<Option<(u32, i64)>> = self.sheets.iter().map(SheetRows::key).collect();
        while joined.series.len() < BATCH_ROWS {
            let Some(least) = keys.iter().flatten().min().copied() else { break };
            joined.series.push(least.0);
            joined.times.push(least.1);
            let mut is_used_up = false;
            for ((sheet, key), rows) in self.sheets.iter_mut().zip(&mut keys).zip(&mut joined.rows) {
                let has = *key == Some(least);
                rows.push(has.then_some(sheet.position as u32));
                if has {
                    sheet.position += 1;
                    *key = sheet.key();
                    is_used_up |= key.is_none();
                }
            }
            if is_used_up {
                break;
            }
        }
        joined
    }

    /// The columns that the filter reads, of some rows.
    fn columns_of(&self, joined: &Joined) -> Vec<ArrayRef> {
        let series: ArrayRef = Arc::new(UInt32Array::from(joined.series.clone()));
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(joined.times.clone()));
        let mut columns = vec![series, times];
        let types = self.filter.read.iter().skip(2).map(|read| read.column_type().data_type());
        columns.extend(self.places.iter().zip(types).map(|(place, data_type)| {
            let of_sheet = place.and_then(|(sheet, place)| {
                let batch = self.sheets[sheet].batch.as_ref()?;
                Some(taken(&batch.columns[place], &joined.rows[sheet]))
            });
            of_sheet.unwrap_or_else(|| new_null_array(&data_type, joined.series.len()))
        }));
        columns
    }
}

/// Some rows of a column; where there is no row, NULL.
fn taken(column: &ArrayRef, rows: &[Option<u32>]) -> ArrayRef {
    match (rows.first(), rows.iter().all(Option::is_some)) {
        // They follow each other, because a sheet's rows are taken one after the other.
        (Some(Some(first)), true) => column.slice(*first as usize, rows.len()),
        _ => take_rows_or_null(column, rows),
    }
}

#[async_trait]
impl RowStream for MergedRows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        while self.rows_left > 0 {
            for sheet in &mut self.sheets {
                sheet.fill().await?;
            }
            let joined = self.join();
            let rows = joined.series.len();
            if rows == 0 {
                break;
            }
            let columns = self.columns_of(&joined);
            if let Some(batch) = self.filter.kept(&columns, rows, self.rows_left) {
                self.rows_left -= batch.rows;
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}
