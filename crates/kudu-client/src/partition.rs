//! Partitions, and the partition key of a row, which tells its tablet.
//!
//! The partition key is one big-endian bucket number per hash dimension, followed by the encoded range columns. A
//! tablet holds an interval of partition keys. A range may have its own hash schema (with as many dimensions as the
//! table's, but other columns, bucket counts or seeds), so the range is looked up before hashing.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key::{encode_bound, encode_columns, murmur2_64};
use crate::pb;
use crate::row::{EncodedRows, Operation, Row, RowReader};
use crate::schema::Schema;
use crate::value::Value;

/// A hash dimension: splits rows over buckets by a hash of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashPartition {
    /// Key columns to hash.
    pub columns: Vec<String>,
    /// Number of buckets, at least 2.
    pub buckets: u32,
    /// Changes the hash function.
    pub seed: u32,
}

impl HashPartition {
    /// Hashes these columns into this many buckets.
    pub fn new(columns: impl IntoIterator<Item = impl Into<String>>, buckets: u32) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), buckets, seed: 0 }
    }

    /// Sets the seed of the hash function.
    #[must_use]
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn to_pb(&self) -> pb::HashBucketSchema {
        pb::HashBucketSchema {
            columns: identifiers(&self.columns),
            num_buckets: i32::try_from(self.buckets).unwrap_or(i32::MAX),
            seed: Some(self.seed),
        }
    }
}

pub(crate) fn identifiers(names: &[String]) -> Vec<pb::ColumnIdentifier> {
    names.iter().map(|name| pb::ColumnIdentifier { id: None, name: Some(name.clone()) }).collect()
}

/// One bound of a range partition: values of leading range columns.
#[derive(Clone, Debug, PartialEq)]
pub enum RangeBound {
    /// No bound.
    Unbounded,
    /// The bound belongs to the range.
    Inclusive(Vec<(String, Value)>),
    /// The bound does not belong to the range.
    Exclusive(Vec<(String, Value)>),
}

impl RangeBound {
    /// A bound on one column which belongs to the range.
    pub fn inclusive(column: &str, value: impl Into<Value>) -> Self {
        Self::Inclusive(vec![(column.into(), value.into())])
    }

    /// A bound on one column which does not belong to the range.
    pub fn exclusive(column: &str, value: impl Into<Value>) -> Self {
        Self::Exclusive(vec![(column.into(), value.into())])
    }
}

// Kinds of rows among bounds: RowOperationsPB.Type in Kudu's row_operations.proto.
const SPLIT_ROW: u8 = 4;
const LOWER_INCLUSIVE: u8 = 6;
const UPPER_EXCLUSIVE: u8 = 7;
const LOWER_EXCLUSIVE: u8 = 8;
const UPPER_INCLUSIVE: u8 = 9;

/// A range partition, with its own hash schema if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct RangePartition {
    /// Where it begins.
    pub lower: RangeBound,
    /// Where it ends.
    pub upper: RangeBound,
    /// Hash dimensions of this range; `None` for the table's.
    pub hash: Option<Vec<HashPartition>>,
}

impl RangePartition {
    /// From a lower to an upper bound.
    pub fn new(lower: RangeBound, upper: RangeBound) -> Self {
        Self { lower, upper, hash: None }
    }

    /// Gives the range its own hash schema.
    #[must_use]
    pub fn hash(mut self, dimensions: Vec<HashPartition>) -> Self {
        self.hash = Some(dimensions);
        self
    }

    pub(crate) fn encode(&self, schema: &Arc<Schema>, into: &mut EncodedRows) -> Result<()> {
        encode_range_bound(schema, &self.lower, [LOWER_INCLUSIVE, LOWER_EXCLUSIVE], into)?;
        encode_range_bound(schema, &self.upper, [UPPER_INCLUSIVE, UPPER_EXCLUSIVE], into)
    }
}

/// Encodes a bound; `codes` are the kinds of an inclusive one and of an exclusive one.
fn encode_range_bound(
    schema: &Arc<Schema>,
    bound: &RangeBound,
    codes: [u8; 2],
    into: &mut EncodedRows,
) -> Result<()> {
    let mut row = Row::new(schema.clone(), Operation::Insert);
    let (code, values): (u8, &[(String, Value)]) = match bound {
        // Without values, inclusive and exclusive mean the same; every master knows this pair of codes.
        RangeBound::Unbounded => {
            (if codes[0] == LOWER_INCLUSIVE { LOWER_INCLUSIVE } else { UPPER_EXCLUSIVE }, &[])
        }
        RangeBound::Inclusive(values) => (codes[0], values),
        RangeBound::Exclusive(values) => (codes[1], values),
    };
    for (column, value) in values {
        row.set(column, value)?;
    }
    row.encode_as(code, into);
    Ok(())
}

