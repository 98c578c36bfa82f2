//! COPY TO STDOUT: rows are sent as fast as the client takes them.

use super::copy_in::over_http;
use super::stored::columns_of;
use super::{Connection, Stop, unless_closed};
use crate::copy::CopyWriter;
use crate::error::Failure;
use crate::message::backend;
use crate::value::{Column, Format};
use nyala_sql::{CommandTag, CopyForm, CopyKind, Rows};

impl Connection {
    /// Sends rows, and says how many.
    pub(super) async fn copy_out(&mut self, mut rows: Rows, form: CopyForm) -> Result<CommandTag, Stop> {
        let format = match form.kind {
            CopyKind::Binary => Format::Binary,
            CopyKind::Text | CopyKind::Csv => Format::Text,
            CopyKind::Parquet | CopyKind::Arrow => return Err(over_http().into()),
        };
        let zone = self.session.zone();
        let schema = rows.schema();
        let types = columns_of(&schema)?;
        let mut writer = CopyWriter::of(form);
        let output = &mut self.wire.output;
        backend::copy_out_response(output, format, types.len());
        let names = schema.fields().iter().map(|field| field.name().as_str());
        if writer.has_header() {
            backend::copy_data(output, |out| {
                writer.header(names, out);
                Ok(())
            })?;
        }
        let mut sent = 0;
        while let Some(batch) = unless_closed(&mut self.wire, rows.next()).await?? {
            let columns = batch.columns().iter().zip(&types);
            let columns = columns.map(|(array, own)| Column::of(array, *own, format));
            let columns: Vec<Column> =
                columns.map(|own| Ok(own?.in_zone(zone))).collect::<Result<_, Failure>>()?;
            for row in 0..batch.num_rows() {
                backend::copy_data(&mut self.wire.output, |out| writer.row(&columns, row, out))?;
                self.wire.send_if_many().await?;
            }
            sent += batch.num_rows() as u64;
        }
        if writer.has_end() {
            backend::copy_data(&mut self.wire.output, |out| {
                writer.end(out);
                Ok(())
            })?;
        }
        backend::copy_done(&mut self.wire.output);
        Ok(CommandTag { command: "COPY", rows: Some(sent), change: None })
    }
}
