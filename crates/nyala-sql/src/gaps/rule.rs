//! Finds queries in plans that group by buckets whose gaps are to be filled.
//!
//! The aggregate then groups by ordinary buckets, which the store can compute. Conditions of HAVING are judged before gaps
//! are filled, as in TimescaleDB; window functions and the SELECT list are computed of the filled rows. What `locf` and
//! `interpolate` are called with becomes a column of its own below the node that fills.

use super::Fill;
use super::bounds::{bounds_of, is_value, without_casts};
use super::functions::{DATE_BIN_GAPFILL, INTERPOLATE, LOCF, TIME_BUCKET_GAPFILL, misplaced};
use super::node::{Dialect, GapFill, Role};
use crate::error::{SqlError, SqlState};
use crate::walk::{Walk, WalkPlan};
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::datetime::date_bin;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Extension, Filter, LogicalPlan, Projection, ScalarUDF, Window, cast,
};
use datafusion::optimizer::AnalyzerRule;
use nyala_exec::Zone;
use std::sync::Arc;

/// Puts nodes that fill gaps into plans.
#[derive(Debug)]
pub(crate) struct FillGaps;

impl AnalyzerRule for FillGaps {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        if call_in(&plan)?.is_none() {
            return Ok(plan);
        }
        let zone = options.execution.time_zone.as_deref().unwrap_or("UTC");
        let plan = plan.changed_down_with_subqueries(&mut |node| match &node {
            LogicalPlan::Projection(projection) => match filled(projection, zone)? {
                Some(filled) => Ok(Transformed::yes(filled)),
                None => Ok(Transformed::no(node)),
            },
            _ => Ok(Transformed::no(node)),
        })?;
        // Columns that were never NULL may be now.
        let plan = plan
            .data
            .changed_up_with_subqueries(&mut |node| Ok(Transformed::yes(node.recompute_schema()?)))?;
        match call_in(&plan.data)? {
            Some(name) => Err(misplaced(&name).into()),
            None => Ok(plan.data),
        }
    }

    fn name(&self) -> &str {
        "fill_gaps"
    }
}

