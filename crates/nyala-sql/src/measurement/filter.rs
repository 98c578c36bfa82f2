//! Conditions that need no row to be looked at by DataFusion: bounds of time, conditions on tags, which the index of
//! series answers, and comparisons of fields, which the store makes on its own blocks.
//!
//! All of them mean what they mean in SQL: a tag that a series lacks is NULL, so no comparison with it holds. A measurement
//! never holds a NaN, because no writer accepts one; members of a group of Prometheus metrics do, so conditions on their
//! floats are not judged here.
//!
//! A condition is judged when a statement is planned, and may then compare with a parameter whose value is not known yet.

use super::columns::{Columns, Source};
use crate::placeholder::number_of;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, Like};
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, Operator, TryCast};
use nyala_core::store::{Comparison, Predicate};
use nyala_core::{ColumnId, Error, Result, TimeRange, Value};
use nyala_db::catalog::FieldType;
use nyala_db::series::TagFilter;
use regex::bytes::{Regex, RegexBuilder};

/// What the conditions of a scan mean for the store.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    /// Only rows at these times.
    pub(super) time: TimeRange,
    /// Only series with these tags.
    pub(super) tags: TagFilter,
    /// Only rows for which these hold.
    pub(super) predicates: Vec<Predicate>,
}

/// A condition in the terms of the store: all of its parts must hold.
struct Condition {
    time: TimeRange,
    tags: Vec<TagFilter>,
    predicates: Vec<Predicate>,
}

/// What a column is compared with.
enum Operand {
    Known(ScalarValue),
    /// A parameter, while a statement is planned.
    Unknown,
}

/// The columns that conditions name, and the values of their parameters once a statement is executed.
struct Scope<'a> {
    columns: &'a Columns,
    values: Option<&'a [ScalarValue]>,
}

/// Whether a condition is judged here: then no row comes that does not satisfy it.
pub(super) fn is_judged(expression: &Expr, columns: &Columns) -> bool {
    condition_of(expression, &Scope { columns, values: None }).is_some()
}

impl Conditions {
    /// What every row satisfies.
    pub(super) fn all() -> Self {
        Self { time: TimeRange::ALL, tags: TagFilter::All, predicates: Vec::new() }
    }

    /// Conditions that were judged here and must all hold. `values` are those of the parameters.
    ///
    /// # Errors
    /// Invalid if a parameter has a value that its column cannot be compared with.
    pub(super) fn of(filters: &[Expr], columns: &Columns, values: &[ScalarValue]) -> Result<Self> {
        let scope = Scope { columns, values: Some(values) };
        let mut all = Condition::none();
        for filter in filters {
            let condition = condition_of(filter, &scope);
            all = all.and(condition.ok_or_else(|| Error::invalid(format!("cannot compare: {filter}")))?);
        }
        Ok(Self { time: all.time, tags: filter_of(all.tags), predicates: all.predicates })
    }
}

impl Condition {
    /// What always holds.
    fn none() -> Self {
        Self { time: TimeRange::ALL, tags: Vec::new(), predicates: Vec::new() }
    }

    fn time(time: TimeRange) -> Self {
        Self { time, ..Self::none() }
    }

    fn tags(filter: TagFilter) -> Self {
        Self { tags: vec![filter], ..Self::none() }
    }

    fn field(column: ColumnId, comparison: Comparison) -> Self {
        Self { predicates: vec![Predicate { column, comparison }], ..Self::none() }
    }

    fn and(mut self, other: Self) -> Self {
        self.tags.extend(other.tags);
        self.predicates.extend(other.predicates);
        Self { time: self.time.intersect(other.time), ..self }
    }

