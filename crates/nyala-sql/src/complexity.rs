//! How much work a statement makes for the planner, which nobody can stop while it plans.
//!
//! Each level of nested subqueries, of WITH, and of `coalesce` is planned about twice as long as the one inside it. A query of
//! WITH is planned wherever its name stands, so that a few lines can stand for millions of tables.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::walk::visit;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, ObjectName, ObjectNamePart, OrderByKind, Query, Select, Statement, TableFactor,
    Visitor,
};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Planning so many levels takes some tenths of a second.
const DEPTH_MAX: usize = 12;
/// The most tables and subqueries, when each name of a WITH is replaced by its query.
const SIZE_MAX: u64 = 4096;
/// The most expressions of SELECT, GROUP BY and ORDER BY, and …
const EXPRESSIONS_MAX: usize = 1664;
/// … dimensions of an array, as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;
/// Functions whose arguments the planner repeats.
const REPEATING: [&str; 4] = ["coalesce", "ifnull", "nvl", "nvl2"];

/// Refuses a statement that would be planned for too long.
///
/// # Errors
/// Too complex (54001).
pub(crate) fn check(statement: &Statement) -> SqlResult<()> {
    let mut complexity = Complexity::default();
    // It breaks with its error.
    let _ = visit(statement, &mut complexity);
    complexity.error.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Complexity {
    /// The queries around the place that is visited.
    queries: Vec<Around>,
    /// The queries of WITH that can be named there, with their sizes.
    named: Vec<(String, u64)>,
    depth: usize,
    /// The arrays around the place.
    dimensions: usize,
    error: Option<SqlError>,
}

/// A query that is being visited.
struct Around {
    size: u64,
    /// The names of its WITH whose queries are still to come. They are visited first.
    names: VecDeque<String>,
    /// How many queries could be named before it.
    named_before: usize,
}

impl Complexity {
    fn refuse(&mut self, error: SqlError) -> ControlFlow<()> {
        self.error = Some(error);
        ControlFlow::Break(())
    }

    fn enter(&mut self) -> ControlFlow<()> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            return ControlFlow::Continue(());
        }
        let message = format!("subqueries, WITH and coalesce are nested more than {DEPTH_MAX} levels deep");
        let hint = "Queries after FROM, and CASE, may be nested deeper.";
        self.refuse(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message).with_hint(hint))
    }

    fn check_length(&mut self, expressions: usize) -> ControlFlow<()> {
        if expressions <= EXPRESSIONS_MAX {
            return ControlFlow::Continue(());
        }
        let message = format!("target lists can have at most {EXPRESSIONS_MAX} entries");
        self.refuse(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
    }

    fn enter_array(&mut self) -> ControlFlow<()> {
        self.dimensions += 1;
        if self.dimensions <= DIMENSIONS_MAX {
            return ControlFlow::Continue(());
        }
        let (own, most) = (self.dimensions, DIMENSIONS_MAX);
        let message = format!("number of array dimensions ({own}) exceeds the maximum allowed ({most})");
        self.refuse(SqlError::new(SqlState::LIMIT_EXCEEDED, message))
    }

    fn add(&mut self, size: u64) -> ControlFlow<()> {
        let Some(around) = self.queries.last_mut() else { return ControlFlow::Continue(()) };
        around.size = around.size.saturating_add(size);
        if around.size <= SIZE_MAX {
            return ControlFlow::Continue(());
        }
        let message = format!("the statement reads more than {SIZE_MAX} tables and subqueries");
        let hint = "A query of WITH counts wherever its name stands.";
        self.refuse(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message).with_hint(hint))
    }
}

impl Visitor for Complexity {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let names = tables.map(|table| folded(&table.alias.name)).collect();
        self.queries.push(Around { size: 1, names, named_before: self.named.len() });
        if let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|own| &own.kind) {
            self.check_length(order.len())?;
        }
        if query.with.is_some() { self.enter() } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(groups, _) = &select.group_by {
            self.check_length(groups.len())?;
        }
        self.check_length(select.projection.len())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.depth -= usize::from(query.with.is_some());
        let Some(Around { size, named_before, .. }) = self.queries.pop() else {
            return ControlFlow::Continue(());
        };
        self.named.truncate(named_before);
        match self.queries.last_mut().and_then(|around| around.names.pop_front()) {
            Some(name) => {
                self.named.push((name, size));
                ControlFlow::Continue(())
            }
            None => self.add(size),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, .. } = factor else { return ControlFlow::Continue(()) };
        let size = match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => {
                let name = folded(name);
                self.named.iter().rev().find(|(own, _)| *own == name).map_or(1, |(_, size)| *size)
            }
            _ => 1,
        };
        self.add(size)
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Array(_) => self.enter_array(),
            expression if is_repeated(expression) => self.enter(),
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.depth -= usize::from(is_repeated(expression));
        self.dimensions -= usize::from(matches!(expression, Expr::Array(_)));
        ControlFlow::Continue(())
    }
}

