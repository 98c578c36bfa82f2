//! An Apache Kudu cluster as the store.

use super::Storage;
use crate::config::Config;
use crate::server::health::Check;
use crate::server::metric::Metric;
use nyala_core::Result;
use nyala_core::store::StoreRef;
use nyala_kudu::{KuduOptions, KuduStore};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

/// The cluster, and whether it answered when it was last asked.
pub(super) struct Kudu {
    store: Arc<KuduStore>,
    work: Handle,
    trouble: Mutex<Option<String>>,
}

impl Kudu {
    pub(super) fn open(config: &Config, work: Handle) -> Result<Self> {
        let masters = config.kudu_masters.clone().unwrap_or_default();
        let options = KuduOptions {
            prefix: config.kudu_prefix.clone(),
            replicas: config.kudu_replicas,
            buckets: config.kudu_buckets,
            ..KuduOptions::default()
        };
        let store = Arc::new(work.block_on(KuduStore::connect(masters, options))?);
        Ok(Self { store, work, trouble: Mutex::default() })
    }
}

impl Storage for Kudu {
    fn store(&self) -> StoreRef {
        self.store.clone()
    }

    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    fn checks(&self) -> Vec<Check> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let check =
            |why| Check { name: "kudu", fails: true, message: format!("the cluster does not answer: {why}") };
        trouble.map(check).into_iter().collect()
    }

    fn maintain(&self) {
        let answer = self.work.block_on(self.store.is_reachable());
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) =
            answer.err().map(|error| error.to_string());
    }

    fn metrics(&self) -> Vec<Metric> {
        let counts = self.store.client_metrics();
        let counter = Metric::counter;
        vec![
            counter("nyala_kudu_calls_total", "Calls to servers of the cluster.", counts.calls),
            counter("nyala_kudu_retries_total", "Attempts after the first.", counts.retries),
            counter("nyala_kudu_busy_answers_total", "Answers that the server is busy.", counts.busy_answers),
            counter("nyala_kudu_rows_written_total", "Rows written to the cluster.", counts.rows_written),
            counter("nyala_kudu_rows_scanned_total", "Rows received from the cluster.", counts.rows_scanned),
            counter("nyala_kudu_bytes_sent_total", "Bytes sent to the cluster.", counts.bytes_sent),
            counter(
                "nyala_kudu_bytes_received_total",
                "Bytes received from the cluster.",
                counts.bytes_received,
            ),
        ]
    }

    fn stop(&self) -> Result<()> {
        Ok(())
    }
}
