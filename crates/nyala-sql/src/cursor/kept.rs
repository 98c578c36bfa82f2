//! The rows that a cursor has passed, and can go back to: in memory, and in a file when they become many.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::spill::SpillSpace;
use arrow_array::RecordBatch;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::error::DataFusionError;
use datafusion::execution::SpillFile;
use nyala_core::before_long_work;
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Rows may take this part (1/8) of the memory of the statement before they go to a file: the statement still runs.
const MEMORY_SHARE: usize = 8;

/// Rows in their order.
pub(crate) struct KeptRows {
    space: Arc<SpillSpace>,
    /// `None` if the rows were in memory before.
    memory: Option<QueryMemory>,
    parts: Vec<Part>,
    /// How many there are.
    rows: u64,
    /// What those in memory take, and the list of parts.
    charge: Option<MemoryCharge>,
    in_memory_bytes: usize,
    /// Has parts one after the other, each of which can be read alone.
    file: Option<Arc<dyn SpillFile>>,
    file_bytes: u64,
    /// The part that was read from the file last: the next rows are mostly beside it.
    read: Option<(usize, RecordBatch)>,
}

struct Part {
    /// How many rows stand before it.
    first: u64,
    rows: u64,
    place: Place,
}

enum Place {
    Memory(RecordBatch),
    File { start: u64, bytes: u64 },
}

impl KeptRows {
    pub(crate) fn new(space: Arc<SpillSpace>, memory: Option<QueryMemory>) -> Self {
        let charge = memory.as_ref().map(QueryMemory::hold);
        let (parts, file, read) = (Vec::new(), None, None);
        Self { space, memory, parts, rows: 0, charge, in_memory_bytes: 0, file, file_bytes: 0, read }
    }

    /// How many rows are kept.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Keeps rows that come after all others.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> SqlResult<()> {
        let rows = batch.num_rows() as u64;
        let bytes = batch.get_array_memory_size();
        if let Some(charge) = &mut self.charge {
            charge.charge(size_of::<Part>())?;
        }
        let most = self.memory.as_ref().map_or(usize::MAX, |memory| memory.limit_bytes() / MEMORY_SHARE);
        let fits = self.in_memory_bytes.saturating_add(bytes) <= most
            && self.charge.as_mut().is_none_or(|charge| charge.charge(bytes).is_ok());
        let place = match fits {
            true => {
                self.in_memory_bytes += bytes;
                Place::Memory(batch)
            }
            false => {
                self.empty_memory()?;
                self.written(&batch)?
            }
        };
        self.parts.push(Part { first: self.rows, rows, place });
        self.rows += rows;
        Ok(())
    }

    /// The rows around one, which is the row of this place among them. `place` counts from 0, and must be kept.
    pub(crate) async fn around(&mut self, place: u64) -> SqlResult<(RecordBatch, usize)> {
        let number = self.parts.partition_point(|part| part.first + part.rows <= place);
        let part = self.parts.get(number);
        let part = part.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the row is not kept"))?;
        let within = (place - part.first) as usize;
        let (start, bytes) = match &part.place {
            Place::Memory(batch) => return Ok((batch.clone(), within)),
            Place::File { start, bytes } => (*start, *bytes),
        };
        if let Some((_, batch)) = self.read.as_ref().filter(|(known, _)| *known == number) {
            return Ok((batch.clone(), within));
        }
        before_long_work().await;
        let path = self.file.as_ref().and_then(|file| file.path());
        let path = path.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "there is no file of rows"))?;
        let batch = read(path, start, bytes)?;
        self.read = Some((number, batch.clone()));
        Ok((batch, within))
    }

    /// Moves all rows that are in memory to the file.
    fn empty_memory(&mut self) -> SqlResult<()> {
        for number in 0..self.parts.len() {
            let Place::Memory(batch) = &self.parts[number].place else { continue };
            let batch = batch.clone();
            self.parts[number].place = self.written(&batch)?;
        }
        self.in_memory_bytes = 0;
        if let Some(charge) = &mut self.charge {
            charge.shrink_to((self.parts.len() + 1) * size_of::<Part>());
        }
        Ok(())
    }

    /// Writes rows to the file.
    fn written(&mut self, batch: &RecordBatch) -> SqlResult<Place> {
        if self.file.is_none() {
            self.file = Some(self.space.disk()?.create_tmp_file("keeping the rows of a cursor")?);
        }
        let file = self.file.as_ref().expect("it was just made");
        let mut encoded = Vec::new();
        let mut writer =
            StreamWriter::try_new(&mut encoded, &batch.schema()).map_err(DataFusionError::from)?;
        writer.write(batch).and_then(|()| writer.finish()).map_err(DataFusionError::from)?;
        drop(writer);
        let mut out = file.open_writer()?;
        out.write_all(&encoded).map_err(DataFusionError::from)?;
        out.finish()?;
        let (start, bytes) = (self.file_bytes, encoded.len() as u64);
        self.file_bytes += bytes;
        Ok(Place::File { start, bytes })
    }
}

/// Reads the rows of a part of a file.
fn read(path: &std::path::Path, start: u64, bytes: u64) -> Result<RecordBatch, DataFusionError> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut encoded = Vec::new();
    file.take(bytes).read_to_end(&mut encoded)?;
    let mut batches = StreamReader::try_new(&encoded[..], None)?;
    let batch = batches.next().transpose()?;
    batch.ok_or_else(|| DataFusionError::Internal("a part of a file has no rows".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use nyala_core::memory::MemoryBudget;

    #[tokio::test]
    async fn rows_beyond_the_memory_come_back_from_a_file() {
        let directory = std::env::temp_dir().join(format!("nyala-kept-{}", std::process::id()));
        let space = SpillSpace::within(&directory, 1 << 20, 1 << 20, Box::new(|| None)).unwrap();
        let space = Arc::new(space);
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let memory = QueryMemory::new(64 << 10, &budget);
        let mut kept = KeptRows::new(space.clone(), Some(memory.clone()));
        let batch = |first: i64| {
            let numbers = Int64Array::from_iter_values(first..first + 100);
            RecordBatch::try_from_iter([("n", Arc::new(numbers) as arrow_array::ArrayRef)]).unwrap()
        };
        for number in 0..50 {
            kept.push(batch(number * 100)).unwrap();
        }
        assert_eq!(kept.rows(), 5000);
        assert!(space.used_bytes() > 20_000, "{}", space.used_bytes());
        assert!(memory.used_bytes() <= 16 << 10, "{}", memory.used_bytes());
        for place in [0, 99, 100, 2501, 2500, 4999, 0] {
            let (batch, within) = kept.around(place).await.unwrap();
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(within), place as i64);
        }
        assert!(kept.around(5000).await.is_err());
        drop(kept);
        assert_eq!((space.used_bytes(), memory.used_bytes()), (0, 0));
        drop(space);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
