//! Keys of tables.

use super::names::{ask, texts};
use crate::caller::Caller;
use crate::error::{internal, status_of};
use crate::shared::Server;
use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_flight::sql::CommandGetPrimaryKeys;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use nyala_sql::quoted_text;
use std::sync::Arc;
use tonic::Status;

/// The columns of a part of a primary key.
pub(super) fn primary_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_name", DataType::Utf8, true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The columns of a part of a foreign key.
pub(super) fn foreign_schema() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

/// The primary key of a table.
pub(super) async fn primary(
    server: &Arc<Server>,
    caller: &Caller,
    asked: &CommandGetPrimaryKeys,
) -> Result<RecordBatch, Status> {
    let database = asked.catalog.as_ref().filter(|name| !name.is_empty()).unwrap_or(&caller.database);
    let schema = asked.db_schema.as_deref().filter(|name| !name.is_empty()).unwrap_or("public");
    let text = format!(
        "SELECT k.column_name, k.constraint_name FROM information_schema.key_column_usage k \
         JOIN information_schema.table_constraints c \
         ON c.constraint_name = k.constraint_name AND c.table_schema = k.table_schema AND c.table_name = k.table_name \
         WHERE c.constraint_type = 'PRIMARY KEY' AND k.table_schema = {} AND k.table_name = {} \
         ORDER BY k.ordinal_position",
        quoted_text(schema),
        quoted_text(&asked.table),
    );
    let mut session = caller.session_in(server, database)?;
    let mut rows = ask(&mut session, &text).await?;
    let (mut columns, mut keys) = (Vec::new(), Vec::new());
    while let Some(batch) = rows.next().await.map_err(|error| status_of(&error))? {
        columns.extend(texts(&batch, 0)?.iter().map(|name| name.unwrap_or("").to_owned()));
        keys.extend(texts(&batch, 1)?.iter().map(|name| name.map(str::to_owned)));
    }
    let count = columns.len();
    let same = |text: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(vec![text; count])) };
    let numbers = (1..).take(count).collect::<Vec<i32>>();
    let own: Vec<ArrayRef> = vec![
        same(database),
        same(schema),
        same(&asked.table),
        Arc::new(StringArray::from(columns)),
        Arc::new(StringArray::from(keys)),
        Arc::new(Int32Array::from(numbers)),
    ];
    RecordBatch::try_new(primary_schema(), own).map_err(internal)
}
