//! Partition pruning: which tablets a scan can skip.
//!
//! When all columns of a hash dimension are fixed to values, only the buckets of those values can match. Conditions on
//! the leading range columns give an interval of range keys that can match. A tablet outside of either is skipped. Whoever goes
//! through the tablets need not look at those in between either: the pruner says where the next one may lie.

use bytes::Bytes;

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
    /// The same for the dimensions that all ranges have, in their order; `None`: some have their own.
    common: Option<Vec<Vec<bool>>>,
}

impl<'a> PartitionPruner<'a> {
    pub(crate) fn new(schema: &'a Schema, partitions: &'a PartitionSchema, filters: &'a Filters) -> Self {
        let (lower, upper) = range_interval(schema, &partitions.range_columns, filters);
        let wanted = |dimension: &HashDimension| {
            let wanted = wanted_buckets(schema, dimension, filters);
            wanted.unwrap_or_else(|| vec![true; dimension.buckets as usize])
        };
        let common = partitions.common_hash().map(|dimensions| dimensions.iter().map(wanted).collect());
        Self { schema, partitions, filters, lower, upper, buckets: Vec::new(), common }
    }

    /// Whether the tablet may hold rows that match.
    pub(crate) fn may_match(&mut self, tablet: &Tablet) -> bool {
        let (start, end) = tablet.range_keys();
        !self.filters.match_nothing && self.matches(tablet, start, end)
    }

