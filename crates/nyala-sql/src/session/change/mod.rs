//! Statements that change rows.
//!
//! DataFusion plans a SELECT of keys and new values; the rest is done here: values are given the types of their columns,
//! rules are checked, and rows are written under conditions. So every form of a statement has the same rules, and nothing
//! is written before everything is known to be right. DataFusion's own hooks for changes are not used: they have taken a
//! condition that they do not understand for none, and changed every row (apache/datafusion#24654).
//!
//! A statement that reads the rows that it changes works in a stage: a snapshot, and writes that become visible together.
//! If somebody else was first to change one of these rows, it begins anew, alone in its table. So no update is lost.
//!
//! COPY inserts rows that its client sends ([`copy`], [`copy_in`]).
//!
//! [`prepare`] finds out what a statement does, with what [`preparing`] collects; [`execute`] begins and ends it. [`insert`], [`update`],
//! [`delete`], [`merge`] and [`by_key`] are the kinds of statements, [`points`] are those that change points of measurements, [`assignments`] and [`on_conflict`] are ON CONFLICT DO UPDATE, [`entries`] keeps
//! indexes right.

mod assignments;
mod by_key;
mod copy;
mod copy_in;
mod delete;
mod entries;
mod execute;
mod existing;
mod insert;
mod insert_rows;
mod merge;
mod met_keys;
mod on_conflict;
mod parameters;
mod points;
mod prepare;
mod preparing;
mod returning;
mod selection;
mod sink;
mod update;
mod work;

pub(crate) use copy::CopyTarget;
pub use copy_in::CopyIn;
pub(super) use prepare::PreparedChange;
pub(super) use preparing::written;

use crate::error::SqlResult;
use crate::relation::columns::TableColumns;
use arrow_schema::DataType;
use nyala_db::relations::Relation;
use std::sync::Arc;

/// What a statement changes.
#[derive(Debug, Clone)]
pub(crate) enum ChangePlan {
    /// Rows of a table.
    Rows(Arc<Change>),
    /// Points of a measurement.
    Points(Arc<points::PointChange>),
}

/// A prepared change of rows of a table.
#[derive(Debug)]
pub(crate) struct Change {
    relation: Arc<Relation>,
    /// All columns of the table, with its hidden key.
    columns: Arc<TableColumns>,
    kind: ChangeKind,
    returning: Option<returning::Returning>,
}

#[derive(Debug)]
enum ChangeKind {
    Insert(insert::Insert),
    Update(update::Update),
    Delete(delete::Delete),
    Merge(merge::Merge),
    /// An UPDATE or DELETE of one row.
    ByKey(by_key::ByKey, &'static str),
}

impl Change {
    /// The word in its tag.
    fn command(&self) -> &'static str {
        match self.kind {
            ChangeKind::Insert(_) => "INSERT",
            ChangeKind::Update(_) => "UPDATE",
            ChangeKind::Delete(_) => "DELETE",
            ChangeKind::Merge(_) => "MERGE",
            ChangeKind::ByKey(_, command) => command,
        }
    }

    /// Whether what it writes depends on rows that it reads from its own table.
    fn reads_rows(&self) -> bool {
        match &self.kind {
            ChangeKind::Insert(insert) => insert.reads_rows(),
            ChangeKind::Update(_) | ChangeKind::Delete(_) | ChangeKind::Merge(_) => true,
            ChangeKind::ByKey(..) => false,
        }
    }

    /// The same change, whose parameters have their types.
    fn with_types(mut self, types: &[DataType]) -> SqlResult<Self> {
        self.kind = match self.kind {
            ChangeKind::Insert(mut own) => {
                if let insert::Source::Query { selection, is_unknown } = own.source {
                    let selection = Box::new(selection.with_types(types, None)?);
                    own.source = insert::Source::Query { selection, is_unknown };
                }
                ChangeKind::Insert(own)
            }
            ChangeKind::Update(mut update) => {
                update.selection = update.selection.with_types(types, None)?;
                ChangeKind::Update(update)
            }
            ChangeKind::Delete(mut delete) => {
                delete.selection = delete.selection.with_types(types, None)?;
                ChangeKind::Delete(delete)
            }
            ChangeKind::Merge(mut merge) => {
                merge.selection = merge.selection.with_types(types, None)?;
                ChangeKind::Merge(merge)
            }
            by_key @ ChangeKind::ByKey(..) => by_key,
        };
        Ok(self)
    }
}
