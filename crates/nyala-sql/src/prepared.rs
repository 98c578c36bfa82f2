//! A prepared statement: what is known before its parameters have values.
//!
//! The plan of a query is optimised once and executed many times. Functions such as `now()` are computed when a plan is
//! optimised, so the plan of a statement that calls one is optimised anew for each execution.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::placeholder::number_of;
use crate::plans::KnownPlan;
use crate::statement::Statement;
use arrow_schema::{DataType, Field, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Volatility};
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast;
use nyala_db::users::Principal;
use std::sync::Arc;

/// A prepared statement.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The statement.
    pub statement: Statement,
    /// The types of its parameters.
    pub parameters: Vec<DataType>,
    /// The columns of its answer; `None` if it gives no rows.
    pub columns: Option<SchemaRef>,
    pub(crate) plan: PreparedPlan,
    /// Who the query was planned for.
    pub(crate) principal: Option<Principal>,
}

/// What executing a prepared statement does.
#[derive(Debug, Clone)]
pub(crate) enum PreparedPlan {
    /// Executes a query.
    Query {
        plan: LogicalPlan,
        /// Whether the plan is optimised, and still right at a later execution.
        is_optimized: bool,
    },
    /// Executes a query whose plan is used again.
    Known {
        plan: Arc<KnownPlan>,
        /// The values of its literals, which are parameters of the plan.
        literals: Vec<ScalarValue>,
    },
    /// Does something with the session alone.
    Session,
}

impl Prepared {
    /// A statement that only concerns the session.
    pub(crate) fn of_session(statement: Statement, columns: Option<SchemaRef>) -> Self {
        Self { statement, parameters: Vec::new(), columns, plan: PreparedPlan::Session, principal: None }
    }

    /// Plans a query. `given` are the types of parameters that the client knows.
    pub(crate) async fn of_query(
        state: &SessionState,
        statement: Statement,
        given: &[Option<DataType>],
    ) -> SqlResult<Self> {
        let placed = |error| SqlError::from(error).placed_in(&statement.text);
        let ast = PlannedStatement::Statement(Box::new(statement.ast.clone()));
        let plan = state.statement_to_plan(ast).await.map_err(placed)?;
        let parameters = parameter_types(&plan, given)?;
        let plan = with_types(plan, &parameters).map_err(placed)?;
        let columns = Some(Arc::new(plan.schema().as_arrow().clone()));
        let is_explain = matches!(statement.ast, ast::Statement::Explain { .. });
        let (plan, is_optimized) = match is_explain || calls_stable_function(&plan).map_err(placed)? {
            true => (plan, false),
            false => (state.optimize(&plan).map_err(placed)?, true),
        };
        let plan = PreparedPlan::Query { plan, is_optimized };
        Ok(Self { statement, parameters, columns, plan, principal: None })
    }

    /// A statement whose plan is known, with the values of its literals.
    pub(crate) fn of_known(plan: Arc<KnownPlan>, statement: Statement, literals: Vec<ScalarValue>) -> Self {
        Self {
            statement,
            parameters: plan.parameters.clone(),
            columns: Some(plan.columns.clone()),
            plan: PreparedPlan::Known { plan, literals },
            principal: None,
        }
    }

    pub(crate) fn check_count(&self, given: usize) -> SqlResult<()> {
        if given == self.parameters.len() {
            return Ok(());
        }
        let message =
            format!("the statement has {} parameters, but {given} are given", self.parameters.len());
        Err(SqlError::new(SqlState::UNKNOWN_PARAMETER, message))
    }

    /// The values of the parameters, each of its type.
    pub(crate) fn bound(&self, values: Vec<ScalarValue>) -> SqlResult<Vec<ScalarValue>> {
        self.check_count(values.len())?;
        let typed = values.into_iter().zip(&self.parameters);
        typed.map(|(value, data_type)| Ok(value.cast_to(data_type)?)).collect()
    }
}

