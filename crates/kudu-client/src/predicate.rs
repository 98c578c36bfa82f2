//! Predicates: which rows a scan returns.
//!
//! Predicates are ANDed, and NULL satisfies only `is_null`. All predicates of a column are folded into one
//! [`ColumnFilter`] as the protocol has it: an interval (lower bound inclusive, upper bound exclusive), a list of
//! values, NULL or NOT NULL. When no value can satisfy them all, the scan ends without asking a server.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::bloom::BloomFilter;
use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::pb::rpc::Empty;
use crate::pb::tserver::{
    ColumnPredicate, EqualityPredicate, InBloomFilterPredicate, InListPredicate, RangePredicate,
};
use crate::schema::Schema;
use crate::value::Value;

/// A condition on one column.
///
/// ```
/// use kudu_client::Predicate;
///
/// let wanted = [Predicate::ge("time", 1_700_000_000_000_000_i64), Predicate::in_list("host", ["a", "b"])];
/// ```
#[derive(Clone, Debug)]
pub struct Predicate {
    column: String,
    condition: Condition,
}

#[derive(Clone, Debug)]
enum Condition {
    Equal(Value),
    Less(Value),
    LessOrEqual(Value),
    Greater(Value),
    GreaterOrEqual(Value),
    InList(Vec<Value>),
    IsNull,
    IsNotNull,
    InBloomFilter(BloomFilter),
}

impl Predicate {
    fn new(column: &str, condition: Condition) -> Self {
        Self { column: column.to_owned(), condition }
    }

    /// column = value
    pub fn eq(column: &str, value: impl Into<Value>) -> Self {
        Self::new(column, Condition::Equal(value.into()))
    }

    /// column < value
    pub fn lt(column: &str, value: impl Into<Value>) -> Self {
        Self::new(column, Condition::Less(value.into()))
    }

    /// column ≤ value
    pub fn le(column: &str, value: impl Into<Value>) -> Self {
        Self::new(column, Condition::LessOrEqual(value.into()))
    }

    /// column > value
    pub fn gt(column: &str, value: impl Into<Value>) -> Self {
        Self::new(column, Condition::Greater(value.into()))
    }

    /// column ≥ value
    pub fn ge(column: &str, value: impl Into<Value>) -> Self {
        Self::new(column, Condition::GreaterOrEqual(value.into()))
    }

    /// column is one of the values. Use [`Self::in_bloom_filter`] for more than some thousands of values.
    pub fn in_list(column: &str, values: impl IntoIterator<Item = impl Into<Value>>) -> Self {
        Self::new(column, Condition::InList(values.into_iter().map(Into::into).collect()))
    }

    /// column has no value
    pub fn is_null(column: &str) -> Self {
        Self::new(column, Condition::IsNull)
    }

    /// column has a value
    pub fn is_not_null(column: &str) -> Self {
        Self::new(column, Condition::IsNotNull)
    }

    /// column is one of the filter's values; a few other rows are returned too.
    pub fn in_bloom_filter(column: &str, filter: BloomFilter) -> Self {
        Self::new(column, Condition::InBloomFilter(filter))
    }
}

/// All conditions on one column, folded. Values are wire bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnFilter {
    /// Inclusive.
    pub(crate) lower: Option<Vec<u8>>,
    /// Exclusive.
    pub(crate) upper: Option<Vec<u8>>,
    /// Sorted, without duplicates, within the bounds.
    pub(crate) list: Option<Vec<Vec<u8>>>,
    is_null: bool,
    is_not_null: bool,
    blooms: Vec<BloomFilter>,
}

/// The folded predicates of a scan, by column index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filters {
    pub(crate) by_column: BTreeMap<usize, ColumnFilter>,
    /// No row can match.
    pub(crate) match_nothing: bool,
}

impl Filters {
    pub(crate) fn fold(schema: &Schema, predicates: &[Predicate]) -> Result<Self> {
        let mut filters = Self::default();
        for predicate in predicates {
            let index = schema.find(&predicate.column)?;
            let data_type = schema.columns()[index].data_type;
            let filter = filters.by_column.entry(index).or_default();
            let possible = filter
                .add(data_type, &predicate.condition)
                .map_err(|error| error.context(&format!("predicate on {:?}", predicate.column)))?;
            filters.match_nothing |= !possible;
        }
        for (&index, filter) in &mut filters.by_column {
            let column = &schema.columns()[index];
            filters.match_nothing |= !filter.simplify(column.data_type, column.is_nullable);
        }
        Ok(filters)
    }

    pub(crate) fn to_pb(&self, schema: &Schema) -> Vec<ColumnPredicate> {
        let mut predicates = Vec::new();
        for (&index, filter) in &self.by_column {
            filter.to_pb(&schema.columns()[index].name, &mut predicates);
        }
        predicates
    }

    pub(crate) fn use_bloom_filters(&self) -> bool {
        self.by_column.values().any(|filter| !filter.blooms.is_empty())
    }
}

