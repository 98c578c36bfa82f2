//! Traces of OpenTelemetry (optional): spans of requests and of maintenance, sent to a collector by OTLP over HTTP.
//!
//! `recorder.rs` collects the spans that `nyala_core::span!` makes anywhere in the program, `context.rs` reads a trace that a
//! client has begun, `export.rs` sends batches from a thread of its own, `message.rs` is their form. A request never waits
//! for any of that: what the queue has no room for is counted and left out.

mod context;
mod export;
mod message;
mod recorder;

pub(crate) use export::check_endpoint;
use export::{Counts, Exporter};
pub(crate) use recorder::{RecordedSpans, Recorder};

use crate::server::metric::Metric;
use std::sync::OnceLock;

/// The exporter of this process: as for its log, there is one, and it is not handed around.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// What records that share of traces and sends them to the URL of a collector, if there is one.
///
/// # Errors
/// What is wrong with the address of the collector.
pub(crate) fn start(endpoint: Option<&str>, ratio: f64) -> Result<Option<Recorder>, String> {
    let Some(endpoint) = endpoint else { return Ok(None) };
    let exporter = Exporter::start(endpoint)?;
    let recorder = Recorder::new(exporter.queue(), ratio);
    // A second server of the same process would be refused before.
    let _ = EXPORTER.set(exporter);
    Ok(Some(recorder))
}

/// Sends what was recorded until now, and waits for that a moment: the process ends.
pub(crate) fn finish() {
    if let Some(exporter) = EXPORTER.get() {
        exporter.finish();
    }
}

/// What was sent and lost; nothing if traces are off.
pub(crate) fn metrics() -> Vec<Metric> {
    let of = |exporter: &Exporter| {
        let Counts { sent, lost } = exporter.counts();
        let (taken, left_out) =
            ("Spans that the collector has taken.", "Spans that were recorded and did not reach it.");
        vec![
            Metric::counter("nyala_trace_spans_sent_total", taken, sent),
            Metric::counter("nyala_trace_spans_lost_total", left_out, lost),
        ]
    };
    EXPORTER.get().map(of).unwrap_or_default()
}