pub(crate) fn encode_split_row(
    schema: &Arc<Schema>,
    values: &[(String, Value)],
    into: &mut EncodedRows,
) -> Result<()> {
    encode_range_bound(schema, &RangeBound::Inclusive(values.to_vec()), [SPLIT_ROW; 2], into)
}

pub(crate) fn row_operations(rows: EncodedRows) -> pb::RowOperations {
    pb::RowOperations { rows: Some(rows.rows.into()), indirect_data: Some(rows.indirect.into()) }
}

/// A hash dimension with its columns resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashDimension {
    pub(crate) columns: Vec<usize>,
    pub(crate) buckets: u32,
    pub(crate) seed: u32,
}

impl HashDimension {
    /// The bucket of encoded hash columns.
    pub(crate) fn bucket_of(&self, encoded: &[u8]) -> u32 {
        (murmur2_64(encoded, self.seed.into()) % u64::from(self.buckets)) as u32
    }
}

/// An interval of encoded range keys with its own hash schema.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CustomRange {
    lower: Vec<u8>,
    /// Empty: unbounded.
    upper: Vec<u8>,
    hash: Vec<HashDimension>,
}

/// How a table's rows are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionSchema {
    hash: Vec<HashDimension>,
    pub(crate) range_columns: Vec<usize>,
    custom: Vec<CustomRange>,
}

/// Bytes that one hash dimension takes at the front of a partition key.
pub(crate) const BUCKET_BYTES: usize = 4;

/// Far more tablets than a cluster has. Pruning keeps a flag for each bucket.
const MAX_BUCKETS: u32 = 1 << 20;

impl PartitionSchema {
    pub(crate) fn from_pb(schema: &Arc<Schema>, partitions: &pb::PartitionSchema) -> Result<Self> {
        let range_columns = match &partitions.range_schema {
            Some(range) => resolve_columns(schema, &range.columns)?,
            None => (0..schema.key_columns().len()).collect(),
        };
        let hash = dimensions(schema, &partitions.hash_schema)?;
        let mut custom = Vec::new();
        for range in &partitions.custom_hash_schema_ranges {
            let hash = dimensions(schema, &range.hash_schema)?;
            let (lower, upper) = match &range.range_bounds {
                Some(bounds) => decode_bounds(schema, &range_columns, bounds)?,
                None => (Vec::new(), Vec::new()),
            };
            custom.push(CustomRange { lower, upper, hash });
        }
        custom.sort_by(|a, b| a.lower.cmp(&b.lower));
        Ok(Self { hash, range_columns, custom })
    }

    /// The hash dimensions of ranges that have none of their own.
    pub(crate) fn hash(&self) -> &[HashDimension] {
        &self.hash
    }

    /// The hash dimensions, if all ranges have the same.
    pub(crate) fn common_hash(&self) -> Option<&[HashDimension]> {
        self.custom.is_empty().then_some(&self.hash[..])
    }

    /// The hash dimensions at an encoded range key.
    pub(crate) fn hash_schema_at(&self, range_key: &[u8]) -> &[HashDimension] {
        let after = self.custom.partition_point(|range| range.lower.as_slice() <= range_key);
        match after.checked_sub(1).map(|index| &self.custom[index]) {
            Some(range) if range.upper.is_empty() || range_key < range.upper.as_slice() => &range.hash,
            _ => &self.hash,
        }
    }

    /// Replaces `key` with the partition key of the row; `scratch` saves allocations.
    pub(crate) fn partition_key(
        &self,
        schema: &Schema,
        row: &Row,
        scratch: &mut Vec<u8>,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        key.clear();
        let dimensions = if self.custom.is_empty() {
            &self.hash
        } else {
            scratch.clear();
            encode_columns(schema, &self.range_columns, row, scratch)?;
            self.hash_schema_at(scratch)
        };
        for dimension in dimensions {
            scratch.clear();
            encode_columns(schema, &dimension.columns, row, scratch)?;
            key.extend_from_slice(&dimension.bucket_of(scratch).to_be_bytes());
        }
        encode_columns(schema, &self.range_columns, row, key)
    }
}

fn dimensions(schema: &Schema, hash: &[pb::HashBucketSchema]) -> Result<Vec<HashDimension>> {
    hash.iter()
        .map(|dimension| {
            let mut columns = resolve_columns(schema, &dimension.columns)?;
            // Columns are hashed in schema order, whatever the order in which they were named.
            columns.sort_unstable();
            let buckets = u32::try_from(dimension.num_buckets).unwrap_or(0);
            if !(1..=MAX_BUCKETS).contains(&buckets) {
                return Err(Error::protocol(format!(
                    "a hash dimension of {} buckets",
                    dimension.num_buckets
                )));
            }
            Ok(HashDimension { columns, buckets, seed: dimension.seed.unwrap_or(0) })
        })
        .collect()
}