    /// Only for conditions on nothing but tags, or for values that a field may be equal to.
    fn or(self, other: Self) -> Option<Self> {
        if let ([own], [others]) = (&self.predicates[..], &other.predicates[..]) {
            let is_plain = self.has_no_bounds() && other.has_no_bounds() && own.column == others.column;
            let mut values = values_of(&own.comparison)?.to_vec();
            values.extend_from_slice(values_of(&others.comparison)?);
            return is_plain.then(|| Self::field(own.column, Comparison::In(values)));
        }
        let is_of_tags =
            |condition: &Self| condition.time == TimeRange::ALL && condition.predicates.is_empty();
        (is_of_tags(&self) && is_of_tags(&other))
            .then(|| Self::tags(TagFilter::Or(vec![filter_of(self.tags), filter_of(other.tags)])))
    }

    /// Whether only fields are compared.
    fn has_no_bounds(&self) -> bool {
        self.time == TimeRange::ALL && self.tags.is_empty()
    }
}

/// The values that a comparison accepts, if they are listed.
fn values_of(comparison: &Comparison) -> Option<&[Value]> {
    match comparison {
        Comparison::Equal(value) => Some(std::slice::from_ref(value)),
        Comparison::In(values) => Some(values),
        _ => None,
    }
}

fn filter_of(mut filters: Vec<TagFilter>) -> TagFilter {
    match filters.len() {
        0 => TagFilter::All,
        1 => filters.remove(0),
        _ => TagFilter::And(filters),
    }
}

fn condition_of(expression: &Expr, scope: &Scope<'_>) -> Option<Condition> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Some(condition_of(left, scope)?.and(condition_of(right, scope)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            condition_of(left, scope)?.or(condition_of(right, scope)?)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (source, op, operand) = match (source_of(left, scope), source_of(right, scope)) {
                (Some(source), None) => (source, *op, operand_of(right, scope)?),
                (None, Some(source)) => (source, op.swap()?, operand_of(left, scope)?),
                _ => return None,
            };
            compared(source, op, &operand)
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let source = source_of(expr, scope)?;
            let low = compared(source, Operator::GtEq, &operand_of(low, scope)?)?;
            Some(low.and(compared(source, Operator::LtEq, &operand_of(high, scope)?)?))
        }
        // What the planner has found to be the same for all rows. NULL selects nothing.
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => Some(Condition::none()),
        Expr::Literal(ScalarValue::Boolean(_), _) => Some(Condition::tags(TagFilter::None)),
        Expr::InList(list) => listed(list, scope),
        Expr::Like(like) => matches_pattern(like, scope),
        Expr::IsNull(inner) => null(source_of(inner, scope)?, true),
        Expr::IsNotNull(inner) => null(source_of(inner, scope)?, false),
        Expr::Not(inner) => truth(source_of(inner, scope)?, false),
        Expr::Column(_) => truth(source_of(expression, scope)?, true),
        _ => None,
    }
}

/// The column that an expression is; tags are compared as texts in whichever form.
fn source_of<'a>(expression: &Expr, scope: &Scope<'a>) -> Option<&'a Source> {
    match expression {
        Expr::Column(column) => {
            let columns = scope.columns;
            columns.source(&column.name).filter(|source| !columns.may_be_nan(source))
        }
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            let is_text = field.data_type().is_string();
            source_of(expr, scope).filter(|source| is_text && matches!(source, Source::Tag(_)))
        }
        _ => None,
    }
}

fn operand_of(expression: &Expr, scope: &Scope<'_>) -> Option<Operand> {
    match expression {
        Expr::Literal(value, _) => Some(Operand::Known(value.clone())),
        Expr::Placeholder(parameter) => match scope.values {
            Some(values) => {
                let value = values.get(number_of(&parameter.id).ok()? - 1)?.clone();
                let known = match &parameter.field {
                    Some(field) => known_as(value, field.data_type())?,
                    None => value,
                };
                Some(Operand::Known(known))
            }
            None => Some(Operand::Unknown),
        },
        Expr::Cast(Cast { expr, field }) => match operand_of(expr, scope)? {
            Operand::Known(value) => known_as(value, field.data_type()).map(Operand::Known),
            Operand::Unknown => Some(Operand::Unknown),
        },
        _ => None,
    }
}

