//! Statements about cursors.

use super::Session;
use super::prepared::{CursorPlan, Prepared, PreparedPlan};
use crate::command_tag::CommandTag;
use crate::cursor::{Cursor, CursorStatement, Declared, FetchCount};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::rows::{FETCH, Rows};
use crate::session::Outcome;
use crate::statement::{OfCursor, Statement};
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use nyala_core::store::Freshness;
use std::sync::Arc;

/// The most cursors of a session: each is a query that runs.
const CURSORS_MAX: usize = 64;

impl Session {
    pub(super) async fn prepare_cursor(
        &mut self,
        statement: Statement,
        cursor: &OfCursor,
        types: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        let (columns, parameters, plan) = match (&cursor.written, &cursor.query) {
            (CursorStatement::Declare(declared), Some(query)) => {
                check(declared)?;
                let query = self.try_prepare(query.clone(), types).await?;
                let parameters = query.parameters.clone();
                (None, parameters, CursorPlan::Declare(declared.clone(), Box::new(query)))
            }
            (CursorStatement::Fetch { cursor, .. }, _) => {
                let columns = Some(self.cursor(cursor)?.schema().clone());
                (columns, Vec::new(), CursorPlan::Known(statement_of(&statement)?))
            }
            _ => (None, Vec::new(), CursorPlan::Known(statement_of(&statement)?)),
        };
        let plan = PreparedPlan::Cursor(Arc::new(plan));
        Ok(Prepared { parameters, plan, ..Prepared::of_session(statement, columns) })
    }

    pub(super) async fn execute_cursor(
        &mut self,
        prepared: &Prepared,
        plan: &CursorPlan,
        values: Vec<ScalarValue>,
    ) -> SqlResult<Outcome> {
        let (tag, rows) = match plan {
            CursorPlan::Declare(declared, query) => {
                self.declare(declared, query, values).await?;
                ("DECLARE CURSOR", None)
            }
            CursorPlan::Known(CursorStatement::Fetch { cursor, count }) => {
                let (cursor, most) = (self.cursor(cursor)?.clone(), forward(*count)?);
                let run = self.run(&prepared.statement, Freshness::Latest, Arc::default(), &[])?;
                return Ok(Outcome::Rows(Rows::of(cursor.fetch(most), run.running).shown_by(FETCH)));
            }
            CursorPlan::Known(CursorStatement::Move { cursor, count }) => {
                let (cursor, most) = (self.cursor(cursor)?.clone(), forward(*count)?);
                let run = self.run(&prepared.statement, Freshness::Latest, Arc::default(), &[])?;
                let skipped = run.running.unless_stopped(cursor.skip(most)).await?;
                ("MOVE", Some(skipped))
            }
            CursorPlan::Known(CursorStatement::Close { cursor: Some(name) }) => {
                self.cursor(name)?;
                self.cursors.remove(name);
                ("CLOSE CURSOR", None)
            }
            CursorPlan::Known(CursorStatement::Close { cursor: None }) => {
                self.cursors.clear();
                ("CLOSE CURSOR ALL", None)
            }
            CursorPlan::Known(CursorStatement::Declare(_)) => {
                return Err(SqlError::new(SqlState::INTERNAL, "the cursor has no query"));
            }
        };
        Ok(Outcome::Done(CommandTag { rows, ..CommandTag::of(tag) }))
    }

    async fn declare(
        &mut self,
        declared: &Declared,
        query: &Prepared,
        values: Vec<ScalarValue>,
    ) -> SqlResult<()> {
        if !declared.is_holdable {
            self.own_transaction("DECLARE CURSOR")?;
        }
        let name = &declared.cursor;
        if self.cursors.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        if self.cursors.len() >= CURSORS_MAX {
            let message = format!("a session may have {CURSORS_MAX} cursors");
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message).with_hint("CLOSE some of them."));
        }
        let Outcome::Rows(rows) = self.try_execute(query, values).await? else {
            return Err(SqlError::new(SqlState::INTERNAL, "the query of the cursor gives no rows"));
        };
        let mut cursor = Cursor::of(rows, declared.is_holdable);
        cursor.is_of_transaction = self.transaction.is_some();
        self.cursors.insert(name.clone(), cursor);
        Ok(())
    }

    /// The columns of a cursor, if there is one of this name.
    pub fn cursor_columns(&self, name: &str) -> Option<&SchemaRef> {
        self.cursors.get(name).map(Cursor::schema)
    }

    /// Forgets a cursor; that there is none is no error.
    pub fn close_cursor(&mut self, name: &str) {
        self.cursors.remove(name);
    }

    fn cursor(&self, name: &str) -> SqlResult<&Cursor> {
        let missing = || SqlError::new(SqlState::UNKNOWN_CURSOR, format!("cursor \"{name}\" does not exist"));
        self.cursors.get(name).ok_or_else(missing)
    }

    /// A transaction has ended, and with it its cursors; those that are held stay if it was committed.
    pub(super) fn end_cursors(&mut self, is_committed: bool) {
        self.cursors.retain(|_, cursor| {
            let stays = !cursor.is_of_transaction || (cursor.is_holdable && is_committed);
            cursor.is_of_transaction = false;
            stays
        });
    }
}

fn statement_of(statement: &Statement) -> SqlResult<CursorStatement> {
    let written = statement.cursor.as_ref().map(|cursor| cursor.written.clone());
    written.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the statement is not about a cursor"))
}

fn check(declared: &Declared) -> SqlResult<()> {
    if declared.is_binary {
        return Err(SqlError::unsupported("BINARY CURSOR")
            .with_hint("Clients ask for binary forms when they bind a statement."));
    }
    if declared.scrolls {
        return Err(SqlError::unsupported("SCROLL CURSOR").with_hint("Cursors go forward only."));
    }
    Ok(())
}

/// How many rows are wanted at most.
fn forward(count: FetchCount) -> SqlResult<u64> {
    match count {
        FetchCount::All => Ok(u64::MAX),
        FetchCount::Next(rows) => Ok(rows),
        FetchCount::Elsewhere => Err(SqlError::new(SqlState::WRONG_STATE, "cursor can only scan forward")),
    }
}