impl ColumnFilter {
    /// Adds a condition; `false` when no value can satisfy it.
    fn add(&mut self, data_type: DataType, condition: &Condition) -> Result<bool> {
        let wire = |value: &Value| -> Result<Vec<u8>> {
            if *value == Value::Null {
                return Err(Error::invalid("NULL cannot be compared; see is_null"));
            }
            // The servers take it for equal to every number.
            if value.is_nan() {
                return Err(Error::invalid("NaN cannot be compared"));
            }
            // Cutting a bound to the column's length would move it.
            let data_type =
                if matches!(data_type, DataType::Varchar { .. }) { DataType::String } else { data_type };
            Ok(value.to_wire(data_type)?.to_vec())
        };
        match condition {
            Condition::Equal(value) => self.intersect_list(data_type, vec![wire(value)?]),
            Condition::InList(values) => {
                let values = values.iter().map(wire).collect::<Result<_>>()?;
                self.intersect_list(data_type, values);
            }
            Condition::GreaterOrEqual(value) => self.raise_lower(data_type, wire(value)?),
            Condition::Less(value) => self.cut_upper(data_type, wire(value)?),
            Condition::Greater(value) => match successor(data_type, &wire(value)?) {
                Some(next) => self.raise_lower(data_type, next),
                None => return Ok(false),
            },
            Condition::LessOrEqual(value) => match successor(data_type, &wire(value)?) {
                Some(next) => self.cut_upper(data_type, next),
                // Every value is at most the largest.
                None => self.is_not_null = true,
            },
            Condition::IsNull => self.is_null = true,
            Condition::IsNotNull => self.is_not_null = true,
            Condition::InBloomFilter(bloom) => {
                if bloom.data_type != data_type {
                    return Err(Error::invalid(format!(
                        "a Bloom filter of {:?} on a column of type {data_type:?}",
                        bloom.data_type
                    )));
                }
                self.blooms.push(bloom.clone());
            }
        }
        Ok(true)
    }

    fn intersect_list(&mut self, data_type: DataType, mut values: Vec<Vec<u8>>) {
        if let Some(known) = &self.list {
            values.retain(|value| known.iter().any(|kept| compare(data_type, kept, value).is_eq()));
        }
        self.list = Some(values);
    }

    fn raise_lower(&mut self, data_type: DataType, bound: Vec<u8>) {
        if self.lower.as_ref().is_none_or(|lower| compare(data_type, lower, &bound).is_lt()) {
            self.lower = Some(bound);
        }
    }

    fn cut_upper(&mut self, data_type: DataType, bound: Vec<u8>) {
        if self.upper.as_ref().is_none_or(|upper| compare(data_type, upper, &bound).is_gt()) {
            self.upper = Some(bound);
        }
    }

    /// Combines the conditions; `false` when they exclude each other.
    fn simplify(&mut self, data_type: DataType, is_nullable: bool) -> bool {
        let wants_value = self.is_not_null
            || self.lower.is_some()
            || self.upper.is_some()
            || self.list.is_some()
            || !self.blooms.is_empty();
        if self.is_null {
            return is_nullable && !wants_value;
        }
        if let (Some(lower), Some(upper)) = (&self.lower, &self.upper)
            && compare(data_type, lower, upper).is_ge()
        {
            return false;
        }
        if let Some(list) = &mut self.list {
            list.retain(|value| {
                self.lower.as_ref().is_none_or(|lower| compare(data_type, value, lower).is_ge())
                    && self.upper.as_ref().is_none_or(|upper| compare(data_type, value, upper).is_lt())
            });
            list.sort_by(|a, b| compare(data_type, a, b));
            list.dedup();
            self.lower = None;
            self.upper = None;
            return !list.is_empty();
        }
        true
    }

    fn to_pb(&self, column: &str, into: &mut Vec<ColumnPredicate>) {
        let bytes = |value: &Option<Vec<u8>>| value.clone().map(Bytes::from);
        let mut push = |predicate: ColumnPredicate| {
            into.push(ColumnPredicate { column: Some(column.to_owned()), ..predicate });
        };
        let base = ColumnPredicate::default;
        let has_bounds = self.lower.is_some() || self.upper.is_some();
        if self.is_null {
            push(ColumnPredicate { is_null: Some(Empty {}), ..base() });
        } else if let Some(list) = &self.list {
            if let [value] = &list[..] {
                let value = Some(Bytes::from(value.clone()));
                push(ColumnPredicate { equality: Some(EqualityPredicate { value }), ..base() });
            } else {
                let values = list.iter().cloned().map(Bytes::from).collect();
                push(ColumnPredicate { in_list: Some(InListPredicate { values }), ..base() });
            }
        } else if has_bounds && self.blooms.is_empty() {
            let range = RangePredicate { lower: bytes(&self.lower), upper: bytes(&self.upper) };
            push(ColumnPredicate { range: Some(range), ..base() });
        } else if self.is_not_null && self.blooms.is_empty() {
            push(ColumnPredicate { is_not_null: Some(Empty {}), ..base() });
        }
        if !self.blooms.is_empty() {
            let in_bloom_filter = Some(InBloomFilterPredicate {
                bloom_filters: self.blooms.iter().map(BloomFilter::to_pb).collect(),
                lower: bytes(&self.lower),
                upper: bytes(&self.upper),
            });
            push(ColumnPredicate { in_bloom_filter, ..base() });
        }
    }
}

