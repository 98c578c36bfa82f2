//! OTLP in JSON. Names are in camel case, whole numbers of 64 bits are texts, other members are left out.
//!
//! Lists stay text until they are needed (`RawValue`): then their elements are read one after the other.

use super::attributes::{AnyValue, Attributes, Inherited, too_long};
use super::{ATTRIBUTE_BYTES_MAX, BUCKETS_MAX, DataPoint, Kind, Number, Refusals, Sink, push_within};
use crate::Point;
use base64ct::{Base64, Encoding};
use nyala_core::{Error, Result};
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Hands each data point of an `ExportMetricsServiceRequest` to `take`, and says which have no form as a point.
///
/// # Errors
/// Invalid for what is no such document, Limit for what is too large in it, and the errors of `take`. The data points before were
/// taken.
pub fn read(request: &[u8], take: &mut dyn FnMut(Point<'_>) -> Result<()>) -> Result<Refusals> {
    let mut sink = Sink { take, refused: Refusals::default() };
    let request: Request<'_> = serde_json::from_slice(request).map_err(|error| wrong(&error))?;
    each(request.resource_metrics, &mut |resource_metrics: ResourceMetrics<'_>| {
        let mut resource = Attributes::default();
        if let Some(described) = &resource_metrics.resource {
            read_attributes(described.attributes, &mut resource)?;
        }
        let resource = resource.tags();
        each(resource_metrics.scope_metrics, &mut |scope_metrics: ScopeMetrics<'_>| {
            let mut attributes = Attributes::default();
            if let Some(scope) = scope_metrics.scope {
                for (key, name) in
                    [("otel.library.name", scope.name), ("otel.library.version", scope.version)]
                {
                    name.map_or(Ok(()), |name| attributes.add(key.into(), name))?;
                }
                read_attributes(scope.attributes, &mut attributes)?;
            }
            let mut inherited = Inherited::new(&resource, attributes);
            each(scope_metrics.metrics, &mut |metric: Metric<'_>| {
                read_metric(metric, &mut inherited, &mut sink)
            })
        })
    })?;
    Ok(sink.refused)
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    resource_metrics: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    #[serde(borrow)]
    resource: Option<Described<'a>>,
    #[serde(borrow)]
    scope_metrics: Option<&'a RawValue>,
}

/// A resource or a scope.
#[derive(serde::Deserialize)]
struct Described<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    attributes: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct ScopeMetrics<'a> {
    #[serde(borrow)]
    scope: Option<Described<'a>>,
    #[serde(borrow)]
    metrics: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metric<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    gauge: Option<Data<'a>>,
    #[serde(borrow)]
    sum: Option<Data<'a>>,
    #[serde(borrow)]
    histogram: Option<Data<'a>>,
    #[serde(borrow)]
    exponential_histogram: Option<Data<'a>>,
    #[serde(borrow)]
    summary: Option<Data<'a>>,
}

/// The data points of a metric.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    #[serde(borrow)]
    data_points: Option<&'a RawValue>,
    aggregation_temporality: Option<Temporality>,
    is_monotonic: Option<bool>,
}

/// By its number or its name.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Temporality {
    Number(u64),
    Name(String),
}

