//! What an input counts, and the metrics of all inputs. Whatever is not stored is counted with its reason.

use crate::server::metric::Metric;
use nyala_inputs::Refused;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why something that was received was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(in crate::server) enum Reason {
    /// A line, a packet or a point that is not as its protocol says.
    Unreadable,
    /// A value that is not a number.
    NotANumber,
    /// Values of a type that `types.db` does not have.
    UnknownType,
    /// A packet, or values of one, that is not protected as it must be, or not by somebody who may send.
    NotAuthentic,
    /// A tag that was left out of a point.
    WrongTag,
    /// A line that is longer than a line may be.
    TooLong,
    /// Points that waited for a write when too many did.
    QueueFull,
    /// Points that the memory limit left no room for.
    MemoryFull,
    /// Points that the database refused: too old for their policy, or fields of another type.
    Refused,
    /// Points of batches that could not be written.
    WriteFailed,
}

impl From<Refused> for Reason {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotANumber => Reason::NotANumber,
            Refused::Invalid(_) => Reason::Unreadable,
            Refused::UnknownType => Reason::UnknownType,
            Refused::NotAuthentic => Reason::NotAuthentic,
        }
    }
}

const REASONS: [(Reason, &str); 10] = [
    (Reason::Unreadable, "unreadable"),
    (Reason::NotANumber, "not_a_number"),
    (Reason::UnknownType, "unknown_type"),
    (Reason::NotAuthentic, "not_authentic"),
    (Reason::WrongTag, "wrong_tag"),
    (Reason::TooLong, "too_long"),
    (Reason::QueueFull, "queue_full"),
    (Reason::MemoryFull, "memory_full"),
    (Reason::Refused, "refused"),
    (Reason::WriteFailed, "write_failed"),
];

/// The counts of an input since the start.
#[derive(Debug)]
pub(in crate::server) struct InputCounts {
    /// The name of the input.
    pub(in crate::server) input: &'static str,
    /// Received bytes.
    pub(in crate::server) bytes: AtomicU64,
    /// Received datagrams, lines or requests.
    pub(in crate::server) received: AtomicU64,
    /// Stored points.
    pub(in crate::server) written: AtomicU64,
    rejected: [AtomicU64; REASONS.len()],
}

impl InputCounts {
    pub(in crate::server) fn new(input: &'static str) -> Arc<Self> {
        let (bytes, received, written) = Default::default();
        Arc::new(Self { input, bytes, received, written, rejected: Default::default() })
    }

    /// Counts what was received.
    pub(in crate::server) fn receive(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts lines of a connection.
    pub(in crate::server) fn receive_lines(&self, bytes: usize, lines: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.received.fetch_add(lines as u64, Ordering::Relaxed);
    }

    /// Counts points, lines or packets that are not stored.
    pub(in crate::server) fn reject(&self, reason: Reason, count: u64) {
        self.rejected[reason as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// What was rejected for a reason.
    pub(in crate::server) fn rejected(&self, reason: Reason) -> u64 {
        self.rejected[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts stored points.
    pub(in crate::server) fn write(&self, points: u64) {
        self.written.fetch_add(points, Ordering::Relaxed);
    }
}

/// The metrics of all inputs that are on.
pub(in crate::server) fn metrics(inputs: &[Arc<InputCounts>]) -> Vec<Metric> {
    if inputs.is_empty() {
        return Vec::new();
    }
    let by_input = |count: fn(&InputCounts) -> &AtomicU64| {
        let of_input = |counts: &Arc<InputCounts>| (label(counts), count(counts).load(Ordering::Relaxed));
        inputs.iter().map(of_input).collect::<Vec<_>>()
    };
    let rejected = inputs.iter().flat_map(|counts| {
        REASONS.iter().map(move |(reason, name)| {
            (format!("{},reason=\"{name}\"", label(counts)), counts.rejected(*reason))
        })
    });
    vec![
        Metric::counter("nyala_input_received_bytes_total", "Bytes that inputs received.", 0)
            .by_labels(by_input(|counts| &counts.bytes)),
        Metric::counter(
            "nyala_input_received_total",
            "Datagrams, lines and requests that inputs received.",
            0,
        )
        .by_labels(by_input(|counts| &counts.received)),
        Metric::counter("nyala_input_points_written_total", "Points of inputs that were stored.", 0)
            .by_labels(by_input(|counts| &counts.written)),
        Metric::counter(
            "nyala_input_rejected_total",
            "Points, lines and packets of inputs that were not stored, by reason.",
            0,
        )
        .by_labels(rejected.collect::<Vec<_>>()),
    ]
}

fn label(counts: &InputCounts) -> String {
    format!("input=\"{}\"", counts.input)
}
