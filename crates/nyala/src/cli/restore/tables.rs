//! Copies tables, views and sequences of SQL to a data directory.
//!
//! Rows go from store to store as they are, under the same keys, so that what was copied before is written again. A table
//! of the same name that is another one is left as it is.

use super::source::Source;
use crate::cli::import::destination::Destination;
use arrow_array::Array;
use nyala_core::arrays::value_at;
use nyala_core::schema::TableSchema;
use nyala_core::store::{
    Batch, CellColumn, Freshness, Operation, RowSelection, ScanRequest, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, Error, Result, TableId, Value};
use nyala_db::relations::{Body, Definition, Relation, SequenceDefinition, TableDefinition};

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) tables: u64,
    pub(super) rows: u64,
    pub(super) views: u64,
    pub(super) sequences: u64,
    /// What was not, and why.
    pub(super) refused: Vec<String>,
}

/// Copies the tables, then the views, of a database.
pub(super) fn copy(source: &Source, target: &Destination, from: &str, to: &str, copied: &mut Copied) {
    let relations = source.catalog.relations().of(from);
    let (tables, mut views): (Vec<_>, Vec<_>) = relations.into_iter().partition(|own| own.table().is_some());
    // A view may use one that was created before it.
    views.sort_by_key(|view| view.created);
    for relation in tables.iter().chain(&views) {
        let outcome = match &relation.definition.body {
            Body::Table(table) => copy_table(source, target, (to, relation), table).map(|rows| {
                copied.tables += 1;
                copied.rows += rows;
            }),
            Body::View(_) => copy_view(target, (from, to), relation).map(|()| copied.views += 1),
            Body::Sequence(sequence) => {
                copy_sequence(source, target, (to, relation), sequence).map(|()| copied.sequences += 1)
            }
        };
        if let Err(error) = outcome {
            copied.refused.push(format!("{from}.{}: {error}", relation.name));
        }
    }
}

fn copy_view(target: &Destination, (from, to): (&str, &str), relation: &Relation) -> Result<()> {
    let mut definition = relation.definition.clone();
    if let Body::View(view) = &mut definition.body
        && view.database == from
    {
        view.database = to.to_owned();
    }
    create(target, to, relation, definition)
}

/// Copies a sequence, which begins where it is.
fn copy_sequence(
    source: &Source,
    target: &Destination,
    (to, relation): (&str, &Relation),
    sequence: &SequenceDefinition,
) -> Result<()> {
    let beginning = source.block_on(source.catalog.relations().sequences().state(sequence))?;
    let body = Body::Sequence(SequenceDefinition { beginning, ..sequence.clone() });
    create(target, to, relation, Definition { body, ..relation.definition.clone() })
}

fn create(target: &Destination, to: &str, relation: &Relation, definition: Definition) -> Result<()> {
    match target.catalog().relations().find(to, &relation.name) {
        Some(known) if known.definition == definition => Ok(()),
        Some(_) => Err(Error::conflict("there is another relation of this name")),
        None => {
            let created = target.catalog().create_relation(to, &relation.name, definition, false);
            target.block_on(created).map(drop)
        }
    }
}

/// Copies a table with its indexes, and returns the number of its rows.
fn copy_table(
    source: &Source,
    target: &Destination,
    (to, relation): (&str, &Relation),
    table: &TableDefinition,
) -> Result<u64> {
    let mut schemas = Vec::new();
    for id in table.stores() {
        schemas.push(TableSchema::clone(&*source.snapshot.schema(id)?));
    }
    let define = |stores: &[TableId]| relation.definition.with_stores(stores);
    let known = target.catalog().relations().find(to, &relation.name);
    let new = match known {
        Some(known) => known,
        None => {
            let (catalog, schemas) = (target.catalog(), schemas.clone());
            target.block_on(catalog.create_relation_table(to, &relation.name, schemas, define))?
        }
    };
    let stores: Vec<TableId> = new.table().map_or_else(Vec::new, |own| own.stores().collect());
    if stores.len() != schemas.len() || new.definition != define(&stores) {
        return Err(Error::conflict("there is another relation of this name"));
    }
    let ids = |from: TableId, schema: &TableSchema| -> Vec<ColumnId> {
        let is_known = |id: &ColumnId| from != table.table || table.has(*id);
        schema.columns.iter().map(|column| column.id).filter(is_known).collect()
    };
    // Entries of other rows, or of what rows were, would stay beside those of the backup.
    if stores.len() > 1
        && !has_only(source, target, (table.table, stores[0]), &ids(table.table, &schemas[0]))?
    {
        return Err(Error::conflict(
            "the table is there with an index, and has rows that the backup does not have: restore to another database, or \
             drop it first",
        ));
    }
    // Entries after the rows that they name: what was copied before is written again.
    let mut counts = Vec::with_capacity(stores.len());
    for ((from, schema), to) in table.stores().zip(&schemas).zip(stores) {
        let ids = ids(from, schema);
        let is_key = |id: ColumnId| schema.key.contains(&id);
        counts.push(copy_rows(source, target, (from, to), &ids, is_key)?);
    }
    Ok(counts[0])
}

/// Whether a table of the target has no rows but those of one of the source, as they are there.
fn has_only(
    source: &Source,
    target: &Destination,
    (from, to): (TableId, TableId),
    ids: &[ColumnId],
) -> Result<bool> {
    let snapshot = target.block_on(target.catalog().store().snapshot(Freshness::Latest))?;
    let request = |table| ScanRequest::by_key(table, RowSelection::All, ids.to_vec());
    let mut known = target.block_on(snapshot.scan(request(to)))?;
    let mut all = source.block_on(source.snapshot.scan(request(from)))?;
    let mut left = Vec::new().into_iter();
    while let Some(batch) = target.block_on(known.next())? {
        for row in rows_of(&batch) {
            // Both come in order of the key.
            while left.next().is_none_or(|own| own != row) {
                if left.len() == 0 {
                    match source.block_on(all.next())? {
                        Some(batch) => left = rows_of(&batch).into_iter(),
                        None => return Ok(false),
                    }
                }
            }
        }
    }
    Ok(true)
}

fn rows_of(batch: &Batch) -> Vec<Vec<Option<Value>>> {
    let row = |row| batch.columns.iter().map(|values| value_at(values, row)).collect();
    (0..batch.rows).map(row).collect()
}

/// Copies the rows of a table of the store, and returns their number.
fn copy_rows(
    source: &Source,
    target: &Destination,
    (from, to): (TableId, TableId),
    ids: &[ColumnId],
    is_key: impl Fn(ColumnId) -> bool,
) -> Result<u64> {
    let request = ScanRequest::by_key(from, RowSelection::All, ids.to_vec());
    let mut rows = source.block_on(source.snapshot.scan(request))?;
    let mut count = 0;
    while let Some(batch) = source.block_on(rows.next())? {
        let cells = ids.iter().zip(batch.columns).map(|(column, values)| {
            // A cell without a value is NULL, whether it was written or not.
            let null_cells = values.nulls().filter(|_| !is_key(*column)).map(|valid| !valid.inner());
            CellColumn { column: *column, values, null_cells }
        });
        let upsert = Upsert { table: to, mode: WriteMode::Upsert, columns: cells.collect() };
        let batch_of = WriteBatch { operations: vec![Operation::Upsert(upsert)] };
        count += batch.rows as u64;
        target.block_on(target.catalog().store().write(batch_of))?;
    }
    Ok(count)
}
