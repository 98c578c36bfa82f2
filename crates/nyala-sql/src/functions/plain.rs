//! Functions of PostgreSQL that DataFusion lacks, and that are computed row by row from their arguments.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::row_wise::computed;
use crate::type_name;
use crate::unknown_bounds;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use chrono_tz::Tz;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// What a function takes or gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Int,
    Float,
    Bool,
    Span,
    /// A time without a zone.
    Time,
    /// A time with a zone.
    Moment,
    /// An array of texts.
    Texts,
    /// An array of these.
    TextLists,
}

/// A function.
#[derive(Debug)]
pub(super) struct PlainFunction {
    pub(super) name: &'static str,
    /// The kinds of its arguments, for each of its forms. The first that fits is taken.
    pub(super) takes: &'static [&'static [Kind]],
    pub(super) gives: Kind,
    pub(super) volatility: Volatility,
    /// How it is computed from arguments of which none is NULL.
    pub(super) compute: fn(&Call<'_>) -> SqlResult<ScalarValue>,
}

/// A call for one row.
pub(super) struct Call<'a> {
    pub(super) values: &'a [ScalarValue],
    /// The time zone of the session.
    pub(super) zone: Tz,
}

/// A function whose value is the same for the same arguments.
pub(super) const fn immutable(
    name: &'static str,
    takes: &'static [&'static [Kind]],
    gives: Kind,
    compute: fn(&Call<'_>) -> SqlResult<ScalarValue>,
) -> PlainFunction {
    PlainFunction { name, takes, gives, volatility: Volatility::Immutable, compute }
}

/// One whose value depends on the session.
pub(super) const fn stable(
    name: &'static str,
    takes: &'static [&'static [Kind]],
    gives: Kind,
    compute: fn(&Call<'_>) -> SqlResult<ScalarValue>,
) -> PlainFunction {
    PlainFunction { volatility: Volatility::Stable, ..immutable(name, takes, gives, compute) }
}

/// Makes functions known to a planner.
pub(super) fn register(state: &mut SessionState, functions: &'static [PlainFunction]) -> Result<()> {
    for function in functions {
        let signature = Signature::user_defined(function.volatility);
        state.register_udf(Arc::new(ScalarUDF::from(Planned { of: function, signature })))?;
    }
    Ok(())
}

/// A function in plans.
#[derive(Debug)]
struct Planned {
    of: &'static PlainFunction,
    signature: Signature,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.of.name == other.of.name
    }
}

impl Eq for Planned {}

impl std::hash::Hash for Planned {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.of.name.hash(state);
    }
}

impl ScalarUDFImpl for Planned {
    fn name(&self) -> &str {
        self.of.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let fits = |form: &&&[Kind]| {
            form.len() == given.len() && form.iter().zip(given).all(|(kind, own)| kind.holds(own))
        };
        match self.of.takes.iter().find(fits) {
            Some(form) => Ok(form.iter().zip(given).map(|(kind, own)| kind.data_type(own)).collect()),
            None => {
                let given: Vec<&str> = given.iter().map(type_name::of).collect();
                let words = format!("function {}({}) does not exist", self.of.name, given.join(", "));
                let hint = "No function matches the given name and argument types. You might need to add explicit type casts.";
                Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, words).with_hint(hint).into())
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.of.gives.data_type(&DataType::Null))
    }

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        unknown_bounds::of(self, given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = arguments.config_options.execution.time_zone.as_deref();
        let zone = zone.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC);
        computed(self.name(), &arguments, true, &|values| Ok((self.of.compute)(&Call { values, zone })?))
    }
}

impl Kind {
    /// Whether values of a type are of this kind, or become so by themselves. A text may be a literal without a type.
    fn holds(self, given: &DataType) -> bool {
        let is_text = given.is_string() || matches!(given, DataType::Dictionary(_, own) if own.is_string());
        if given.is_null() {
            return true;
        }
        match self {
            Kind::Text => is_text,
            Kind::Bytes => {
                is_text || matches!(given, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
            }
            Kind::Int => given.is_integer(),
            Kind::Float => given.is_numeric(),
            Kind::Bool => *given == DataType::Boolean,
            Kind::Span => is_text || matches!(given, DataType::Interval(_) | DataType::Duration(_)),
            Kind::Time => is_text || matches!(given, DataType::Timestamp(_, None) | DataType::Date32),
            Kind::Moment => matches!(given, DataType::Timestamp(_, Some(_))),
            Kind::Texts | Kind::TextLists => matches!(given, DataType::List(_)),
        }
    }

    /// The type that a value of the kind gets.
    pub(super) fn data_type(self, given: &DataType) -> DataType {
        match self {
            Kind::Text => DataType::Utf8,
            Kind::Bytes => DataType::Binary,
            Kind::Int => DataType::Int32,
            Kind::Float => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::Span => DataType::Interval(IntervalUnit::MonthDayNano),
            Kind::Time => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Kind::Moment => match given {
                DataType::Timestamp(_, zone @ Some(_)) => {
                    DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())
                }
                _ => DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
            },
            Kind::Texts => DataType::new_list(DataType::Utf8, true),
            Kind::TextLists => DataType::new_list(Kind::Texts.data_type(given), true),
        }
    }
}

impl Call<'_> {
    pub(super) fn text(&self, place: usize) -> &str {
        self.values.get(place).and_then(|own| own.try_as_str().flatten()).unwrap_or_default()
    }

    pub(super) fn bytes(&self, place: usize) -> &[u8] {
        match self.values.get(place) {
            Some(ScalarValue::Binary(Some(own))) => own,
            _ => self.text(place).as_bytes(),
        }
    }

    pub(super) fn int(&self, place: usize) -> i32 {
        match self.values.get(place) {
            Some(ScalarValue::Int32(Some(own))) => *own,
            _ => 0,
        }
    }

    pub(super) fn float(&self, place: usize) -> f64 {
        match self.values.get(place) {
            Some(ScalarValue::Float64(Some(own))) => *own,
            _ => 0.0,
        }
    }
}

pub(super) fn text(own: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8(Some(own.into()))
}

pub(super) fn bytes(own: &[u8]) -> ScalarValue {
    ScalarValue::Binary(Some(own.to_vec()))
}
