//! What a statement says of a column.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::declared_type::declared_type;
use crate::target::folded;
use datafusion::sql::sqlparser::ast::{ColumnDef, ColumnOption, Expr, Ident};
use nyala_core::ColumnId;
use nyala_db::relations::ColumnDefinition;

/// A column that is being defined.
pub(super) struct NewColumn {
    /// The column, without an id.
    pub(super) definition: ColumnDefinition,
    /// If it is the primary key: the name of the constraint, if it has one.
    pub(super) key: Option<Option<Ident>>,
    /// Its checks, and the names of those that have one.
    pub(super) checks: Vec<(Option<Ident>, Expr)>,
}

impl NewColumn {
    pub(super) fn of(written: &ColumnDef) -> SqlResult<Self> {
        let name = folded(&written.name);
        let mut nullable = None;
        let (mut default, mut comment, mut key, mut checks) = (None, None, None, Vec::new());
        let contradiction = || {
            let message = format!("conflicting NULL/NOT NULL declarations for column \"{name}\"");
            SqlError::new(SqlState::SYNTAX_ERROR, message)
        };
        for option in &written.options {
            match &option.option {
                ColumnOption::Null if nullable == Some(false) => return Err(contradiction()),
                ColumnOption::Null => nullable = Some(true),
                ColumnOption::NotNull if nullable == Some(true) => return Err(contradiction()),
                ColumnOption::NotNull => nullable = Some(false),
                ColumnOption::Default(expression) => default = Some(expression.to_string()),
                ColumnOption::PrimaryKey(own) => {
                    key = Some(option.name.clone().or_else(|| own.name.clone()));
                }
                ColumnOption::Check(own) => {
                    checks.push((option.name.clone().or_else(|| own.name.clone()), (*own.expr).clone()));
                }
                ColumnOption::Comment(text) => comment = Some(text.clone()),
                ColumnOption::Collation(collation) => {
                    let folded = collation.to_string().to_lowercase();
                    if !matches!(folded.trim_matches('"'), "c" | "posix" | "default") {
                        return Err(SqlError::unsupported(format!("the collation {collation}"))
                            .with_hint("Texts are ordered by their bytes, as with the collation \"C\"."));
                    }
                }
                ColumnOption::Unique(_) => {
                    return Err(SqlError::unsupported("a UNIQUE constraint beside the primary key"));
                }
                ColumnOption::ForeignKey(_) => return Err(SqlError::unsupported("a FOREIGN KEY constraint")),
                ColumnOption::Generated { .. } | ColumnOption::Identity(_) => {
                    return Err(SqlError::unsupported("a generated column").with_hint(
                        "There are no sequences. A table without a primary key numbers its rows itself.",
                    ));
                }
                other => return Err(SqlError::unsupported(format!("the column option {other}"))),
            }
        }
        let definition = ColumnDefinition {
            id: ColumnId::default(),
            declared_type: declared_type(&written.data_type)?,
            nullable: nullable.unwrap_or(key.is_none()),
            default,
            comment,
            name,
        };
        Ok(Self { definition, key, checks })
    }
}
