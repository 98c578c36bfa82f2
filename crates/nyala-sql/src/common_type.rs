//! Which types go together where a statement has several values for one place: in CASE, `coalesce`, IN, comparisons, and in the
//! columns of UNION. A literal in quotes has no type of its own, and gets that of the others. DataFusion would make texts of
//! numbers instead, and compare them as texts.

use crate::arithmetic::decimals;
use crate::bytes_text::read_bytes;
use crate::each_row;
use crate::error::{SqlError, SqlState};
use crate::interval_length;
use crate::pg_type::TYPE_KEY;
use crate::type_name;
use crate::typed_calls;
use crate::walk::{Walk, WalkPlan, read_schema};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, IntervalUnit, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Exists, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    Values, cast, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// A number without declared digits, which has as many behind its point as a cast to `numeric` gives.
pub(crate) const NUMERIC: DataType = DataType::Decimal128(38, 10);

/// A number beside others of a type, which may have more digits than they have.
pub(crate) fn wide_decimal(beside: &DataType) -> DataType {
    match (beside, NUMERIC) {
        (DataType::Decimal128(_, scale), DataType::Decimal128(most, least)) => {
            DataType::Decimal128(most, (*scale).max(least))
        }
        _ => NUMERIC,
    }
}

/// Digits behind the point that what is compared with a number may have more than it.
const MORE_DIGITS: i8 = 10;
/// Digits before the point that what is compared with a number has at least.
const WHOLE_DIGITS: i8 = 18;

/// A number that is compared with others of a type: one that is rounded to their digits could equal them.
pub(crate) fn compared_decimal(beside: &DataType) -> DataType {
    match (beside, NUMERIC) {
        (DataType::Decimal128(digits, scale), DataType::Decimal128(most, least)) => {
            let whole = (*digits as i8 - scale).max(WHOLE_DIGITS);
            let room = most as i8 - whole;
            DataType::Decimal128(most, (scale + MORE_DIGITS).min(room).max(*scale).max(least))
        }
        _ => NUMERIC,
    }
}

/// The most intervals of `greatest` and `least`: each one has all before it in it, three times.
const INTERVALS_MAX: usize = 4;

/// Gives values in one place the types that PostgreSQL gives them.
#[derive(Debug)]
pub(crate) struct CommonTypes;

impl AnalyzerRule for CommonTypes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let schema = read_schema(&node);
            let names = NamePreserver::new(&node);
            let sorts = matches!(node, LogicalPlan::Sort(_));
            let unified = node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                let is_span = sorts
                    && matches!(known_type(&own, &schema), Known::Type(own) if Kind::of(&own) == Kind::Span);
                let unified = unified(own, &schema)?;
                match is_span {
                    true => Ok(Transformed::yes(interval_length::of(unified.data))),
                    false => Ok(unified.update_data(|own| name.restore(own))),
                }
            })?;
            // What stands above asks for types.
            unified.map_data(|node| match node {
                LogicalPlan::Values(own) => LogicalPlanBuilder::values(with_floats(own)?)?.build(),
                other => other.recompute_schema(),
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "common_types"
    }
}

