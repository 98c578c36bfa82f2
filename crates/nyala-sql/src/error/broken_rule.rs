//! Which rule of a table rows break, by the names that programs decide by.

/// Which rule of a table rows break. PostgreSQL's fields of errors are these (`diag` of libpq).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    /// The schema of the table.
    pub schema: &'static str,
    /// The table.
    pub table: String,
    /// The column that has to have a value.
    pub column: Option<String>,
    /// The key, the unique index or the check.
    pub constraint: Option<String>,
}

impl BrokenRule {
    /// A column without a value.
    pub(crate) fn of_column(schema: &'static str, table: &str, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..Self::of(schema, table) }
    }

    /// A key, a unique index or a check.
    pub(crate) fn of_constraint(schema: &'static str, table: &str, constraint: &str) -> Self {
        Self { constraint: Some(constraint.to_owned()), ..Self::of(schema, table) }
    }

    fn of(schema: &'static str, table: &str) -> Self {
        Self { schema, table: table.to_owned(), column: None, constraint: None }
    }
}