/// A value as one of another type. The general way is by arrays of one row, which is most of a light query that names a few
/// tags.
fn known_as(value: ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    match data_type {
        same if value.data_type() == *same => Some(value),
        DataType::Dictionary(keys, values) => {
            Some(ScalarValue::Dictionary(keys.clone(), Box::new(known_as(value, values)?)))
        }
        other => value.cast_to(other).ok(),
    }
}

fn compared(source: &Source, op: Operator, operand: &Operand) -> Option<Condition> {
    let is_null = matches!(operand, Operand::Known(value) if value.is_null());
    match source {
        _ if is_null && !matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) => {
            // NULL is neither equal nor unequal to anything.
            Some(Condition::tags(TagFilter::None))
        }
        Source::Time | Source::TimeNs => times(op, operand).map(Condition::time),
        Source::Series => None,
        Source::Tag(key) => tag(key, op, operand).map(Condition::tags),
        Source::Field(_, field_type, column) => {
            let value = value_of(*field_type, operand)?;
            let comparison = match op {
                Operator::Eq => Comparison::Equal(value),
                Operator::NotEq => Comparison::NotEqual(value),
                Operator::Lt => Comparison::Less(value),
                Operator::LtEq => Comparison::LessOrEqual(value),
                Operator::Gt => Comparison::Greater(value),
                Operator::GtEq => Comparison::GreaterOrEqual(value),
                _ => return None,
            };
            Some(Condition::field(*column, comparison))
        }
    }
}

fn times(op: Operator, operand: &Operand) -> Option<TimeRange> {
    let time_ns = match operand {
        Operand::Known(value) => time_ns(value)?,
        Operand::Unknown => 0,
    };
    // No row has the greatest time, so that it is as good as the time behind it.
    let next_ns = time_ns.saturating_add(1);
    let all = TimeRange::ALL;
    Some(match op {
        Operator::Eq => TimeRange::new(time_ns, next_ns),
        Operator::Lt => TimeRange::new(all.start_ns, time_ns),
        Operator::LtEq => TimeRange::new(all.start_ns, next_ns),
        Operator::Gt => TimeRange::new(next_ns, all.end_ns),
        Operator::GtEq => TimeRange::new(time_ns, all.end_ns),
        _ => return None,
    })
}

fn time_ns(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampNanosecond(Some(ns), _) | ScalarValue::Int64(Some(ns)) => Some(*ns),
        ScalarValue::TimestampMicrosecond(Some(us), _) => Some(us.saturating_mul(1_000)),
        ScalarValue::TimestampMillisecond(Some(ms), _) => Some(ms.saturating_mul(1_000_000)),
        ScalarValue::TimestampSecond(Some(s), _) => Some(s.saturating_mul(1_000_000_000)),
        _ => None,
    }
}

fn tag(key: &str, op: Operator, operand: &Operand) -> Option<TagFilter> {
    let text = match operand {
        Operand::Known(value) => text_of(value)?.to_owned(),
        Operand::Unknown => String::new(),
    };
    let key = key.to_owned();
    Some(match op {
        // The index takes an empty value for a tag that is absent, but no tag is equal to it.
        Operator::Eq if text.is_empty() => TagFilter::None,
        Operator::Eq => TagFilter::Equal(key, text),
        Operator::NotEq => present_and(&key, |key| TagFilter::NotEqual(key, text)),
        Operator::RegexMatch | Operator::RegexIMatch => {
            let regex = regex_of(&text, op == Operator::RegexIMatch)?;
            present_and(&key, |key| TagFilter::Matches(key, regex))
        }
        Operator::RegexNotMatch | Operator::RegexNotIMatch => {
            let regex = regex_of(&text, op == Operator::RegexNotIMatch)?;
            present_and(&key, |key| TagFilter::MatchesNot(key, regex))
        }
        _ => return None,
    })
}

/// Series that have a tag, and for which something else holds.
fn present_and(key: &str, filter: impl FnOnce(String) -> TagFilter) -> TagFilter {
    TagFilter::And(vec![is_present(key), filter(key.to_owned())])
}

fn is_present(key: &str) -> TagFilter {
    TagFilter::NotEqual(key.to_owned(), String::new())
}

