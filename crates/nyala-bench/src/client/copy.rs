//! Sends record batches to a table by `COPY … FROM STDIN (FORMAT arrow)` over HTTP: the way in that costs least per row.

use crate::error::{BenchError, Result};
use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};
use nyala_client::{Body, Connection, query_escape};
use std::time::{Duration, Instant};

/// The server accepts 16 MiB; a batch may come on top of this.
const REQUEST_BYTES: usize = 10 << 20;
const CONTENT_TYPE: &str = "Content-Type: application/vnd.apache.arrow.stream\r\n";

/// Collects batches of a table and sends them in requests of some megabytes.
pub struct CopyClient<'a> {
    connection: &'a mut Connection,
    path: String,
    schema: &'a Schema,
    writer: StreamWriter<Vec<u8>>,
    /// How long requests took.
    pub elapsed: Duration,
    /// Bytes that were sent.
    pub sent_bytes: u64,
}

impl<'a> CopyClient<'a> {
    /// Rows for a table with these columns.
    pub fn new(
        connection: &'a mut Connection,
        database: &str,
        table: &str,
        schema: &'a Schema,
    ) -> Result<Self> {
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let statement = format!("COPY {table} ({}) FROM STDIN (FORMAT arrow)", columns.join(", "));
        let path = format!("/api/sql?db={}&q={}", query_escape(database), query_escape(&statement));
        let writer = begin(schema)?;
        Ok(CopyClient { connection, path, schema, writer, elapsed: Duration::ZERO, sent_bytes: 0 })
    }

    /// Adds rows, and sends those that are enough for a request.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.writer.write(rows).map_err(failed)?;
        match self.writer.get_ref().len() >= REQUEST_BYTES {
            true => self.send(),
            false => Ok(()),
        }
    }

    /// Sends what was added.
    pub fn send(&mut self) -> Result<()> {
        let writer = std::mem::replace(&mut self.writer, begin(self.schema)?);
        let body = writer.into_inner().map_err(failed)?;
        let begun = Instant::now();
        let response = self.connection.request("POST", &self.path, CONTENT_TYPE, &body, Body::Drop)?;
        self.elapsed += begun.elapsed();
        self.sent_bytes += body.len() as u64;
        match response.status {
            200..300 => Ok(()),
            status => Err(BenchError::Server { status, message: self.connection.error_text() }),
        }
    }
}

fn begin(schema: &Schema) -> Result<StreamWriter<Vec<u8>>> {
    StreamWriter::try_new(Vec::new(), schema).map_err(failed)
}

fn failed(error: ArrowError) -> BenchError {
    BenchError::Invalid(format!("these rows cannot be sent: {error}"))
}