impl Temporality {
    fn number(&self) -> u64 {
        match self {
            Temporality::Number(number) => *number,
            Temporality::Name(name) if name == "AGGREGATION_TEMPORALITY_CUMULATIVE" => 2,
            Temporality::Name(_) => 0,
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonPoint<'a> {
    #[serde(borrow)]
    attributes: Option<&'a RawValue>,
    start_time_unix_nano: Option<Flexible<u64>>,
    time_unix_nano: Option<Flexible<u64>>,
    flags: Option<Flexible<u64>>,
    as_double: Option<Flexible<f64>>,
    as_int: Option<Flexible<i64>>,
    count: Option<Flexible<u64>>,
    sum: Option<Flexible<f64>>,
    min: Option<Flexible<f64>>,
    max: Option<Flexible<f64>>,
    #[serde(borrow)]
    bucket_counts: Option<&'a RawValue>,
    #[serde(borrow)]
    explicit_bounds: Option<&'a RawValue>,
    #[serde(borrow)]
    quantile_values: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Quantile {
    quantile: Option<Flexible<f64>>,
    value: Option<Flexible<f64>>,
}

fn read_metric(metric: Metric<'_>, inherited: &mut Inherited<'_>, sink: &mut Sink<'_>) -> Result<()> {
    let name = metric.name.unwrap_or_default();
    let of_sum = |sum: &Data<'_>| {
        let temporality = sum.aggregation_temporality.as_ref().map_or(0, Temporality::number);
        Kind::of_sum(sum.is_monotonic.unwrap_or_default(), temporality)
    };
    for (kind, data) in [
        (Kind::Gauge, metric.gauge),
        (metric.sum.as_ref().map_or(Kind::Gauge, of_sum), metric.sum),
        (Kind::Histogram, metric.histogram),
        (Kind::ExponentialHistogram, metric.exponential_histogram),
        (Kind::Summary, metric.summary),
    ] {
        let Some(data) = data else { continue };
        each(data.data_points, &mut |point: JsonPoint<'_>| {
            sink.data_point(inherited, &name, kind, data_point(point)?)
        })?;
    }
    Ok(())
}

fn data_point(point: JsonPoint<'_>) -> Result<DataPoint<'_>> {
    let float = |value: Option<Flexible<f64>>| value.map(|Flexible(value)| value);
    let unsigned = |value: Option<Flexible<u64>>| value.map_or(0, |Flexible(value)| value);
    let whole = point.as_int.map(|Flexible(value)| Number::Integer(value));
    let mut read = DataPoint {
        start_ns: unsigned(point.start_time_unix_nano),
        time_ns: unsigned(point.time_unix_nano),
        flags: unsigned(point.flags),
        number: whole.or(float(point.as_double).map(Number::Float)),
        count: unsigned(point.count),
        sum: float(point.sum),
        min: float(point.min),
        max: float(point.max),
        ..DataPoint::default()
    };
    read_attributes(point.attributes, &mut read.attributes)?;
    let what = "buckets of a data point";
    each(point.bucket_counts, &mut |Flexible(count)| {
        push_within(&mut read.bucket_counts, count, BUCKETS_MAX, what)
    })?;
    each(point.explicit_bounds, &mut |Flexible(bound)| {
        push_within(&mut read.bounds, bound, BUCKETS_MAX, what)
    })?;
    each(point.quantile_values, &mut |quantile: Quantile| {
        let pair = (float(quantile.quantile).unwrap_or(0.0), float(quantile.value).unwrap_or(0.0));
        push_within(&mut read.quantiles, pair, BUCKETS_MAX, "quantiles of a data point")
    })?;
    Ok(read)
}

#[derive(serde::Deserialize)]
struct KeyValue<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonValue {
    string_value: Option<String>,
    bool_value: Option<bool>,
    int_value: Option<Flexible<i64>>,
    double_value: Option<Flexible<f64>>,
    array_value: Option<List<JsonValue>>,
    kvlist_value: Option<List<Pair>>,
    bytes_value: Option<String>,
}

#[derive(serde::Deserialize)]
struct List<T> {
    values: Option<Vec<T>>,
}

#[derive(serde::Deserialize)]
struct Pair {
    key: Option<String>,
    value: Option<JsonValue>,
}

fn read_attributes<'a>(attributes: Option<&'a RawValue>, into: &mut Attributes<'a>) -> Result<()> {
    each(attributes, &mut |attribute: KeyValue<'a>| {
        let value = match attribute.value {
            Some(value) if value.get().len() > ATTRIBUTE_BYTES_MAX => return Err(too_long()),
            Some(value) => any_value(serde_json::from_str(value.get()).map_err(|error| wrong(&error))?)?,
            None => AnyValue::Nothing,
        };
        into.add(attribute.key.unwrap_or_default(), value.text())
    })
}

