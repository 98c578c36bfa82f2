//! Reading rows: which rows, in what order, and the batches that a scan returns.

use super::predicate::Predicate;
use crate::arrays::value_bytes;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, SeriesId, TableId};
use crate::schema::TableSchema;
use crate::time::TimeRange;
use crate::value::Value;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// What to read.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The table.
    pub table: TableId,
    /// Which keys.
    pub rows: RowSelection,
    /// The columns to return, in this order. A column that is named twice is returned twice. The series column of a
    /// table of series is never named here: it is returned as [`Batch::series`].
    pub columns: Vec<ColumnId>,
    /// Conditions that must all hold.
    pub predicates: Vec<Predicate>,
    /// Leave out rows in which all of `columns` outside the key are NULL.
    pub skip_empty_rows: bool,
    /// The order of the rows.
    pub order: Order,
    /// How rows of the same time are sorted by series, when the order is by time: first these series, in this order,
    /// each once; then the series that are not listed, ascending.
    pub ties: Arc<[SeriesId]>,
    /// The most rows in total, counted after all other conditions; 0 returns none.
    pub limit: Option<usize>,
    /// Rows that it finds to be of no use may be left out: a store asks it where that saves reading other columns, others
    /// ignore it. Without limits only.
    pub prefilter: Option<Arc<dyn Prefilter>>,
    /// The most rows with the same first key column. 1 with a backward scan returns the last point of each series. Only
    /// in key order.
    pub limit_per_prefix: Option<usize>,
    /// Whether others come first: a store may read more slowly when its processors are short. Others ignore it.
    pub in_background: bool,
}

impl ScanRequest {
    /// A request for the selected rows in key order, without conditions or limits.
    pub fn by_key(table: TableId, rows: RowSelection, columns: Vec<ColumnId>) -> Self {
        Self {
            table,
            rows,
            columns,
            predicates: Vec::new(),
            skip_empty_rows: false,
            order: Order::Key(Direction::Forward),
            ties: [].into(),
            prefilter: None,
            limit: None,
            limit_per_prefix: None,
            in_background: false,
        }
    }

    /// Checks the request against the schema: the columns are known, and the key allows the order and the selection.
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        let tested = self.predicates.iter().map(|predicate| &predicate.column);
        let prefiltered = self.prefilter.iter().flat_map(|prefilter| prefilter.columns());
        let named = self.columns.iter().chain(tested).chain(prefiltered);
        for id in named {
            if schema.column(*id).is_none() {
                return Err(Error::missing(format!("table {} has no column {id}", schema.shown_name())));
            }
        }
        let by_series = schema.is_series_keyed();
        if by_series && self.columns.contains(&schema.key[0]) {
            return Err(Error::invalid("the series column comes as runs and cannot be asked for"));
        }
        let needs_series =
            matches!(self.order, Order::Time(_)) || matches!(self.rows, RowSelection::Series { .. });
        if needs_series && !by_series {
            return Err(Error::unsupported(format!("table {} is not keyed by series", schema.shown_name())));
        }
        if matches!(self.order, Order::Time(_)) && self.limit_per_prefix.is_some() {
            return Err(Error::unsupported("a limit per key prefix needs key order"));
        }
        if matches!(self.order, Order::Key(_)) && !self.ties.is_empty() {
            return Err(Error::unsupported("an order of series at one time needs an order of time"));
        }
        Ok(())
    }
}

/// Which rows by their keys.
#[derive(Debug, Clone)]
pub enum RowSelection {
    /// Every row.
    All,
    /// Rows between two keys or key prefixes.
    Keys {
        /// The first key.
        start: KeyBound,
        /// The last key.
        end: KeyBound,
    },
    /// Rows of a series-keyed table by series and time.
    Series {
        /// The series.
        series: SeriesSet,
        /// The times.
        time: TimeRange,
    },
}

/// Values of the first key columns, in their order and types. A prefix stands for all keys that start with it: an
/// included prefix includes all of them, an excluded one excludes all of them. If the start lies behind the end,
/// nothing is selected.
pub type KeyBound = Bound<Vec<Value>>;

/// A set of series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeriesSet {
    /// All of the table.
    All,
    /// These series, in ascending order, each once.
    Ids(Arc<[SeriesId]>),
}

impl SeriesSet {
    /// Whether the series is in the set.
    pub fn contains(&self, series: SeriesId) -> bool {
        match self {
            SeriesSet::All => true,
            SeriesSet::Ids(ids) => ids.binary_search(&series).is_ok(),
        }
    }
}

/// The order of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By key. A backward scan returns descending keys, except in a table of series: there the series are ascending,
    /// and the rows of each series are in descending order of time.
    Key(Direction),
    /// By time, then by series: first [`ScanRequest::ties`], then ascending. Only for tables of series.
    Time(Direction),
}

/// Forwards or backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// Rows as columns.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The number of rows; never 0 in a stream.
    pub rows: usize,
    /// In a table of series: which rows belong to which series, in order. Otherwise empty.
    pub series: Vec<SeriesRun>,
    /// The requested columns. A slot that is not valid is a NULL or absent cell.
    pub columns: Vec<ArrayRef>,
}

impl Batch {
    /// Bytes of the values of its columns. Columns that came in one message share its buffer, which is not counted for each of them.
    pub fn value_bytes(&self) -> usize {
        self.columns.iter().map(value_bytes).sum()
    }
}

/// Consecutive rows of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesRun {
    /// The series.
    pub series: SeriesId,
    /// How many rows.
    pub rows: u32,
}

/// A condition that only the reader of a scan can judge, as it is written in the reader's language, or is found out while rows
/// are read: the values that a join looks for, the least of the first rows so far.
pub trait Prefilter: fmt::Debug + Send + Sync {
    /// The columns that it looks at, each once.
    fn columns(&self) -> &[ColumnId];

    /// Which of some rows, given by these columns, are of use. `None` if it cannot say: then all are.
    fn keep(&self, columns: &[ArrayRef]) -> Option<BooleanBuffer>;
}

/// The batches of a scan.
#[async_trait]
pub trait RowStream: Send {
    /// The next batch, or `None` at the end. A batch has at most some tens of thousands of rows.
    async fn next(&mut self) -> Result<Option<Batch>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use arrow_buffer::{Buffer, ScalarBuffer};

    #[test]
    fn a_buffer_that_columns_share_is_counted_once() {
        let message = Buffer::from_vec((0..100).collect::<Vec<i64>>());
        let column = |begin| {
            let values = ScalarBuffer::new(message.clone(), begin, 50);
            Arc::new(Int64Array::new(values, None)) as ArrayRef
        };
        let batch = Batch { rows: 50, series: Vec::new(), columns: vec![column(0), column(50)] };
        assert_eq!(batch.value_bytes(), 100 * size_of::<i64>());
    }
}
