//! The time of the cluster.

use crate::error::of_read;
use kudu_client::{Client, Timestamp};
use nyala_core::Result;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tells moments at which everything is there that was acknowledged before. How many servers are asked depends on how many
/// replicas tables have.
pub(crate) struct ClusterClock {
    client: Client,
    least_replicas: AtomicUsize,
}

impl ClusterClock {
    /// For tables of so many replicas.
    pub(crate) fn new(client: Client, replicas: i32) -> Self {
        Self { client, least_replicas: AtomicUsize::new(usize::try_from(replicas).unwrap_or(1)) }
    }

    /// A moment at which everything is there that was acknowledged before this call, in tables of at least
    /// [`Self::least_replicas`].
    pub(crate) async fn now(&self) -> Result<Timestamp> {
        self.client.server_time(self.least_replicas()).await.map_err(of_read)
    }

    /// The least number of replicas that a table has which this daemon knows, or makes.
    pub(crate) fn least_replicas(&self) -> usize {
        self.least_replicas.load(Ordering::Acquire)
    }

    /// From now on tables of so many replicas are taken into account.
    pub(crate) fn note_replicas(&self, replicas: usize) {
        self.least_replicas.fetch_min(replicas, Ordering::AcqRel);
    }
}
