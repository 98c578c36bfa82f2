//! A prepared statement: what is known before its parameters have values.
//!
//! The plan of a query is optimised once and executed many times. Functions such as `now()` are computed when a plan is
//! optimised, so the plan of a statement that calls one is optimised anew for each execution.

use super::change::{ChangePlan, CopyTarget, PreparedChange};
use super::files::CopyFile;
use super::look_up::LookUp;
use crate::complexity;
use crate::copy::CopyForm;
use crate::cursor::{CursorStatement, Declared};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::names::ReturnedTable;
use crate::plan_parameters::{parameter_types, with_types};
use crate::plans::{KnownPlan, KnownTable, calls_stable_function, measurements_of};
use crate::rewrite::{named, rewritten};
use crate::server::SqlServer;
use crate::session::RelationsVersion;
use crate::statement::{OfPrepare, Statement};
use crate::whole_numbers::narrowed;
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast;
use nyala_core::before_long_work;
use nyala_db::users::Principal;
use nyala_exec::Zone;
use std::fmt;
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
    /// The version of the definitions of tables that it was planned with.
    pub(crate) version: RelationsVersion,
    pub(crate) plan: PreparedPlan,
    /// Who it was planned for.
    pub(crate) principal: Option<Principal>,
    /// The zone that it was planned in.
    pub(crate) zone: Option<Zone>,
    /// The measurements that its plan reads.
    pub(crate) measurements: Arc<[KnownTable]>,
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
    /// Finds a row by its key.
    LookUp(Arc<LookUp>),
    /// Changes rows.
    Change(ChangePlan),
    /// Defines a table or a view.
    Definition,
    /// Executes a query whose plan is used again.
    Known {
        plan: Arc<KnownPlan>,
        /// The values of its literals, which are parameters of the plan.
        literals: Arc<[ScalarValue]>,
    },
    /// Copies rows from its client, or to it.
    Copy(Arc<CopyPlan>),
    /// Makes, reads or forgets a cursor.
    Cursor(Arc<CursorPlan>),
    /// Changes the row that a cursor stands on.
    CurrentOf(Arc<CurrentPlan>),
    /// Executes a statement of which parts change rows.
    WithChanges(Arc<WithChangesPlan>),
    /// Keeps a statement by name.
    Prepare(Arc<OfPrepare>),
    /// Executes a statement that is kept by name.
    Execute(Arc<ExecutePlan>),
    /// Asks for a moment of the past.
    Past(Arc<PastPlan>),
    /// Does something with the session alone.
    Session,
}

/// A prepared COPY.
#[derive(Debug)]
pub(crate) enum CopyPlan {
    To {
        /// The query whose rows are copied.
        query: Box<Prepared>,
        form: CopyForm,
        file: Option<CopyFile>,
    },
    From {
        target: CopyTarget,
        form: CopyForm,
        file: Option<CopyFile>,
    },
}

/// A prepared statement about a cursor.
#[derive(Debug)]
pub(crate) enum CursorPlan {
    /// Makes a cursor for a query.
    Declare(Declared, Box<Prepared>),
    /// Something with a cursor that is there.
    Known(CursorStatement),
}

/// A prepared EXECUTE. The statement is looked up by its name when it is executed.
#[derive(Debug)]
pub(crate) struct ExecutePlan {
    /// The statement that explains it, if it is only explained.
    pub(super) explained: Option<Prepared>,
    /// Whether it changes rows of a table.
    pub(super) changes_rows: bool,
    /// Whether no transaction can contain it.
    pub(super) stands_alone: bool,
}

/// A prepared statement of which parts change rows.
#[derive(Debug)]
pub(crate) struct WithChangesPlan {
    pub(super) changes: Vec<ChangePart>,
    /// What is executed at last.
    pub(super) main: Prepared,
}

/// A change in WITH.
#[derive(Debug)]
pub(super) struct ChangePart {
    pub(super) prepared: Prepared,
    /// The table of what it returns, if it returns something.
    pub(super) returned: Option<Arc<ReturnedTable>>,
}

/// A prepared change of the row that a cursor stands on.
#[derive(Debug)]
pub(crate) struct CurrentPlan {
    pub(super) cursor: String,
    /// The table that the statement names.
    pub(super) table: ast::ObjectName,
    /// The columns of the cursor that are the key. Their values are the last parameters of the change.
    pub(super) columns: Vec<String>,
    pub(super) inner: Prepared,
}

/// A query of a moment of the past.
pub(crate) struct PastPlan {
    /// The moment, ns since 1970.
    pub(super) moment_ns: i64,
    /// The databases as they were.
    pub(super) server: Arc<SqlServer>,
    /// The query, prepared for these.
    pub(super) inner: Prepared,
}

impl fmt::Debug for PastPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PastPlan({}, {:?})", self.moment_ns, self.inner)
    }
}

/// A plan whose expressions have the types that they are computed with.
fn analyzed(state: &SessionState, plan: &LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {})
}

impl Prepared {
    /// A statement that only concerns the session.
    pub(crate) fn of_session(statement: Statement, columns: Option<SchemaRef>) -> Self {
        Self {
            statement,
            parameters: Vec::new(),
            columns,
            version: RelationsVersion::default(),
            plan: PreparedPlan::Session,
            principal: None,
            zone: None,
            measurements: Arc::default(),
        }
    }

    /// A statement that defines a table or a view.
    pub(crate) fn of_definition(statement: Statement) -> Self {
        Self { plan: PreparedPlan::Definition, ..Self::of_session(statement, None) }
    }

