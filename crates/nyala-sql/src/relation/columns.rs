//! The columns of a table, as plans see them.

use crate::measurement::ZONE;
use crate::pg_type::{LENGTH_KEY, TYPE_KEY};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use nyala_core::ColumnId;
use nyala_db::relations::{DeclaredType, Key, TableDefinition};
use std::collections::HashMap;
use std::sync::Arc;

/// The name, in plans, of the column that holds the key of a table without a declared one. Nobody can write it.
pub(crate) const ROW_ID: &str = "\u{0}row";

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableColumns {
    /// Their names and types.
    pub(crate) schema: SchemaRef,
    /// The columns themselves, in the same order.
    pub(crate) columns: Vec<TableColumn>,
    /// The columns of the key, in its order.
    pub(crate) key: Vec<ColumnId>,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) id: ColumnId,
    pub(crate) declared_type: DeclaredType,
    pub(crate) nullable: bool,
}

impl TableColumns {
    /// The columns that users see.
    pub(crate) fn shown(table: &TableDefinition) -> Self {
        Self::new(table, false)
    }

    /// The same, and behind them the key if it is hidden.
    pub(crate) fn all(table: &TableDefinition) -> Self {
        Self::new(table, true)
    }

    fn new(table: &TableDefinition, with_hidden: bool) -> Self {
        let mut fields = Vec::with_capacity(table.columns.len() + 1);
        let mut columns = Vec::with_capacity(table.columns.len() + 1);
        for own in &table.columns {
            // A snapshot may be older than the definition, so only of the key is it certain that it has values.
            let field = Field::new(&own.name, data_type(own.declared_type), !table.is_key(own.id));
            fields.push(field.with_metadata(text_type(own.declared_type)));
            let (id, declared_type, nullable) = (own.id, own.declared_type, own.nullable);
            columns.push(TableColumn { id, declared_type, nullable });
        }
        if let (Key::Hidden { column }, true) = (&table.key, with_hidden) {
            fields.push(Field::new(ROW_ID, DataType::Int64, false));
            let declared_type = DeclaredType::Int8;
            columns.push(TableColumn { id: *column, declared_type, nullable: false });
        }
        Self { schema: Arc::new(Schema::new(fields)), columns, key: table.key.columns().to_vec() }
    }

    /// The position of a column by name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.schema.index_of(name).ok()
    }

    /// The position of a column by id.
    pub(crate) fn position_of(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// The positions of the columns of the key, if all of them are here.
    pub(crate) fn key_positions(&self) -> Option<Vec<usize>> {
        self.key.iter().map(|id| self.position_of(*id)).collect()
    }

    /// The name of a column.
    pub(crate) fn name(&self, position: usize) -> &str {
        self.schema.field(position).name()
    }
}

/// What is told of texts that are not of the type `text`: the type, and how many letters there may be.
fn text_type(declared: DeclaredType) -> HashMap<String, String> {
    let (name, length) = match declared {
        DeclaredType::Varchar(length) => ("varchar", Some(length)),
        DeclaredType::Char(length) => ("bpchar", Some(length)),
        DeclaredType::Uuid | DeclaredType::Json | DeclaredType::Jsonb => (declared.name(), None),
        _ => return HashMap::new(),
    };
    let length = length.map(|length| (LENGTH_KEY.to_owned(), length.to_string()));
    [(TYPE_KEY.to_owned(), name.to_owned())].into_iter().chain(length).collect()
}

/// The type of a column's values in plans. It is that of the store, but a moment has a zone.
pub(crate) fn data_type(declared: DeclaredType) -> DataType {
    match declared.unrounded() {
        DeclaredType::Timestamptz => DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into())),
        other => other.column_type().data_type(),
    }
}
