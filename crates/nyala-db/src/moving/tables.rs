//! The tables of the target: each is made when it is first needed, and follows the schema that it has in the source.

use crate::catalog::{SERIES_TABLE, record_range, tag_set_range};
use crate::records::{Records, table_named};
use nyala_core::store::{Alteration, StoreRef};
use nyala_core::{Result, TableId, TableSchema};

/// The table of a schema in the target, and whether it is new. One that was made for a schema of other columns is replaced.
pub(super) async fn open(store: &StoreRef, schema: &TableSchema) -> Result<(TableId, bool)> {
    let Some((table, known)) = table_named(store, &schema.name) else {
        return Ok((store.create_table(schema.clone()).await?, true));
    };
    if known.key == schema.key && known.kind == schema.kind && known.columns == schema.columns {
        return Ok((table, false));
    }
    match added(&known, schema) {
        Some(alterations) => {
            store.alter_table(table, alterations).await?;
            Ok((table, false))
        }
        None => {
            drop(store, table).await?;
            Ok((store.create_table(schema.clone()).await?, true))
        }
    }
}

/// Drops a table with what belongs to its series.
pub(super) async fn drop(store: &StoreRef, table: TableId) -> Result<()> {
    if table_named(store, SERIES_TABLE).is_some() {
        let (first, _) = record_range(table);
        let records = Records::open(store.clone(), SERIES_TABLE).await?;
        records.remove_between(&first, &tag_set_range(table)).await?;
    }
    store.drop_table(table).await
}

/// The columns that a schema has more than one that is known, if that is all in which they differ.
fn added(known: &TableSchema, schema: &TableSchema) -> Option<Vec<Alteration>> {
    let more = schema.columns.strip_prefix(&known.columns[..])?;
    let mut ids = (known.next_column.0..).zip(more);
    let is_plain = ids.all(|(id, column)| column.id.0 == id && column.nullable && column.default.is_none());
    let fits = is_plain && known.key == schema.key && known.kind == schema.kind;
    fits.then(|| more.iter().cloned().map(Alteration::AddColumn).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::store::memory::MemoryStore;
    use nyala_core::{ColumnId, ColumnSchema, ColumnType};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_table_gets_new_columns_and_is_replaced_by_one_of_others() -> Result<()> {
        let store: StoreRef = Arc::new(MemoryStore::default());
        let mut schema = TableSchema::measurement("m", 10);
        let (first, is_new) = open(&store, &schema).await?;
        assert!(is_new);
        schema.apply(Alteration::add_column("f", ColumnType::Float64), &|_| false)?;
        assert_eq!(open(&store, &schema).await?, (first, false));
        assert_eq!(store.schema(first)?.columns, schema.columns);
        assert_eq!(open(&store, &schema).await?, (first, false));
        schema.columns[2] = ColumnSchema::new(ColumnId(2), "g", ColumnType::Float64);
        let (second, is_new) = open(&store, &schema).await?;
        assert!(is_new && second != first);
        assert_eq!(store.schema(second)?.columns, schema.columns);
        Ok(())
    }
}
