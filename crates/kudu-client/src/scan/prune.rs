//! Partition pruning: which tablets a scan can skip.
//!
//! When all columns of a hash dimension are fixed to values, only the buckets of those values can match. Conditions on
//! the leading range columns give an interval of range keys that can match. A tablet outside of either is skipped.

use crate::key::encode_cell;
use crate::location_cache::Tablet;
use crate::partition::{BUCKET_BYTES, HashDimension, PartitionSchema};
use crate::predicate::{ColumnFilter, Filters, successor};
use crate::schema::Schema;

/// The most combinations of listed values that are hashed; with more, the dimension is not used for pruning.
const MAX_COMBINATIONS: usize = 100_000;

/// Decides for one scan which tablets of a table it reads.
pub(crate) struct PartitionPruner<'a> {
    schema: &'a Schema,
    partitions: &'a PartitionSchema,
    filters: &'a Filters,
    lower: Vec<u8>,
    /// Exclusive; `None` for unbounded.
    upper: Option<Vec<u8>>,
    /// Buckets wanted, by dimension; `None` means all of them.
    buckets: Vec<(HashDimension, Option<Vec<bool>>)>,
}

impl<'a> PartitionPruner<'a> {
    pub(crate) fn new(schema: &'a Schema, partitions: &'a PartitionSchema, filters: &'a Filters) -> Self {
        let (lower, upper) = range_interval(schema, &partitions.range_columns, filters);
        Self { schema, partitions, filters, lower, upper, buckets: Vec::new() }
    }

    /// Whether the tablet may hold rows that match.
    pub(crate) fn may_match(&mut self, tablet: &Tablet) -> bool {
        if self.filters.match_nothing {
            return false;
        }
        let prefix = tablet.hash_buckets.len() * BUCKET_BYTES;
        let Some((start_buckets, start)) = tablet.start.split_at_checked(prefix) else {
            // The first tablet of all starts at the empty key.
            return !tablet.start.is_empty() || self.matches(tablet, &[], &[]);
        };
        let end = match tablet.end.split_at_checked(prefix) {
            Some((end_buckets, end)) if end_buckets == start_buckets => end,
            // The end lies in the next bucket: the range of this one is unbounded.
            _ => &[],
        };
        self.matches(tablet, start, end)
    }

    fn matches(&mut self, tablet: &Tablet, start: &[u8], end: &[u8]) -> bool {
        let starts_after = self.upper.as_ref().is_some_and(|upper| start >= upper.as_slice());
        let ends_before = !end.is_empty() && end <= self.lower.as_slice();
        if starts_after || ends_before {
            return false;
        }
        let dimensions = self.partitions.hash_schema_at(start);
        if dimensions.len() != tablet.hash_buckets.len() {
            return true;
        }
        dimensions.iter().zip(&tablet.hash_buckets).all(|(dimension, &bucket)| {
            let known = self.buckets.iter().position(|(known, _)| known == dimension);
            let index = known.unwrap_or_else(|| {
                let wanted = wanted_buckets(self.schema, dimension, self.filters);
                self.buckets.push((dimension.clone(), wanted));
                self.buckets.len() - 1
            });
            match &self.buckets[index].1 {
                Some(wanted) => wanted.get(bucket as usize).copied().unwrap_or(true),
                None => true,
            }
        })
    }
}

fn wanted_buckets(schema: &Schema, dimension: &HashDimension, filters: &Filters) -> Option<Vec<bool>> {
    let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
    for (index, column) in dimension.columns.iter().enumerate() {
        let list = filters.by_column.get(column)?.list.as_ref()?;
        if keys.len().saturating_mul(list.len()) > MAX_COMBINATIONS {
            return None;
        }
        let data_type = schema.columns()[*column].data_type;
        let is_last = index + 1 == dimension.columns.len();
        keys = keys
            .iter()
            .flat_map(|key| {
                list.iter().map(move |value| {
                    let mut key = key.clone();
                    encode_cell(data_type, value, is_last, &mut key);
                    key
                })
            })
            .collect();
    }
    let mut wanted = vec![false; dimension.buckets as usize];
    for key in keys {
        wanted[dimension.bucket_of(&key) as usize] = true;
    }
    Some(wanted)
}

/// The interval of encoded range keys that can match; its end is exclusive.
fn range_interval(schema: &Schema, columns: &[usize], filters: &Filters) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut prefix = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let data_type = schema.columns()[*column].data_type;
        let is_last = index + 1 == columns.len();
        let encode = |value: &[u8]| {
            let mut key = prefix.clone();
            encode_cell(data_type, value, is_last, &mut key);
            key
        };
        let filter = filters.by_column.get(column);
        match filter {
            Some(ColumnFilter { list: Some(list), .. }) if list.len() == 1 => prefix = encode(&list[0]),
            Some(ColumnFilter { list: Some(list), .. }) if list.len() > 1 => {
                let upper = match successor(data_type, &list[list.len() - 1]) {
                    Some(above) => Some(encode(&above)),
                    None => prefix_end(&prefix),
                };
                return (encode(&list[0]), upper);
            }
            Some(ColumnFilter { lower, upper, .. }) => {
                let from = lower.as_ref().map_or_else(|| prefix.clone(), |lower| encode(lower));
                let to = upper.as_ref().map_or_else(|| prefix_end(&prefix), |upper| Some(encode(upper)));
                return (from, to);
            }
            None => return (prefix.clone(), prefix_end(&prefix)),
        }
    }
    // All columns are fixed: just this key.
    let upper = if columns.is_empty() { None } else { Some([&prefix[..], &[0]].concat()) };
    (prefix, upper)
}

/// The first key after all keys with this prefix; `None` if there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.last_mut() {
        if *last < 0xff {
            *last += 1;
            return Some(key);
        }
        key.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_type::DataType;
    use crate::predicate::Predicate;
    use crate::schema::Column;

    fn interval(predicates: &[Predicate]) -> (Vec<u8>, Option<Vec<u8>>) {
        let schema = Schema::new(vec![
            Column::new("a", DataType::String).key(),
            Column::new("b", DataType::Int8).key(),
        ])
        .unwrap();
        let filters = Filters::fold(&schema, predicates).unwrap();
        range_interval(&schema, &[0, 1], &filters)
    }

    #[test]
    fn conditions_on_leading_columns_give_an_interval() {
        assert_eq!(interval(&[]), (vec![], None));
        assert_eq!(interval(&[Predicate::eq("b", 1_i8)]), (vec![], None));
        assert_eq!(interval(&[Predicate::eq("a", "x")]), (b"x\0\0".to_vec(), Some(b"x\0\x01".to_vec())));
        let both = [Predicate::eq("a", "x"), Predicate::ge("b", 1_i8), Predicate::lt("b", 3_i8)];
        assert_eq!(interval(&both), (b"x\0\0\x81".to_vec(), Some(b"x\0\0\x83".to_vec())));
        let list = [Predicate::in_list("a", ["p", "m"]), Predicate::eq("b", 1_i8)];
        assert_eq!(interval(&list), (b"m\0\0".to_vec(), Some(b"p\0\x01\0\0".to_vec())));
    }
}
