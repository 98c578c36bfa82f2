//! What depends on the types of the system catalogue: a `regproc` is a number that casts to text make a name, and the
//! first element of an `int2vector` or `oidvector` has the number 0. And what chooses among values of JSON is JSON.

use super::functions;
use super::viewer::Viewer;
use crate::pg_type::TYPE_KEY;
use crate::walk::{Walk, WalkPlan};
use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The rule that knows them.
#[derive(Debug)]
pub(super) struct CatalogTypes {
    viewer: Arc<Viewer>,
}

impl CatalogTypes {
    pub(super) fn new(viewer: Arc<Viewer>) -> Self {
        Self { viewer }
    }

    fn changed(&self, expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
        match expression {
            Expr::Cast(Cast { expr, field })
                if is_text(field.data_type())
                    && is_of(&expr, schema, &["regproc"])
                    && expr.get_type(schema).is_ok_and(|own| own.is_integer()) =>
            {
                let expr = match functions::function("regproc::text", &self.viewer) {
                    Some(shown) => Box::new(shown.call(vec![*expr])),
                    None => expr,
                };
                Transformed::yes(Expr::Cast(Cast { expr, field }))
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args })
                if func.name() == "array_element"
                    && args.len() == 2
                    && is_of(&args[0], schema, &["int2vector", "oidvector"]) =>
            {
                let place = args.remove(1);
                args.push(place + lit(1_i64));
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
            }
            Expr::Case(case) => {
                let results = case.when_then_expr.iter().map(|(_, then)| &**then);
                let json = json_of(results.chain(case.else_expr.as_deref()), schema);
                self.kept(json, Expr::Case(case))
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if matches!(func.name(), "coalesce" | "nullif") =>
            {
                let chosen = if func.name() == "nullif" { &args[..1] } else { &args[..] };
                let json = json_of(chosen.iter(), schema);
                self.kept(json, Expr::ScalarFunction(ScalarFunction { func, args }))
            }
            other => Transformed::no(other),
        }
    }

    /// An expression whose texts are of a kind of JSON, which its own type does not say.
    fn kept(&self, json: Option<&'static str>, expression: Expr) -> Transformed<Expr> {
        match json.and_then(|name| functions::function(&format!("{name}::kept"), &self.viewer)) {
            Some(kept) => Transformed::yes(kept.call(vec![expression])),
            None => Transformed::no(expression),
        }
    }
}

/// The kind of JSON that all expressions are but those that are nothing but NULL.
fn json_of<'a>(expressions: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<&'static str> {
    let expressions: Vec<&Expr> = expressions.filter(|own| !is_null(own)).collect();
    let all = |name: &&str| expressions.iter().all(|own| is_of(own, schema, &[*name]));
    ["json", "jsonb"].into_iter().find(all).filter(|_| !expressions.is_empty())
}

/// Whether an expression is NULL, of whatever type.
fn is_null(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(Cast { expr, .. }) => is_null(expr),
        _ => false,
    }
}

impl AnalyzerRule for CatalogTypes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_changed = false;
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            let node = node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                let changed = own.changed_up(&mut |inner| Ok(self.changed(inner, &schema)))?;
                Ok(changed.update_data(|own| name.restore(own)))
            })?;
            // Nodes above have the new types, too.
            is_changed |= node.transformed;
            match is_changed {
                true => node.map_data(LogicalPlan::recompute_schema),
                false => Ok(node),
            }
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "catalog_types"
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether an expression has one of some types of PostgreSQL.
fn is_of(expression: &Expr, schema: &DFSchema, names: &[&str]) -> bool {
    let Ok((_, field)) = expression.to_field(schema) else { return false };
    field.metadata().get(TYPE_KEY).is_some_and(|own| names.contains(&own.as_str()))
}
