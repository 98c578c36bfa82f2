//! The node of a logical plan.

use super::Fill;
use arrow_schema::Field;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// What an argument says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum Role {
    /// The width of buckets.
    Width,
    /// The time zone of `time_bucket_gapfill`.
    Zone,
    /// The origin of `date_bin_gapfill`.
    Origin,
    /// A time that the range begins with, or behind.
    Start { excluded: bool },
    /// A time that the range ends before, or with.
    Finish { included: bool },
}

/// How a function that users write divides time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum Dialect {
    /// `time_bucket_gapfill`.
    TimescaleDb,
    /// `date_bin_gapfill`.
    InfluxDb,
}

/// Fills the gaps between the rows of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GapFill {
    input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
    pub(super) dialect: Dialect,
    /// By column, what becomes of it.
    pub(super) fills: Vec<Fill>,
    /// What the width and the range are.
    pub(super) arguments: Vec<(Role, Expr)>,
}

impl GapFill {
    pub(super) fn new(
        input: LogicalPlan,
        dialect: Dialect,
        fills: Vec<Fill>,
        arguments: Vec<(Role, Expr)>,
    ) -> Result<Self> {
        let fields = input.schema().iter().zip(&fills).map(|((relation, field), fill)| {
            let stays = matches!(fill, Fill::Key | Fill::Bucket);
            let nullable = Field::clone(field).with_nullable(true);
            (relation.cloned(), if stays { field.clone() } else { Arc::new(nullable) })
        });
        let metadata = input.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?);
        Ok(Self { input: Arc::new(input), schema, dialect, fills, arguments })
    }
}

impl PartialOrd for GapFill {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (&self.input, &self.fills, &self.arguments).partial_cmp(&(
            &other.input,
            &other.fills,
            &other.arguments,
        ))
    }
}

impl UserDefinedLogicalNodeCore for GapFill {
    fn name(&self) -> &str {
        "GapFill"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.arguments.iter().map(|(_, own)| own.clone()).collect()
    }

    /// A condition on what tells groups apart holds for all rows of a group, or for none.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let columns = self.schema.fields().iter().zip(&self.fills);
        columns.filter(|(_, fill)| **fill != Fill::Key).map(|(field, _)| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GapFill: ")?;
        write_arguments(&self.arguments, f)
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().unwrap_or_else(|| self.input.as_ref().clone());
        let arguments = self.arguments.iter().map(|(role, _)| *role).zip(expressions).collect();
        Self::new(input, self.dialect, self.fills.clone(), arguments)
    }
}

/// Shows the width and the range.
pub(super) fn write_arguments(arguments: &[(Role, Expr)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (number, (role, value)) in arguments.iter().enumerate() {
        let separator = if number > 0 { ", " } else { "" };
        let word = match role {
            Role::Width => "width=",
            Role::Zone => "zone=",
            Role::Origin => "origin=",
            Role::Start { excluded: true } => "start>",
            Role::Start { excluded: false } => "start>=",
            Role::Finish { included: true } => "finish<=",
            Role::Finish { included: false } => "finish<",
        };
        write!(f, "{separator}{word}{value}")?;
    }
    Ok(())
}
