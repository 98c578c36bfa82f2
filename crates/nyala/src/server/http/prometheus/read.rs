//! `POST /api/v1/prom/read`: Prometheus' remote read, as InfluxDB 1.8 answers it.
//!
//! A request holds one query: a time range and label matchers. A label is a tag; the label with a metric's name is the
//! measurement. The field `value` is read if it is a float, because remote write stores samples so. Hints are ignored:
//! Prometheus evaluates the samples itself. The answer is one snappy block that begins with its length, so the whole
//! answer is held in memory, within the query's share.

use super::super::body::{self, DecompressedBody, RequestBody};
use super::super::response::{Answer, Failure, failed, failure, with_body};
use super::super::{Context, access, params::Params};
use super::lines::decompressed;
use super::refused;
use super::selection::{FIELD, LabelMatcher, Selection};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType};
use hyper::header::{CONTENT_ENCODING, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::Freshness;
use nyala_core::{Error, Result, SeriesId};
use nyala_db::catalog::{Catalog, Field, FieldType, Measurement};
use nyala_exec::QueryMemory;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint, message};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Every byte of a series exists twice, when the answer is put together and when it is compressed, plus some overhead.
const ANSWER_FACTOR: usize = 3;
/// The longest sample: two keys and lengths, a float, a time of ten bytes.
const SAMPLE_MAX_BYTES: usize = 22;

/// The most memory per byte of a request after decoding: an empty matcher has two bytes, and takes 56 in a vector that
/// grows.
const DECODED_FACTOR: usize = 64;
/// The longest request: far more than the matchers need.
const REQUEST_MAX_BYTES: usize = 1 << 20;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Label {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(double, tag = "1")]
    pub(super) value: f64,
    #[prost(int64, tag = "2")]
    pub(super) time_ms: i64,
}

pub(in super::super) async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    freshness: Freshness,
) -> std::result::Result<Response<Answer>, Failure> {
    let databases = context.databases()?;
    let params = Params::parse(head.uri.query().unwrap_or(""));
    let principal = access::authenticate(context, &params, head).await?;
    access::check_read(&principal, params.get("db"))?;
    let body =
        body::read_within(REQUEST_MAX_BYTES, context, incoming, &head.headers).await?.decompressed()?;
    let (database, policy) = (params.get("db").to_owned(), params.get("rp").to_owned());
    let memory = QueryMemory::of(&principal, context.limits.query_bytes, &databases.memory);
    let catalog = databases.catalog.clone();
    // Dropping the set aborts the read when the client disconnects.
    let mut reading = JoinSet::new();
    let asks = || "Prometheus remote read".to_owned();
    let entered = context.running.enter(asks, &database, &principal).map_err(|error| failed(&error))?;
    let read = async move {
        let selection = read_selection(body, &memory)?;
        let query = entered.query();
        let answered = tokio::select! {
            answered = answer(&catalog, freshness, &database, &policy, &selection, &memory) => answered,
            error = query.stopped() => Err(error),
        };
        answered.map_err(|error| failed(&error))
    };
    reading.spawn_on(read, &context.work);
    let read = reading.join_next().await.and_then(std::result::Result::ok);
    let compressed =
        read.ok_or_else(|| failure(StatusCode::INTERNAL_SERVER_ERROR, "the request was aborted"))??;
    let mut response = with_body(StatusCode::OK, "application/x-protobuf", compressed);
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("snappy"));
    Ok(response)
}

/// Decodes a body into a selection, and releases the body.
fn read_selection(
    mut body: DecompressedBody,
    memory: &QueryMemory,
) -> std::result::Result<Selection, Failure> {
    let bytes = decompressed(&body.bytes, REQUEST_MAX_BYTES, &mut body.charge).map_err(refused)?;
    body.charge.grow(DECODED_FACTOR * bytes.len()).map_err(refused)?;
    Selection::of(&bytes, memory).map_err(|error| failed(&error))
}

