//! What is moved: the tables of measurements, and those of SQL.

use crate::catalog::Catalog;
use crate::relations::{Relation, is_of_relation};
use nyala_core::schema::Ranges;
use nyala_core::store::{Capabilities, Feature};
use nyala_core::{Error, Result, TableId, TableSchema, TimeRange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Separates the parts of the name of a measurement's table.
const SEPARATOR: char = '\0';

/// A table that is moved.
pub struct MovedTable {
    /// Its name for people: `database.policy.measurement` or `database.table`.
    pub shown: String,
    /// Whether its rows are points.
    pub has_points: bool,
    /// Its table in the source.
    pub(super) source: TableId,
    /// What its schema in the target is.
    pub(super) schema: TableSchema,
    /// Database and policy of a measurement.
    pub(super) place: Option<(String, String)>,
}

/// What is moved, and what is not.
pub(super) struct Plan {
    pub(super) tables: Vec<MovedTable>,
    /// Relations that stay behind, by database and name.
    pub(super) skipped: BTreeSet<(String, String)>,
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// Everything that a catalog has, without what `skip` names.
    ///
    /// # Errors
    /// If the target cannot hold something, or `skip` names what there is not.
    pub(super) fn of(catalog: &Catalog, target: Capabilities, skip: &[String]) -> Result<Self> {
        if let Some(damage) = catalog.damage() {
            return Err(Error::conflict(format!(
                "the source is damaged, which has to be mended first: {damage}"
            )));
        }
        let all = catalog.relations().all();
        let of_table =
            |relation: &Arc<Relation>| relation.table().map(|table| table.stores().collect::<Vec<_>>());
        let relations: BTreeMap<TableId, Arc<Relation>> = all
            .iter()
            .flat_map(|own| of_table(own).unwrap_or_default().into_iter().map(|id| (id, own.clone())))
            .collect();
        let mut plan = Self { tables: Vec::new(), skipped: BTreeSet::new(), notes: Vec::new() };
        let mut unused: BTreeSet<&str> = skip.iter().map(String::as_str).collect();
        let mut refused = Vec::new();
        let mut tables = catalog.store().tables();
        tables.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        for (id, schema) in tables {
            let relation = relations.get(&id);
            let Some(table) = moved(id, &schema, relation) else { continue };
            if skip.contains(&table.shown) {
                // The entries of an index are a table of their own, which goes by the same name.
                if unused.remove(&*table.shown) {
                    plan.notes.push(format!("{} was left out", table.shown));
                }
                if let Some(relation) = relation {
                    plan.skipped.insert((relation.database.clone(), relation.name.clone()));
                }
                continue;
            }
            let has_indexes = relation.and_then(|own| own.table()).is_some_and(|own| !own.indexes.is_empty());
            let indexed = match has_indexes && !target.features.has(Feature::StagedWrites) {
                true => Err(Error::unsupported("it has indexes, or unique columns")),
                false => Ok(()),
            };
            match indexed.and_then(|()| check(&table.schema, target)) {
                Ok(()) => plan.tables.push(table),
                Err(error) => {
                    let words = format!("{}: {}", table.shown, error.message());
                    if !refused.contains(&words) {
                        refused.push(words);
                    }
                }
            }
        }
        if !refused.is_empty() {
            return Err(Error::unsupported(format!(
                "the target cannot hold {} (leave them out with --skip NAME)",
                refused.join("; ")
            )));
        }
        match unused.first() {
            None => Ok(plan),
            Some(name) => {
                Err(Error::missing(format!("--skip {name}: there is no such measurement or table")))
            }
        }
    }
}

fn moved(id: TableId, schema: &TableSchema, relation: Option<&Arc<Relation>>) -> Option<MovedTable> {
    if let Some(relation) = relation {
        let table = relation.table()?;
        // Columns that only the past has stay behind, as the past does.
        let is_known = |column| table.table != id || table.has(column);
        let columns = schema.columns.iter().filter(|column| is_known(column.id)).cloned().collect();
        return Some(MovedTable {
            shown: format!("{}.{}", relation.database, relation.name),
            has_points: false,
            source: id,
            schema: TableSchema { columns, ..schema.clone() },
            place: None,
        });
    }
    if is_of_relation(schema) {
        // What is left of a relation that was not created as a whole.
        return None;
    }
    let mut parts = schema.name.splitn(3, SEPARATOR);
    let (database, policy, name) = (parts.next()?, parts.next()?, parts.next()?);
    let shown = match name {
        // The table of a group.
        "" => format!("{database}.{policy} (metrics of Prometheus)"),
        _ => format!("{database}.{policy}.{name}"),
    };
    let place = Some((database.to_owned(), policy.to_owned()));
    Some(MovedTable { shown, has_points: true, source: id, schema: schema.clone(), place })
}

/// Whether a table holds points, or rows of a relation.
pub(super) fn has_rows(schema: &TableSchema) -> bool {
    is_of_relation(schema) || schema.name.contains(SEPARATOR)
}

/// Whether a store can hold a table.
fn check(schema: &TableSchema, capabilities: Capabilities) -> Result<()> {
    capabilities.need_for(schema)?;
    match schema.columns.len() > capabilities.columns_max {
        true => Err(Error::limit(format!(
            "{} columns, and a table can have {} there",
            schema.columns.len(),
            capabilities.columns_max
        ))),
        false => Ok(()),
    }
}

/// The ranges of times of a table, each of which is moved as a whole: those of the source, and those in between where the target
/// has some.
pub(super) fn ranges(schema: &TableSchema, source: &[TimeRange], target: &[TimeRange]) -> Vec<TimeRange> {
    if !schema.is_series_keyed() || !matches!(schema.partitioning.ranges, Ranges::Time { .. }) {
        return vec![TimeRange::ALL];
    }
    let mut all: Vec<TimeRange> = source.to_vec();
    all.sort_by_key(|range| range.start_ns);
    let mut gap_ns = i64::MIN;
    let mut gaps = Vec::new();
    for range in &all {
        gaps.push(TimeRange::new(gap_ns, range.start_ns));
        gap_ns = range.end_ns;
    }
    gaps.push(TimeRange::new(gap_ns, i64::MAX));
    let within = |gap: &TimeRange| target.iter().map(move |range| range.intersect(*gap)).collect::<Vec<_>>();
    let surplus: Vec<TimeRange> = gaps.iter().flat_map(within).filter(|range| !range.is_empty()).collect();
    all.extend(surplus);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_target_has_is_a_range_too() {
        let schema = TableSchema::measurement("m", 10);
        let range = TimeRange::new;
        let own = [range(20, 30), range(0, 10)];
        assert_eq!(ranges(&schema, &own, &[]), [range(0, 10), range(20, 30)]);
        let target = [range(0, 10), range(5, 25), range(40, 50)];
        let expected = [range(0, 10), range(20, 30), range(10, 20), range(40, 50)];
        assert_eq!(ranges(&schema, &own, &target), expected);
        assert_eq!(ranges(&schema, &[], &target), target);
    }
}
