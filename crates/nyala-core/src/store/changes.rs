//! What changed since a position: for copies of a store, and for what is computed from it as it grows.

use super::{Delete, WriteBatch};
use crate::error::Result;
use crate::ids::{Sequence, TableId};
use crate::schema::TableSchema;
use async_trait::async_trait;
use std::sync::Arc;

/// Which changes.
#[derive(Debug, Clone)]
pub struct ChangesRequest {
    /// Of these tables, of which one that does not exist has no changes; of all, later ones too, if missing.
    pub tables: Option<Vec<TableId>>,
    /// Since then: the sequence of a snapshot, or the position that a follower came to. What a snapshot of that sequence may
    /// lack is given, so that some of it may come again.
    pub after: Sequence,
}

/// A change, to be applied to a copy in the order in which they come. Ids are those of the followed store.
///
/// The changes between two positions lead from what the store was at the first to what it was at the second. More is not
/// promised: a row may come in its last version alone, as a whole or by the cells that changed, in an order that is not
/// that of its writes, and not at all if it is again what it was, or was made and deleted in between. So whoever applied
/// some of them and lost the rest has something that never was. Applied twice they come to the same.
#[derive(Debug, Clone)]
pub enum Change {
    /// A table has this schema from here on: it is new, or was altered, or is as it was. Of the rows there are, a column that
    /// is new holds its default, those of ranges of keys that are gone are gone; where it is otherwise rows follow that say
    /// so. Until the next position a row may still lack what it has to have by now, and two tables may have one name.
    Table(TableId, Arc<TableSchema>),
    /// A table was dropped; perhaps one that no change ever spoke of.
    Dropped(TableId),
    /// Rows written and deleted, by the schemas that came last: upserts and blind deletions. They name every column that
    /// a row must have or gets by default, so that what they come to depends on no row there is.
    Rows(WriteBatch),
    /// Rows deleted by selection.
    Delete(Delete),
    /// All changes up to here have come: a copy that has them is as the store was at this sequence, and goes on after it.
    Position(Sequence),
}

/// The changes since a position, up to the present of when they were asked for, which is the last position.
#[async_trait]
pub trait ChangeStream: Send {
    /// The next change, or `None` at the end. A batch has at most some tens of thousands of rows. Missing, also in the
    /// midst, if what is needed is not known any more.
    async fn next(&mut self) -> Result<Option<Change>>;
}