/// The same for an expression over rows of a schema.
///
/// # Errors
/// If types do not go together.
pub(crate) fn unified(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expression.changed_up(&mut |inner| {
        Ok(match inner {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let [left, right] = compared(&op.to_string(), [*left, *right], schema)?;
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
            }
            Expr::BinaryExpr(own) if let Some(operator) = decimals::operator(&own, schema) => {
                Transformed::yes(operator)
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let [expr, low] = compared(">=", [*expr, *low], schema)?;
                let [expr, high] = compared("<=", [expr, *high], schema)?;
                let [expr, low, high] = [expr, low, high].map(Box::new);
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let mut expr = *expr;
                let mut done = Vec::with_capacity(list.len());
                for own in list {
                    let [left, right] = compared("=", [expr, own], schema)?;
                    expr = left;
                    done.push(if is_computed(&right) { each_row::of(right) } else { right });
                }
                Transformed::yes(Expr::InList(InList { expr: Box::new(expr), list: done, negated }))
            }
            Expr::Case(case) => Transformed::yes(Expr::Case(branches(case, schema)?)),
            Expr::ScalarFunction(ScalarFunction { func, args }) if let Some(name) = chooses(func.name()) => {
                let args = alike(name, args, schema)?;
                let is_span = |own: &Expr| matches!(own.get_type(schema), Ok(DataType::Interval(_)));
                if matches!(func.name(), "greatest" | "least") && args.iter().any(is_span) {
                    return Ok(Transformed::yes(chosen_interval(func.name() == "greatest", args)?));
                }
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
            }
            Expr::ScalarFunction(call) if let Some(typed) = typed_calls::typed(&call, schema)? => {
                Transformed::yes(typed)
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if func.name() == "array_has" && args.len() == 2 =>
            {
                let args = with_common_digits(args, schema);
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
            }
            Expr::InSubquery(own) => {
                let own = by_length(own, schema)?;
                Transformed::yes(match constant(&own.expr, schema)?.filter(|_| own.negated) {
                    Some(constant) => not_among(constant, own.subquery)?,
                    None => Expr::InSubquery(own),
                })
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if func.name() == "nullif" && args.len() == 2 =>
            {
                let operands: [Expr; 2] = args.try_into().expect("there are two");
                let value = operands[0].clone();
                let [one, other] = compared("=", operands, schema)?;
                let is_float = |own: &Expr| own.get_type(schema).is_ok_and(|own| own.is_floating());
                if interval_length::is_length(&one) || is_float(&one) || is_float(&other) {
                    // The lengths are compared, and the interval is shown. And floats have two zeros.
                    let shown = when(one.eq(other).is_not_true(), value).end()?;
                    return Ok(Transformed::yes(shown));
                }
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: vec![one, other] }))
            }
            // A date and a time of day are a moment.
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right })
                if matches!(left.get_type(schema), Ok(DataType::Date32))
                    && matches!(right.get_type(schema), Ok(DataType::Interval(_))) =>
            {
                let moment = cast(*left, DataType::Timestamp(TimeUnit::Nanosecond, None));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(moment), op, right)))
            }
            other => Transformed::no(other),
        })
    })
}

/// Whether an element of a list is computed for each row, which DataFusion does not know yet.
fn is_computed(element: &Expr) -> bool {
    !matches!(element, Expr::Column(_) | Expr::OuterReferenceColumn(..))
        && !each_row::is(element)
        && (element.any_column_refs() || element.contains_outer() || element.is_volatile())
}

/// A list of numbers and one that is looked for in it, with as many digits behind the point: the planner refuses others.
fn with_common_digits(args: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let [list, element] = &args[..] else { return args };
    let (Ok(DataType::List(field)), Ok(element_type)) = (list.get_type(schema), element.get_type(schema))
    else {
        return args;
    };
    match (field.data_type(), &element_type) {
        (of_list @ DataType::Decimal128(_, scale), DataType::Decimal128(_, other))
            if *of_list != element_type =>
        {
            let common = DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale.max(other));
            let list = cast(list.clone(), DataType::new_list(common.clone(), true));
            vec![list, cast(element.clone(), common)]
        }
        _ => args,
    }
}

/// Looks for intervals among others by their lengths.
fn by_length(mut own: InSubquery, schema: &DFSchema) -> Result<InSubquery> {
    let is_span = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
    let columns = own.subquery.subquery.schema();
    let is_among_spans = columns.fields().len() == 1 && is_span(columns.field(0).data_type());
    if is_among_spans && own.expr.get_type(schema).is_ok_and(|own| is_span(&own)) {
        let column = Expr::Column(columns.columns().swap_remove(0));
        let lengths = LogicalPlanBuilder::from(own.subquery.subquery.clone());
        own.subquery.subquery = Arc::new(lengths.project([interval_length::of(column)])?.build()?);
        own.expr = Box::new(interval_length::of(*own.expr));
    }
    Ok(own)
}

