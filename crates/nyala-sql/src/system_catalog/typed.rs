//! What depends on the types of the system catalogue: a `regproc` is a number that casts to text make a name, and the
//! first element of an `int2vector` or `oidvector` has the number 0.

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
            other => Transformed::no(other),
        }
    }
}

impl AnalyzerRule for CatalogTypes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                let changed = own.changed_up(&mut |inner| Ok(self.changed(inner, &schema)))?;
                Ok(changed.update_data(|own| name.restore(own)))
            })
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
