//! Rows that come in order of time, put in order at each time.
//!
//! Where no two series compare equal, the order of the answer does not depend on a heap's history (`order`), and
//! rows can go on as soon as all that are at their time are here.

use super::memory::{Held, QueryMemory};
use super::rows::Rows;
use nyala_core::Result;
use std::collections::VecDeque;

/// Rows waiting for those at the same time.
pub struct SortedRows {
    /// All at one time, each with the ranks of its rows.
    waiting: Vec<(Rows, Vec<u32>)>,
    ready: VecDeque<Rows>,
    held: Held,
}

impl SortedRows {
    /// None yet.
    pub fn new(memory: &QueryMemory) -> Self {
        Self { waiting: Vec::new(), ready: VecDeque::new(), held: memory.hold() }
    }

    /// Adds rows that follow in order of time, each with its rank among those at its time.
    pub fn push(&mut self, rows: Rows, ranks: &[u32]) -> Result<()> {
        let count = rows.times_ns.len();
        let Some(last_ns) = rows.times_ns.last().copied() else { return Ok(()) };
        let mut start = 0;
        if let Some((waiting, _)) = self.waiting.first() {
            let time_ns = waiting.times_ns[0];
            start = rows.times_ns.partition_point(|other_ns| *other_ns == time_ns);
            self.wait(rows.slice(0, start), &ranks[..start])?;
            if start == count {
                return Ok(());
            }
            self.flush();
        }
        let end = start + rows.times_ns[start..].partition_point(|time_ns| *time_ns != last_ns);
        if start < end {
            self.ready.push_back(sorted(rows.slice(start, end - start), &ranks[start..end]));
        }
        self.wait(rows.slice(end, count - end), &ranks[end..])
    }

    fn wait(&mut self, rows: Rows, ranks: &[u32]) -> Result<()> {
        if ranks.is_empty() {
            return Ok(());
        }
        self.held.charge(ranks.len() * (12 + 24 * rows.columns.len()))?;
        self.waiting.push((rows, ranks.to_vec()));
        Ok(())
    }

    /// Says that no more rows come at the last time.
    pub fn flush(&mut self) {
        let (mut parts, ranks): (Vec<Rows>, Vec<Vec<u32>>) = self.waiting.drain(..).unzip();
        let all = if parts.len() > 1 { Some(Rows::concatenate(&parts)) } else { parts.pop() };
        self.ready.extend(all.map(|rows| sorted(rows, &ranks.concat())));
        self.held.shrink_to(0);
    }

    /// The next rows in order, if they are all here.
    pub fn next(&mut self) -> Option<Rows> {
        self.ready.pop_front()
    }
}

/// Rows in order of time, by rank at each time.
fn sorted(rows: Rows, ranks: &[u32]) -> Rows {
    let times_ns = &rows.times_ns;
    let mut order: Vec<u32> = (0..times_ns.len() as u32).collect();
    let (mut start, mut is_sorted, mut words) = (0, true, Vec::new());
    while start < order.len() {
        let time_ns = times_ns[start];
        let same = times_ns[start..].iter().take_while(|other_ns| **other_ns == time_ns).count();
        if !ranks[start..start + same].is_sorted() {
            is_sorted = false;
            // Rank and row in one word sort faster than by a look-up of ranks.
            words.clear();
            words.extend((start..start + same).map(|row| u64::from(ranks[row]) << 32 | row as u64));
            words.sort_unstable();
            order[start..start + same].iter_mut().zip(&words).for_each(|(row, word)| *row = *word as u32);
        }
        start += same;
    }
    if is_sorted { rows } else { rows.take(&order) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::column::Column;
    use nyala_core::memory::MemoryBudget;

    #[test]
    fn rows_at_one_time_are_in_order_however_they_come() {
        // (time, rank); the value of each row is its place in the whole order.
        let rows: Vec<(i64, u32)> = vec![(9, 1), (9, 0), (7, 5), (7, 2), (7, 3), (7, 9), (7, 1), (6, 4)];
        let mut expected: Vec<(i64, u32)> = rows.clone();
        expected.sort_by_key(|(time_ns, rank)| (-time_ns, *rank));
        let memory = QueryMemory::new(1 << 20, &MemoryBudget::new(1 << 30));
        for size in 1..=rows.len() {
            let mut sorted = SortedRows::new(&memory);
            let mut found = Vec::new();
            let mut take = |sorted: &mut SortedRows| {
                while let Some(rows) = sorted.next() {
                    let Column::Unsigned(ranks) = &rows.columns[0] else { panic!("ranks") };
                    let ranks = ranks.values().iter().map(|rank| *rank as u32);
                    found.extend(rows.times_ns.iter().copied().zip(ranks));
                }
            };
            for part in rows.chunks(size) {
                let ranks: Vec<u32> = part.iter().map(|row| row.1).collect();
                let column = part.iter().map(|row| u64::from(row.1)).collect::<Vec<_>>();
                let columns = vec![Column::Unsigned(column.into())];
                let times_ns = part.iter().map(|row| row.0).collect();
                sorted.push(Rows { times_ns, columns }, &ranks).unwrap();
                take(&mut sorted);
            }
            sorted.flush();
            take(&mut sorted);
            assert_eq!(found, expected, "in parts of {size}");
        }
    }
}
