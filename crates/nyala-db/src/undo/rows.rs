//! Points of a table, one after the other by series and time.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use nyala_core::Result;
use nyala_core::store::{Batch, RowStream};
use std::sync::Arc;

/// Points that a scan finds. Its first column are the times.
pub(super) struct Rows {
    stream: Option<Box<dyn RowStream>>,
    batch: Option<Arc<Batch>>,
    row: usize,
    /// The run of the row, and the row after the run.
    run: usize,
    run_end: usize,
}

/// A point: a row of a batch.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) batch: &'a Arc<Batch>,
    pub(super) row: usize,
}

impl Rows {
    pub(super) fn none() -> Self {
        Self { stream: None, batch: None, row: 0, run: 0, run_end: 0 }
    }

    pub(super) async fn of(stream: Option<Box<dyn RowStream>>) -> Result<Self> {
        let mut rows = Self { stream, ..Self::none() };
        rows.fill().await?;
        Ok(rows)
    }

    async fn fill(&mut self) -> Result<()> {
        self.batch = match &mut self.stream {
            Some(stream) => stream.next().await?.map(Arc::new),
            None => None,
        };
        let first_run = self.batch.as_ref().and_then(|batch| batch.series.first());
        (self.row, self.run, self.run_end) = (0, 0, first_run.map_or(0, |run| run.rows as usize));
        Ok(())
    }

    /// The series of the current point.
    pub(super) fn series(&self) -> Option<u32> {
        Some(self.batch.as_ref()?.series[self.run].series.0)
    }

    /// The series of the current point, and those that are known to come after it.
    pub(super) fn next_series(&self) -> impl Iterator<Item = u32> {
        let batch = self.batch.iter();
        batch.flat_map(|batch| &batch.series[self.run..]).map(|run| run.series.0)
    }

    fn time_ns(&self) -> Option<i64> {
        let times = self.batch.as_ref()?.columns[0].as_primitive::<TimestampNanosecondType>();
        Some(times.value(self.row))
    }

    /// The time of the current point, if it is of this series.
    pub(super) fn time_of(&self, series: u32) -> Option<i64> {
        if self.series() == Some(series) { self.time_ns() } else { None }
    }

    /// The current point, if it has this key.
    pub(super) fn at(&self, series: u32, time_ns: i64) -> Option<Row<'_>> {
        let is_it = self.time_of(series) == Some(time_ns);
        self.batch.as_ref().filter(|_| is_it).map(|batch| Row { batch, row: self.row })
    }

    pub(super) async fn advance(&mut self) -> Result<()> {
        let Some(batch) = &self.batch else { return Ok(()) };
        self.row += 1;
        if self.row == batch.rows {
            return self.fill().await;
        }
        if self.row == self.run_end {
            self.run += 1;
            self.run_end += batch.series[self.run].rows as usize;
        }
        Ok(())
    }

    /// Advances to the first point that does not come before a key.
    pub(super) async fn seek(&mut self, series: u32, time_ns: i64) -> Result<()> {
        while let Some(key) = self.series().zip(self.time_ns())
            && key < (series, time_ns)
        {
            self.advance().await?;
        }
        Ok(())
    }
}
