//! Statements about cursors.

use super::Session;
use super::prepared::{CursorPlan, Prepared, PreparedPlan};
use crate::command_tag::CommandTag;
use crate::cursor::{Cursor, CursorStatement, Declared};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::rows::{FETCH, Rows};
use crate::session::Outcome;
use crate::statement::{OfCursor, Statement};
use crate::transaction::Transaction;
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
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
                check_only_reads(&query)?;
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
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Outcome> {
        let (tag, rows) = match plan {
            CursorPlan::Declare(declared, query) => {
                self.declare(&prepared.statement, declared, query, values).await?;
                ("DECLARE CURSOR", None)
            }
            CursorPlan::Known(CursorStatement::Fetch { cursor, movement }) => {
                let cursor = self.going_on(cursor)?;
                let rows = Rows::part_of(cursor.fetch(*movement), cursor.running().cloned());
                return Ok(Outcome::Rows(rows.shown_by(FETCH)));
            }
            CursorPlan::Known(CursorStatement::Move { cursor, movement }) => {
                let cursor = self.going_on(cursor)?;
                ("MOVE", Some(cursor.skip(*movement).await?))
            }
            CursorPlan::Known(CursorStatement::Close { cursor: Some(name) }) => {
                self.cursor(name)?;
                self.close_cursor(name);
                ("CLOSE CURSOR", None)
            }
            CursorPlan::Known(CursorStatement::Close { cursor: None }) => {
                self.kept.cursors().clear();
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
        statement: &Statement,
        declared: &Declared,
        query: &Prepared,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<()> {
        if !declared.is_holdable {
            self.own_transaction("DECLARE CURSOR")?;
        }
        let name = &declared.cursor;
        let (is_taken, count) = {
            let cursors = self.kept.cursors();
            (cursors.contains_key(name), cursors.len())
        };
        if is_taken {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        if count >= CURSORS_MAX {
            let message = format!("a session may have {CURSORS_MAX} cursors");
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message).with_hint("CLOSE some of them."));
        }
        // It shows what there was when it was declared, also where no transaction keeps a snapshot.
        let is_alone = self.transaction.is_none();
        if is_alone {
            self.transaction = Some(self.new_transaction(self.is_read_only()));
        }
        let executed = self.try_execute(query, values).await;
        if is_alone {
            drop(self.end_transaction());
        }
        let Outcome::Rows(rows) = executed? else {
            return Err(SqlError::new(SqlState::INTERNAL, "the query of the cursor gives no rows"));
        };
        let space = declared.scrolls.then(|| self.server.spill.clone());
        let mut cursor = Cursor::of(rows, query.statement.ast.clone(), space);
        cursor.is_holdable = declared.is_holdable;
        cursor.depth = self.transaction.as_ref().map(Transaction::depth);
        cursor.text = statement.text.clone();
        cursor.declared_ns = self.server.clock.now_ns();
        self.kept.cursors().insert(name.clone(), cursor);
        Ok(())
    }

    /// A cursor whose query goes on: who cancels the statement of the session means that.
    fn going_on(&self, name: &str) -> SqlResult<Cursor> {
        let cursor = self.cursor(name)?;
        if let Some(running) = cursor.running() {
            self.running.note(running.guard.query().number());
        }
        Ok(cursor)
    }

    /// The columns of a cursor, if there is one of this name.
    pub fn cursor_columns(&self, name: &str) -> Option<SchemaRef> {
        self.kept.cursors().get(name).map(|cursor| cursor.schema().clone())
    }

    /// Forgets a cursor; that there is none is no error.
    pub fn close_cursor(&mut self, name: &str) {
        self.kept.cursors().remove(name);
    }

    pub(super) fn cursor(&self, name: &str) -> SqlResult<Cursor> {
        let missing = || SqlError::new(SqlState::UNKNOWN_CURSOR, format!("cursor \"{name}\" does not exist"));
        self.kept.cursors().get(name).cloned().ok_or_else(missing)
    }

    /// A transaction has ended, and with it its cursors; those that are held stay if it was committed.
    pub(super) fn end_cursors(&mut self, is_committed: bool) {
        self.kept.cursors().retain(|_, cursor| {
            let stays = cursor.depth.is_none() || (cursor.is_holdable && is_committed);
            cursor.depth = None;
            stays
        });
    }

    /// The savepoints behind so many are forgotten: what was declared since belongs to those before.
    pub(super) fn keep_cursors(&mut self, savepoints: usize) {
        for cursor in self.kept.cursors().values_mut() {
            cursor.depth = cursor.depth.map(|depth| depth.min(savepoints));
        }
    }

    /// The transaction goes back to the savepoint behind so many others, and what was declared since is gone.
    pub(super) fn close_cursors_beyond(&mut self, savepoints: usize) {
        self.kept.cursors().retain(|_, cursor| cursor.depth.is_none_or(|depth| depth <= savepoints));
    }
}

fn statement_of(statement: &Statement) -> SqlResult<CursorStatement> {
    let written = statement.cursor.as_ref().map(|cursor| cursor.written.clone());
    written.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the statement is not about a cursor"))
}

/// A cursor shows rows, and its query may be executed in parts, or not at all.
fn check_only_reads(query: &Prepared) -> SqlResult<()> {
    match query.plan {
        PreparedPlan::Query { .. }
        | PreparedPlan::LookUp(_)
        | PreparedPlan::Known { .. }
        | PreparedPlan::Past(_)
        | PreparedPlan::Session => Ok(()),
        _ => Err(SqlError::unsupported("DECLARE CURSOR for a query that changes rows")),
    }
}

fn check(declared: &Declared) -> SqlResult<()> {
    if declared.scrolls && declared.is_forward_only {
        let words = "cannot specify both SCROLL and NO SCROLL";
        return Err(SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, words));
    }
    match declared.is_binary {
        true => Err(SqlError::unsupported("BINARY CURSOR")
            .with_hint("Clients ask for binary forms when they bind a statement.")),
        false => Ok(()),
    }
}