    /// A COPY, which has neither parameters nor columns.
    pub(super) fn of_copy(statement: Statement, plan: CopyPlan) -> Self {
        Self { plan: PreparedPlan::Copy(Arc::new(plan)), ..Self::of_session(statement, None) }
    }

    /// A change of rows.
    pub(super) fn of_change(statement: Statement, prepared: PreparedChange) -> Self {
        let PreparedChange { plan, parameters, answer } = prepared;
        let plan = PreparedPlan::Change(plan);
        Self { parameters, plan, ..Self::of_session(statement, answer) }
    }

    /// A look-up of a row, whose parameters have some types.
    pub(super) fn of_look_up(statement: Statement, look_up: LookUp, parameters: Vec<DataType>) -> Self {
        let columns = Some(look_up.schema.clone());
        let plan = PreparedPlan::LookUp(Arc::new(look_up));
        Self { parameters, plan, ..Self::of_session(statement, columns) }
    }

    /// Whether its plan may no longer be right when a table was altered.
    pub(crate) fn depends_on_tables(&self) -> bool {
        // The query of a cursor is a prepared statement of its own, and so is what is kept by name.
        !matches!(
            self.plan,
            PreparedPlan::Session
                | PreparedPlan::Definition
                | PreparedPlan::Cursor(_)
                | PreparedPlan::CurrentOf(_)
                | PreparedPlan::Prepare(_)
                | PreparedPlan::Execute(_)
        )
    }

    /// Plans a query. `given` are the types of parameters that the client knows.
    pub(crate) async fn of_query(
        state: &SessionState,
        statement: Statement,
        given: &[Option<DataType>],
    ) -> SqlResult<Self> {
        complexity::check(&statement.ast)?;
        before_long_work().await;
        let placed = |error| SqlError::from(error).placed_in(&statement.text);
        let ast = PlannedStatement::Statement(Box::new(rewritten(ast::Statement::clone(&statement.ast))?));
        let plan = state.statement_to_plan(ast).await.and_then(narrowed).map_err(placed)?;
        let parameters = parameter_types(&plan, given)?.into_iter();
        // What neither the client nor the planner knows is text.
        let parameters: Vec<DataType> = parameters.map(|known| known.unwrap_or(DataType::Utf8)).collect();
        let plan = with_types(plan, &parameters).map_err(placed)?;
        let is_explain = matches!(*statement.ast, ast::Statement::Explain { .. });
        let (plan, is_optimized) = match is_explain || calls_stable_function(&plan).map_err(placed)? {
            true => (plan, false),
            false => (state.optimize(&plan).map_err(placed)?, true),
        };
        // The planner gives branches and operands of different types a common one after that.
        let columns = match is_optimized || is_explain {
            true => plan.schema().inner().clone(),
            false => analyzed(state, &plan).map_err(placed)?.schema().inner().clone(),
        };
        let columns = Some(named(&columns, &statement.ast));
        let measurements = measurements_of(&plan)?.0.into();
        let plan = PreparedPlan::Query { plan, is_optimized };
        Ok(Self { parameters, plan, measurements, ..Self::of_session(statement, columns) })
    }

    /// A statement whose plan is known, with the values of its literals.
    pub(crate) fn of_known(plan: Arc<KnownPlan>, statement: Statement, literals: Vec<ScalarValue>) -> Self {
        Self {
            parameters: plan.parameters.clone(),
            measurements: plan.tables.clone(),
            plan: PreparedPlan::Known { plan: plan.clone(), literals: literals.into() },
            ..Self::of_session(statement, Some(plan.columns.clone()))
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

    /// Whether the answer has the columns of that of another statement, in whatever zones.
    pub(super) fn has_columns_of(&self, other: &Self) -> bool {
        match (&self.columns, &other.columns) {
            (Some(own), Some(others)) => {
                let mut pairs = own.fields().iter().zip(others.fields());
                own.fields().len() == others.fields().len()
                    && pairs.all(|(own, other)| {
                        own.name() == other.name() && is_same_type(own.data_type(), other.data_type())
                    })
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// The values of the parameters, each of its type. A text of a time without a zone means one of `zone`.
    pub(crate) fn bound(&self, values: &Arc<[ScalarValue]>, zone: Zone) -> SqlResult<Arc<[ScalarValue]>> {
        self.check_count(values.len())?;
        let typed = values.iter().zip(&self.parameters);
        // Mostly they are what the client was told to send. A cast would copy them.
        if typed.clone().all(|(value, data_type)| value.data_type() == *data_type) {
            return Ok(values.clone());
        }
        typed
            .map(|(value, data_type)| match (value, data_type) {
                (ScalarValue::Utf8(_), DataType::Timestamp(unit, Some(_))) => {
                    let local = value.cast_to(&DataType::Timestamp(*unit, Some(zone.name().into())))?;
                    Ok(local.cast_to(data_type)?)
                }
                _ => Ok(value.cast_to(data_type)?),
            })
            .collect()
    }
}

/// Whether two types are the same, in whatever zones.
fn is_same_type(own: &DataType, other: &DataType) -> bool {
    match (own, other) {
        (DataType::Timestamp(own, Some(_)), DataType::Timestamp(other, Some(_))) => own == other,
        (DataType::List(own), DataType::List(other)) => is_same_type(own.data_type(), other.data_type()),
        _ => own == other,
    }
}
