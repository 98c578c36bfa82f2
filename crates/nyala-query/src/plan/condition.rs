//! Splits a WHERE clause into conditions on time, tags and fields.
//!
//! Time becomes a range. Conditions on tags alone select series in the index. Comparisons of one field with a constant are
//! pushed down to the store. The rest is evaluated row by row.

use super::expression::{Clause, Translator, compile_regex, literal_value};
use super::reference::{Reference, ReferenceKind, fields_named, position};
use super::types::condition_type;
use super::{MAXIMUM_TIME_NS, MINIMUM_TIME_NS};
use crate::influxql::{self, Binary, BinaryOperator, DataType, Expr, Select, VarRef};
use nyala_core::store::{Comparison, Predicate};
use nyala_core::{Error, Result, Value};
use nyala_db::catalog::Measurement;
use nyala_db::series::{SeriesPin, TagFilter};
use nyala_exec::expression::Expression;
use nyala_exec::{Distinct, Scalar, ValueType, WindowRule};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A measurement, and a condition on its rows.
#[derive(Clone)]
pub struct MeasurementPlan {
    /// The measurement.
    pub measurement: Arc<Measurement>,
    /// Selects series.
    pub tags: TagFilter,
    /// Conditions on rows that the store evaluates.
    pub predicates: Vec<Predicate>,
    /// The condition that is evaluated row by row; then there are no predicates.
    pub rows: Option<RowCondition>,
    /// Counts the rows that are read, if their number is limited.
    pub points: Option<Arc<PointLimit>>,
    /// Keeps the series in memory that have points within the plan's times.
    pub pin: Option<SeriesPin>,
}

/// A limit on the rows that a SELECT with all its inner queries reads.
#[derive(Debug)]
pub struct PointLimit {
    max: usize,
    read: AtomicUsize,
}

impl PointLimit {
    /// A limit; nothing is read yet.
    pub fn new(max: usize) -> Self {
        Self { max, read: AtomicUsize::new(0) }
    }

    /// How many rows were read.
    pub fn count_so_far(&self) -> usize {
        self.read.load(Ordering::Relaxed)
    }

    /// Resets the count to `count`, because the rows after it are read again.
    pub fn go_back_to(&self, count: usize) {
        self.read.store(count, Ordering::Relaxed);
    }

    /// Counts rows; an error once they are too many.
    pub fn count(&self, rows: usize) -> Result<()> {
        let read = self.read.fetch_add(rows, Ordering::Relaxed) + rows;
        match read > self.max {
            // InfluxDB's spelling.
            true => Err(Error::invalid(format!("max-select-point limit exceeed: ({read}/{})", self.max))),
            false => Ok(()),
        }
    }
}

impl MeasurementPlan {
    /// The rows of a measurement that satisfy a condition without bounds on time.
    pub fn of(measurement: Arc<Measurement>, condition: Option<&Expr>) -> Result<Self> {
        let split = split_tags(&measurement, condition)?;
        let (predicates, rows) = match (predicates(&measurement, split.rows.as_ref()), &split.rows) {
            (Some(predicates), _) => (predicates, None),
            (None, None) => (Vec::new(), None),
            (None, Some(rows)) => (Vec::new(), Some(RowCondition::on_stored_rows(&measurement, rows)?)),
        };
        Ok(Self { measurement, tags: split.tags, predicates, rows, points: None, pin: None })
    }
}

/// A condition that is evaluated for every row.
#[derive(Debug, Clone)]
pub struct RowCondition {
    /// Whether a row satisfies it, over columns in the order of `references`.
    pub expression: Expression,
    /// What the columns hold.
    pub references: Vec<Reference>,
}

impl RowCondition {
    /// A condition on the rows of an inner query.
    pub fn on_inner_rows(condition: &Expr) -> Result<Self> {
        Self::translate(condition, Clause::InnerRows, |reference| match Reference::of(reference) {
            // A name that is no column of the inner query may be a tag that its rows are grouped by.
            Reference { name, kind: ReferenceKind::Nothing } => {
                Reference { name, kind: ReferenceKind::GroupTag }
            }
            known => known,
        })
    }

