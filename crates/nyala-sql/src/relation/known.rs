//! Whether a snapshot has what a definition names.

use crate::error::{SqlError, SqlResult, SqlState};
use nyala_core::store::Snapshot;
use nyala_core::{ColumnId, TableId};
use nyala_db::catalog::Catalog;

/// Whether a snapshot has the rows of a table, and their values of some columns: false if it has no rows of the table, because it
/// was created since.
///
/// # Errors
/// `SERIALIZATION_FAILURE` if the snapshot has others than the definition of now says: a transaction began before the table was
/// altered or made anew, or a statement was planned before.
pub(crate) fn check_known(
    catalog: &Catalog,
    snapshot: &dyn Snapshot,
    (table, name): (TableId, &str),
    columns: &[ColumnId],
) -> SqlResult<bool> {
    let relations = catalog.relations();
    if snapshot.sequence() < relations.whole_since(table, columns.iter().copied()) {
        return Err(altered_since(name));
    }
    match snapshot.schema(table) {
        Ok(schema) if columns.iter().all(|id| schema.column(*id).is_some()) => Ok(true),
        Ok(_) => Err(altered_since(name)),
        Err(_) if catalog.store().schema(table).is_ok() || relations.was_truncated(table) => Ok(false),
        Err(_) => Err(altered_since(name)),
    }
}

/// The error of a statement that would not find what a table has now.
pub(crate) fn altered_since(name: &str) -> SqlError {
    let words = format!("table \"{name}\" was altered or made anew since: what it had then cannot be read");
    SqlError::new(SqlState::SERIALIZATION_FAILURE, words)
}
