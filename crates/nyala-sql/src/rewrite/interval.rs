//! Literals of intervals: their texts become ones that the planner reads as PostgreSQL does.

use crate::error::{SqlResult, SqlState};
use crate::interval_text::read_interval;
use arrow_array::types::IntervalMonthDayNano;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, UnaryOperator, Value};

/// Has a literal be read as PostgreSQL reads it. What is none is left to the planner, which says so.
///
/// # Errors
/// It is out of range.
pub(super) fn rewrite(expression: &mut Expr) -> SqlResult<()> {
    match expression {
        // The planner would put the sign in front of the first part only.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(&**expr, Expr::Interval(_)) => {
            if let Expr::Interval(own) = &mut **expr
                && own.leading_field.is_none()
                && let Expr::Value(value) = &mut *own.value
                && let Value::SingleQuotedString(text) = &mut value.value
                && let Some(negated) = negated(text)?
            {
                *text = negated;
                *expression = (**expr).clone();
            }
        }
        // With units behind the text it is another form.
        Expr::Interval(own) if own.leading_field.is_none() => normalize(&mut own.value)?,
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. }
            if is_interval(data_type) =>
        {
            normalize(expr)?;
        }
        Expr::TypedString(own) if is_interval(&own.data_type) => {
            if let Value::SingleQuotedString(text) = &mut own.value.value
                && let Some(plain) = plain(text)?
            {
                *text = plain;
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval { fields: None, .. })
}

fn normalize(value: &mut Expr) -> SqlResult<()> {
    if let Expr::Value(own) = value
        && let Value::SingleQuotedString(text) = &mut own.value
        && let Some(plain) = plain(text)?
    {
        *text = plain;
    }
    Ok(())
}

/// The same of an interval with the other sign.
fn negated(text: &str) -> SqlResult<Option<String>> {
    let negative = |own: IntervalMonthDayNano| {
        let parts = (own.months.checked_neg()?, own.days.checked_neg()?, own.nanoseconds.checked_neg()?);
        Some(written(IntervalMonthDayNano::new(parts.0, parts.1, parts.2)))
    };
    Ok(read(text)?.and_then(negative))
}

/// Months, days and nanoseconds of an interval; `None` if the text is none.
fn plain(text: &str) -> SqlResult<Option<String>> {
    Ok(read(text)?.map(written))
}

fn read(text: &str) -> SqlResult<Option<IntervalMonthDayNano>> {
    match read_interval(text) {
        Ok(own) => Ok(Some(own)),
        Err(error) if error.code == SqlState::DATETIME_OUT_OF_RANGE => Err(error),
        Err(_) => Ok(None),
    }
}

fn written(own: IntervalMonthDayNano) -> String {
    format!("{} months {} days {} nanoseconds", own.months, own.days, own.nanoseconds)
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
            let plain = plain(text).expect("it is in range");
            assert_eq!(plain.as_deref(), Some(expected), "{text}");
        }
        assert_eq!(plain("1 fortnight"), Ok(None));
        let shorter = negated("-1 months 5 days 0 nanoseconds").expect("it is in range");
        assert_eq!(shorter.as_deref(), Some("1 months -5 days 0 nanoseconds"));
    }
}