fn regex_of(pattern: &str, any_case: bool) -> Option<Regex> {
    RegexBuilder::new(pattern).case_insensitive(any_case).build().ok()
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

fn value_of(field_type: FieldType, operand: &Operand) -> Option<Value> {
    let known = match operand {
        Operand::Known(value) => value,
        Operand::Unknown => return Some(Value::Int(0)),
    };
    match (field_type, known) {
        (FieldType::Float, ScalarValue::Float64(Some(value))) if !value.is_nan() => {
            Some(Value::Float(*value))
        }
        (FieldType::Integer, ScalarValue::Int64(Some(value))) => Some(Value::Int(*value)),
        (FieldType::Unsigned, ScalarValue::UInt64(Some(value))) => Some(Value::UInt(*value)),
        (FieldType::Boolean, ScalarValue::Boolean(Some(value))) => Some(Value::Bool(*value)),
        (FieldType::String, value) => text_of(value).map(|text| Value::String(text.to_owned())),
        _ => None,
    }
}

fn listed(list: &InList, scope: &Scope<'_>) -> Option<Condition> {
    let source = source_of(&list.expr, scope)?;
    let operands: Vec<Operand> = list.list.iter().map(|own| operand_of(own, scope)).collect::<Option<_>>()?;
    let has_null = operands.iter().any(|operand| matches!(operand, Operand::Known(value) if value.is_null()));
    if list.negated {
        let mut unequal = operands.iter().map(|operand| compared(source, Operator::NotEq, operand));
        return unequal.try_fold(Condition::none(), |all, next| Some(all.and(next?)));
    }
    match source {
        Source::Tag(_) => {
            let mut equal = operands.iter().map(|operand| compared(source, Operator::Eq, operand));
            equal.try_fold(Condition::tags(TagFilter::None), |all, next| all.or(next?))
        }
        Source::Field(_, field_type, column) if !has_null => {
            let values = operands.iter().map(|operand| value_of(*field_type, operand));
            let comparison = Comparison::In(values.collect::<Option<_>>()?);
            Some(Condition::field(*column, comparison))
        }
        _ => None,
    }
}

fn null(source: &Source, is_null: bool) -> Option<Condition> {
    match source {
        Source::Time | Source::TimeNs | Source::Series => None,
        Source::Tag(key) if is_null => Some(Condition::tags(TagFilter::Equal(key.clone(), String::new()))),
        Source::Tag(key) => Some(Condition::tags(is_present(key))),
        Source::Field(_, _, column) => {
            let comparison = if is_null { Comparison::IsNull } else { Comparison::IsNotNull };
            Some(Condition::field(*column, comparison))
        }
    }
}

fn truth(source: &Source, wanted: bool) -> Option<Condition> {
    match source {
        Source::Field(_, FieldType::Boolean, column) => {
            let comparison = Comparison::Equal(Value::Bool(wanted));
            Some(Condition::field(*column, comparison))
        }
        _ => None,
    }
}

fn matches_pattern(like: &Like, scope: &Scope<'_>) -> Option<Condition> {
    let Source::Tag(key) = source_of(&like.expr, scope)? else { return None };
    let pattern = match operand_of(&like.pattern, scope)? {
        Operand::Known(value) => text_of(&value)?.to_owned(),
        Operand::Unknown => String::new(),
    };
    let regex = regex_of(&regex_of_like(&pattern, like.escape_char.unwrap_or('\\'))?, like.case_insensitive)?;
    Some(Condition::tags(present_and(key, |key| match like.negated {
        true => TagFilter::MatchesNot(key, regex),
        false => TagFilter::Matches(key, regex),
    })))
}

/// The regular expression of a LIKE pattern; `None` if the pattern ends with its escape character.
fn regex_of_like(pattern: &str, escape: char) -> Option<String> {
    let mut regex = String::from("(?s)^");
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter == escape => {
                regex.push_str(&regex::escape(letters.next()?.encode_utf8(&mut [0; 4])))
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            letter => regex.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push('$');
    Some(regex)
}