    fn on_stored_rows(measurement: &Measurement, condition: &Expr) -> Result<Self> {
        let condition = with_absent_tags_unequal(measurement, condition);
        let mut condition = Self::translate(&condition, Clause::StoredRows, |reference| {
            stored_reference(measurement, reference)
        })?;
        let Self { expression, references } = &mut condition;
        compare_absent_tags_as_empty(expression, references);
        Ok(condition)
    }

    fn translate(condition: &Expr, clause: Clause, resolve: impl Fn(&VarRef) -> Reference) -> Result<Self> {
        let mut references = Distinct::default();
        let mut translator = Translator {
            clause,
            reference: &mut |reference| Expression::Column(references.position(resolve(reference))),
            call: &mut |call| {
                let call = Expr::Call(call.clone());
                Err(Error::invalid(format!("invalid function call in condition: {call}")))
            },
        };
        let expression = translator.translate(condition)?;
        Ok(Self { expression, references: references.into_list() })
    }
}

/// Takes the bounds on time out of a statement's condition: the first and the last time it allows, ns.
pub fn split_time(select: &Select, now_ns: i64) -> Result<((i64, i64), Option<Expr>)> {
    let Some(condition) = &select.condition else { return Ok(((MINIMUM_TIME_NS, MAXIMUM_TIME_NS), None)) };
    let split = influxql::split_condition(condition, now_ns, select.zone)?;
    let (first, last) = (split.range.minimum, split.range.maximum);
    // Without a last time, windows end now. A written last time must differ from none, even if it is the greatest.
    let last_ns = match last {
        Some(MAXIMUM_TIME_NS) => i64::MAX,
        last => last.unwrap_or(MAXIMUM_TIME_NS),
    };
    Ok(((first.unwrap_or(MINIMUM_TIME_NS), last_ns), split.condition))
}

/// The windows of a statement.
pub fn window_rule(select: &Select, now_ns: i64) -> Result<Option<WindowRule>> {
    let Some(call) = select.time_dimension() else { return Ok(None) };
    let interval_ns = match call.args.first() {
        Some(Expr::Duration(interval_ns)) if *interval_ns > 0 => *interval_ns,
        _ => return Ok(None),
    };
    let offset_ns = match call.args.get(1) {
        None => 0,
        Some(Expr::Duration(offset_ns)) => offset_ns % interval_ns,
        Some(Expr::Call(call)) if call.name == "now" => now_ns.rem_euclid(interval_ns),
        Some(Expr::String(text)) => {
            let time = influxql::parse_time(text, select.zone)
                .ok_or_else(|| Error::invalid(format!("invalid time dimension offset: {text}")))?;
            time.unix_ns.rem_euclid(interval_ns.into()) as i64
        }
        Some(other) => return Err(Error::invalid(format!("invalid time dimension offset: {other}"))),
    };
    Ok(Some(WindowRule { interval_ns, offset_ns, zone: select.zone }))
}

/// The start of the last `count` windows up to a time, as InfluxDB computes it: without the zone, and not before 1970.
pub fn beginning_of_last(rule: WindowRule, count: usize, last_ns: i64) -> Option<i64> {
    let (start_ns, _) = WindowRule { zone: None, ..rule }.window_of(last_ns.saturating_sub(1));
    let before_ns = i64::try_from(count - 1).ok()?.checked_mul(rule.interval_ns)?;
    (start_ns > 1).then(|| start_ns.saturating_sub(before_ns))
}

/// A condition in two parts that must both hold: one for the index, one for the rows.
pub struct Split {
    /// Selects series.
    pub tags: TagFilter,
    /// The condition on their rows.
    pub rows: Option<Expr>,
}

/// Splits a condition for one measurement.
pub fn split_tags(measurement: &Measurement, condition: Option<&Expr>) -> Result<Split> {
    match condition {
        None => Ok(Split { tags: TagFilter::All, rows: None }),
        Some(condition) => split(measurement, condition),
    }
}

