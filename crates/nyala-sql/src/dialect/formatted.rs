//! `to_char`, `to_date` and `to_timestamp` with templates of PostgreSQL. A pattern with a `%` is one of DataFusion, which computes
//! that and everything else.

use super::formatted_number::Numbers;
use super::template::{Template, TemplateError};
use crate::clocks::utc_ns;
use crate::error::{SqlError, SqlState};
use crate::row_wise::computed;
use crate::type_name;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use chrono::{DateTime, Offset, Utc};
use chrono_tz::Tz;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::cell::RefCell;
use std::sync::Arc;

/// One of these functions, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Formatted {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Formatted {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        let signature = match inner.name() {
            "to_char" => Signature::user_defined(inner.signature().volatility),
            _ => inner.signature().clone(),
        };
        Self { inner, signature }
    }
}

impl ScalarUDFImpl for Formatted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    // Under these names the function of DataFusion would be found again, and known by its own.
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [value, pattern]
                if self.name() == "to_char"
                    && (pattern.is_string() || pattern.is_null())
                    && (value.is_numeric()
                        || value.is_temporal() && !matches!(value, DataType::Interval(_))
                        || value.is_null()) =>
            {
                Ok(vec![value.clone(), DataType::Utf8])
            }
            _ if self.name() == "to_char" => {
                let given: Vec<&str> = given.iter().map(type_name::of).collect();
                let words = format!("function to_char({}) does not exist", given.join(", "));
                Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, words).into())
            }
            _ => self.inner.coerce_types(given),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.inner.return_type(given)
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(given)
    }

    fn with_updated_config(&self, config: &datafusion::config::ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::from(Self::over(Arc::new(inner))))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.name() == "to_char" && arguments.arg_fields[0].data_type().is_numeric() {
            let numbers = RefCell::new(Numbers::default());
            return computed(self.name(), &arguments, true, &|values| {
                let pattern = values[1].try_as_str().flatten().unwrap_or_default();
                Ok(ScalarValue::Utf8(Some(numbers.borrow_mut().text(&values[0], pattern)?)))
            });
        }
        let pattern = match &arguments.args[..] {
            [_, ColumnarValue::Scalar(pattern)] => {
                pattern.try_as_str().flatten().filter(|own| !own.contains('%'))
            }
            _ => None,
        };
        let Some(pattern) = pattern else { return self.inner.invoke_with_args(arguments) };
        let (template, rows) = (Template::of(pattern), arguments.number_rows);
        let is_constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let values = arguments.args[0].to_array(if is_constant { 1 } else { rows })?;
        let wanted = arguments.return_field.data_type();
        let done = match self.name() {
            "to_char" => match written(&template, &values)? {
                Some(texts) => texts,
                None => return self.inner.invoke_with_args(arguments),
            },
            _ => read(&template, &values, wanted)?,
        };
        let done = arrow_array_cast(&done, wanted)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?),
            false => ColumnarValue::Array(done),
        })
    }
}

fn arrow_array_cast(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    Ok(datafusion::arrow::compute::cast(values, wanted)?)
}

fn zone_of(name: Option<&str>) -> Tz {
    name.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC)
}

/// Times as texts; `None` if the values are none.
fn written(template: &Template, values: &ArrayRef) -> Result<Option<ArrayRef>> {
    let zone = match values.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        DataType::Date32 | DataType::Date64 => None,
        _ => return Ok(None),
    };
    let zone = zone_of(zone.as_deref());
    let plain = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let moments = match values.data_type() {
        // A cast of a time with a zone shows the clock of that zone.
        DataType::Timestamp(_, Some(_)) => {
            let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
            arrow_array_cast(&arrow_array_cast(values, &utc)?, &plain)?
        }
        _ => arrow_array_cast(values, &plain)?,
    };
    let moments = moments.as_primitive::<TimestampNanosecondType>();
    let text = |ns: i64| {
        let utc = DateTime::<Utc>::from_timestamp_nanos(ns);
        let local = utc.with_timezone(&zone);
        template.write(
            local.naive_local(),
            local.offset().fix().local_minus_utc(),
            &local.format("%Z").to_string(),
        )
    };
    let texts: arrow_array::StringArray = moments.iter().map(|own| own.map(text)).collect();
    Ok(Some(Arc::new(texts)))
}

/// Texts as times. A time without a zone is one of the zone that the result has.
fn read(template: &Template, values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    let zone = match wanted {
        DataType::Timestamp(_, zone) => zone_of(zone.as_deref()),
        _ => Tz::UTC,
    };
    let texts = arrow_array_cast(values, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let mut moments = Vec::with_capacity(texts.len());
    for text in texts {
        let Some(text) = text else {
            moments.push(None);
            continue;
        };
        let (local, offset_s) = template.read(text).map_err(|error| match error {
            TemplateError::Syntax(words) => SqlError::new(SqlState::INVALID_DATETIME, words),
            TemplateError::Range => {
                let message = format!("date/time field value out of range: \"{text}\"");
                SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, message)
            }
        })?;
        moments.push(Some(utc_ns(local, offset_s, zone).ok_or_else(|| {
            SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, format!("timestamp out of range: \"{text}\""))
        })?));
    }
    let moments = arrow_array::TimestampNanosecondArray::from(moments);
    Ok(match wanted {
        DataType::Timestamp(_, Some(_)) => Arc::new(moments.with_timezone("+00:00")),
        _ => Arc::new(moments),
    })
}
