//! The keys that conditions leave: those on the first columns of the key become ranges of keys.
//!
//! Columns that must be equal to one value, or to one of a few, are a prefix of the key. The next column may have bounds.
//! What the ranges say need not be judged row by row.

use super::columns::TableColumns;
use nyala_core::arrays::array_of_values;
use nyala_core::store::{Comparison, KeyBound, Predicate, RowSelection};
use nyala_core::{ColumnId, Value};
use std::fmt;
use std::ops::Bound;

/// The most ranges of a scan. With more values in a list, the rows between the first and the last are read.
const RANGES_MAX: usize = 1024;

/// Ranges of keys, ascending, none of which meets another.
#[derive(Debug, Clone)]
pub(crate) struct KeyRanges {
    ranges: Vec<(KeyBound, KeyBound)>,
    /// How many of the first columns of the key have one value in all ranges.
    pub(crate) fixed: usize,
}

impl KeyRanges {
    /// No key.
    pub(crate) fn none() -> Self {
        Self { ranges: Vec::new(), fixed: 0 }
    }

    /// The selections of rows, in ascending order of keys.
    pub(crate) fn selections(&self) -> Vec<RowSelection> {
        let selection = |(start, end): &(KeyBound, KeyBound)| match (start, end) {
            (Bound::Unbounded, Bound::Unbounded) => RowSelection::All,
            _ => RowSelection::Keys { start: start.clone(), end: end.clone() },
        };
        self.ranges.iter().map(selection).collect()
    }

    /// How many of the first columns some condition is about.
    pub(crate) fn prefix(&self) -> usize {
        let columns = |bound: &KeyBound| match bound {
            Bound::Included(values) | Bound::Excluded(values) => values.len(),
            Bound::Unbounded => 0,
        };
        let judged = self.ranges.iter().map(|(start, end)| columns(start).max(columns(end)));
        judged.min().unwrap_or(0)
    }

    /// Whether each range is one key of so many columns.
    pub(crate) fn are_points(&self, columns: usize) -> bool {
        self.ranges.iter().all(|(start, end)| {
            start == end && matches!(start, Bound::Included(values) if values.len() == columns)
        })
    }

    /// How many ranges there are.
    pub(crate) fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether all keys are left.
    pub(crate) fn is_all(&self) -> bool {
        matches!(&self.ranges[..], [(Bound::Unbounded, Bound::Unbounded)])
    }
}

/// The ranges of a key, or of the values of an index, that some conditions mean. Conditions that the ranges fulfil are
/// removed.
pub(crate) fn key_ranges(
    key: &[ColumnId],
    columns: &TableColumns,
    predicates: &mut Vec<Predicate>,
) -> KeyRanges {
    let mut prefixes: Vec<Vec<Value>> = vec![Vec::new()];
    let mut fixed = 0;
    let fits = |id: ColumnId, value: &Value| {
        let column = columns.columns.iter().find(|column| column.id == id);
        column
            .is_none_or(|column| array_of_values(column.declared_type.column_type(), &[Some(value)]).is_ok())
    };
    for (position, id) in key.iter().enumerate() {
        let equal = predicates.iter().position(|own| {
            own.column == *id && matches!(own.comparison, Comparison::Equal(_) | Comparison::In(_))
        });
        let mut values = match equal.map(|place| &predicates[place].comparison) {
            Some(Comparison::Equal(value)) => vec![value.clone()],
            Some(Comparison::In(values)) => values.clone(),
            _ => {
                let (start, end) = bounds(*id, predicates, &fits);
                return ranged(prefixes, fixed, start, end);
            }
        };
        values.retain(|value| fits(*id, value));
        values.sort_unstable();
        values.dedup();
        if values.len().saturating_mul(prefixes.len()) > RANGES_MAX {
            let bound = |value: Option<&Value>| value.cloned().map_or(Bound::Unbounded, Bound::Included);
            return ranged(prefixes, fixed, bound(values.first()), bound(values.last()));
        }
        predicates.remove(equal.expect("it was found"));
        if values.len() == 1 && fixed == position {
            fixed += 1;
        }
        let extended = prefixes.iter().flat_map(|prefix| {
            values.iter().map(move |value| prefix.iter().chain([value]).cloned().collect::<Vec<_>>())
        });
        prefixes = extended.collect();
    }
    ranged(prefixes, fixed, Bound::Unbounded, Bound::Unbounded)
}