fn split(measurement: &Measurement, condition: &Expr) -> Result<Split> {
    match condition {
        Expr::Paren(inner) => split(measurement, inner),
        Expr::Boolean(true) => Ok(Split { tags: TagFilter::All, rows: None }),
        Expr::Boolean(false) => Ok(Split { tags: TagFilter::None, rows: None }),
        Expr::Binary(binary) => match binary.op {
            BinaryOperator::And => {
                let (left, right) = (split(measurement, &binary.lhs)?, split(measurement, &binary.rhs)?);
                let rows = match (left.rows, right.rows) {
                    (Some(left), Some(right)) => Some(Expr::binary(BinaryOperator::And, left, right)),
                    (left, right) => left.or(right),
                };
                Ok(Split { tags: both(left.tags, right.tags), rows })
            }
            BinaryOperator::Or => {
                let (left, right) = (split(measurement, &binary.lhs)?, split(measurement, &binary.rhs)?);
                if left.rows.is_none() && right.rows.is_none() {
                    let tags = TagFilter::Or(vec![left.tags, right.tags]);
                    return Ok(Split { tags, rows: None });
                }
                Ok(Split { tags: TagFilter::All, rows: Some(condition.clone()) })
            }
            _ => match tag_comparison(measurement, binary)? {
                Some(tags) => Ok(Split { tags, rows: None }),
                None => Ok(Split { tags: TagFilter::All, rows: Some(condition.clone()) }),
            },
        },
        other => Ok(Split { tags: TagFilter::All, rows: Some(other.clone()) }),
    }
}

fn both(left: TagFilter, right: TagFilter) -> TagFilter {
    match (left, right) {
        (TagFilter::All, other) | (other, TagFilter::All) => other,
        (TagFilter::And(mut all), other) | (other, TagFilter::And(mut all)) => {
            all.push(other);
            TagFilter::And(all)
        }
        (left, right) => TagFilter::And(vec![left, right]),
    }
}

/// The filter of the index for a comparison of a tag; `None`: it compares a field.
fn tag_comparison(measurement: &Measurement, binary: &Binary) -> Result<Option<TagFilter>> {
    let (reference, other) = match (&binary.lhs, &binary.rhs) {
        (Expr::VarRef(reference), other) | (other, Expr::VarRef(reference)) => (reference, other),
        _ => return Ok(None),
    };
    if matches!(other, Expr::Binary(_)) {
        return Ok(None);
    }
    if let Some(holds) = of_system_name(measurement, reference, binary.op, other)? {
        return Ok(Some(if holds { TagFilter::All } else { TagFilter::None }));
    }
    if condition_type(measurement, reference) != DataType::Tag {
        return Ok(None);
    }
    let key = reference.name.clone();
    Ok(match (binary.op, other) {
        (BinaryOperator::Equal, Expr::String(value)) => Some(TagFilter::Equal(key, value.clone())),
        (BinaryOperator::NotEqual, Expr::String(value)) => Some(TagFilter::NotEqual(key, value.clone())),
        (BinaryOperator::Matches, Expr::Regex(regex)) => Some(TagFilter::Matches(key, compile_regex(regex)?)),
        (BinaryOperator::NotMatches, Expr::Regex(regex)) => {
            Some(TagFilter::MatchesNot(key, compile_regex(regex)?))
        }
        _ => None,
    })
}

/// The reference of a name in a condition.
fn stored_reference(measurement: &Measurement, reference: &VarRef) -> Reference {
    let data_type = Some(condition_type(measurement, reference));
    Reference::of(&VarRef { name: reference.name.clone(), data_type })
}

/// `a != b` of two tags as `(a = b) = false`: it holds unless both are there and equal.
fn with_absent_tags_unequal(measurement: &Measurement, condition: &Expr) -> Expr {
    let is_tag = |expr: &Expr| match expr {
        Expr::VarRef(reference) => condition_type(measurement, reference) == DataType::Tag,
        _ => false,
    };
    match condition {
        Expr::Binary(binary)
            if binary.op == BinaryOperator::NotEqual && is_tag(&binary.lhs) && is_tag(&binary.rhs) =>
        {
            let equal = Expr::binary(BinaryOperator::Equal, binary.lhs.clone(), binary.rhs.clone());
            Expr::binary(BinaryOperator::Equal, equal, Expr::Boolean(false))
        }
        Expr::Binary(binary) if matches!(binary.op, BinaryOperator::And | BinaryOperator::Or) => {
            Expr::binary(
                binary.op,
                with_absent_tags_unequal(measurement, &binary.lhs),
                with_absent_tags_unequal(measurement, &binary.rhs),
            )
        }
        Expr::Paren(inner) => with_absent_tags_unequal(measurement, inner),
        other => other.clone(),
    }
}