/// A cell without the cast that the planner has added.
fn without_cast<'a>(cell: &'a Expr, common: &DataType) -> &'a Expr {
    match cell {
        Expr::Cast(Cast { expr, field }) if field.data_type() == common => expr,
        cell => cell,
    }
}

/// The rows of VALUES, with columns of floats where there are floats beside decimals: the planner has made decimals of all.
pub(crate) fn with_floats(values: Values) -> Result<Vec<Vec<Expr>>> {
    let none = DFSchema::empty();
    let Values { schema, values: mut rows } = values;
    for (column, field) in schema.fields().iter().enumerate() {
        let common = field.data_type();
        let is_float = |cell: &Expr| cell.get_type(&none).is_ok_and(|own| own.is_floating());
        if common.is_decimal() && rows.iter().any(|row| is_float(without_cast(&row[column], common))) {
            for row in &mut rows {
                row[column] = cast(without_cast(&row[column], common).clone(), DataType::Float64);
            }
        }
    }
    Ok(rows)
}

/// The longest of some intervals, or the shortest: the first one of those that are as long. The planner would compare their
/// months first.
fn chosen_interval(is_longest: bool, intervals: Vec<Expr>) -> Result<Expr> {
    if intervals.len() > INTERVALS_MAX {
        let words = format!("greatest or least of more than {INTERVALS_MAX} intervals");
        return Err(SqlError::unsupported(words).into());
    }
    let chosen = intervals.into_iter().map(Ok).reduce(|one, other| {
        let (one, other): (Expr, Expr) = (one?, other?);
        let [length, other_length] = [&one, &other].map(|own| interval_length::of(own.clone()));
        let is_better = if is_longest { other_length.gt(length) } else { other_length.lt(length) };
        when(one.clone().is_null(), other.clone())
            .when(other.clone().is_null(), one.clone())
            .when(is_better, other)
            .otherwise(one)
    });
    chosen.unwrap_or_else(|| Ok(Expr::Literal(ScalarValue::Null, None)))
}

/// An expression that does not depend on a row, also if columns stand in it: `NULL & x`.
fn constant(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let has_column = expression.any(&mut |inner| {
        Ok(matches!(inner, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_)))
    })?;
    match expression {
        own if !has_column => return Ok(Some(own.clone())),
        Expr::Column(_) => return Ok(None),
        _ => {}
    }
    let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
    let simplifier = ExprSimplifier::new(context);
    let simplified = simplifier.coerce(expression.clone(), schema).and_then(|own| simplifier.simplify(own));
    Ok(simplified.ok().filter(|own| matches!(own, Expr::Literal(..))))
}

/// A constant that no row of a query is equal to, as a query without rows. The planner would join by it, and leave out the rows
/// that are NULL, with which the answer is not known.
fn not_among(constant: Expr, among: Subquery) -> Result<Expr> {
    let Subquery { subquery, outer_ref_columns, spans } = among;
    let column = subquery.schema().columns().into_iter().next().map(Expr::Column);
    let column = column.ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "subquery has no columns"))?;
    let is_met = column.eq(constant).is_not_false();
    let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery)).filter(is_met)?.build()?;
    let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans };
    Ok(Expr::Exists(Exists { subquery, negated: true }))
}

/// The parameters among values for one place, with the type that the others give them.
pub(crate) fn typed_by_others(expression: &Expr, schema: &DFSchema) -> Result<Vec<(String, DataType)>> {
    let (place, values): (&str, Vec<&Expr>) = match expression {
        Expr::ScalarFunction(call) if let Some(place) = chooses(call.func.name()) => {
            (place, call.args.iter().collect())
        }
        Expr::Case(case) => {
            let thens = case.when_then_expr.iter().map(|(_, then)| &**then);
            ("CASE", case.else_expr.iter().map(|own| &**own).chain(thens).collect())
        }
        _ => return Ok(Vec::new()),
    };
    let known: Vec<Known> = values.iter().map(|own| known_type(own, schema)).collect();
    let Some(common) = common_type(place, &known)? else { return Ok(Vec::new()) };
    let found = values.into_iter().filter_map(|own| match own {
        Expr::Placeholder(parameter) if parameter.field.is_none() => Some((
            parameter.id.clone(),
            if common.is_decimal() { wide_decimal(&common) } else { common.clone() },
        )),
        _ => None,
    });
    Ok(found.collect())
}

