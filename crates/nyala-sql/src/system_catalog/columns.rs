//! The columns of an object, as `pg_attribute` and `information_schema.columns` list them.

use super::builtin_type::{of_declared, of_field};
use super::column_default::ColumnDefault;
use super::objects::{Object, ObjectKind};
use datafusion::catalog::CatalogProviderList;
use nyala_db::relations::{ColumnDefinition, Identity};
use std::sync::Arc;

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The number of its type.
    pub(crate) type_oid: u32,
    pub(crate) modifier: i32,
    pub(crate) is_not_null: bool,
    /// What a new row gets.
    pub(crate) default: Option<ColumnDefault>,
    /// How it is an identity.
    pub(crate) identity: Option<Identity>,
}

impl Column {
    fn new(name: &str, (type_oid, modifier): (u32, i32)) -> Self {
        Self { name: name.to_owned(), type_oid, modifier, is_not_null: false, default: None, identity: None }
    }

    fn of_definition(own: &ColumnDefinition) -> Self {
        let identity = own.sequence.as_ref().and_then(|own| own.identity);
        let of = Self::new(&own.name, of_declared(own.declared_type));
        Self { is_not_null: !own.nullable, default: ColumnDefault::of(own), identity, ..of }
    }
}

/// The columns of an object of a database. A view whose query is no longer right has none.
pub(crate) async fn columns_of(
    object: &Object,
    database: &str,
    names: &Arc<dyn CatalogProviderList>,
) -> Vec<Column> {
    match &object.kind {
        ObjectKind::System(table) => {
            let columns = table.columns.iter();
            let column = columns.map(|own| Column {
                is_not_null: own.is_not_null,
                ..Column::new(own.name, (own.of.oid, -1))
            });
            column.collect()
        }
        ObjectKind::Table(relation) => match relation.table() {
            Some(table) => table.columns.iter().map(Column::of_definition).collect(),
            None => Vec::new(),
        },
        ObjectKind::Index(index) => match index.relation.table() {
            Some(table) => {
                let keys = index.columns.iter().map(|place| &table.columns[*place as usize - 1]);
                keys.map(|own| Column::new(&own.name, of_declared(own.declared_type))).collect()
            }
            None => Vec::new(),
        },
        ObjectKind::View(_) => {
            let mut columns = planned(object, database, names).await;
            columns.iter_mut().for_each(|column| column.is_not_null = false);
            columns
        }
        ObjectKind::Measurement | ObjectKind::Sequence(_) => planned(object, database, names).await,
    }
}

/// The columns that plans see.
async fn planned(object: &Object, database: &str, names: &Arc<dyn CatalogProviderList>) -> Vec<Column> {
    let schema = names.catalog(database).and_then(|catalog| catalog.schema(&object.schema));
    let Some(schema) = schema else { return Vec::new() };
    let Ok(Some(table)) = schema.table(&object.name).await else { return Vec::new() };
    let fields = table.schema();
    let column = |field: &Arc<arrow_schema::Field>| Column {
        is_not_null: !field.is_nullable(),
        ..Column::new(field.name(), of_field(field))
    };
    fields.fields().iter().map(column).collect()
}