/// Makes row conditions compare tags with text as the index does: an absent tag is empty.
fn compare_absent_tags_as_empty(expression: &mut Expression, references: &mut Vec<Reference>) {
    let mut as_empty = |operand: &mut Expression| {
        if let Expression::Column(column) = operand
            && references[*column].kind == ReferenceKind::Tag
        {
            let name = references[*column].name.clone();
            *column = position(references, Reference { name, kind: ReferenceKind::GroupTag });
        }
    };
    match expression {
        Expression::Matches { text, .. } => as_empty(text),
        Expression::Binary(binary) => match (&mut binary.left, &mut binary.right) {
            (tag, Expression::Literal(Some(Scalar::String(_))))
            | (Expression::Literal(Some(Scalar::String(_))), tag) => as_empty(tag),
            (left, right) => {
                compare_absent_tags_as_empty(left, references);
                compare_absent_tags_as_empty(right, references);
            }
        },
        Expression::Column(_) | Expression::Literal(_) | Expression::Math(..) => {}
    }
}

/// Whether a comparison of `_name`, `_tagKey` and similar names holds for the series of a measurement; `None`: it compares
/// none of these.
fn of_system_name(
    measurement: &Measurement,
    reference: &VarRef,
    operator: BinaryOperator,
    other: &Expr,
) -> Result<Option<bool>> {
    match (reference.name.as_str(), operator, other) {
        // A series has several keys, so a condition on its key excludes no series.
        ("_tagKey", ..) if reference.data_type != Some(DataType::Tag) => Ok(Some(true)),
        // Stored rows have no column that names all tags of a series.
        ("_seriesKey" | "_tagValue", ..) if reference.data_type != Some(DataType::Tag) => Ok(Some(false)),
        ("_name", BinaryOperator::Equal, Expr::String(name)) => Ok(Some(name == measurement.name())),
        ("_name", BinaryOperator::NotEqual, Expr::String(name)) => Ok(Some(name != measurement.name())),
        ("_name", BinaryOperator::Matches, Expr::Regex(regex)) => {
            Ok(Some(compile_regex(regex)?.is_match(measurement.name().as_bytes())))
        }
        ("_name", BinaryOperator::NotMatches, Expr::Regex(regex)) => {
            Ok(Some(!compile_regex(regex)?.is_match(measurement.name().as_bytes())))
        }
        _ => Ok(None),
    }
}

/// The comparisons of a condition that a store can evaluate, when they are all there is to it.
///
/// `None`: some part needs evaluation row by row.
pub fn predicates(measurement: &Measurement, condition: Option<&Expr>) -> Option<Vec<Predicate>> {
    let mut found = Vec::new();
    match condition {
        None => Some(found),
        Some(condition) => collect_predicates(measurement, condition, &mut found).map(|()| found),
    }
}

fn collect_predicates(measurement: &Measurement, condition: &Expr, found: &mut Vec<Predicate>) -> Option<()> {
    match condition {
        Expr::Paren(inner) => collect_predicates(measurement, inner, found),
        Expr::Binary(binary) if binary.op == BinaryOperator::And => {
            collect_predicates(measurement, &binary.lhs, found)?;
            collect_predicates(measurement, &binary.rhs, found)
        }
        Expr::Binary(binary) => {
            found.push(predicate(measurement, binary)?);
            Some(())
        }
        _ => None,
    }
}