fn integer(bytes: &[u8]) -> i128 {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = if negative { [0xff; 16] } else { [0; 16] };
    let length = bytes.len().min(16);
    wide[..length].copy_from_slice(&bytes[..length]);
    i128::from_le_bytes(wide)
}

fn float(bytes: &[u8]) -> f64 {
    match (bytes.try_into().map(f32::from_le_bytes), bytes.try_into().map(f64::from_le_bytes)) {
        (Ok(value), _) => value.into(),
        (_, Ok(value)) => value,
        _ => f64::NAN,
    }
}

/// Compares two values by their wire bytes.
pub(crate) fn compare(data_type: DataType, a: &[u8], b: &[u8]) -> Ordering {
    match data_type {
        DataType::Float | DataType::Double => {
            float(a).partial_cmp(&float(b)).unwrap_or_else(|| float(a).total_cmp(&float(b)))
        }
        _ if data_type.fixed_bytes().is_some() => integer(a).cmp(&integer(b)),
        _ => a.cmp(b),
    }
}

/// The next larger value; `None` for the largest.
pub(crate) fn successor(data_type: DataType, bytes: &[u8]) -> Option<Vec<u8>> {
    match data_type {
        DataType::Bool => (bytes == [0]).then(|| vec![1]),
        DataType::Float => {
            let value = bytes.try_into().map(f32::from_le_bytes).ok()?;
            (value < f32::INFINITY).then(|| value.next_up().to_le_bytes().to_vec())
        }
        DataType::Double => {
            let value = bytes.try_into().map(f64::from_le_bytes).ok()?;
            (value < f64::INFINITY).then(|| value.next_up().to_le_bytes().to_vec())
        }
        _ => match data_type.fixed_bytes() {
            Some(length) => {
                let next = integer(bytes).checked_add(1)?;
                let next = &next.to_le_bytes()[..length];
                // Wrapped around in the column's width.
                (compare(data_type, next, bytes).is_gt()).then(|| next.to_vec())
            }
            None => Some([bytes, &[0]].concat()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;

    fn schema() -> Schema {
        Schema::new(vec![
            Column::new("k", DataType::Int8).key(),
            Column::new("s", DataType::String).nullable(),
            Column::new("f", DataType::Double),
        ])
        .unwrap()
    }

    fn fold(predicates: &[Predicate]) -> Option<Filters> {
        let filters = Filters::fold(&schema(), predicates).unwrap();
        (!filters.match_nothing).then_some(filters)
    }

    #[test]
    fn conditions_that_exclude_each_other_leave_nothing() {
        assert!(fold(&[Predicate::gt("k", 127_i8)]).is_none());
        assert!(fold(&[Predicate::gt("k", 5_i8), Predicate::lt("k", 6_i8)]).is_none());
        assert!(fold(&[Predicate::in_list("k", [1_i8, 2]), Predicate::eq("k", 3_i8)]).is_none());
        assert!(fold(&[Predicate::is_null("k")]).is_none());
        assert!(fold(&[Predicate::is_null("s"), Predicate::ge("s", "a")]).is_none());
        assert!(fold(&[Predicate::in_list("k", [0_i8; 0])]).is_none());
        assert!(fold(&[Predicate::gt("f", f64::INFINITY)]).is_none());
    }

    #[test]
    fn several_conditions_become_one() {
        let filters = fold(&[
            Predicate::ge("k", 1_i8),
            Predicate::gt("k", 1_i8),
            Predicate::le("k", 9_i8),
            Predicate::in_list("k", [9_i8, 1, 5, 5, 10]),
        ])
        .unwrap();
        assert_eq!(filters.by_column[&0].list, Some(vec![vec![5], vec![9]]));
        assert_eq!(filters.to_pb(&schema()).len(), 1);
    }

    #[test]
    fn the_largest_value_has_no_successor() {
        let filters = fold(&[Predicate::le("k", 127_i8)]).unwrap();
        assert!(filters.to_pb(&schema())[0].is_not_null.is_some());
        assert_eq!(successor(DataType::Int16, &i16::MAX.to_le_bytes()), None);
        assert_eq!(successor(DataType::Int16, &(-1_i16).to_le_bytes()), Some(vec![0, 0]));
        assert_eq!(successor(DataType::String, b"a"), Some(b"a\0".to_vec()));
        let next = successor(DataType::Double, &0f64.to_le_bytes()).unwrap();
        assert!(compare(DataType::Double, &next, &0f64.to_le_bytes()).is_gt());
    }

    #[test]
    fn values_of_other_types_are_refused() {
        assert!(Filters::fold(&schema(), &[Predicate::eq("k", "x")]).is_err());
        assert!(Filters::fold(&schema(), &[Predicate::eq("s", None::<&str>)]).is_err());
        assert!(Filters::fold(&schema(), &[Predicate::eq("nope", 1_i8)]).is_err());
    }
}
