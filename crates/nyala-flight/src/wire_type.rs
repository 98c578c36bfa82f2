//! Types of columns as clients get them.
//!
//! Dictionaries become plain values and views plain arrays, because not every client reads the others: Grafana shows nothing
//! for a column of either kind.

use crate::error::internal;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;
use tonic::Status;

/// The columns of an answer as they are sent.
pub(crate) fn wire_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(wire_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The columns of the rows of a statement as they are announced, and sent. Whether one has NULL is known better when the statement
/// is executed, but drivers refuse rows of another schema than the announced one; so each may have it.
pub(crate) fn rows_schema(columns: &Schema) -> SchemaRef {
    let nullable = |field: &FieldRef| wire_field(field).as_ref().clone().with_nullable(true);
    let fields: Vec<Field> = columns.fields().iter().map(nullable).collect();
    Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()))
}

fn wire_field(field: &FieldRef) -> FieldRef {
    let data_type = wire_type(field.data_type());
    match data_type == *field.data_type() {
        true => field.clone(),
        false => Arc::new(
            Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone()),
        ),
    }
}

/// How values of a type are sent.
pub(crate) fn wire_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => wire_type(values),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) | DataType::ListView(item) => DataType::List(wire_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(wire_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(wire_field).collect()),
        DataType::RunEndEncoded(_, values) => wire_type(values.data_type()),
        other => other.clone(),
    }
}

/// Rows as they are sent.
pub(crate) fn on_wire(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Status> {
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns.map(|(values, field)| match values.data_type() == field.data_type() {
        true => Ok(values.clone()),
        false => arrow_cast::cast(values, field.data_type()).map_err(internal),
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(internal)
}