    /// The first partition key from one on at which something may match; `None`: nothing does any more.
    pub(crate) fn next_key(&self, key: Bytes) -> Option<Bytes> {
        if self.filters.match_nothing {
            return None;
        }
        let Some(wanted) = &self.common else { return Some(key) };
        let mut buckets: Vec<u32> = (0..wanted.len())
            .map(|number| {
                // The first key of a bucket may be cut.
                let mut bytes = [0; BUCKET_BYTES];
                let found = key.get(number * BUCKET_BYTES..).unwrap_or_default();
                let length = found.len().min(BUCKET_BYTES);
                bytes[..length].copy_from_slice(&found[..length]);
                u32::from_be_bytes(bytes)
            })
            .collect();
        let range_key = key.get(wanted.len() * BUCKET_BYTES..).unwrap_or_default();
        let is_behind = self.upper.as_ref().is_some_and(|upper| range_key >= upper.as_slice());
        let known = buckets.clone();
        if is_behind && !increment(&mut buckets, wanted) || !next_wanted(&mut buckets, wanted) {
            return None;
        }
        if buckets == known && range_key >= self.lower.as_slice() {
            return Some(key);
        }
        let mut next: Vec<u8> = buckets.iter().flat_map(|bucket| bucket.to_be_bytes()).collect();
        next.extend_from_slice(&self.lower);
        Some(next.into())
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

/// Makes a combination of buckets the next one; `false` if it was the last.
fn increment(buckets: &mut [u32], wanted: &[Vec<bool>]) -> bool {
    for (bucket, wanted) in buckets.iter_mut().zip(wanted).rev() {
        *bucket += 1;
        if (*bucket as usize) < wanted.len() {
            return true;
        }
        *bucket = 0;
    }
    false
}

/// Makes a combination of buckets the first from it on that is wanted in all dimensions; `false` if there is none.
fn next_wanted(buckets: &mut [u32], wanted: &[Vec<bool>]) -> bool {
    let is_wanted = |place: usize, bucket: u32| wanted[place].get(bucket as usize).copied().unwrap_or(false);
    while let Some(place) = (0..buckets.len()).find(|place| !is_wanted(*place, buckets[*place])) {
        // What comes before the next bucket of this dimension is not wanted.
        buckets[place + 1..].fill(0);
        if (buckets[place] as usize) < wanted[place].len() {
            buckets[place] += 1;
            continue;
        }
        buckets[place] = 0;
        if !increment(&mut buckets[..place], &wanted[..place]) {
            return false;
        }
    }
    true
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
    use crate::location_cache::tablets_from_pb;
    use crate::partition::{HashPartition, identifiers};
    use crate::pb;
    use crate::pb::master::{GetTableLocationsResponse, TabletLocations};
    use crate::predicate::Predicate;
    use crate::schema::Column;
    use std::sync::Arc;
    use std::time::Duration;

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

    /// Tablets of five buckets by three, each with ranges before 0, from 0, from 10 to 20, and from 30.
    fn tablets() -> Vec<Arc<Tablet>> {
        let key = |(first, second): (u8, u8), time: Option<i8>| {
            let mut key = vec![0, 0, 0, first, 0, 0, 0, second];
            key.extend(time.map(|time| time as u8 ^ 0x80));
            key
        };
        let buckets: Vec<(u8, u8)> =
            (0..5).flat_map(|first| (0..3).map(move |second| (first, second))).collect();
        let mut answer = GetTableLocationsResponse::default();
        for (number, bucket) in buckets.iter().enumerate() {
            for (lower, upper) in
                [(None, Some(0)), (Some(0), Some(10)), (Some(10), Some(20)), (Some(30), None)]
            {
                let start = if number == 0 && lower.is_none() { Vec::new() } else { key(*bucket, lower) };
                let next = buckets.get(number + 1);
                let end = match upper {
                    Some(_) => key(*bucket, upper),
                    None => next.map(|next| key(*next, None)).unwrap_or_default(),
                };
                let partition = pb::Partition {
                    hash_buckets: vec![bucket.0.into(), bucket.1.into()],
                    partition_key_start: Some(start.into()),
                    partition_key_end: Some(end.into()),
                };
                answer.tablet_locations.push(TabletLocations {
                    tablet_id: Bytes::new(),
                    partition: Some(partition),
                    interned_replicas: vec![],
                });
            }
        }
        tablets_from_pb(&answer, Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn tablets_that_cannot_match_are_not_looked_at() {
        let columns = ["s", "t", "u"].map(|name| Column::new(name, DataType::Int8).key());
        let schema = Arc::new(Schema::new(columns.to_vec()).unwrap());
        let partitions = pb::PartitionSchema {
            hash_schema: vec![HashPartition::new(["s"], 5).to_pb(), HashPartition::new(["u"], 3).to_pb()],
            range_schema: Some(pb::RangeSchema { columns: identifiers(&["t".into()]) }),
            custom_hash_schema_ranges: vec![],
        };
        let partitions = PartitionSchema::from_pb(&schema, &partitions).unwrap();
        let tablets = tablets();
        // How many keys are looked up; the tablets that are found are those of a look at all of them.
        let looks = |predicates: &[Predicate]| {
            let filters = Filters::fold(&schema, predicates).unwrap();
            let mut pruner = PartitionPruner::new(&schema, &partitions, &filters);
            let all: Vec<usize> =
                (0..tablets.len()).filter(|place| pruner.may_match(&tablets[*place])).collect();
            let (mut found, mut looks, mut from) = (Vec::new(), 0, pruner.next_key(Bytes::new()));
            while let Some(key) = from {
                looks += 1;
                let after = tablets.partition_point(|tablet| tablet.start <= key);
                let place = after.checked_sub(1).filter(|place| {
                    let end = &tablets[*place].end;
                    end.is_empty() || key < *end
                });
                let end = match place {
                    Some(place) => tablets[place].end.clone(),
                    None => tablets.get(after).map(|next| next.start.clone()).unwrap_or_default(),
                };
                found.extend(place.filter(|place| pruner.may_match(&tablets[*place])));
                from = if end.is_empty() { None } else { pruner.next_key(end) };
            }
            assert_eq!(found, all, "{predicates:?}");
            looks
        };
        assert_eq!(looks(&[]), 15 * 5, "and the gaps");
        assert_eq!(looks(&[Predicate::eq("t", 12_i8)]), 15);
        assert_eq!(looks(&[Predicate::lt("t", 5_i8)]), 15 * 2);
        assert_eq!(looks(&[Predicate::ge("t", 35_i8)]), 15);
        assert_eq!(looks(&[Predicate::eq("s", 3_i8), Predicate::eq("t", 12_i8)]), 3);
        assert_eq!(looks(&[Predicate::eq("s", 3_i8), Predicate::eq("u", 7_i8)]), 5);
        let few = [Predicate::in_list("u", [1_i8, 2]), Predicate::ge("t", 5_i8), Predicate::le("t", 9_i8)];
        assert!(looks(&few) <= 10);
        assert_eq!(looks(&[Predicate::is_null("s")]), 0);
    }
}
