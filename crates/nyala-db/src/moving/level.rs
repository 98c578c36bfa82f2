//! Makes rows of the target those of the source: both are read side by side, in the order of their keys.
//!
//! Where the target has none yet, that is copying, batch by batch. Where a move was interrupted, or the source was changed
//! since, only what differs is written: a row that the target lacks, one that has other cells there, and one that the source
//! has no more is deleted. So the same step copies, resumes and follows.

use super::columns::Columns;
use super::cursor::Cursor;
use super::writer::Writer;
use arrow_array::ArrayRef;
use nyala_core::arrays::{is_same_cell, take_rows};
use nyala_core::store::{RowStream, StoreRef};
use nyala_core::{Result, TableId};
use std::cmp::Ordering;

/// What became of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levelled {
    /// Rows of the source.
    pub rows: u64,
    /// Those that the target lacked.
    pub inserted: u64,
    /// Those that had other cells there.
    pub changed: u64,
    /// Rows of the target that the source has not.
    pub deleted: u64,
}

/// Makes the rows of a stream those of a table, of which `old` are there already. `watch` is told how many rows of the source
/// were passed. Everything is durable when this returns.
pub(super) async fn level(
    columns: &Columns,
    new: Box<dyn RowStream>,
    old: Box<dyn RowStream>,
    (store, table): (&StoreRef, TableId),
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Levelled> {
    let (mut new, mut old) = (Cursor::new(columns, new), Cursor::new(columns, old));
    let mut work = Work { columns, table, writer: Writer::new(store), levelled: Levelled::default() };
    let (mut has_new, mut has_old) = (new.next_batch().await?, old.next_batch().await?);
    let (mut lacking, mut other, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
    while has_new || has_old {
        match (new.key(), old.key()) {
            (Some(key), Some(old_key)) => match key.cmp(old_key) {
                Ordering::Less => {
                    lacking.push(new.row as u32);
                    new.advance();
                }
                Ordering::Greater => {
                    surplus.push(old.row as u32);
                    old.advance();
                }
                Ordering::Equal => {
                    if !is_same_row(columns, &new, &old) {
                        other.push(new.row as u32);
                    }
                    new.advance();
                    old.advance();
                }
            },
            (Some(_), None) if !has_old => {
                lacking.extend(new.row as u32..new.rows() as u32);
                new.row = new.rows();
            }
            (None, Some(_)) if !has_new => {
                surplus.extend(old.row as u32..old.rows() as u32);
                old.row = old.rows();
            }
            (is_new_left, is_old_left) => {
                let (is_new_left, is_old_left) = (is_new_left.is_some(), is_old_left.is_some());
                if has_new && !is_new_left {
                    let rows = new.rows() as u64;
                    work.put(&new.arrays, &lacking, false).await?;
                    work.put(&new.arrays, &other, true).await?;
                    lacking.clear();
                    other.clear();
                    work.levelled.rows += rows;
                    watch(rows);
                    has_new = new.next_batch().await?;
                }
                if has_old && !is_old_left {
                    work.remove(&old.arrays, &surplus).await?;
                    surplus.clear();
                    has_old = old.next_batch().await?;
                }
            }
        }
    }
    let Work { writer, levelled, .. } = work;
    writer.finish().await?;
    Ok(levelled)
}

fn is_same_row(columns: &Columns, new: &Cursor<'_>, old: &Cursor<'_>) -> bool {
    let others = new.arrays.iter().zip(&old.arrays).skip(columns.keys());
    let mut pairs = others.map(|(one, another)| ((one, new.row), (another, old.row)));
    pairs.all(|(one, another)| is_same_cell(one, another))
}

struct Work<'a> {
    columns: &'a Columns,
    table: TableId,
    writer: Writer,
    levelled: Levelled,
}

impl Work<'_> {
    async fn put(&mut self, arrays: &[ArrayRef], rows: &[u32], replaces: bool) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let count = if replaces { &mut self.levelled.changed } else { &mut self.levelled.inserted };
        *count += rows.len() as u64;
        let some = some_rows(arrays, rows);
        self.writer.write(self.columns.upsert(self.table, some, replaces)).await
    }

    async fn remove(&mut self, arrays: &[ArrayRef], rows: &[u32]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.levelled.deleted += rows.len() as u64;
        let some = some_rows(&arrays[..self.columns.keys()], rows);
        self.writer.write(self.columns.delete(self.table, &some)).await
    }
}

/// Some rows of a batch, which ascend.
fn some_rows(arrays: &[ArrayRef], rows: &[u32]) -> Vec<ArrayRef> {
    let (first, last) = (rows[0] as usize, rows[rows.len() - 1] as usize);
    match last - first + 1 == rows.len() {
        // Nearly always, where rows are copied.
        true => arrays.iter().map(|array| array.slice(first, rows.len())).collect(),
        false => arrays.iter().map(|array| take_rows(array, rows)).collect(),
    }
}

impl Levelled {
    /// Adds what became of other rows.
    pub fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.inserted += more.inserted;
        self.changed += more.changed;
        self.deleted += more.deleted;
    }

    /// How many rows of the target were not those of the source.
    pub fn differing(&self) -> u64 {
        self.inserted + self.changed + self.deleted
    }
}
