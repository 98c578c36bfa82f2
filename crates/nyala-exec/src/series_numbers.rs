//! Dense numbers for the series that a query reads.

use nyala_core::SeriesId;
use std::collections::HashMap;

/// In [`SeriesNumbers::Dense`]: the id is none of the series.
const UNKNOWN: u32 = u32::MAX;

/// A number for each series. Ids are usually dense, so that the number is found in a list; few ids that are far apart are
/// kept in a map.
pub enum SeriesNumbers {
    /// For ids from `first` on.
    Dense {
        /// The least id.
        first: u32,
        /// By the id minus `first`.
        numbers: Vec<u32>,
    },
    /// For ids that are far apart.
    Sparse(HashMap<SeriesId, u32>),
}

impl SeriesNumbers {
    /// The series numbered in the order they are given in.
    pub fn numbered(series: impl ExactSizeIterator<Item = SeriesId> + Clone) -> Self {
        let first = series.clone().min().map_or(0, |id| id.0);
        let width = series.clone().max().map_or(0, |id| (id.0 - first) as usize + 1);
        if width / 4 > series.len() {
            return SeriesNumbers::Sparse(series.zip(0..).collect());
        }
        let mut numbers = vec![UNKNOWN; width];
        series.zip(0..).for_each(|(id, number)| numbers[(id.0 - first) as usize] = number);
        SeriesNumbers::Dense { first, numbers }
    }

    /// The number of a series, which must be one of them.
    pub fn number(&self, id: SeriesId) -> u32 {
        match self {
            SeriesNumbers::Dense { first, numbers } => numbers[(id.0 - first) as usize],
            SeriesNumbers::Sparse(numbers) => numbers[&id],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_their_numbers_however_far_apart() {
        for ids in [vec![], vec![7], vec![9, 3, 4, 8], vec![5, 4_000_000_000, 17]] {
            let series = ids.iter().copied().map(SeriesId);
            let numbers = SeriesNumbers::numbered(series.clone());
            assert!(series.map(|id| numbers.number(id)).eq(0..ids.len() as u32));
        }
    }
}
