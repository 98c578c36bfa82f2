//! Queries of a server, whose rows come as batches while they are computed.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{DataType, SchemaRef};
use nyala_shell::Client;

/// Takes what an answer has: first its columns, then its rows.
pub(super) trait TakeRows {
    fn columns(&mut self, schema: &SchemaRef) -> Result<(), String>;
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), String>;
}

/// Executes a query, and hands on its rows as they come.
pub(super) fn rows_of(
    client: &Client,
    query: &str,
    database: &str,
    taker: &mut dyn TakeRows,
) -> Result<(), String> {
    let mut decoder = StreamDecoder::new();
    let mut is_begun = false;
    let malformed = |error: arrow_schema::ArrowError| format!("unexpected answer from the server: {error}");
    client.arrow(query, database, &mut |piece| {
        let mut buffer = Buffer::from(piece);
        while !buffer.is_empty() {
            let rows = decoder.decode(&mut buffer).map_err(malformed)?;
            if let Some(schema) = decoder.schema().filter(|_| !is_begun) {
                is_begun = true;
                taker.columns(&schema)?;
            }
            if let Some(rows) = rows {
                taker.rows(&rows)?;
            }
        }
        Ok(())
    })?;
    decoder.finish().map_err(malformed)?;
    match is_begun {
        true => Ok(()),
        false => Err("unexpected answer from the server: it has no columns".to_owned()),
    }
}

/// All rows of a short answer.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) schema: Option<SchemaRef>,
    pub(super) batches: Vec<RecordBatch>,
}

impl TakeRows for Collected {
    fn columns(&mut self, schema: &SchemaRef) -> Result<(), String> {
        self.schema = Some(schema.clone());
        Ok(())
    }

    fn rows(&mut self, rows: &RecordBatch) -> Result<(), String> {
        self.batches.push(rows.clone());
        Ok(())
    }
}

/// The columns of a query.
pub(super) fn columns_of(client: &Client, query: &str, database: &str) -> Result<SchemaRef, String> {
    let mut found = Collected::default();
    rows_of(client, &format!("SELECT * FROM ({query}) AS exported LIMIT 0"), database, &mut found)?;
    found.schema.ok_or_else(|| "the query has no columns".to_owned())
}

/// How many rows a query or table has.
pub(super) fn count_of(client: &Client, from: &str, database: &str) -> Result<u64, String> {
    let mut found = Collected::default();
    rows_of(client, &format!("SELECT count(*) FROM {from}"), database, &mut found)?;
    let number = found.batches.iter().find(|rows| rows.num_rows() > 0).map(|rows| rows.column(0).clone());
    let number = number.filter(|column| *column.data_type() == DataType::Int64);
    let number = number.and_then(|column| u64::try_from(column.as_primitive::<Int64Type>().value(0)).ok());
    number.ok_or_else(|| "the server does not count".to_owned())
}