/// The plan with values instead of parameters.
pub(crate) fn with_values(plan: LogicalPlan, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
    if values.is_empty() {
        return Ok(plan);
    }
    plan.with_param_values(ParamValues::from(values))
}

/// The types of the parameters of a plan. What neither the client nor the planner knows is text.
fn parameter_types(plan: &LogicalPlan, given: &[Option<DataType>]) -> SqlResult<Vec<DataType>> {
    let found = plan.get_parameter_types()?;
    let mut types: Vec<Option<DataType>> = given.to_vec();
    for (id, data_type) in found {
        let number = number_of(&id)?;
        if types.len() < number {
            types.resize(number, None);
        }
        let known = &mut types[number - 1];
        if known.is_none() {
            *known = data_type.map(plain);
        }
    }
    for (number, data_type) in typed_by_place(plan)? {
        if types.len() < number {
            types.resize(number, None);
        }
        types[number - 1].get_or_insert(plain(data_type));
    }
    for number in limits(plan)? {
        // Even if the client declared a shorter integer: a limit cannot be converted while it is executed.
        types[number - 1] = Some(DataType::Int64);
    }
    Ok(types.into_iter().map(|known| known.unwrap_or(DataType::Utf8)).collect())
}

/// Text as clients send it, for a column that stores it in another form.
fn plain(data_type: DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(*values),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        other => other,
    }
}

/// The parameters whose place tells their type although the planner does not say it: `$1::type` is of that type, and in
/// `x = ANY($1)` it is an array of what `x` is.
fn typed_by_place(plan: &LogicalPlan) -> SqlResult<Vec<(usize, DataType)>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        let mut schema = DFSchema::empty();
        node.inputs().iter().for_each(|input| schema.merge(input.schema()));
        node.apply_expressions(|expression| {
            expression.apply(|inner| {
                let (parameter, data_type) = match inner {
                    Expr::Cast(Cast { expr, field }) => (&**expr, field.data_type().clone()),
                    Expr::ScalarFunction(call) if call.name() == "array_has" && call.args.len() == 2 => {
                        // A type that is not known yet is found by the planner, or its error is.
                        let Ok(element) = call.args[1].get_type(&schema) else {
                            return Ok(TreeNodeRecursion::Continue);
                        };
                        (&call.args[0], DataType::new_list(plain(element), true))
                    }
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                if let Expr::Placeholder(placeholder) = parameter {
                    found.push((number_of(&placeholder.id)?, data_type));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// The parameters that say how many rows come.
fn limits(plan: &LogicalPlan) -> SqlResult<Vec<usize>> {
    let mut found = Vec::new();
    let mut failed = None;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expression in [&limit.skip, &limit.fetch].into_iter().flatten() {
                expression.apply(|inner| {
                    if let Expr::Placeholder(placeholder) = inner {
                        match number_of(&placeholder.id) {
                            Ok(number) => found.push(number),
                            Err(error) => failed = Some(error),
                        }
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    failed.map_or(Ok(found), Err)
}

/// The plan with the types of its parameters.
fn with_types(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    if types.is_empty() {
        return Ok(plan);
    }
    let typed = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|inner| {
                let Expr::Placeholder(mut placeholder) = inner else {
                    return Ok(datafusion::common::tree_node::Transformed::no(inner));
                };
                let data_type = types[number_of(&placeholder.id)? - 1].clone();
                placeholder.field = Some(Arc::new(Field::new("", data_type, true)));
                Ok(datafusion::common::tree_node::Transformed::yes(Expr::Placeholder(placeholder)))
            })
        })
    })?;
    typed.data.recompute_schema()
}

/// Whether a plan calls a function whose value changes from statement to statement.
fn calls_stable_function(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|inner| {
                if let Expr::ScalarFunction(call) = inner {
                    found |= call.func.signature().volatility == Volatility::Stable;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Refuses plans that read or change anything but the databases: files of the server are nobody's business, and rows are
/// changed by our own statements only.
pub(crate) fn check_only_reads(plan: &LogicalPlan) -> SqlResult<()> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    Ok(options.verify_plan(plan)?)
}
