//! What a store counts about itself: of nyala, some of what `/metrics` tells.

use nyala_client::{Body, Connection, Target};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A longer answer is not the metrics of a server.
const METRICS_BYTES_MAX: usize = 16 << 20;
/// Windows wait for the metrics, so a server that is too busy to tell them is not waited for.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Numbers of a store up to one moment. What it does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoreCounters {
    /// Memory that it says it uses now.
    pub memory_bytes: Option<f64>,
    /// Bytes that it has written to its log.
    pub log_bytes: Option<f64>,
    /// Bytes that flushes have written.
    pub flushed_bytes: Option<f64>,
    /// Bytes that merges have written.
    pub compacted_bytes: Option<f64>,
    /// Writes that it has refused, for want of memory or log.
    pub rejected_writes: Option<f64>,
    /// Writes that it has slowed for the same reason.
    pub slowed_writes: Option<f64>,
    /// Questions to Bloom filters.
    pub filter_lookups: Option<f64>,
}

impl StoreCounters {
    /// All bytes that it has written.
    pub fn written_bytes(&self) -> Option<f64> {
        Some(self.log_bytes? + self.flushed_bytes? + self.compacted_bytes?)
    }

    fn of_metrics(text: &str) -> StoreCounters {
        let sum = |name: &str| {
            let values = text.lines().filter_map(|line| {
                let rest = line.strip_prefix(name)?;
                let (labels, value) = rest.rsplit_once(' ')?;
                let is_it = labels.is_empty() || (labels.starts_with('{') && labels.ends_with('}'));
                is_it.then(|| value.parse::<f64>().ok())?
            });
            values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
        };
        StoreCounters {
            memory_bytes: sum("nyala_memory_bytes"),
            log_bytes: sum("nyala_log_bytes_total"),
            flushed_bytes: sum("nyala_flushed_bytes_total"),
            compacted_bytes: sum("nyala_compacted_bytes_total"),
            rejected_writes: sum("nyala_writes_refused_total"),
            slowed_writes: sum("nyala_write_stalls_total"),
            filter_lookups: sum("nyala_filter_lookups_total"),
        }
    }
}

/// Asks a server for its metrics.
pub struct MetricsReader(Mutex<Option<Connection>>);

impl MetricsReader {
    /// Of the server at `target`. If it tells none now, it is not asked again.
    pub fn new(target: &Target) -> MetricsReader {
        let mut connection = Connection::new(target, TIMEOUT);
        let told = metrics(&mut connection).is_some_and(|counters| counters != StoreCounters::default());
        MetricsReader(Mutex::new(told.then_some(connection)))
    }

    /// What it tells now.
    pub fn counters(&self) -> StoreCounters {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connection.as_mut().and_then(metrics).unwrap_or_default()
    }
}

fn metrics(connection: &mut Connection) -> Option<StoreCounters> {
    let mut text = Vec::new();
    let body = Body::Collect { into: &mut text, limit_bytes: METRICS_BYTES_MAX };
    connection.expect_success("GET", "/metrics", b"", body).ok()?;
    Some(StoreCounters::of_metrics(&String::from_utf8_lossy(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_their_labels() {
        let text = "# HELP nyala_memory_bytes Memory.\nnyala_memory_bytes{component=\"a b\"} 4\n\
                    nyala_memory_bytes{component=\"c\"} 5\nnyala_memory_bytes_other 7\nnyala_log_bytes_total 8\n\
                    nyala_flushed_bytes_total 1e3\nnyala_compacted_bytes_total x\n";
        let found = StoreCounters::of_metrics(text);
        assert_eq!(
            (found.memory_bytes, found.log_bytes, found.flushed_bytes),
            (Some(9.0), Some(8.0), Some(1000.0))
        );
        assert_eq!((found.compacted_bytes, found.filter_lookups, found.written_bytes()), (None, None, None));
    }
}
