//! `tableoid`: the number of the table that a row is from, of tables of the system catalogue. It is a constant of each.

use super::own_name;
use crate::call::{call, exact};
use crate::identifier::folded;
use crate::system_catalog::{PG_CATALOG, is_catalog_table};
use crate::walk::each_expression_at_depth_mut;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, TableFactor, TableWithJoins, Value};

const NAME: &str = "tableoid";

/// Puts numbers in the place of such names.
pub(super) fn rewrite(select: &mut Select) {
    let mut tables = Tables { known: Vec::new() };
    select.from.iter().for_each(|own| tables.add(own));
    if tables.known.is_empty() {
        return;
    }
    let mut number = |expression: &mut Expr, depth: usize| {
        if let Some(number) = tables.number(expression, depth) {
            *expression = number;
        }
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expression) = item
            && let Some(number) = tables.number(expression, 0)
        {
            let alias = Ident::with_quote('"', NAME);
            *item = SelectItem::ExprWithAlias { expr: number, alias };
        }
        if let SelectItem::UnnamedExpr(own) | SelectItem::ExprWithAlias { expr: own, .. } = item {
            each_expression_at_depth_mut(own, &mut number);
        }
    }
    if let Some(condition) = &mut select.selection {
        each_expression_at_depth_mut(condition, &mut number);
    }
}

/// Tables of the system that a query names: what columns call them, and their names.
struct Tables {
    known: Vec<(String, String)>,
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

    /// The number that an expression is. `depth`: in how many queries inside of this one it is.
    fn number(&self, expression: &Expr, depth: usize) -> Option<Expr> {
        let (table, column) = match expression {
            Expr::Identifier(column) if depth == 0 => (self.known.first(), column),
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
