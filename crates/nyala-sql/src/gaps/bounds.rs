//! The range of times that a query asks for, as its conditions say it.
//!
//! As in TimescaleDB, conditions count that compare the column of times with a value, that are joined by AND, and that are
//! not part of an outer join. Of several the strictest counts.

use super::node::Role;
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, LogicalPlan, Operator};

/// The bounds of a column that the conditions below a node say.
pub(super) fn bounds_of(plan: &LogicalPlan, column: &Column) -> Vec<(Role, Expr)> {
    let mut bounds = Vec::new();
    collect(plan, column, &mut bounds);
    bounds
}

fn collect(plan: &LogicalPlan, column: &Column, bounds: &mut Vec<(Role, Expr)>) {
    match plan {
        LogicalPlan::Filter(filter) => {
            judge(&filter.predicate, column, bounds);
            collect(&filter.input, column, bounds);
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(place) = alias.schema.maybe_index_of_column(column) else { return };
            let inner = Column::from(alias.input.schema().qualified_field(place));
            collect(&alias.input, &inner, bounds);
        }
        LogicalPlan::Projection(projection) => {
            let Some(place) = projection.schema.maybe_index_of_column(column) else { return };
            if let Expr::Column(inner) = projection.expr[place].clone().unalias() {
                collect(&projection.input, &inner, bounds);
            }
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            if let Some(filter) = &join.filter {
                judge(filter, column, bounds);
            }
            for side in [&join.left, &join.right] {
                if side.schema().maybe_index_of_column(column).is_some() {
                    collect(side, column, bounds);
                }
            }
        }
        _ => {}
    }
}

/// The bounds that a condition says.
fn judge(condition: &Expr, column: &Column, bounds: &mut Vec<(Role, Expr)>) {
    let is_column = |own: &Expr| matches!(without_casts(own), Expr::Column(own) if own == column);
    for part in split_conjunction(condition) {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (op, value) = match (is_column(left), is_column(right)) {
                    (true, false) => (Some(*op), right),
                    (false, true) => (op.swap(), left),
                    _ => continue,
                };
                let roles: &[Role] = match op {
                    Some(Operator::Gt) => &[Role::Start { excluded: true }],
                    Some(Operator::GtEq) => &[Role::Start { excluded: false }],
                    Some(Operator::Lt) => &[Role::Finish { included: false }],
                    Some(Operator::LtEq) => &[Role::Finish { included: true }],
                    Some(Operator::Eq) => &[Role::Start { excluded: false }, Role::Finish { included: true }],
                    _ => continue,
                };
                bounds
                    .extend(roles.iter().filter(|_| is_value(value)).map(|role| (*role, (**value).clone())));
            }
            Expr::Between(Between { expr, negated: false, low, high }) if is_column(expr) => {
                let roles = [(Role::Start { excluded: false }, low), (Role::Finish { included: true }, high)];
                let values = roles.into_iter().filter(|(_, value)| is_value(value));
                bounds.extend(values.map(|(role, value)| (role, (**value).clone())));
            }
            _ => {}
        }
    }
}

/// What an expression is before it was given another type.
pub(super) fn without_casts(expression: &Expr) -> &Expr {
    match expression {
        Expr::Cast(cast) => without_casts(&cast.expr),
        Expr::Alias(alias) => without_casts(&alias.expr),
        other => other,
    }
}

/// Whether an expression has a value without any row.
pub(super) fn is_value(expression: &Expr) -> bool {
    let asks = expression.exists_subquery();
    !asks && !expression.any_column_refs() && !expression.is_volatile()
}

trait Asks {
    /// Whether a subquery is in it.
    fn exists_subquery(&self) -> bool;
}

impl Asks for Expr {
    fn exists_subquery(&self) -> bool {
        use datafusion::common::tree_node::TreeNode;
        let asks = |own: &Expr| {
            Ok(matches!(
                own,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::OuterReferenceColumn(..)
            ))
        };
        self.exists(asks).unwrap_or(true)
    }
}
