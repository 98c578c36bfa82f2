//! Makes ordinary joins of `ASOF JOIN`, whose condition has a marker around the comparison of times.

use super::marker::MARKER;
use super::syntax::{INNER, LEFT, PLAIN};
use crate::call::{call, exact};
use crate::measurement::TIME;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, TableFactor, TableWithJoins,
};

/// Changes the joins of an element of FROM.
pub(crate) fn rewrite(from: &mut TableWithJoins) {
    let left = name_of(&from.relation);
    for join in &mut from.joins {
        if let JoinOperator::AsOf { match_condition, constraint } = &join.join_operator {
            let names = Names { left: left.clone(), right: name_of(&join.relation) };
            join.join_operator = names.ordinary(match_condition, constraint);
        }
    }
}

/// What a table of FROM is called.
fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => match name.0.last() {
            Some(ObjectNamePart::Identifier(own)) => Some(own.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The tables that are joined.
struct Names {
    left: Option<Ident>,
    right: Option<Ident>,
}

impl Names {
    fn ordinary(&self, written: &Expr, constraint: &JoinConstraint) -> JoinOperator {
        let marker = match written {
            Expr::Identifier(own) if own.quote_style.is_some() => Some(&*own.value),
            _ => None,
        };
        let marker = marker.filter(|own| [PLAIN, INNER, LEFT].contains(own));
        let (mut parts, mut times) = (Vec::new(), Vec::new());
        match constraint {
            JoinConstraint::On(condition) => self.split(condition, &mut parts),
            JoinConstraint::Using(columns) => {
                let column = |own: &ObjectNamePart| match own {
                    ObjectNamePart::Identifier(own) => Some(own.clone()),
                    ObjectNamePart::Function(_) => None,
                };
                let mut columns: Vec<Ident> =
                    columns.iter().filter_map(|own| own.0.last().and_then(column)).collect();
                // In DuckDB the last one is that of the times.
                if marker.is_some()
                    && let Some(time) = columns.pop()
                {
                    times.push(self.compared(&time, BinaryOperator::GtEq));
                }
                parts.extend(columns.iter().map(|own| self.compared(own, BinaryOperator::Eq)));
            }
            _ => {}
        }
        let is_left = match marker {
            None => {
                // In Snowflake all rows of the left side are there.
                times.push(written.clone());
                true
            }
            Some(marker) => {
                let (ordered, others) = parts.into_iter().partition(is_order);
                parts = others;
                times.extend::<Vec<Expr>>(ordered);
                let says_times = !times.is_empty();
                if !says_times {
                    // As in QuestDB: the times of both sides, and all rows of the left one.
                    times.push(self.compared(&Ident::new(TIME), BinaryOperator::GtEq));
                }
                marker == LEFT || marker == PLAIN && !says_times
            }
        };
        let marked = times.into_iter().map(|own| call(exact(MARKER), vec![own]));
        let all = marked.chain(parts).reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        });
        let constraint = all.map_or(JoinConstraint::None, JoinConstraint::On);
        if is_left { JoinOperator::LeftOuter(constraint) } else { JoinOperator::Inner(constraint) }
    }

    /// The parts of a condition that are joined by AND.
    fn split(&self, condition: &Expr, parts: &mut Vec<Expr>) {
        match condition {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.split(left, parts);
                self.split(right, parts);
            }
            Expr::Nested(inner) => self.split(inner, parts),
            // As in QuestDB: `ON (host, rack)`.
            Expr::Identifier(own) => parts.push(self.compared(own, BinaryOperator::Eq)),
            Expr::Tuple(all) => all.iter().for_each(|own| self.split(own, parts)),
            other => parts.push(other.clone()),
        }
    }

    /// A comparison of a column that both sides have.
    fn compared(&self, column: &Ident, op: BinaryOperator) -> Expr {
        let of = |table: &Option<Ident>| match table {
            Some(table) => Expr::CompoundIdentifier(vec![table.clone(), column.clone()]),
            None => Expr::Identifier(column.clone()),
        };
        Expr::BinaryOp { left: Box::new(of(&self.left)), op, right: Box::new(of(&self.right)) }
    }
}

fn is_order(condition: &Expr) -> bool {
    use BinaryOperator::{Gt, GtEq, Lt, LtEq};
    matches!(condition, Expr::BinaryOp { op: Gt | GtEq | Lt | LtEq, .. })
}
