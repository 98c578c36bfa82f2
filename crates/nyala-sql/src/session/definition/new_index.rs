//! What a statement says of a unique constraint or an index.

use super::{check_key_type, taken};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::target::{check_name, last_part};
use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, CreateIndex, DeferrableInitial, Expr, Ident, IndexColumn, IndexType,
    NullsDistinctOption, UniqueConstraint,
};
use nyala_core::TableId;
use nyala_db::relations::{Index, NAME_MAX_BYTES, TableDefinition};

/// An index that is being defined.
#[derive(Debug, Clone)]
pub(super) struct NewIndex {
    pub(super) name: Option<String>,
    pub(super) columns: Vec<String>,
    is_unique: bool,
    is_constraint: bool,
}

impl NewIndex {
    /// That of a constraint of a table.
    pub(super) fn of_constraint(written: &UniqueConstraint) -> SqlResult<Self> {
        check_constraint(written)?;
        let columns =
            written.columns.iter().map(|column| indexed_column(column, true)).collect::<SqlResult<_>>()?;
        Ok(Self { columns, ..Self::of_column(written.name.as_ref(), "") })
    }

    /// That of a column that is unique.
    pub(super) fn of_column(name: Option<&Ident>, column: &str) -> Self {
        Self {
            name: name.map(folded),
            columns: vec![column.to_owned()],
            is_unique: true,
            is_constraint: true,
        }
    }

    /// One of columns that another table has indexed.
    pub(super) fn like(columns: Vec<String>, is_unique: bool) -> Self {
        Self { name: None, columns, is_unique, is_constraint: false }
    }

    /// That of `CREATE INDEX`.
    pub(super) fn of_statement(create: &CreateIndex) -> SqlResult<Self> {
        let clauses = [
            (!create.include.is_empty(), "INCLUDE"),
            (create.nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
            (!create.with.is_empty() || !create.index_options.is_empty(), "storage parameters of an index"),
            (create.predicate.is_some(), "an index of a part of the rows (WHERE)"),
            (!create.alter_options.is_empty(), "options of MySQL in CREATE INDEX"),
        ];
        if let Some((_, name)) = clauses.iter().find(|(is_there, _)| *is_there) {
            return Err(SqlError::unsupported(name));
        }
        match &create.using {
            None | Some(IndexType::BTree) => {}
            Some(other) => return Err(SqlError::unsupported(format!("an index USING {other}"))),
        }
        let columns =
            create.columns.iter().map(|column| indexed_column(column, false)).collect::<SqlResult<_>>()?;
        let name = create.name.as_ref().map(last_part).transpose()?;
        Ok(Self { name, columns, is_unique: create.unique, is_constraint: false })
    }

    /// Its definition for a table, with entries in a table of the store that is not known yet. `is_taken` says which names
    /// there are.
    pub(super) fn define(
        &self,
        name: &str,
        table: &TableDefinition,
        is_taken: impl Fn(&str) -> bool,
    ) -> SqlResult<Index> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let Some(own) = table.column(column) else {
                let words = if self.is_constraint { " named in key" } else { "" };
                let message = format!("column \"{column}\"{words} does not exist");
                return Err(SqlError::new(SqlState::UNKNOWN_COLUMN, message));
            };
            check_key_type(own.declared_type, "an index")?;
            if columns.contains(&own.id) {
                let what = if self.is_constraint { "unique constraint" } else { "an index" };
                let message = format!("column \"{column}\" appears twice in {what}");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            columns.push(own.id);
        }
        let own = match &self.name {
            Some(own) if is_taken(own) => return Err(taken(own)),
            Some(own) => own.clone(),
            None => self.free_name(name, &is_taken),
        };
        check_name(&own)?;
        let (is_unique, is_constraint) = (self.is_unique, self.is_constraint);
        Ok(Index { name: own, columns, is_unique, is_constraint, table: TableId(0) })
    }

    /// The name that PostgreSQL would choose.
    fn free_name(&self, table: &str, is_taken: &impl Fn(&str) -> bool) -> String {
        let (columns, kind) = (self.columns.join("_"), if self.is_constraint { "key" } else { "idx" });
        let numbered = (1..).map(|number| shortened(table, &columns, &format!("{kind}{number}")));
        let mut names = std::iter::once(shortened(table, &columns, kind)).chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or_default()
    }
}

/// A name of three parts, of which the longer one of the first two gives way where there are too many bytes.
fn shortened(table: &str, columns: &str, kind: &str) -> String {
    let (mut table, mut columns) = (table.to_owned(), columns.to_owned());
    while table.len() + columns.len() + kind.len() + 2 > NAME_MAX_BYTES {
        let longer = if table.len() > columns.len() { &mut table } else { &mut columns };
        longer.pop();
    }
    format!("{table}_{columns}_{kind}")
}

/// The name of a column that is indexed.
fn indexed_column(column: &IndexColumn, is_constraint: bool) -> SqlResult<String> {
    let written = &column.column;
    let is_plain = written.options.asc != Some(false) && written.options.nulls_first != Some(true);
    // Texts are ordered by their bytes, which is what such a class asks for.
    let is_ordered_so = column.operator_class.as_ref().is_none_or(|class| {
        last_part(class).is_ok_and(|name| name.ends_with("_pattern_ops") || name.ends_with("_ops"))
    });
    match &written.expr {
        Expr::Identifier(name) if is_plain && is_ordered_so => Ok(folded(name)),
        Expr::Identifier(_) => Err(SqlError::unsupported(format!("{column} in an index"))
            .with_hint("Indexes are read in both directions: leave DESC and NULLS FIRST out.")),
        other if is_constraint => {
            Err(SqlError::unsupported(format!("the expression {other} in a constraint")))
        }
        other => Err(SqlError::unsupported(format!("the expression {other} in an index"))),
    }
}

/// Refuses what a constraint can say and would have no effect.
pub(super) fn check_constraint(written: &UniqueConstraint) -> SqlResult<()> {
    check_immediate(written.characteristics.as_ref())?;
    match written.nulls_distinct {
        NullsDistinctOption::NotDistinct => Err(SqlError::unsupported("NULLS NOT DISTINCT")),
        _ if !written.index_options.is_empty() => {
            Err(SqlError::unsupported("storage parameters of an index"))
        }
        _ => Ok(()),
    }
}

/// Refuses a constraint that is not judged at once.
pub(super) fn check_immediate(characteristics: Option<&ConstraintCharacteristics>) -> SqlResult<()> {
    let Some(own) = characteristics else { return Ok(()) };
    if own.deferrable == Some(true) || matches!(own.initially, Some(DeferrableInitial::Deferred)) {
        return Err(SqlError::unsupported("a DEFERRABLE constraint"));
    }
    check_enforced(own.enforced)
}

/// Refuses a constraint that is not judged at all.
pub(super) fn check_enforced(is_enforced: Option<bool>) -> SqlResult<()> {
    match is_enforced {
        Some(false) => Err(SqlError::unsupported("a constraint that is NOT ENFORCED")),
        _ => Ok(()),
    }
}
