//! Keeps events in memory, beside writing them: see [`crate::log_lines`].

use super::logfmt::Fields;
use crate::log_lines::{self, LogLine};
use nyala_core::env::{Clock, SystemClock};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Keeps them.
pub(super) struct Recent;

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        log_lines::add(LogLine {
            number: 0,
            time_ns: SystemClock.now_ns(),
            level: *metadata.level(),
            target: metadata.target(),
            message: fields.message,
            fields: fields.others.trim_start().to_owned(),
        });
    }
}
