//! `tableoid`: the number of the table that a row is from, of tables of the system catalogue. It is a constant of each.

use super::own_name;
use crate::call::{call, exact};
use crate::identifier::folded;
use crate::system_catalog::{PG_CATALOG, is_catalog_table};
use crate::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, TableFactor, TableWithJoins, Value, VisitorMut,
};
use std::ops::ControlFlow;

const NAME: &str = "tableoid";

/// Puts numbers in the place of such names.
pub(super) fn rewrite(select: &mut Select) {
    let mut tables = Tables { known: Vec::new(), depth: 0 };
    select.from.iter().for_each(|own| tables.add(own));
    if tables.known.is_empty() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expression) = item
            && let Some(number) = tables.number(expression)
        {
            let alias = Ident::with_quote('"', NAME);
            *item = SelectItem::ExprWithAlias { expr: number, alias };
        }
        if let SelectItem::UnnamedExpr(own) | SelectItem::ExprWithAlias { expr: own, .. } = item {
            let _ = visit_mut(own, &mut tables);
        }
    }
    if let Some(condition) = &mut select.selection {
        let _ = visit_mut(condition, &mut tables);
    }
}

/// Tables of the system that a query names: what columns call them, and their names.
struct Tables {
    known: Vec<(String, String)>,
    /// In how many queries inside of this one an expression is.
    depth: usize,
}

impl Tables {
    fn add(&mut self, from: &TableWithJoins) {
        let joined = from.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            if let TableFactor::Table { name, alias, args: None, .. } = factor
                && let Some(own) = own_name(name).filter(|own| is_catalog_table(own))
            {
                let called = alias.as_ref().map_or_else(|| own.clone(), |alias| folded(&alias.name));
                self.known.push((called, own));
            }
        }
    }

    fn number(&self, expression: &Expr) -> Option<Expr> {
        let (table, column) = match expression {
            Expr::Identifier(column) if self.depth == 0 => (self.known.first(), column),
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [table, column] => {
                    let called = folded(table);
                    (self.known.iter().find(|(own, _)| *own == called), column)
                }
                _ => return None,
            },
            _ => return None,
        };
        let (_, table) = table.filter(|_| folded(column) == NAME)?;
        let name = Expr::value(Value::SingleQuotedString(format!("{PG_CATALOG}.{table}")));
        Some(call(exact("as::oid"), vec![call(exact("regclass::oid"), vec![name])]))
    }
}

impl VisitorMut for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(number) = self.number(expression) {
            *expression = number;
        }
        ControlFlow::Continue(())
    }
}
