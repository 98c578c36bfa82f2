//! Records the spans that `nyala_core::span!` makes: each gets its place in a trace when it begins, and goes to the queue of
//! the exporter when it ends.
//!
//! Whether a trace is recorded is decided at its first span: as the client says whose trace it is, or else by chance. Spans
//! within one that is not recorded are not made.

use super::context::RemoteContext;
use super::export::Queue;
use super::message::{KIND_INTERNAL, KIND_SERVER, KeyValue, STATUS_ERROR, Span, Status, Value};
use nyala_core::env::{Clock, SystemClock};
use nyala_core::span::{ROOTS, TRACE_TARGET};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// Attributes of one span, and bytes of one of their texts: a statement is cut here.
const ATTRIBUTES_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 1000;

/// The names of fields that are no attributes.
const TRACEPARENT: &str = "traceparent";
const ERROR: &str = "error";

/// Records spans.
pub(crate) struct Recorder {
    queue: Queue,
    /// A trace that no client has begun is recorded if a random number is below this.
    threshold: u64,
    random: AtomicU64,
}

/// Lets through the spans of traces that are recorded.
pub(crate) struct RecordedSpans;

/// A span that is recorded.
struct Recording {
    span: Span,
    begun: Instant,
}

impl Recorder {
    /// Records this share of the traces that begin here.
    pub(crate) fn new(queue: Queue, ratio: f64) -> Self {
        let mut seed = [0; 8];
        // Without randomness, ids are still different from each other.
        let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut seed);
        let threshold = if ratio >= 1.0 { u64::MAX } else { (ratio * u64::MAX as f64) as u64 };
        Self { queue, threshold, random: AtomicU64::new(u64::from_le_bytes(seed)) }
    }

    /// Numbers that are never the same in 2^64 of them (splitmix64), and never 0.
    fn next(&self) -> u64 {
        loop {
            let mut number = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            number ^= number >> 31;
            if number != 0 {
                return number;
            }
        }
    }

    /// The trace and the parent of the first span of a trace here; nothing if it is not recorded.
    fn root(&self, remote: Option<RemoteContext>) -> Option<(Vec<u8>, Vec<u8>)> {
        if let Some(remote) = remote {
            return remote.is_sampled.then(|| (remote.trace_id.to_vec(), remote.parent_id.to_vec()));
        }
        let trace = || [self.next().to_be_bytes(), self.next().to_be_bytes()].concat();
        (self.next() <= self.threshold && self.threshold > 0).then(|| (trace(), Vec::new()))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let place = match span.parent() {
            None => self.root(fields.remote),
            Some(parent) => {
                let extensions = parent.extensions();
                let parent = extensions.get::<Recording>();
                parent.map(|parent| (parent.span.trace_id.clone(), parent.span.span_id.clone()))
            }
        };
        let Some((trace_id, parent_span_id)) = place else { return };
        let name = attributes.metadata().name();
        // Maintenance begins traces too, and answers nobody.
        let is_request = ROOTS.contains(&name) && !matches!(name, "flush" | "merge");
        let span_id = self.next().to_be_bytes().to_vec();
        let mut own = Span {
            trace_id,
            span_id,
            parent_span_id,
            name: name.to_owned(),
            kind: if is_request { KIND_SERVER } else { KIND_INTERNAL },
            start_time_unix_nano: SystemClock.now_ns().max(0) as u64,
            ..Span::default()
        };
        fields.move_to(&mut own);
        span.extensions_mut().insert(Recording { span: own, begun: Instant::now() });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(recording) = extensions.get_mut::<Recording>() else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        fields.move_to(&mut recording.span);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Recording { mut span, begun }) = span.extensions_mut().remove::<Recording>() else { return };
        let duration_ns = begun.elapsed().as_nanos() as u64;
        span.end_time_unix_nano = span.start_time_unix_nano.saturating_add(duration_ns);
        self.queue.add(span);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for RecordedSpans {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        if !is_span(metadata) {
            return false;
        }
        let Some(current) = context.lookup_current() else { return ROOTS.contains(&metadata.name()) };
        current.extensions().get::<Recording>().is_some()
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_span(metadata) { Interest::sometimes() } else { Interest::never() }
    }
}

fn is_span(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TRACE_TARGET
}

/// The fields of a span.
#[derive(Default)]
struct Fields {
    attributes: Vec<KeyValue>,
    remote: Option<RemoteContext>,
    error: Option<String>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.attributes.push(KeyValue::new(field.name(), value));
    }

    fn move_to(self, span: &mut Span) {
        let room = ATTRIBUTES_MAX.saturating_sub(span.attributes.len());
        span.attributes.extend(self.attributes.into_iter().take(room));
        if let Some(message) = self.error {
            span.status = Some(Status { message, code: STATUS_ERROR });
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let end = (0..=value.len().min(TEXT_BYTES_MAX)).rev().find(|end| value.is_char_boundary(*end));
        let text = &value[..end.unwrap_or(0)];
        match field.name() {
            TRACEPARENT => self.remote = RemoteContext::parse(value),
            ERROR => self.error = Some(text.to_owned()),
            _ => self.add(field, Value::Text(text.to_owned())),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Boolean(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
