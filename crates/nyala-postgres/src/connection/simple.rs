//! The simple protocol: the statements of a text, one after the other, and their rows as text.

use super::fetch::Fetch;
use super::stored::{check_count_of_columns, columns_of};
use super::{Connection, Stop, before_long_text, unless_closed};
use crate::copy::{read_file, write_files};
use crate::error::Failure;
use crate::message::backend;
use crate::value::Format;
use nyala_sql::{Outcome, Statement};
use std::sync::atomic::Ordering;

impl Connection {
    /// Executes the statements of a text, up to the first that fails.
    pub(super) async fn query(&mut self, text: &str) -> Result<(), Stop> {
        // They have no name, and would be replaced by the next ones in any case.
        self.forget_statement("");
        self.forget_portal("");
        before_long_text(text).await;
        let statements = Statement::parse(text)?;
        if statements.is_empty() {
            backend::empty_query_response(&mut self.wire.output);
        }
        let last = statements.len().saturating_sub(1);
        for (place, statement) in statements.into_iter().enumerate() {
            // Each is a large future, and most of the time there is none.
            Box::pin(self.query_one(statement, place == last)).await?;
        }
        Ok(())
    }

    async fn query_one(&mut self, statement: Statement, is_last: bool) -> Result<(), Stop> {
        self.server.counts.statements.fetch_add(1, Ordering::Relaxed);
        let prepared = unless_closed(&mut self.wire, self.session.prepare(statement, &[])).await??;
        if !prepared.parameters.is_empty() {
            return Err(Failure::new("42P02", "there is no parameter $1").into());
        }
        // Before it changes anything.
        prepared.columns.as_deref().map_or(Ok(()), check_count_of_columns)?;
        if prepared.begins_series() && !is_last {
            self.session.begin_series();
        }
        let outcome = unless_closed(&mut self.wire, self.session.execute(&prepared, Vec::new())).await??;
        match outcome {
            Outcome::Rows(rows) => {
                let schema = rows.schema();
                let columns = columns_of(&schema)?.into_iter().map(|column| (column, Format::Text));
                let columns: Vec<_> = columns.collect();
                let described = schema.fields().iter().zip(&columns);
                let described =
                    described.map(|(field, (column, format))| (field.name().as_str(), *column, *format));
                backend::row_description(&mut self.wire.output, described);
                let mut fetch = Fetch::of(rows, columns, self.session.zone());
                let sent = fetch.send(&mut self.wire, 0).await?;
                self.returned(&prepared, &fetch, &sent);
            }
            Outcome::CopyIn(copy) => {
                let tag = Box::pin(self.copy_in(copy)).await?;
                self.done(&prepared.statement, &tag)?;
            }
            Outcome::CopyOut(rows, form) => {
                let tag = Box::pin(self.copy_out(rows, *form)).await?;
                self.done(&prepared.statement, &tag)?;
            }
            Outcome::FileOut(out) => {
                let writing = write_files(*out, self.session.zone());
                let tag = unless_closed(&mut self.wire, Box::pin(writing)).await??;
                self.done(&prepared.statement, &tag)?;
            }
            Outcome::FileIn(input) => {
                let reading = read_file(*input, &mut self.session);
                let tag = unless_closed(&mut self.wire, Box::pin(reading)).await??;
                self.done(&prepared.statement, &tag)?;
            }
            Outcome::Done(tag) => self.done(&prepared.statement, &tag)?,
        }
        Ok(())
    }
}
