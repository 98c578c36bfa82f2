//! The conditions of a scan. They are the same for all executions of a plan if they name no parameter; else each execution
//! works out what they mean with its values.

use super::columns::Columns;
use super::filter::Conditions;
use crate::walk::Walk;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use std::borrow::Cow;
use std::fmt;

/// The conditions of a scan, all of which are judged by the store or the index of series.
#[derive(Debug)]
pub(super) struct ScanConditions {
    filters: Vec<Expr>,
    /// What they mean, if no parameter is among them.
    fixed: Option<Conditions>,
}

impl ScanConditions {
    /// Conditions that were judged when the statement was planned.
    ///
    /// # Errors
    /// Invalid if a value cannot be compared with its column.
    pub(super) fn of(filters: &[Expr], columns: &Columns) -> nyala_core::Result<Self> {
        let fixed = match filters.iter().any(has_parameter) {
            true => None,
            false => Some(Conditions::of(filters, columns, &[])?),
        };
        Ok(Self { filters: filters.to_vec(), fixed })
    }

    /// What they mean with these values of parameters.
    ///
    /// # Errors
    /// Invalid if a value cannot be compared with its column.
    pub(super) fn with(
        &self,
        columns: &Columns,
        values: &[ScalarValue],
    ) -> nyala_core::Result<Cow<'_, Conditions>> {
        match &self.fixed {
            Some(fixed) => Ok(Cow::Borrowed(fixed)),
            None => Ok(Cow::Owned(Conditions::of(&self.filters, columns, values)?)),
        }
    }

    /// What they probably mean, for the planner: with the values that were given when the statement was planned.
    pub(super) fn likely(&self, columns: &Columns, samples: &[ScalarValue]) -> Cow<'_, Conditions> {
        self.with(columns, samples).unwrap_or_else(|_| Cow::Owned(Conditions::all()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }
}

impl fmt::Display for ScanConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, filter) in self.filters.iter().enumerate() {
            write!(f, "{}{filter}", if number > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

fn has_parameter(filter: &Expr) -> bool {
    let mut found = false;
    let visited: Result<_> = filter.each(&mut |inner| {
        found |= matches!(inner, Expr::Placeholder(_));
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_err() || found
}
