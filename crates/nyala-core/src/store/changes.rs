//! Changes since a position: for copies of a store, and for results that are computed from it as it grows.

use super::{Delete, WriteBatch};
use crate::error::Result;
use crate::ids::{Sequence, TableId};
use crate::schema::TableSchema;
use async_trait::async_trait;
use std::sync::Arc;

/// Which changes to return.
#[derive(Debug, Clone)]
pub struct ChangesRequest {
    /// Only of these tables; a table that does not exist has no changes. If missing, of all tables, including those
    /// created later.
    pub tables: Option<Vec<TableId>>,
    /// After this position: the sequence of a snapshot, or a position that the follower reached. Everything that a
    /// snapshot of that sequence may lack is returned, so a follower may receive some changes twice.
    pub after: Sequence,
}

/// A change. A follower applies changes to its copy in the order in which it receives them. Ids are those of the
/// followed store.
///
/// The changes between two positions lead from the state at the first position to the state at the second one. Nothing
/// more is promised. Only the last version of a row may be returned, as a whole row or only the cells that changed. The
/// order may differ from the order of the writes. A row that is again what it was, or that was created and deleted in
/// between, may not be returned at all. So a follower that applies only some of the changes has a state that never
/// existed. Applying changes twice has the same result as applying them once.
#[derive(Debug, Clone)]
pub enum Change {
    /// From here on a table has this schema: it is new, or was altered, or is unchanged. In existing rows a new column
    /// has its default, and rows of dropped key ranges are gone; if this is not so, changes of rows follow that say
    /// what is. Until the next position a row may lack a value that its schema requires, and two tables may have the
    /// same name.
    Table(TableId, Arc<TableSchema>),
    /// A table was dropped. It may be a table that no earlier change mentioned.
    Dropped(TableId),
    /// Rows that were written and deleted, in the schemas received last: upserts and blind deletions. They name every
    /// column that a row must have or gets by default, so the result does not depend on which rows exist.
    Rows(WriteBatch),
    /// Rows deleted by selection.
    Delete(Delete),
    /// All changes up to here were returned. A copy that has applied them equals the store at this sequence, and
    /// continues after it.
    Position(Sequence),
}

/// The changes since a position, up to the time of the request. The last change is a position.
#[async_trait]
pub trait ChangeStream: Send {
    /// The next change, or `None` at the end. A batch has at most some tens of thousands of rows. Missing, even in the
    /// middle of the stream, if the store no longer knows what is needed.
    async fn next(&mut self) -> Result<Option<Change>>;
}