fn resolve_columns(schema: &Schema, columns: &[pb::ColumnIdentifier]) -> Result<Vec<usize>> {
    columns
        .iter()
        .map(|column| {
            let index = match (column.id, &column.name) {
                (Some(id), _) => u32::try_from(id).ok().and_then(|id| schema.index_of_id(id)),
                (None, Some(name)) => schema.index_of(name),
                (None, None) => None,
            };
            let index = index.filter(|&index| index < schema.key_columns().len());
            index.ok_or_else(|| Error::protocol("a partition column that is not part of the key"))
        })
        .collect()
}

/// A lower and an upper bound as an interval of encoded range keys, end exclusive.
fn decode_bounds(
    schema: &Arc<Schema>,
    columns: &[usize],
    bounds: &pb::RowOperations,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let rows = bounds.rows.as_deref().unwrap_or_default();
    let indirect = bounds.indirect_data.as_deref().unwrap_or_default();
    let mut reader = RowReader::new(schema, rows, indirect);
    let mut ends = (Vec::new(), Vec::new());
    while let Some((code, row)) = reader.next_row()? {
        let mut key = Vec::new();
        if columns.iter().any(|&column| row.cell(column).is_some()) {
            encode_bound(schema, columns, &row, &mut key);
            if matches!(code, LOWER_EXCLUSIVE | UPPER_INCLUSIVE) {
                increment(schema, columns, &mut key);
            }
        }
        match code {
            LOWER_INCLUSIVE | LOWER_EXCLUSIVE => ends.0 = key,
            UPPER_INCLUSIVE | UPPER_EXCLUSIVE => ends.1 = key,
            _ => return Err(Error::protocol(format!("operation {code} among range bounds"))),
        }
    }
    Ok(ends)
}

/// The next encoded range key.
fn increment(schema: &Schema, columns: &[usize], key: &mut Vec<u8>) {
    let last = columns.last().map(|&column| schema.columns()[column].data_type);
    if last.is_some_and(|data_type| data_type.fixed_bytes().is_none()) {
        key.push(0);
        return;
    }
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
    // Nothing lies beyond the largest key: unbounded.
    key.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_type::DataType;
    use crate::schema::Column;

    fn schema() -> Arc<Schema> {
        let columns = vec![
            Column::new("host", DataType::String).key(),
            Column::new("time", DataType::UnixtimeMicros).key(),
        ];
        Arc::new(Schema::new(columns).unwrap())
    }

    fn row(host: &str, time: i64) -> Row {
        let mut row = Row::new(schema(), Operation::Insert);
        row.set("host", host).unwrap().set("time", time).unwrap();
        row
    }

    fn key_of(partitions: &PartitionSchema, row: &Row) -> Vec<u8> {
        let mut key = Vec::new();
        partitions.partition_key(&schema(), row, &mut Vec::new(), &mut key).unwrap();
        key
    }

    #[test]
    fn buckets_come_before_the_range_key() {
        let partitions = pb::PartitionSchema {
            hash_schema: vec![HashPartition::new(["host"], 4).seed(42).to_pb()],
            range_schema: Some(pb::RangeSchema { columns: identifiers(&["time".into()]) }),
            custom_hash_schema_ranges: vec![],
        };
        let partitions = PartitionSchema::from_pb(&schema(), &partitions).unwrap();
        let key = key_of(&partitions, &row("quick brown fox", 1));
        let bucket = (3_575_930_248_840_144_026_u64 % 4) as u8;
        assert_eq!(key, [0, 0, 0, bucket, 0x80, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_range_with_its_own_hash_is_found_by_its_bounds() {
        let mut bounds = EncodedRows::default();
        let range =
            RangePartition::new(RangeBound::exclusive("time", 9_i64), RangeBound::inclusive("time", 19_i64));
        range.encode(&schema(), &mut bounds).unwrap();
        let partitions = pb::PartitionSchema {
            hash_schema: vec![HashPartition::new(["host"], 2).to_pb()],
            range_schema: Some(pb::RangeSchema { columns: identifiers(&["time".into()]) }),
            custom_hash_schema_ranges: vec![pb::RangeWithHashSchema {
                range_bounds: Some(row_operations(bounds)),
                hash_schema: vec![HashPartition::new(["host", "time"], 1000).to_pb()],
            }],
        };
        let partitions = PartitionSchema::from_pb(&schema(), &partitions).unwrap();
        for (time, custom) in [(9, false), (10, true), (19, true), (20, false)] {
            let key = key_of(&partitions, &row("x", time));
            let buckets = partitions.hash_schema_at(&key[4..])[0].buckets;
            assert_eq!(buckets == 1000, custom, "{time}");
        }
    }
}
