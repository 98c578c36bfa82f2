//! The node of a logical plan.

use datafusion::common::{DFSchemaRef, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore, build_join_schema};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Which row of the right side belongs to a row of the left side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Match {
    /// Whether the earliest row that is not earlier is wanted, and not the latest that is not later.
    pub(super) looks_forward: bool,
    /// Whether its time may be the same.
    pub(super) may_be_equal: bool,
    /// Whether rows without such a row are shown, with NULLs.
    pub(super) is_outer: bool,
}

/// A join of each row with the row of the other side that is next to it in time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AsofJoin {
    pub(super) left: Arc<LogicalPlan>,
    pub(super) right: Arc<LogicalPlan>,
    pub(super) schema: DFSchemaRef,
    /// What must be equal on both sides.
    pub(super) keys: Vec<(Expr, Expr)>,
    pub(super) times: (Expr, Expr),
    pub(super) rule: Match,
}

impl AsofJoin {
    pub(super) fn new(
        left: Arc<LogicalPlan>,
        right: Arc<LogicalPlan>,
        keys: Vec<(Expr, Expr)>,
        times: (Expr, Expr),
        rule: Match,
    ) -> Result<Self> {
        let join_type = if rule.is_outer { JoinType::Left } else { JoinType::Inner };
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        Ok(Self { left, right, schema, keys, times, rule })
    }

    /// The same join of another left side.
    pub(super) fn of_left(&self, left: LogicalPlan) -> Result<Self> {
        Self::new(Arc::new(left), self.right.clone(), self.keys.clone(), self.times.clone(), self.rule)
    }
}

impl PartialOrd for AsofJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let parts =
            |own: &Self| (own.left.clone(), own.right.clone(), own.keys.clone(), own.times.clone(), own.rule);
        parts(self).partial_cmp(&parts(other))
    }
}

impl UserDefinedLogicalNodeCore for AsofJoin {
    fn name(&self) -> &str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let times = [&self.times.0, &self.times.1];
        let keys = self.keys.iter().flat_map(|(left, right)| [left, right]);
        times.into_iter().chain(keys).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.rule.is_outer { "left" } else { "inner" };
        write!(f, "AsofJoin: {word}, {} {} {}", self.times.0, self.rule.operator(), self.times.1)?;
        self.keys.iter().try_for_each(|(left, right)| write!(f, ", {left} = {right}"))
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut inputs = inputs.into_iter().map(Arc::new);
        let left = inputs.next().unwrap_or_else(|| self.left.clone());
        let right = inputs.next().unwrap_or_else(|| self.right.clone());
        let mut pairs = Vec::new();
        let mut expressions = expressions.into_iter();
        while let (Some(one), Some(other)) = (expressions.next(), expressions.next()) {
            pairs.push((one, other));
        }
        let times = if pairs.is_empty() { self.times.clone() } else { pairs.remove(0) };
        Self::new(left, right, pairs, times, self.rule)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        let (left, right): (Vec<usize>, Vec<usize>) = output_columns.iter().partition(|own| **own < width);
        Some(vec![left, right.into_iter().map(|own| own - width).collect()])
    }
}

impl Match {
    /// How the left time is compared with the right one.
    pub(super) fn operator(self) -> &'static str {
        match (self.looks_forward, self.may_be_equal) {
            (false, true) => ">=",
            (false, false) => ">",
            (true, true) => "<=",
            (true, false) => "<",
        }
    }
}