/// Whether the planner looks at what is inside of an expression more than once.
fn is_repeated(expression: &Expr) -> bool {
    match expression {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Function(function) => repeats(&function.name),
        _ => false,
    }
}

fn repeats(name: &ObjectName) -> bool {
    let [.., ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return false };
    REPEATING.iter().any(|own| name.value.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Statement as Parsed;

    fn checked(text: &str) -> Result<(), String> {
        let parsed = Parsed::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        check(&parsed[0].ast).map_err(|error| error.message)
    }

    fn nested(depth: usize, begin: &str, inner: &str, end: &str) -> Result<(), String> {
        checked(&format!("SELECT {}{inner}{}", begin.repeat(depth), end.repeat(depth)))
    }

    #[test]
    fn levels_that_are_planned_twice_are_few() {
        for (begin, inner, end) in [
            ("(SELECT ", "1", ")"),
            ("coalesce(", "1", ", 2)"),
            ("1 + NVL(3 * ", "1", ", 2)"),
            ("EXISTS (SELECT ", "1", ")"),
            ("1 IN (SELECT ", "1", ")"),
            ("(WITH c AS (SELECT 1) SELECT ", "1", ")"),
        ] {
            let levels = if begin.contains("WITH") { DEPTH_MAX / 2 } else { DEPTH_MAX };
            assert_eq!(nested(levels, begin, inner, end), Ok(()), "{begin}");
            let refused = nested(levels + 1, begin, inner, end).unwrap_err();
            assert!(refused.contains("nested more than 12 levels"), "{begin}: {refused}");
        }
        assert_eq!(nested(40, "CASE WHEN ", "true", " THEN true END"), Ok(()));
        let many = vec!["coalesce((SELECT 1), 2)"; 100].join(", ");
        assert_eq!(checked(&format!("SELECT {many}")), Ok(()), "side by side they are not nested");
    }

    #[test]
    fn lists_and_dimensions_have_ends() {
        let list = |length: usize| vec!["1"; length].join(", ");
        for text in ["SELECT #", "SELECT 1 GROUP BY #", "SELECT 1 ORDER BY #", "SELECT (SELECT #)"] {
            assert_eq!(checked(&text.replace('#', &list(EXPRESSIONS_MAX))), Ok(()), "{text}");
            let refused = checked(&text.replace('#', &list(EXPRESSIONS_MAX + 1))).unwrap_err();
            assert_eq!(refused, "target lists can have at most 1664 entries", "{text}");
        }
        assert_eq!(nested(DIMENSIONS_MAX, "ARRAY[", "1", "]"), Ok(()));
        let refused = nested(DIMENSIONS_MAX + 1, "ARRAY[", "1", "]").unwrap_err();
        assert_eq!(refused, "number of array dimensions (7) exceeds the maximum allowed (6)");
        assert_eq!(
            checked("SELECT ARRAY[1], ARRAY[2], ARRAY[3], ARRAY[4], ARRAY[5], ARRAY[6], ARRAY[7]"),
            Ok(())
        );
    }

    #[test]
    fn queries_of_with_count_wherever_their_names_stand() {
        let doubled = |levels: usize| {
            let each = |level: usize| format!("c{level} AS (SELECT a.x FROM c{} a, C{0} b)", level - 1);
            let queries: Vec<String> = (1..=levels).map(each).collect();
            format!("WITH c0 AS (SELECT 1 AS x), {} SELECT * FROM c{levels}", queries.join(", "))
        };
        assert_eq!(checked(&doubled(10)), Ok(()));
        assert!(checked(&doubled(12)).unwrap_err().contains("more than 4096 tables"));
        // A name means something only inside of its own query.
        let apart = vec!["(WITH c AS (SELECT 1 FROM a, b, d) SELECT count(*) FROM c)"; 500].join(", ");
        assert_eq!(checked(&format!("SELECT {apart}")), Ok(()));
        let recursive = "WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT * FROM c, c d";
        assert_eq!(checked(recursive), Ok(()));
    }
}