/// A function of ours that a plan calls.
fn call_in(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut found = None;
    plan.each_with_subqueries(&mut |node| {
        node.apply_expressions(|expression| {
            expression.each(&mut |inner| match called(inner) {
                Some((name, _)) => {
                    found = Some(name.to_owned());
                    Ok(TreeNodeRecursion::Stop)
                }
                None => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(found)
}

/// The name and arguments of a call of a function of ours.
fn called(expression: &Expr) -> Option<(&str, &[Expr])> {
    let Expr::ScalarFunction(call) = expression else { return None };
    let is_own = matches!(call.name(), TIME_BUCKET_GAPFILL | DATE_BIN_GAPFILL | LOCF | INTERPOLATE);
    is_own.then(|| (call.name(), &call.args[..]))
}

/// What stands between the SELECT list and an aggregate.
struct Found<'a> {
    aggregate: &'a Aggregate,
    /// Window functions and conditions on them, the uppermost first.
    upper: Vec<&'a LogicalPlan>,
    /// Conditions of HAVING.
    having: Vec<&'a Filter>,
}

fn find(projection: &Projection) -> Option<Found<'_>> {
    let mut between = Vec::new();
    let mut node = projection.input.as_ref();
    let aggregate = loop {
        match node {
            LogicalPlan::Filter(_) | LogicalPlan::Window(_) => {
                between.push(node);
                node = node.inputs()[0];
            }
            LogicalPlan::Aggregate(aggregate) => break aggregate,
            _ => return None,
        }
    };
    let windows =
        between.iter().rposition(|own| matches!(own, LogicalPlan::Window(_))).map_or(0, |last| last + 1);
    let having = between.split_off(windows);
    let having = having.into_iter().filter_map(|own| match own {
        LogicalPlan::Filter(filter) => Some(filter),
        _ => None,
    });
    Some(Found { aggregate, having: having.collect(), upper: between })
}

/// The same projection with gaps filled below it; `None` if it does not ask for that. `zone` is that of texts without one.
fn filled(projection: &Projection, zone: &str) -> Result<Option<LogicalPlan>> {
    let Some(found) = find(projection) else { return Ok(None) };
    let aggregate = found.aggregate;
    let is_bucket =
        |own: &Expr| matches!(called(without_alias(own)), Some((TIME_BUCKET_GAPFILL | DATE_BIN_GAPFILL, _)));
    let buckets: Vec<usize> =
        (0..aggregate.group_expr.len()).filter(|place| is_bucket(&aggregate.group_expr[*place])).collect();
    let [bucket] = buckets[..] else {
        if buckets.is_empty() {
            return Ok(None);
        }
        let words = format!("multiple {TIME_BUCKET_GAPFILL} calls not allowed");
        return Err(SqlError::new(SqlState::UNSUPPORTED, words).into());
    };
    let call = BucketCall::of(&aggregate.group_expr[bucket], &aggregate.input, zone)?;

    let mut keys = aggregate.group_expr.clone();
    keys[bucket] = call.ordinary.clone().alias(aggregate.schema.field(bucket).name());
    let grouped = Aggregate::try_new(aggregate.input.clone(), keys, aggregate.aggr_expr.clone())?;
    let keys = grouped.group_expr.len();
    let mut plan = LogicalPlan::Aggregate(grouped);
    for filter in found.having.iter().rev() {
        plan = LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(plan))?);
    }

    let mut carried = Carried { below: &plan, dialect: call.dialect, columns: Vec::new() };
    let mut upper = Vec::new();
    for node in &found.upper {
        upper.push(carried.taken_from((*node).clone())?);
    }
    let top = carried.taken_from(LogicalPlan::Projection(projection.clone()))?;
    let columns = carried.columns;

    let mut fills: Vec<Fill> = (0..plan.schema().fields().len())
        .map(|place| match place {
            place if place == bucket => Fill::Bucket,
            place if place < keys => Fill::Key,
            _ => Fill::Null,
        })
        .collect();
    if !columns.is_empty() {
        let all = plan.schema().iter().map(|own| Expr::Column(Column::from(own)));
        let shown = all.chain(columns.iter().map(|(own, _)| own.clone())).collect();
        fills.extend(columns.iter().map(|(_, fill)| *fill));
        plan = LogicalPlan::Projection(Projection::try_new(shown, Arc::new(plan))?);
    }
    let node = GapFill::new(plan, call.dialect, fills, call.arguments)?;
    let mut plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    for node in upper.into_iter().rev() {
        plan = with_input(node, plan)?;
    }
    with_input(top, plan).map(Some)
}

/// The same node above another one.
fn with_input(node: LogicalPlan, input: LogicalPlan) -> Result<LogicalPlan> {
    let input = Arc::new(input);
    Ok(match node {
        LogicalPlan::Filter(own) => LogicalPlan::Filter(Filter::try_new(own.predicate, input)?),
        LogicalPlan::Window(own) => LogicalPlan::Window(Window::try_new(own.window_expr, input)?),
        LogicalPlan::Projection(own) => LogicalPlan::Projection(Projection::try_new(own.expr, input)?),
        other => other,
    })
}

fn without_alias(expression: &Expr) -> &Expr {
    match expression {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// What a call of `time_bucket_gapfill` or `date_bin_gapfill` says.
struct BucketCall {
    dialect: Dialect,
    /// The call of the function that divides time in the same way.
    ordinary: Expr,
    arguments: Vec<(Role, Expr)>,
}

impl BucketCall {
    fn of(expression: &Expr, input: &LogicalPlan, zone: &str) -> Result<Self> {
        let (name, given) = called(without_alias(expression)).expect("it was found as such a call");
        let given_at = |place: usize| given.get(place).filter(|own| !is_null(own));
        let (width, time) = (&given[0], &given[1]);
        let mut arguments = vec![(Role::Width, width.clone())];
        let mut call = vec![width.clone(), time.clone()];
        let (mut start, mut finish) = (None, None);
        let dialect = if name == DATE_BIN_GAPFILL { Dialect::InfluxDb } else { Dialect::TimescaleDb };
        match (dialect, given_at(2)) {
            (Dialect::InfluxDb, origin) => {
                if let Some(origin) = origin {
                    arguments.push((Role::Origin, origin.clone()));
                    call.push(origin.clone());
                }
            }
            (Dialect::TimescaleDb, third) => {
                let is_zone = given.len() > 4 || third.is_some_and(is_zone);
                if let Some(zone) = third.filter(|_| is_zone) {
                    arguments.push((Role::Zone, zone.clone()));
                    call.push(zone.clone());
                }
                (start, finish) = match is_zone {
                    true => (given_at(3), given_at(4)),
                    false => (third, given_at(3)),
                };
            }
        }
        let inferred = match without_casts(time) {
            Expr::Column(column) => bounds_of(input, column),
            _ if start.is_none() || finish.is_none() => {
                return Err(refused(
                    name,
                    "ts needs to refer to a single column if no start or finish is supplied",
                ));
            }
            _ => Vec::new(),
        };
        let roles = [
            (Role::Start { excluded: false }, start, "start"),
            (Role::Finish { included: false }, finish, "finish"),
        ];
        let zone = match time.get_type(input.schema())? {
            DataType::Timestamp(_, Some(_)) => Some(zone.into()),
            _ => None,
        };
        let moment = DataType::Timestamp(TimeUnit::Nanosecond, zone);
        for (role, written, what) in roles {
            match written {
                Some(value) if is_value(value) => {
                    arguments.push((role, cast(value.clone(), moment.clone())));
                }
                Some(_) => return Err(refused(name, &format!("{what} must be a simple expression"))),
                None => {
                    let is_alike = |own: &Role| matches!(own, Role::Start { .. }) == (what == "start");
                    arguments.extend(inferred.iter().filter(|(own, _)| is_alike(own)).cloned());
                }
            }
        }
        let function = match dialect {
            Dialect::InfluxDb => date_bin(),
            Dialect::TimescaleDb => Arc::new(ScalarUDF::from(crate::functions::TimeBucket::default())),
        };
        let ordinary = Expr::ScalarFunction(ScalarFunction::new_udf(function, call));
        Ok(Self { dialect, ordinary, arguments })
    }
}

fn refused(name: &str, words: &str) -> datafusion::error::DataFusionError {
    let hint = "Specify start and finish as arguments or in the WHERE clause.";
    SqlError::new(SqlState::INVALID_PARAMETER, format!("invalid {name} argument: {words}"))
        .with_hint(hint)
        .into()
}

fn is_null(expression: &Expr) -> bool {
    matches!(without_casts(expression), Expr::Literal(value, _) if value.is_null())
}

/// Whether a text is the name of a zone; otherwise it is a time.
fn is_zone(expression: &Expr) -> bool {
    let Expr::Literal(value, _) = without_casts(expression) else { return false };
    value.try_as_str().flatten().is_some_and(|name| !name.is_empty() && Zone::named(name).is_some())
}

/// The calls of `locf` and `interpolate`, each of which becomes a column.
struct Carried<'a> {
    /// What they are computed of.
    below: &'a LogicalPlan,
    dialect: Dialect,
    /// Their values in rows that are there, with the names of the calls.
    columns: Vec<(Expr, Fill)>,
}

impl Carried<'_> {
    /// The same node with the names of columns instead of calls.
    fn taken_from(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let names = NamePreserver::new(&node);
        let changed = node.with_changed_expressions(&mut |expression| {
            let name = names.save(&expression);
            let changed = expression.changed_down(&mut |inner| match called(&inner) {
                Some((function @ (LOCF | INTERPOLATE), arguments)) => {
                    let column = self.column(&inner, function, arguments)?;
                    Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
                }
                _ => Ok(Transformed::no(inner)),
            })?;
            Ok(changed.update_data(|expression| name.restore(expression)))
        })?;
        Ok(changed.data)
    }

    fn column(&mut self, call: &Expr, function: &str, arguments: &[Expr]) -> Result<Expr> {
        let unsupported = |what: String| Err(SqlError::unsupported(what).into());
        let value = &arguments[0];
        if value.any(&mut |inner| Ok(called(inner).is_some()))? {
            return unsupported(format!("a call of locf or interpolate in one of {function}"));
        }
        let known = self.below.schema();
        if let Some(column) = value.column_refs().into_iter().find(|own| !known.is_column_from_schema(own)) {
            return unsupported(format!(
                "{column}, which is no aggregate of the rows, in a call of {function}"
            ));
        }
        let fill = match (function, &arguments[1..]) {
            (LOCF, others) => {
                if others.first().is_some_and(|prev| !is_null(prev)) {
                    return unsupported("a value for before the range (prev) in a call of locf".to_owned());
                }
                let nulls_are_missing = match others.get(1).map(without_casts) {
                    None => self.dialect == Dialect::InfluxDb,
                    Some(Expr::Literal(ScalarValue::Boolean(Some(own)), _)) => *own,
                    Some(_) => return unsupported("treat_null_as_missing that is not constant".to_owned()),
                };
                Fill::Carry { nulls_are_missing }
            }
            (_, others) => {
                if !others.iter().all(is_null) {
                    return unsupported("a record for outside the range in a call of interpolate".to_owned());
                }
                Fill::Interpolate
            }
        };
        let name = call.schema_name().to_string();
        let column = value.clone().alias(&name);
        if !self.columns.iter().any(|(known, _)| *known == column) {
            self.columns.push((column, fill));
        }
        Ok(Expr::Column(Column::new_unqualified(name)))
    }
}
