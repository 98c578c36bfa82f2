//! Literals of intervals: their texts become ones that the planner reads as PostgreSQL does.

use crate::interval_text::read_interval;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, UnaryOperator, Value};

/// Has a literal be read as PostgreSQL reads it. What is none is left to the planner, which says so.
pub(super) fn rewrite(expression: &mut Expr) {
    match expression {
        // The planner would put the sign in front of the first part only.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(&**expr, Expr::Interval(_)) => {
            if let Expr::Interval(own) = &mut **expr
                && own.leading_field.is_none()
                && let Expr::Value(value) = &mut *own.value
                && let Value::SingleQuotedString(text) = &mut value.value
                && let Some(negated) = negated(text)
            {
                *text = negated;
                *expression = (**expr).clone();
            }
        }
        // With units behind the text it is another form.
        Expr::Interval(own) if own.leading_field.is_none() => normalize(&mut own.value),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. }
            if is_interval(data_type) =>
        {
            normalize(expr);
        }
        Expr::TypedString(own) if is_interval(&own.data_type) => {
            if let Value::SingleQuotedString(text) = &mut own.value.value
                && let Some(plain) = plain(text)
            {
                *text = plain;
            }
        }
        _ => {}
    }
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval { fields: None, .. })
}

fn normalize(value: &mut Expr) {
    if let Expr::Value(own) = value
        && let Value::SingleQuotedString(text) = &mut own.value
        && let Some(plain) = plain(text)
    {
        *text = plain;
    }
}

/// The same of an interval with the other sign.
fn negated(text: &str) -> Option<String> {
    let own = read_interval(text).ok()?;
    let parts = (own.months.checked_neg()?, own.days.checked_neg()?, own.nanoseconds.checked_neg()?);
    Some(format!("{} months {} days {} nanoseconds", parts.0, parts.1, parts.2))
}

/// Months, days and nanoseconds of an interval; `None` if the text is none.
fn plain(text: &str) -> Option<String> {
    let own = read_interval(text).ok()?;
    Some(format!("{} months {} days {} nanoseconds", own.months, own.days, own.nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::{negated, plain};

    #[test]
    fn texts_become_plain() {
        let cases = [
            ("00:00:00", "0 months 0 days 0 nanoseconds"),
            ("1 year 2 months 3 days 04:05:06.789", "14 months 3 days 14706789000000 nanoseconds"),
            ("-1 mon +5 days", "-1 months 5 days 0 nanoseconds"),
            ("P1DT2H", "0 months 1 days 7200000000000 nanoseconds"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(plain("1 fortnight"), None);
        let shorter = negated("-1 months 5 days 0 nanoseconds");
        assert_eq!(shorter.as_deref(), Some("1 months -5 days 0 nanoseconds"));
    }
}
