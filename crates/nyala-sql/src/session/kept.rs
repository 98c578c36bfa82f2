//! What a session keeps by name: cursors and prepared statements. The system catalogue lists them.

use super::Session;
use super::prepared::Prepared;
use crate::cursor::Cursor;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::system_catalog::{Kept, KeptCursor, KeptStatement};
use nyala_core::memory::{Charge, Component};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most prepared statements of a session. Drivers that prepare what they execute often keep 100 to 256.
const STATEMENTS_MAX: usize = 2048;
/// What a prepared statement is charged with, beside its text: its plan.
const PLAN_BYTES: u64 = 16 << 10;
/// How much larger than its text the tree of a statement is.
const TREE_FACTOR: u64 = 16;

/// Cursors and prepared statements, by name.
#[derive(Default)]
pub(crate) struct KeptByName {
    cursors: Mutex<BTreeMap<String, Cursor>>,
    statements: Mutex<BTreeMap<String, Arc<NamedStatement>>>,
}

/// A prepared statement that is kept.
pub struct NamedStatement {
    /// The statement; `None` for an empty text.
    pub prepared: Option<Prepared>,
    /// Whether PREPARE made it, and no message of a protocol.
    is_of_sql: bool,
    /// When it was made, ns since 1970.
    prepared_ns: i64,
    text: Arc<str>,
    _charge: Charge,
}

impl KeptByName {
    pub(crate) fn cursors(&self) -> MutexGuard<'_, BTreeMap<String, Cursor>> {
        // Nothing under this lock can panic half-way.
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn statements(&self) -> MutexGuard<'_, BTreeMap<String, Arc<NamedStatement>>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it, as the system catalogue shows it.
    pub(super) fn listed(&self) -> Kept {
        let cursor = |(name, own): (&String, &Cursor)| KeptCursor {
            name: name.clone(),
            text: own.text.clone(),
            is_holdable: own.is_holdable,
            scrolls: own.scrolls,
            declared_ns: own.declared_ns,
        };
        let statement = |(name, own): (&String, &Arc<NamedStatement>)| KeptStatement {
            name: name.clone(),
            text: own.text.clone(),
            parameters: own.prepared.as_ref().map_or_else(Vec::new, |prepared| prepared.parameters.clone()),
            is_of_sql: own.is_of_sql,
            prepared_ns: own.prepared_ns,
        };
        Kept {
            cursors: self.cursors().iter().map(cursor).collect(),
            statements: self.statements().iter().map(statement).collect(),
        }
    }
}

impl Session {
    /// Charges the memory of a prepared statement whose text, name and types have so many bytes.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn charge_for_statement(&self, text_bytes: usize) -> SqlResult<Charge> {
        let mut charge = self.server.memory.charge(Component::Query, 0);
        charge.try_grow(PLAN_BYTES + TREE_FACTOR * text_bytes as u64).map_err(SqlError::from)?;
        Ok(charge)
    }

    /// A prepared statement as the protocol keeps it, not under a name yet.
    pub fn named(&self, prepared: Option<Prepared>, charge: Charge) -> Arc<NamedStatement> {
        self.statement_of(prepared, false, charge)
    }

    pub(super) fn statement_of(
        &self,
        prepared: Option<Prepared>,
        is_of_sql: bool,
        charge: Charge,
    ) -> Arc<NamedStatement> {
        let text = prepared.as_ref().map_or_else(|| "".into(), |prepared| prepared.statement.text.clone());
        let prepared_ns = self.server.clock.now_ns();
        Arc::new(NamedStatement { prepared, is_of_sql, prepared_ns, text, _charge: charge })
    }

    /// Keeps a prepared statement under a name that is free ([`Self::check_name_is_free`]).
    pub fn keep_statement(&self, name: String, statement: Arc<NamedStatement>) {
        self.kept.statements().insert(name, statement);
    }

    /// Fails unless a prepared statement can be kept under a name.
    ///
    /// # Errors
    /// There is one already, or there are too many.
    pub fn check_name_is_free(&self, name: &str) -> SqlResult<()> {
        let statements = self.kept.statements();
        if statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_STATEMENT, message));
        }
        if statements.len() >= STATEMENTS_MAX {
            let message = format!("a session may have {STATEMENTS_MAX} prepared statements");
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message)
                .with_hint("DEALLOCATE those that are not needed."));
        }
        Ok(())
    }

    /// The prepared statement of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn statement(&self, name: &str) -> SqlResult<Arc<NamedStatement>> {
        let found = self.kept.statements().get(name).cloned();
        found.ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new(SqlState::UNKNOWN_STATEMENT, message)
        })
    }

    /// Forgets a prepared statement. Returns whether there was one.
    pub fn forget_statement(&self, name: &str) -> bool {
        self.kept.statements().remove(name).is_some()
    }
}
