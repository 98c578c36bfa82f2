//! OTLP in protocol buffers (`opentelemetry/proto/collector/metrics/v1/metrics_service.proto`).

use super::attributes::{AnyValue, Attributes, Inherited, Pair, too_long};
use super::{
    ATTRIBUTE_BYTES_MAX, BUCKETS_MAX, DEPTH_MAX, DataPoint, Kind, Number, Refusals, Sink, push_within,
};
use crate::Point;
use crate::protobuf::{FieldValue, Fields, text, wrong_type};
use nyala_core::{Error, Result};
use std::borrow::Cow;

/// Hands each data point of an `ExportMetricsServiceRequest` to `take`, and says which have no form as a point.
///
/// # Errors
/// Invalid for what is no such message, Limit for what is too large in it, and the errors of `take`. The data points before were
/// taken.
pub fn read(request: &[u8], take: &mut dyn FnMut(Point<'_>) -> Result<()>) -> Result<Refusals> {
    let mut sink = Sink { take, refused: Refusals::default() };
    for resource_metrics in messages(request, 1) {
        let resource_metrics = resource_metrics?;
        let mut resource = Attributes::default();
        for message in messages(resource_metrics, 1) {
            read_attributes(message?, 1, &mut resource)?;
        }
        let resource = resource.tags();
        for scope_metrics in messages(resource_metrics, 2) {
            read_scope(scope_metrics?, &resource, &mut sink)?;
        }
    }
    Ok(sink.refused)
}

fn read_scope(scope_metrics: &[u8], resource: &[Pair<'_>], sink: &mut Sink<'_>) -> Result<()> {
    let mut attributes = Attributes::default();
    for scope in messages(scope_metrics, 1) {
        let scope = scope?;
        for (number, key) in [(1, "otel.library.name"), (2, "otel.library.version")] {
            for name in messages(scope, number) {
                attributes.add(key.into(), text(name?)?.into())?;
            }
        }
        read_attributes(scope, 3, &mut attributes)?;
    }
    let mut inherited = Inherited::new(resource, attributes);
    for metric in messages(scope_metrics, 2) {
        read_metric(metric?, &mut inherited, sink)?;
    }
    Ok(())
}

fn read_metric(metric: &[u8], inherited: &mut Inherited<'_>, sink: &mut Sink<'_>) -> Result<()> {
    let mut name = "";
    for bytes in messages(metric, 1) {
        name = text(bytes?)?;
    }
    for field in Fields(metric) {
        let (number, value) = field?;
        let (5 | 7 | 9 | 10 | 11, FieldValue::Bytes(data)) = (number, value) else { continue };
        let kind = match number {
            5 => Kind::Gauge,
            7 => Kind::of_sum(last_number(data, 3)? != 0, last_number(data, 2)?),
            9 => Kind::Histogram,
            10 => Kind::ExponentialHistogram,
            _ => Kind::Summary,
        };
        for data_point in messages(data, 1) {
            let data_point = match kind {
                Kind::Gauge | Kind::Counter => number_point(data_point?)?,
                Kind::Histogram => histogram_point(data_point?)?,
                // They are counted only.
                Kind::ExponentialHistogram => DataPoint::default(),
                Kind::Summary => summary_point(data_point?)?,
            };
            sink.data_point(inherited, name, kind, data_point)?;
        }
    }
    Ok(())
}

fn number_point(bytes: &[u8]) -> Result<DataPoint<'_>> {
    let mut point = DataPoint::default();
    for field in Fields(bytes) {
        match field? {
            (2, FieldValue::EightBytes(bytes)) => point.start_ns = u64::from_le_bytes(bytes),
            (3, FieldValue::EightBytes(bytes)) => point.time_ns = u64::from_le_bytes(bytes),
            (4, FieldValue::EightBytes(bytes)) => {
                point.number = Some(Number::Float(f64::from_le_bytes(bytes)))
            }
            (6, FieldValue::EightBytes(bytes)) => {
                point.number = Some(Number::Integer(i64::from_le_bytes(bytes)));
            }
            (7, FieldValue::Bytes(attribute)) => read_attribute(attribute, &mut point.attributes)?,
            (8, FieldValue::Number(flags)) => point.flags = flags,
            (2 | 3 | 4 | 6 | 7 | 8, _) => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok(point)
}

fn histogram_point(bytes: &[u8]) -> Result<DataPoint<'_>> {
    let mut point = DataPoint::default();
    for field in Fields(bytes) {
        match field? {
            (2, FieldValue::EightBytes(bytes)) => point.start_ns = u64::from_le_bytes(bytes),
            (3, FieldValue::EightBytes(bytes)) => point.time_ns = u64::from_le_bytes(bytes),
            (4, FieldValue::EightBytes(bytes)) => point.count = u64::from_le_bytes(bytes),
            (5, FieldValue::EightBytes(bytes)) => point.sum = Some(f64::from_le_bytes(bytes)),
            (6, value) => push_all(&mut point.bucket_counts, value, u64::from_le_bytes)?,
            (7, value) => push_all(&mut point.bounds, value, f64::from_le_bytes)?,
            (9, FieldValue::Bytes(attribute)) => read_attribute(attribute, &mut point.attributes)?,
            (10, FieldValue::Number(flags)) => point.flags = flags,
            (11, FieldValue::EightBytes(bytes)) => point.min = Some(f64::from_le_bytes(bytes)),
            (12, FieldValue::EightBytes(bytes)) => point.max = Some(f64::from_le_bytes(bytes)),
            (2 | 3 | 4 | 5 | 9 | 10 | 11 | 12, _) => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok(point)
}

fn summary_point(bytes: &[u8]) -> Result<DataPoint<'_>> {
    let mut point = DataPoint::default();
    for field in Fields(bytes) {
        match field? {
            (2, FieldValue::EightBytes(bytes)) => point.start_ns = u64::from_le_bytes(bytes),
            (3, FieldValue::EightBytes(bytes)) => point.time_ns = u64::from_le_bytes(bytes),
            (4, FieldValue::EightBytes(bytes)) => point.count = u64::from_le_bytes(bytes),
            (5, FieldValue::EightBytes(bytes)) => point.sum = Some(f64::from_le_bytes(bytes)),
            (6, FieldValue::Bytes(quantile)) => {
                let quantile = (last_float(quantile, 1)?, last_float(quantile, 2)?);
                push_within(&mut point.quantiles, quantile, BUCKETS_MAX, "quantiles of a data point")?;
            }
            (7, FieldValue::Bytes(attribute)) => read_attribute(attribute, &mut point.attributes)?,
            (8, FieldValue::Number(flags)) => point.flags = flags,
            (2..=8, _) => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok(point)
}

/// The messages or texts in a field, of which there may be several.
fn messages(message: &[u8], wanted: u32) -> impl Iterator<Item = Result<&[u8]>> {
    Fields(message).filter_map(move |field| match field {
        Ok((number, FieldValue::Bytes(bytes))) if number == wanted => Some(Ok(bytes)),
        Ok((number, _)) if number == wanted => Some(Err(wrong_type())),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

fn last_number(message: &[u8], wanted: u32) -> Result<u64> {
    let mut last = 0;
    for field in Fields(message) {
        match field? {
            (number, FieldValue::Number(value)) if number == wanted => last = value,
            (number, _) if number == wanted => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok(last)
}

fn last_float(message: &[u8], wanted: u32) -> Result<f64> {
    let mut last = 0.0;
    for field in Fields(message) {
        match field? {
            (number, FieldValue::EightBytes(bytes)) if number == wanted => last = f64::from_le_bytes(bytes),
            (number, _) if number == wanted => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok(last)
}

/// Adds numbers of eight bytes: one, or all that are packed in a field.
fn push_all<T>(list: &mut Vec<T>, value: FieldValue<'_>, read: fn([u8; 8]) -> T) -> Result<()> {
    let mut push = |bytes| push_within(list, read(bytes), BUCKETS_MAX, "buckets of a data point");
    match value {
        FieldValue::EightBytes(bytes) => push(bytes),
        FieldValue::Bytes(packed) if packed.len() % 8 == 0 => {
            let mut all = packed.chunks_exact(8);
            all.try_for_each(|bytes| push(bytes.try_into().expect("chunks of eight")))
        }
        _ => Err(wrong_type()),
    }
}

fn read_attributes<'a>(message: &'a [u8], number: u32, into: &mut Attributes<'a>) -> Result<()> {
    messages(message, number).try_for_each(|attribute| read_attribute(attribute?, into))
}

fn read_attribute<'a>(attribute: &'a [u8], into: &mut Attributes<'a>) -> Result<()> {
    if attribute.len() > ATTRIBUTE_BYTES_MAX {
        return Err(too_long());
    }
    let (key, value) = pair(attribute, 0)?;
    into.add(key, value.text())
}

fn pair(message: &[u8], depth: usize) -> Result<(Cow<'_, str>, AnyValue<'_>)> {
    let (mut key, mut value) = ("", AnyValue::Nothing);
    for field in Fields(message) {
        match field? {
            (1, FieldValue::Bytes(bytes)) => key = text(bytes)?,
            (2, FieldValue::Bytes(bytes)) => value = any_value(bytes, depth)?,
            (1 | 2, _) => return Err(wrong_type()),
            _ => {}
        }
    }
    Ok((key.into(), value))
}

fn any_value(message: &[u8], depth: usize) -> Result<AnyValue<'_>> {
    if depth > DEPTH_MAX {
        return Err(Error::limit(format!("attributes that are nested deeper than {DEPTH_MAX}")));
    }
    let mut value = AnyValue::Nothing;
    for field in Fields(message) {
        value = match field? {
            (1, FieldValue::Bytes(bytes)) => AnyValue::Text(text(bytes)?.into()),
            (2, FieldValue::Number(number)) => AnyValue::Bool(number != 0),
            (3, FieldValue::Number(number)) => AnyValue::Integer(number as i64),
            (4, FieldValue::EightBytes(bytes)) => AnyValue::Float(f64::from_le_bytes(bytes)),
            (5, FieldValue::Bytes(list)) => AnyValue::List(
                messages(list, 1).map(|value| any_value(value?, depth + 1)).collect::<Result<_>>()?,
            ),
            (6, FieldValue::Bytes(map)) => {
                AnyValue::Map(messages(map, 1).map(|entry| pair(entry?, depth + 1)).collect::<Result<_>>()?)
            }
            (7, FieldValue::Bytes(bytes)) => AnyValue::Bytes(bytes.into()),
            (1..=7, _) => return Err(wrong_type()),
            _ => continue,
        };
    }
    Ok(value)
}
