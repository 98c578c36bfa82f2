//! `to_char` of numbers.

use super::number_template::{Digits, NumberTemplate};
use crate::error::{SqlError, SqlResult, SqlState};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use std::collections::HashMap;

/// The most digits that a float has, whatever its value.
const FLOAT_DIGITS: usize = 15;

/// Writes numbers by templates, of which each is read once.
#[derive(Default)]
pub(super) struct Numbers {
    templates: HashMap<String, NumberTemplate>,
}

impl Numbers {
    pub(super) fn text(&mut self, value: &ScalarValue, pattern: &str) -> Result<String> {
        if !self.templates.contains_key(pattern) {
            self.templates.insert(pattern.to_owned(), NumberTemplate::of(pattern)?);
        }
        let template = &self.templates[pattern];
        Ok(template.write(&digits(value, template)?))
    }
}

/// A number with as many digits behind its point as a template has.
fn digits(value: &ScalarValue, template: &NumberTemplate) -> Result<Digits> {
    let scale = template.scale();
    let of_float = |own: f64| {
        let own = own * 10_f64.powi(template.shift() as i32);
        if !own.is_finite() {
            return Err(DataFusionError::from(SqlError::unsupported(format!("to_char of {own}"))));
        }
        let length = format!("{:.0}", own.abs()).len();
        let scale = scale.min(FLOAT_DIGITS.saturating_sub(length));
        let text = format!("{:.scale$}", own.abs());
        // As printf does, which PostgreSQL asks: what is rounded to zero keeps its sign.
        Ok(Digits { is_negative: own < 0.0, text })
    };
    match value {
        ScalarValue::Float32(Some(own)) => of_float((*own).into()),
        ScalarValue::Float64(Some(own)) => of_float(*own),
        _ => {
            let (unscaled, own_scale) = match value {
                ScalarValue::Decimal128(Some(own), _, scale) => (*own, usize::try_from(*scale).unwrap_or(0)),
                other => match other.cast_to(&arrow_schema::DataType::Decimal128(38, 0))? {
                    ScalarValue::Decimal128(Some(own), ..) => (own, 0),
                    _ => return Err(beyond().into()),
                },
            };
            Ok(of_decimal(unscaled, own_scale, scale, template.shift())?)
        }
    }
}

fn beyond() -> SqlError {
    SqlError::new(SqlState::OUT_OF_RANGE, "value out of range: overflow")
}

fn of_decimal(unscaled: i128, own_scale: usize, scale: usize, shift: usize) -> SqlResult<Digits> {
    let power = |of: usize| u32::try_from(of).ok().and_then(|of| 10_u128.checked_pow(of)).ok_or_else(beyond);
    let size = unscaled.unsigned_abs().checked_mul(power(shift)?).ok_or_else(beyond)?;
    let size = match own_scale > scale {
        true => {
            let divisor = power(own_scale - scale)?;
            // Halves away from zero.
            size / divisor + u128::from(size % divisor >= divisor.div_ceil(2))
        }
        false => size.checked_mul(power(scale - own_scale)?).ok_or_else(beyond)?,
    };
    let text = format!("{size:0>width$}", width = scale + 1);
    let (whole, rest) = text.split_at(text.len() - scale);
    let text = if scale == 0 { whole.to_owned() } else { format!("{whole}.{rest}") };
    Ok(Digits { is_negative: unscaled < 0 && size > 0, text })
}
