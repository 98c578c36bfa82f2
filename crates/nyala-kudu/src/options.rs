//! Settings of the store.

use std::time::Duration;

/// How a store uses its cluster.
#[derive(Debug, Clone)]
pub struct KuduOptions {
    /// What names of tables in the cluster begin with; stores with different prefixes know nothing of each other.
    pub prefix: String,
    /// Copies of each tablet of a table made from now on; odd.
    pub replicas: i32,
    /// Hash buckets of each range of a table of series made from now on.
    pub buckets: u32,
    /// How long a write may take, all its attempts together.
    pub write_timeout: Duration,
    /// How long a batch of a scan may take.
    pub read_timeout: Duration,
}

impl Default for KuduOptions {
    fn default() -> Self {
        Self {
            prefix: "nyala".to_owned(),
            replicas: 3,
            buckets: 4,
            write_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(60),
        }
    }
}