fn predicate(measurement: &Measurement, binary: &Binary) -> Option<Predicate> {
    let (reference, literal, operator) = match (&binary.lhs, &binary.rhs) {
        (Expr::VarRef(reference), literal) => (reference, literal, binary.op),
        (literal, Expr::VarRef(reference)) => (reference, literal, mirrored(binary.op)?),
        _ => return None,
    };
    let column = only_column(measurement, &stored_reference(measurement, reference))?;
    let literal = literal_value(literal).ok().flatten()?;
    let value = match (column.1, literal) {
        (ValueType::Float, Scalar::Float(value)) => Value::Float(value),
        (ValueType::Float, Scalar::Integer(value)) => Value::Float(value as f64),
        (ValueType::Integer, Scalar::Integer(value)) => Value::Int(value),
        (ValueType::Integer, Scalar::Float(value)) => return integer_with_float(column.0, operator, value),
        (ValueType::Unsigned, Scalar::Unsigned(value)) => Value::UInt(value),
        (ValueType::Unsigned, Scalar::Integer(value)) => Value::UInt(u64::try_from(value).ok()?),
        (ValueType::String, Scalar::String(value)) if is_equality(operator) => Value::String(value),
        (ValueType::Boolean, Scalar::Boolean(value)) if operator == BinaryOperator::Equal => {
            Value::Bool(value)
        }
        _ => return None,
    };
    Some(Predicate { column: column.0, comparison: comparison(operator, value)? })
}

/// The column of a field that has only ever had one type, and is not cast to another.
pub fn only_column(
    measurement: &Measurement,
    reference: &Reference,
) -> Option<(nyala_core::ColumnId, ValueType)> {
    let fields = measurement.fields();
    let [field] = fields_named(&fields, &reference.name) else { return None };
    let own = ValueType::of_field(field.field_type);
    let fits = match reference.kind {
        ReferenceKind::Field(cast) => cast == own,
        ReferenceKind::AnyField => true,
        ReferenceKind::Tag | ReferenceKind::GroupTag | ReferenceKind::Nothing => false,
    };
    fits.then_some((field.column, own))
}

fn is_equality(operator: BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::Equal | BinaryOperator::NotEqual)
}

/// The operator with its sides exchanged.
fn mirrored(operator: BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    Some(match operator {
        Equal | NotEqual => operator,
        Less => Greater,
        LessOrEqual => GreaterOrEqual,
        Greater => Less,
        GreaterOrEqual => LessOrEqual,
        _ => return None,
    })
}

fn comparison(operator: BinaryOperator, value: Value) -> Option<Comparison> {
    Some(match operator {
        BinaryOperator::Equal => Comparison::Equal(value),
        BinaryOperator::NotEqual => Comparison::NotEqual(value),
        BinaryOperator::Less => Comparison::Less(value),
        BinaryOperator::LessOrEqual => Comparison::LessOrEqual(value),
        BinaryOperator::Greater => Comparison::Greater(value),
        BinaryOperator::GreaterOrEqual => Comparison::GreaterOrEqual(value),
        _ => return None,
    })
}

/// An integer column against a float: only where integers up to the bound are exact as floats.
fn integer_with_float(
    column: nyala_core::ColumnId,
    operator: BinaryOperator,
    bound: f64,
) -> Option<Predicate> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if bound.is_nan() || bound.abs() >= EXACT {
        return None;
    }
    let floor = bound.floor() as i64;
    let whole = bound.fract() == 0.0;
    let comparison = match operator {
        BinaryOperator::Greater => Comparison::Greater(Value::Int(floor)),
        BinaryOperator::GreaterOrEqual if whole => Comparison::GreaterOrEqual(Value::Int(floor)),
        BinaryOperator::GreaterOrEqual => Comparison::Greater(Value::Int(floor)),
        BinaryOperator::Less if whole => Comparison::Less(Value::Int(floor)),
        BinaryOperator::Less | BinaryOperator::LessOrEqual => Comparison::LessOrEqual(Value::Int(floor)),
        BinaryOperator::Equal if whole => Comparison::Equal(Value::Int(floor)),
        BinaryOperator::Equal => Comparison::In(Vec::new()),
        BinaryOperator::NotEqual if whole => Comparison::NotEqual(Value::Int(floor)),
        BinaryOperator::NotEqual => Comparison::IsNotNull,
        _ => return None,
    };
    Some(Predicate { column, comparison })
}
