//! Spans of traces: what a request spends its time with. `span!("name", field = value)` makes one.
//!
//! They have a target of their own and the least level, so without a recorder of traces (`nyala/src/traces`) a span costs a
//! load and a comparison, and its fields are not computed. The log never shows them.

#[doc(hidden)]
pub use tracing;
pub use tracing::{Instrument, Span, field};

/// What is recorded as a trace has this target, and nothing else has it.
pub const TRACE_TARGET: &str = "nyala_trace";

/// Names of spans that begin a trace where none was begun: requests, and work in the background. All others are parts of
/// these, or are not made.
pub const ROOTS: [&str; 5] = ["HTTP request", "PostgreSQL statement", "Flight call", "flush", "merge"];

/// A span of a trace: its name, then fields as in the macros of `tracing`.
#[macro_export]
macro_rules! span {
    ($name:literal $(, $($fields:tt)*)?) => {
        $crate::span::tracing::trace_span!(target: $crate::span::TRACE_TARGET, $name $(, $($fields)*)?)
    };
}