/// The bounds of a column; one of each side, which is removed from the conditions.
fn bounds(
    id: ColumnId,
    predicates: &mut Vec<Predicate>,
    fits: &impl Fn(ColumnId, &Value) -> bool,
) -> (Bound<Value>, Bound<Value>) {
    let mut taken = |is_wanted: fn(&Comparison) -> Option<Bound<Value>>| {
        let found = predicates.iter().enumerate().find_map(|(place, own)| {
            let bound = is_wanted(&own.comparison).filter(|_| own.column == id)?;
            let (Bound::Included(value) | Bound::Excluded(value)) = &bound else { return None };
            fits(id, value).then_some((place, bound))
        });
        found.map_or(Bound::Unbounded, |(place, bound)| {
            predicates.remove(place);
            bound
        })
    };
    let start = taken(|comparison| match comparison {
        Comparison::Greater(value) => Some(Bound::Excluded(value.clone())),
        Comparison::GreaterOrEqual(value) => Some(Bound::Included(value.clone())),
        _ => None,
    });
    let end = taken(|comparison| match comparison {
        Comparison::Less(value) => Some(Bound::Excluded(value.clone())),
        Comparison::LessOrEqual(value) => Some(Bound::Included(value.clone())),
        _ => None,
    });
    (start, end)
}

/// A range behind each prefix.
fn ranged(prefixes: Vec<Vec<Value>>, fixed: usize, start: Bound<Value>, end: Bound<Value>) -> KeyRanges {
    let bound = |prefix: &[Value], bound: &Bound<Value>| match bound {
        Bound::Included(value) => Bound::Included(prefix.iter().chain([value]).cloned().collect()),
        Bound::Excluded(value) => Bound::Excluded(prefix.iter().chain([value]).cloned().collect()),
        Bound::Unbounded if prefix.is_empty() => Bound::Unbounded,
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
    };
    let ranges = prefixes.iter().map(|prefix| (bound(prefix, &start), bound(prefix, &end))).collect();
    KeyRanges { ranges, fixed }
}

impl fmt::Display for KeyRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ranges[..] {
            [] => f.write_str("none"),
            [(Bound::Unbounded, Bound::Unbounded)] => f.write_str("all"),
            [one] => write!(f, "{}", if one.0 == one.1 { "one prefix" } else { "one range" }),
            many => write!(f, "{} ranges", many.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_db::relations::{ColumnDefinition, DeclaredType, Key, OnCommit, TableDefinition};

    fn columns() -> TableColumns {
        let column = |id, name: &str, declared_type| ColumnDefinition {
            id: ColumnId(id),
            name: name.to_owned(),
            declared_type,
            nullable: false,
            default: None,
            comment: None,
            sequence: None,
        };
        TableColumns::all(&TableDefinition {
            table: nyala_core::TableId(1),
            columns: vec![column(0, "a", DeclaredType::Int4), column(1, "b", DeclaredType::Int8)],
            key: Key::Declared { name: "k".to_owned(), columns: vec![ColumnId(0), ColumnId(1)] },
            checks: Vec::new(),
            indexes: Vec::new(),
            dropped: Vec::new(),
            on_commit: OnCommit::default(),
        })
    }

    fn ranges(predicates: &[(u32, Comparison)]) -> (Vec<(KeyBound, KeyBound)>, usize, usize) {
        let of = |(column, comparison): &(u32, Comparison)| Predicate {
            column: ColumnId(*column),
            comparison: comparison.clone(),
        };
        let mut left: Vec<Predicate> = predicates.iter().map(of).collect();
        let found = key_ranges(&columns().key, &columns(), &mut left);
        (found.ranges, found.fixed, left.len())
    }

    #[test]
    fn conditions_on_a_prefix_become_ranges() {
        let int = Value::Int;
        let key =
            |values: &[i64]| Bound::Included(values.iter().copied().map(Value::Int).collect::<Vec<_>>());
        let equal = |column, value| (column, Comparison::Equal(int(value)));
        assert_eq!(ranges(&[equal(0, 1), equal(1, 2)]), (vec![(key(&[1, 2]), key(&[1, 2]))], 2, 0));
        let greater = (1, Comparison::Greater(int(5)));
        let start = Bound::Excluded(vec![int(1), int(5)]);
        assert_eq!(ranges(&[greater.clone(), equal(0, 1)]), (vec![(start, key(&[1]))], 1, 0));
        assert_eq!(ranges(&[greater]), (vec![(Bound::Unbounded, Bound::Unbounded)], 0, 1));
        let within = (0, Comparison::In(vec![int(3), int(1), int(3)]));
        let expected = vec![(key(&[1, 7]), key(&[1, 7])), (key(&[3, 7]), key(&[3, 7]))];
        assert_eq!(ranges(&[within, equal(1, 7)]), (expected, 0, 0));
        assert_eq!(ranges(&[equal(0, 1 << 40)]), (vec![], 0, 0), "no key has this value");
        let beyond = (0, Comparison::Less(int(1 << 40)));
        assert_eq!(ranges(&[beyond]), (vec![(Bound::Unbounded, Bound::Unbounded)], 0, 1));
    }
}
