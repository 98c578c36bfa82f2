//! The table that COPY fills, and the columns that its rows have.

use super::points::CopiedPoints;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::relation::columns::{ROW_ID, TableColumns};
use crate::session::Session;
use crate::session::definition::table_of;
use crate::target::{Target, unknown_column};
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use nyala_db::relations::{DeclaredType, Relation, TEMPORARY};
use std::sync::Arc;

/// What rows of a client become.
#[derive(Debug)]
pub(crate) enum CopyTarget {
    Rows(CopiedTable),
    Points(CopiedPoints),
}

/// A table whose rows are sent by a client.
#[derive(Debug)]
pub(crate) struct CopiedTable {
    pub(super) relation: Arc<Relation>,
    /// All its columns, with the hidden key.
    pub(super) columns: Arc<TableColumns>,
    /// Those that the rows have values for.
    pub(super) named: Vec<usize>,
}

impl CopyTarget {
    /// The name of the table.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Rows(table) => &table.relation.name,
            Self::Points(points) => points.name(),
        }
    }

    /// The names of the columns.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::Rows(table) => table.named.iter().map(|position| table.columns.name(*position)).collect(),
            Self::Points(points) => points.names(),
        }
    }

    /// Fails unless the table has a column.
    pub(crate) fn check_column(&self, name: &str) -> SqlResult<()> {
        match self {
            Self::Rows(table) if name != ROW_ID && table.columns.position(name).is_some() => Ok(()),
            Self::Rows(table) => Err(unknown_column(name, &table.relation.name)),
            Self::Points(points) => points.check_column(name),
        }
    }

    /// The names and types of the columns, as clients are told.
    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Rows(table) => {
                let fields = table.named.iter().map(|position| table.columns.schema.field(*position).clone());
                Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
            }
            Self::Points(points) => points.schema(),
        }
    }

    /// The types that values are read as.
    pub(super) fn types(&self) -> Vec<DeclaredType> {
        match self {
            Self::Rows(table) => {
                table.named.iter().map(|position| table.columns.columns[*position].declared_type).collect()
            }
            Self::Points(points) => points.types(),
        }
    }

    /// Whether it is a temporary table, which transactions that only read may change as well.
    pub(in crate::session) fn is_temporary(&self) -> bool {
        matches!(self, Self::Rows(table) if table.relation.database == TEMPORARY)
    }
}

impl Session {
    /// Finds the table and the columns of a COPY FROM.
    pub(in crate::session) async fn prepare_copy_from(
        &mut self,
        name: &ObjectName,
        columns: &[Ident],
    ) -> SqlResult<CopyTarget> {
        let place = self.writable_place(name)?;
        let relation = match place.target(&self.server.catalog, self.relations())? {
            Target::Relation(relation) if relation.view().is_some() => {
                let message = format!("cannot copy to view \"{}\"", relation.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
            }
            Target::Relation(relation) => relation,
            Target::Measurement { policy } => {
                let names: Vec<String> = columns.iter().map(folded).collect();
                let found = CopiedPoints::of(self, place, policy, &names).await?;
                return Ok(CopyTarget::Points(found));
            }
        };
        let table = table_of(&relation)?;
        let all = Arc::new(TableColumns::all(table));
        let mut named = Vec::with_capacity(columns.len());
        for name in columns.iter().map(folded) {
            let position = all.position(&name).filter(|_| name != ROW_ID);
            let position = position.ok_or_else(|| unknown_column(&name, &relation.name))?;
            if named.contains(&position) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            named.push(position);
        }
        if columns.is_empty() {
            named = (0..table.columns.len()).collect();
        }
        Ok(CopyTarget::Rows(CopiedTable { relation: relation.clone(), columns: all, named }))
    }
}
