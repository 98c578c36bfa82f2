//! A subquery as a function of the row around it: it is planned and executed for each combination of values.

use crate::awaited::Awaited;
use crate::error::{SqlError, SqlState};
use crate::walk::{Walk, WalkPlan};
use arrow_schema::{DataType, Field, FieldRef};
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Subquery, TypeSignature, Volatility,
};
use datafusion::physical_plan::collect;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Makes what plans are made with.
pub(crate) type MakePlanner = Arc<dyn Fn() -> SessionState + Send + Sync>;

/// What a subquery is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// Its only value.
    Value,
    /// Whether it has a row.
    Existence,
    /// Whether the value that is the first argument is among its values.
    Membership,
}

/// A subquery as a function of the columns that it takes from the row around it.
#[derive(Clone)]
struct Evaluated {
    plan: Arc<LogicalPlan>,
    /// The columns that it takes.
    outer: Vec<Expr>,
    wanted: Wanted,
    planner: MakePlanner,
    signature: Signature,
}

impl fmt::Debug for Evaluated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evaluated({:?}, {})", self.wanted, self.plan.display())
    }
}

impl PartialEq for Evaluated {
    fn eq(&self, other: &Self) -> bool {
        self.wanted == other.wanted && self.plan == other.plan
    }
}

impl Eq for Evaluated {}

impl Hash for Evaluated {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.wanted.hash(state);
        self.plan.hash(state);
    }
}

/// The call that evaluates a subquery.
pub(super) fn evaluate(subquery: &Subquery, wanted: Wanted, planner: MakePlanner) -> Expr {
    evaluate_for(Vec::new(), subquery, wanted, planner)
}

/// The call that says whether a value is among those of a subquery.
pub(super) fn is_among(value: Expr, subquery: &Subquery, planner: MakePlanner) -> Expr {
    evaluate_for(vec![value], subquery, Wanted::Membership, planner)
}

fn evaluate_for(first: Vec<Expr>, subquery: &Subquery, wanted: Wanted, planner: MakePlanner) -> Expr {
    let mut outer: Vec<Expr> = Vec::new();
    for column in &subquery.outer_ref_columns {
        if !outer.contains(column) {
            outer.push(column.clone());
        }
    }
    let column = |own: &Expr| match own {
        Expr::OuterReferenceColumn(_, column) => Expr::Column(column.clone()),
        other => other.clone(),
    };
    let arguments: Vec<Expr> = first.into_iter().chain(outer.iter().map(column)).collect();
    // Its value may differ from call to call, so that it is not moved to where it cannot be computed.
    let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    let signature = Signature::one_of(any, Volatility::Volatile);
    let function = Evaluated { plan: subquery.subquery.clone(), outer, wanted, planner, signature };
    AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf().call(arguments)
}

impl ScalarUDFImpl for Evaluated {
    fn name(&self) -> &str {
        "subquery"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.wanted {
            Wanted::Value => self.plan.schema().field(0).data_type().clone(),
            Wanted::Existence | Wanted::Membership => DataType::Boolean,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), self.return_type(&[])?, true);
        Ok(Arc::new(match self.wanted {
            Wanted::Value => field.with_metadata(self.plan.schema().field(0).metadata().clone()),
            Wanted::Existence | Wanted::Membership => field,
        }))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(DataFusionError::NotImplemented("a subquery in this place".to_owned()))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Evaluated {
    fn invoke_async_with_args<'life0, 'awaited>(
        &'life0 self,
        arguments: ScalarFunctionArgs,
    ) -> Awaited<'awaited, Result<ColumnarValue>>
    where
        Self: 'awaited,
        'life0: 'awaited,
    {
        self.clone().values(arguments)
    }
}

impl Evaluated {
    /// The value for each row.
    fn values(self, arguments: ScalarFunctionArgs) -> Awaited<'static, Result<ColumnarValue>> {
        Box::pin(async move {
            let state = (self.planner)();
            let mut known: HashMap<Vec<ScalarValue>, Vec<ScalarValue>> = HashMap::new();
            let mut values = Vec::with_capacity(arguments.number_rows);
            for row in 0..arguments.number_rows {
                let argument = |own: &ColumnarValue| match own {
                    ColumnarValue::Scalar(own) => Ok(own.clone()),
                    ColumnarValue::Array(own) => ScalarValue::try_from_array(own, row),
                };
                let mut given = arguments.args.iter().map(argument).collect::<Result<Vec<_>>>()?;
                let first = if self.wanted == Wanted::Membership { Some(given.remove(0)) } else { None };
                if !known.contains_key(&given) {
                    let found = self.rows(&state, &given).await?;
                    known.insert(given.clone(), found);
                }
                values.push(self.answer(first.as_ref(), &known[&given])?);
            }
            if values.is_empty() {
                let empty = arrow_array::new_empty_array(arguments.return_field.data_type());
                return Ok(ColumnarValue::Array(empty));
            }
            Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
        })
    }

    /// The values of its first column, for one row around it.
    async fn rows(&self, state: &SessionState, given: &[ScalarValue]) -> Result<Vec<ScalarValue>> {
        let bound = self.plan.as_ref().clone().changed_up_with_subqueries(&mut |node| {
            let names = NamePreserver::new(&node);
            let bound = node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                let bound = own.changed_up(&mut |inner| Ok(self.bound(inner, given)))?;
                Ok(bound.update_data(|own| name.restore(own)))
            })?;
            let bound = match bound.transformed {
                true => bound.map_data(LogicalPlan::recompute_schema)?,
                false => bound,
            };
            // A function in FROM no longer depends on the row.
            bound.transform_data(|node| match node {
                LogicalPlan::Subquery(inner) if inner.subquery.all_out_ref_exprs().is_empty() => {
                    Ok(Transformed::yes(Arc::unwrap_or_clone(inner.subquery)))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        let plan = state.create_physical_plan(&bound.data).await?;
        let mut values = Vec::new();
        for batch in collect(plan, state.task_ctx()).await? {
            for row in 0..batch.num_rows() {
                values.push(match self.wanted {
                    // A row may have no columns.
                    Wanted::Existence => ScalarValue::Null,
                    Wanted::Value | Wanted::Membership => ScalarValue::try_from_array(batch.column(0), row)?,
                });
            }
        }
        Ok(values)
    }

    /// What is wanted of its values.
    fn answer(&self, first: Option<&ScalarValue>, values: &[ScalarValue]) -> Result<ScalarValue> {
        let data_type = self.return_type(&[])?;
        match (self.wanted, first, values) {
            (Wanted::Existence, ..) => Ok(ScalarValue::Boolean(Some(!values.is_empty()))),
            (Wanted::Membership, Some(first), _) if !first.is_null() && values.contains(first) => {
                Ok(ScalarValue::Boolean(Some(true)))
            }
            (Wanted::Membership, Some(first), _) => {
                let is_unknown =
                    !values.is_empty() && (first.is_null() || values.iter().any(ScalarValue::is_null));
                Ok(ScalarValue::Boolean((!is_unknown).then_some(false)))
            }
            (_, _, []) => ScalarValue::try_from(&data_type),
            (_, _, [only]) => only.cast_to(&data_type),
            _ => {
                let words = "more than one row returned by a subquery used as an expression";
                Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, words).into())
            }
        }
    }

    fn bound(&self, expression: Expr, given: &[ScalarValue]) -> Transformed<Expr> {
        match self.outer.iter().position(|own| *own == expression) {
            Some(place) => Transformed::yes(Expr::Literal(given[place].clone(), None)),
            None => Transformed::no(expression),
        }
    }
}