/// The compressed answer to a query.
async fn answer(
    catalog: &Catalog,
    freshness: Freshness,
    database: &str,
    policy: &str,
    selection: &Selection,
    memory: &QueryMemory,
) -> Result<Vec<u8>> {
    let known = catalog.database(database).ok_or_else(|| Error::invalid("no database"))?;
    let policy = known.policy(policy).ok_or_else(|| Error::invalid("invalid retention policy"))?;
    let exact = selection.names.iter().find_map(|name| match name {
        LabelMatcher::Equal(name) => Some(name),
        _ => None,
    });
    let candidates = match exact {
        Some(name) => catalog.measurement(database, &policy.name, name).await?.into_iter().collect(),
        None => catalog.measurements(database, &policy.name).await?,
    };
    let snapshot = catalog.store().snapshot(freshness).await?;
    let mut all = Vec::new();
    for measurement in candidates {
        if !selection.names.iter().all(|name| name.matches(measurement.name())) {
            continue;
        }
        let fields = measurement.fields();
        let is_sample = |field: &&Field| field.name == FIELD && field.field_type == FieldType::Float;
        let Some(field) = fields.iter().find(is_sample) else { continue };
        let points = catalog.points(&measurement, &selection.tags, selection.time).await?;
        let mut of_measurement: Vec<Series> = Vec::new();
        let Some(mut rows) = points.scan(&snapshot, vec![TIME_COLUMN, field.column]).await? else { continue };
        while let Some(batch) = rows.next().await? {
            let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values();
            let values = batch.columns[1].as_primitive::<Float64Type>().values();
            memory.charge(ANSWER_FACTOR * SAMPLE_MAX_BYTES * batch.rows)?;
            let mut samples = times.iter().zip(values);
            for run in &batch.series {
                if of_measurement.last().is_none_or(|series| series.id != run.series) {
                    of_measurement.push(Series::begin(&measurement, run.series, memory)?);
                }
                let Some(series) = of_measurement.last_mut() else { continue };
                for (time_ns, value) in samples.by_ref().take(run.rows as usize) {
                    let sample = Sample { value: *value, time_ms: time_ns / 1_000_000 };
                    message::encode(2, &sample, &mut series.bytes);
                }
            }
        }
        // InfluxDB orders series by tags.
        of_measurement.sort_by(|a, b| a.tags.cmp(&b.tags));
        all.append(&mut of_measurement);
    }
    compressed(all)
}

/// A series of the answer, and its message so far.
struct Series {
    id: SeriesId,
    tags: Vec<(String, String)>,
    bytes: Vec<u8>,
}

impl Series {
    fn begin(measurement: &Arc<Measurement>, id: SeriesId, memory: &QueryMemory) -> Result<Self> {
        let tags = measurement.series().tags_of(id);
        let mut bytes = Vec::new();
        for (name, value) in &tags {
            message::encode(1, &Label { name: name.clone(), value: value.clone() }, &mut bytes);
        }
        memory.charge(ANSWER_FACTOR * bytes.len() + size_of::<Series>())?;
        Ok(Self { id, tags, bytes })
    }
}

/// Puts all series into the one result of the answer, and compresses it.
fn compressed(all: Vec<Series>) -> Result<Vec<u8>> {
    /// The key of a message as field 1 of another.
    const FIRST_FIELD: u8 = 0x0a;
    let framed = |length: usize| 1 + encoded_len_varint(length as u64) + length;
    let result_bytes: usize = all.iter().map(|series| framed(series.bytes.len())).sum();
    let mut answer = Vec::with_capacity(framed(result_bytes));
    answer.push(FIRST_FIELD);
    encode_varint(result_bytes as u64, &mut answer);
    for series in all {
        answer.push(FIRST_FIELD);
        encode_varint(series.bytes.len() as u64, &mut answer);
        answer.extend_from_slice(&series.bytes);
    }
    // The size of a snappy block is limited.
    snap::raw::Encoder::new().compress_vec(&answer).map_err(|error| Error::limit(error.to_string()))
}