/// What PostgreSQL calls a function that gives one of its arguments.
fn chooses(name: &str) -> Option<&'static str> {
    Some(match name {
        "coalesce" => "COALESCE",
        "greatest" => "GREATEST",
        "least" => "LEAST",
        "make_array" => "ARRAY",
        _ => return None,
    })
}

/// Whether an operator compares its operands.
pub(crate) fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn branches(case: Case, schema: &DFSchema) -> Result<Case> {
    let Case { expr, when_then_expr, else_expr } = case;
    let mut expr = expr.map(|own| *own);
    let (mut whens, mut values) = (Vec::new(), Vec::new());
    let has_else = else_expr.is_some();
    // The value of ELSE is the first that PostgreSQL looks at.
    values.extend(else_expr.map(|own| *own));
    for (when, then) in when_then_expr {
        let when = match expr.take() {
            Some(own) => {
                let [own, when] = compared("=", [own, *when], schema)?;
                expr = Some(own);
                when
            }
            None => *when,
        };
        whens.push(Box::new(when));
        values.push(*then);
    }
    let mut values = alike("CASE", values, schema)?.into_iter().map(Box::new);
    let else_expr = if has_else { values.next() } else { None };
    Ok(Case { expr: expr.map(Box::new), when_then_expr: whens.into_iter().zip(values).collect(), else_expr })
}

/// Two operands of a comparison.
fn compared(op: &str, operands: [Expr; 2], schema: &DFSchema) -> Result<[Expr; 2]> {
    let types = operands.each_ref().map(|own| known_type(own, schema));
    let [left, right] = operands;
    let is_span = |own: &Known| matches!(own, Known::Type(own) if Kind::of(own) == Kind::Span);
    Ok(match types {
        [one, other] if is_span(&one) && (is_span(&other) || other == Known::Untyped) => {
            [left, right].map(interval_length::of)
        }
        [Known::Untyped, other] if is_span(&other) => [left, right].map(interval_length::of),
        // The value of IN was compared before.
        [Known::Type(_), other] if interval_length::is_length(&left) && is_span(&other) => {
            [left, interval_length::of(right)]
        }
        [Known::Type(_), Known::Untyped] if interval_length::is_length(&left) => {
            [left, interval_length::of(right)]
        }
        [Known::Type(one), Known::Untyped] => [left, typed(right, &one)?],
        [Known::Untyped, Known::Type(other)] => [typed(left, &other)?, right],
        [Known::Type(one), Known::Type(other)]
            if matches!(
                (Kind::of(&one), Kind::of(&other)),
                (Kind::Number, Kind::Text) | (Kind::Text, Kind::Number)
            ) =>
        {
            let [one, other] = [one, other].map(|own| type_name::of(&own));
            let words = format!("operator does not exist: {one} {op} {other}");
            let hint = "No operator matches the given name and argument types. You might need to add explicit type casts.";
            return Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, words).with_hint(hint).into());
        }
        _ => [left, right],
    })
}

/// Values for one place.
fn alike(place: &str, values: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let known: Vec<Known> = values.iter().map(|own| known_type(own, schema)).collect();
    let common = common_type(place, &known)?;
    let converted = values.into_iter().zip(&known).map(|(own, known)| match &common {
        Some(common) => converted(own, known, common),
        None => Ok(own),
    });
    converted.collect()
}

/// A value for a place whose values have a common type.
pub(super) fn converted(value: Expr, known: &Known, common: &DataType) -> Result<Expr> {
    Ok(match known {
        Known::Untyped => typed(value, common)?,
        // The planner would make decimals of floats.
        Known::Type(own) if own.is_decimal() && common.is_floating() => cast(value, common.clone()),
        _ => value,
    })
}

