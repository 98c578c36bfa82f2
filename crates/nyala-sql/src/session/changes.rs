//! The changes of points that can be undone: their list, and undoing them.

use super::Session;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::measurement::time_type;
use crate::rows::Rows;
use crate::session::Outcome;
use crate::statement::Statement;
use crate::undo::Undo;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use nyala_core::ErrorKind;
use nyala_db::changes::{Author, Change, ChangeId};
use nyala_db::undo::UndoWork;
use nyala_db::users::Privilege;
use std::sync::Arc;

/// The columns of the list.
pub(super) fn listed_columns() -> SchemaRef {
    columns(&[
        ("change", DataType::Int64),
        ("time", time_type()),
        ("database", DataType::Utf8),
        ("user", DataType::Utf8),
        ("points", DataType::Int64),
        ("statement", DataType::Utf8),
    ])
}

/// The columns of what was put back.
pub(super) fn undone_columns() -> SchemaRef {
    columns(&["change", "points", "cells", "left_alone"].map(|name| (name, DataType::Int64)))
}

fn columns(all: &[(&str, DataType)]) -> SchemaRef {
    let fields = all.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl Session {
    /// The changes of the databases that the user may read.
    pub(super) async fn list_changes(&mut self) -> SqlResult<Outcome> {
        let mut changes = self.server.catalog.changes().await.map_err(undo_error)?;
        changes.retain(|change| self.principal().may(Privilege::Read, &change.database));
        let times = changes.iter().map(|change| change.time_ns);
        let points = changes.iter().map(|change| change.points.map(|points| points as i64));
        let time: ArrayRef =
            Arc::new(TimestampNanosecondArray::from_iter_values(times).with_data_type(time_type()));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(changes.iter().map(|change| change.id.0 as i64))),
            time,
            Arc::new(StringArray::from_iter_values(changes.iter().map(|change| &change.database))),
            Arc::new(StringArray::from_iter(changes.iter().map(|change| change.user.as_ref()))),
            Arc::new(Int64Array::from_iter(points)),
            Arc::new(StringArray::from_iter_values(changes.iter().map(|change| &change.statement))),
        ];
        rows(listed_columns(), columns)
    }

    /// Undoes a change, or counts what would be put back.
    pub(super) async fn undo(&mut self, statement: &Statement, undo: Undo) -> SqlResult<Outcome> {
        if self.transaction.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_TRANSACTION,
                "UNDO cannot run inside a transaction block",
            ));
        }
        if !undo.is_dry_run {
            self.check_writable("UNDO")?;
        }
        let catalog = self.server.catalog.clone();
        let change = catalog.change(ChangeId(undo.change)).await.map_err(undo_error)?;
        self.check_may_undo(&change)?;
        let author = self.author(statement, &change.database);
        let freshness = catalog.follow().await?;
        let run = self.run(statement, freshness, Arc::default(), Arc::default())?;
        let query = run.running.guard.query();
        let work = UndoWork {
            author: (!undo.is_dry_run).then_some(&author),
            series_limit_bytes: self.server.writer.series_limit_bytes(),
            check: &|| query.check(),
        };
        let undone = catalog.undo(&change, &work).await.map_err(undo_error)?;
        if !undo.is_dry_run {
            self.server.note_changed(&author, undone.id);
        }
        let counts = [undone.points, undone.cells, undone.left_alone].map(|count| Some(count as i64));
        let numbers = [undone.id.map(|id| id.0 as i64)].into_iter().chain(counts);
        let columns = numbers.map(|number| Arc::new(Int64Array::from(vec![number])) as ArrayRef);
        rows(undone_columns(), columns.collect())
    }

    /// Who executes a statement.
    pub(super) fn author(&self, statement: &Statement, database: &str) -> Author {
        Author {
            user: self.principal().user_name().map(str::to_owned),
            client: self.client,
            database: database.to_owned(),
            statement: statement.shown(),
            now_ns: self.server.clock.now_ns(),
        }
    }

    /// Logs a statement that changes what is logged only for an audit.
    pub(super) fn note_audited(&self, statement: &Statement, database: &str) {
        if let Some(audited) = &self.server.audited {
            audited(&self.author(statement, database));
        }
    }

    /// Undoing reads points, and changes them.
    fn check_may_undo(&self, change: &Change) -> SqlResult<()> {
        let may = |privilege| self.principal().may(privilege, &change.database);
        match may(Privilege::Read) && may(Privilege::Write) {
            true => Ok(()),
            false => {
                let message = format!("permission denied for database \"{}\"", change.database);
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .with_hint("To undo a change takes the privileges READ and WRITE."))
            }
        }
    }
}

fn rows(schema: SchemaRef, columns: Vec<ArrayRef>) -> SqlResult<Outcome> {
    let rows = RecordBatch::try_new(schema, columns);
    let rows = rows.map_err(|error| SqlError::new(SqlState::INTERNAL, error.to_string()))?;
    Ok(Outcome::Rows(Rows::ready(rows)))
}

/// An error of an undo.
fn undo_error(error: nyala_core::Error) -> SqlError {
    match error.kind() {
        // What is asked for needs another state of the server.
        ErrorKind::Unsupported => SqlError::new(SqlState::WRONG_STATE, error.message()),
        _ => error.into(),
    }
}
