//! The origin of a file: the table and partition of its rows. A repair rebuilds the catalog from it.
//!
//! ```text
//! table (32 bits) | partition, its first time and its end, first and last sequence, revision (64 bits each)
//! | schema of the table | columns it has dropped, both as in an edit of the manifest
//! ```

use crate::files::schema_format::{put_schema, take_schema};
use crate::rows::wire::Reader;
use nyala_core::{ColumnId, Error, Result, TableId, TableSchema, TimeRange};
use std::sync::Arc;

/// The table, partition, sequences and schema of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) table: TableId,
    pub(crate) partition: u64,
    pub(crate) range: TimeRange,
    pub(crate) min_sequence: u64,
    pub(crate) max_sequence: u64,
    /// The revision of the manifest when the file was written: it says which of two schemas is newer.
    pub(crate) revision: u64,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) dropped_columns: Vec<ColumnId>,
}

impl Origin {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.table.0.to_le_bytes().to_vec();
        let numbers = [
            self.partition,
            self.range.start_ns as u64,
            self.range.end_ns as u64,
            self.min_sequence,
            self.max_sequence,
            self.revision,
        ];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        put_schema(&mut out, &self.schema, &self.dropped_columns);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let (table, partition) = (TableId(reader.u32()?), reader.u64()?);
        let range = TimeRange::new(reader.i64()?, reader.i64()?);
        let (min_sequence, max_sequence, revision) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (schema, dropped_columns) = take_schema(&mut reader)?;
        let schema = Arc::new(schema);
        let origin =
            Self { table, partition, range, min_sequence, max_sequence, revision, schema, dropped_columns };
        let is_sound =
            origin.min_sequence <= origin.max_sequence && origin.range.start_ns < origin.range.end_ns;
        match reader.is_empty() && is_sound {
            true => Ok(origin),
            false => Err(Error::invalid("the origin of the file contradicts itself")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_survives_its_encoding() {
        let mut schema = TableSchema::measurement("cpu", 1000);
        schema.next_column = ColumnId(5);
        let origin = Origin {
            table: TableId(3),
            partition: 7,
            range: TimeRange::new(-5, 5),
            min_sequence: 8,
            max_sequence: 9,
            revision: 10,
            schema: Arc::new(schema),
            dropped_columns: vec![ColumnId(4)],
        };
        let bytes = origin.encode();
        assert_eq!(Origin::decode(&bytes).expect("decodes"), origin);
        assert!((0..bytes.len()).all(|length| Origin::decode(&bytes[..length]).is_err()));
    }
}