/// A value without a type, as one of a type.
fn typed(value: Expr, data_type: &DataType) -> Result<Expr> {
    Ok(match Kind::of(data_type) {
        Kind::Number if data_type.is_decimal() => cast(value, wide_decimal(data_type)),
        Kind::Number | Kind::Truth | Kind::Moment | Kind::Clock => cast(value, data_type.clone()),
        Kind::Span => cast(value, DataType::Interval(IntervalUnit::MonthDayNano)),
        // The planner would take the letters for the bytes.
        Kind::Bytes => match value {
            Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
                Expr::Literal(ScalarValue::Binary(Some(read_bytes(&text)?)), metadata)
            }
            other => other,
        },
        Kind::Text | Kind::Other => value,
    })
}

/// What is known of the type of a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Known {
    Type(DataType),
    /// A literal in quotes, or a parameter: whatever the others are.
    Untyped,
    /// NULL, or something that the planner will find out, or refuse.
    Nothing,
}

pub(super) fn known_type(value: &Expr, schema: &DFSchema) -> Known {
    if is_untyped(value) {
        return Known::Untyped;
    }
    let Ok((_, field)) = value.to_field(schema) else { return Known::Nothing };
    // Names and numbers of objects stand for each other.
    let is_object = field.metadata().get(TYPE_KEY).is_some_and(|name| name.starts_with("reg"));
    match field.data_type() {
        DataType::Null => Known::Nothing,
        _ if is_object => Known::Nothing,
        data_type => Known::Type(data_type.clone()),
    }
}

/// Whether an expression is a text that stands for a value of any type.
pub(super) fn is_untyped(value: &Expr) -> bool {
    match value {
        Expr::Literal(ScalarValue::Utf8(Some(_)), _) => true,
        Expr::Placeholder(parameter) => {
            parameter.field.as_ref().is_none_or(|field| *field.data_type() == DataType::Utf8)
        }
        Expr::Alias(alias) => is_untyped(&alias.expr),
        _ => false,
    }
}

/// The type that values in one place get; `None` if they have none that is known here.
pub(super) fn common_type(place: &str, values: &[Known]) -> Result<Option<DataType>> {
    let mut common: Option<&DataType> = None;
    for value in values {
        let Known::Type(data_type) = value else { continue };
        let Some(before) = common else {
            common = Some(data_type);
            continue;
        };
        let (one, other) = (Kind::of(before), Kind::of(data_type));
        if one != other && one != Kind::Other && other != Kind::Other {
            let [one, other] = [before, data_type].map(type_name::of);
            let words = format!("{place} types {one} and {other} cannot be matched");
            return Err(SqlError::new(SqlState::TYPE_MISMATCH, words).into());
        }
        if rank(data_type) > rank(before) {
            common = Some(data_type);
        }
    }
    Ok(common.cloned())
}

/// Which of two types of a kind is the wider one.
fn rank(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Int16 | DataType::Date32 => 1,
        DataType::Int32 | DataType::Timestamp(_, None) => 2,
        DataType::Int64 | DataType::Timestamp(_, Some(_)) => 3,
        DataType::UInt64 => 4,
        other if other.is_decimal() => 5,
        DataType::Float32 => 6,
        DataType::Float64 => 7,
        _ => 0,
    }
}

/// Types of one kind go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Truth,
    Moment,
    Clock,
    Span,
    Bytes,
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            other if other.is_numeric() => Kind::Number,
            other if other.is_string() => Kind::Text,
            DataType::Dictionary(_, inner) => Kind::of(inner),
            DataType::Boolean => Kind::Truth,
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Kind::Moment,
            DataType::Time32(_) | DataType::Time64(_) => Kind::Clock,
            DataType::Interval(_) | DataType::Duration(_) => Kind::Span,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Kind::Bytes,
            _ => Kind::Other,
        }
    }
}
