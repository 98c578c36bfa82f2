//! Counters that a program can export.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The live counters, shared by all handles of a client.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// The counters of a client at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct MetricsSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Metrics {
            pub(crate) fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Connections negotiated.
    connections,
    /// Connections that could not be made.
    connection_failures,
    /// Calls sent.
    calls,
    /// Bytes sent in calls.
    bytes_sent,
    /// Bytes received in answers.
    bytes_received,
    /// Attempts after the first, for any reason.
    retries,
    /// Answers that said "busy" or "throttled".
    busy_answers,
    /// How often a master was found to lead, the first time too, or a replica did not lead any more.
    leader_changes,
    /// Look-ups of tablet locations sent to a master.
    location_lookups,
    /// Rows written and acknowledged.
    rows_written,
    /// Rows received by scans.
    rows_scanned,
    /// Scans of a tablet that were continued on another replica.
    scans_resumed,
}

impl Metrics {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }
}
