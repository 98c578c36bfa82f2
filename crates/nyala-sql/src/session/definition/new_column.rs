//! What a statement says of a column.

use super::new_index::{check_constraint, check_enforced, check_immediate};
use super::sequence::NewSequence;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::number_source::{default_of, sequence_of_default};
use crate::relation::declared_type::declared_type;
use crate::sequence_statement::SequenceOptions;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, DataType, Expr, GeneratedAs, Ident,
};
use nyala_core::ColumnId;
use nyala_db::relations::{ColumnDefinition, DeclaredType, Identity};

/// A column that is being defined.
pub(super) struct NewColumn {
    /// The column, without an id.
    pub(super) definition: ColumnDefinition,
    /// If it is the primary key: the name of the constraint, if it has one.
    pub(super) key: Option<Option<Ident>>,
    /// Its checks, and the names of those that have one.
    pub(super) checks: Vec<(Option<Ident>, Expr)>,
    /// Its unique constraints: the name of each that has one.
    pub(super) unique: Vec<Option<Ident>>,
    /// The sequence that it gets its numbers from.
    pub(super) sequence: Option<NewSequence>,
}

impl NewColumn {
    pub(super) fn of(written: &ColumnDef) -> SqlResult<Self> {
        let name = folded(&written.name);
        let mut nullable = None;
        let (mut default, mut comment, mut key) = (None, None, None);
        let (mut checks, mut unique) = (Vec::new(), Vec::new());
        let mut sequence = serial_type(&written.data_type)
            .map(|_| NewSequence { identity: None, options: SequenceOptions::default() });
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
                ColumnOption::Default(_) if sequence.is_some() => return Err(two_defaults(&name)),
                ColumnOption::Default(expression) => {
                    let text = expression.to_string();
                    default = Some(sequence_of_default(&text).map_or(text, |own| default_of(&own)));
                }
                ColumnOption::PrimaryKey(own) => {
                    check_immediate(own.characteristics.as_ref())?;
                    key = Some(option.name.clone().or_else(|| own.name.clone()));
                }
                ColumnOption::Check(own) => {
                    check_enforced(own.enforced)?;
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
                ColumnOption::Unique(own) => {
                    check_constraint(own)?;
                    unique.push(option.name.clone().or_else(|| own.name.clone()));
                }
                ColumnOption::ForeignKey(_) => return Err(SqlError::unsupported("a FOREIGN KEY constraint")),
                ColumnOption::Generated { generation_expr: None, generated_as, sequence_options, .. } => {
                    if sequence.is_some() || default.is_some() {
                        return Err(two_defaults(&name));
                    }
                    if nullable == Some(true) {
                        return Err(contradiction());
                    }
                    nullable = Some(false);
                    let identity = match generated_as {
                        GeneratedAs::ByDefault => Identity::ByDefault,
                        _ => Identity::Always,
                    };
                    let options = SequenceOptions::of(sequence_options.as_deref().unwrap_or_default())?;
                    sequence = Some(NewSequence { identity: Some(identity), options });
                }
                ColumnOption::Generated { .. } | ColumnOption::Identity(_) => {
                    return Err(SqlError::unsupported("a column that is computed from others")
                        .with_hint("A view can compute it."));
                }
                other => return Err(SqlError::unsupported(format!("the column option {other}"))),
            }
        }
        let definition = ColumnDefinition {
            id: ColumnId::default(),
            declared_type: match serial_type(&written.data_type) {
                Some(declared) => declared,
                None => declared_type(&written.data_type)?,
            },
            nullable: nullable.unwrap_or(key.is_none() && sequence.is_none()),
            default,
            comment,
            sequence: None,
            name,
        };
        Ok(Self { definition, key, checks, unique, sequence })
    }

    /// Whether a column gets numbers from a sequence of its own.
    pub(super) fn is_numbered(written: &ColumnDef) -> bool {
        let is_identity = |option: &ColumnOptionDef| {
            matches!(option.option, ColumnOption::Generated { generation_expr: None, .. })
        };
        serial_type(&written.data_type).is_some() || written.options.iter().any(is_identity)
    }
}

/// The type of a column that is declared as `serial`.
fn serial_type(written: &DataType) -> Option<DeclaredType> {
    let DataType::Custom(name, arguments) = written else { return None };
    let name = name.0.last()?.as_ident().filter(|_| arguments.is_empty())?;
    match &*name.value.to_ascii_lowercase() {
        "smallserial" | "serial2" => Some(DeclaredType::Int2),
        "serial" | "serial4" => Some(DeclaredType::Int4),
        "bigserial" | "serial8" => Some(DeclaredType::Int8),
        _ => None,
    }
}

fn two_defaults(column: &str) -> SqlError {
    let message = format!("multiple default values specified for column \"{column}\"");
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}