/// The value of an attribute. How deep it is nested serde_json limits.
fn any_value(value: JsonValue) -> Result<AnyValue<'static>> {
    let JsonValue {
        string_value,
        bool_value,
        int_value,
        double_value,
        array_value,
        kvlist_value,
        bytes_value,
    } = value;
    Ok(if let Some(text) = string_value {
        AnyValue::Text(text.into())
    } else if let Some(value) = bool_value {
        AnyValue::Bool(value)
    } else if let Some(Flexible(value)) = int_value {
        AnyValue::Integer(value)
    } else if let Some(Flexible(value)) = double_value {
        AnyValue::Float(value)
    } else if let Some(list) = array_value {
        AnyValue::List(list.values.unwrap_or_default().into_iter().map(any_value).collect::<Result<_>>()?)
    } else if let Some(list) = kvlist_value {
        let pair = |Pair { key, value }| {
            Ok((key.unwrap_or_default().into(), value.map_or(Ok(AnyValue::Nothing), any_value)?))
        };
        AnyValue::Map(list.values.unwrap_or_default().into_iter().map(pair).collect::<Result<_>>()?)
    } else if let Some(text) = bytes_value {
        let bytes = Base64::decode_vec(&text).map_err(|_| Error::invalid("bytesValue is not base64"))?;
        AnyValue::Bytes(bytes.into())
    } else {
        AnyValue::Nothing
    })
}

/// A number, or a text with a number.
struct Flexible<T>(T);

impl<'de, T: std::str::FromStr + TryFromNumber> Deserialize<'de> for Flexible<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<T: std::str::FromStr + TryFromNumber> Visitor<'_> for Either<T> {
            type Value = Flexible<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a text with a number")
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> std::result::Result<Flexible<T>, E> {
                T::of_integer(value.into()).map(Flexible).ok_or_else(|| E::custom("a number is out of range"))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> std::result::Result<Flexible<T>, E> {
                T::of_integer(value.into()).map(Flexible).ok_or_else(|| E::custom("a number is out of range"))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> std::result::Result<Flexible<T>, E> {
                T::of_float(value).map(Flexible).ok_or_else(|| E::custom("a number is not whole"))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Flexible<T>, E> {
                text.parse().map(Flexible).map_err(|_| E::custom("a text that should be a number"))
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// What numbers of JSON become.
trait TryFromNumber: Sized {
    fn of_integer(value: i128) -> Option<Self>;
    fn of_float(value: f64) -> Option<Self>;
}

impl TryFromNumber for f64 {
    fn of_integer(value: i128) -> Option<Self> {
        Some(value as f64)
    }

    fn of_float(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl TryFromNumber for i64 {
    fn of_integer(value: i128) -> Option<Self> {
        value.try_into().ok()
    }

    fn of_float(_: f64) -> Option<Self> {
        None
    }
}

impl TryFromNumber for u64 {
    fn of_integer(value: i128) -> Option<Self> {
        value.try_into().ok()
    }

    fn of_float(_: f64) -> Option<Self> {
        None
    }
}

/// Reads the elements of a list one after the other.
fn each<'a, T: Deserialize<'a>>(
    list: Option<&'a RawValue>,
    act: &mut dyn FnMut(T) -> Result<()>,
) -> Result<()> {
    struct Elements<'f, T> {
        act: &'f mut dyn FnMut(T) -> Result<()>,
        failed: &'f mut Option<Error>,
    }
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<'_, T> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> std::result::Result<(), S::Error> {
            while let Some(element) = elements.next_element()? {
                if let Err(error) = (self.act)(element) {
                    *self.failed = Some(error);
                    return Err(serde::de::Error::custom("the rest is not read"));
                }
            }
            Ok(())
        }
    }
    let Some(list) = list else { return Ok(()) };
    let mut failed = None;
    let read =
        serde_json::Deserializer::from_str(list.get()).deserialize_seq(Elements { act, failed: &mut failed });
    match failed {
        Some(error) => Err(error),
        None => read.map_err(|error| wrong(&error)),
    }
}

fn wrong(error: &serde_json::Error) -> Error {
    Error::invalid(format!("not a request of OTLP in JSON: {error}"))
}
