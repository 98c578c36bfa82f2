//! A real Apache Kudu cluster on this machine, for one test.

use super::peers;
use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};

/// Starts a cluster, or records that Kudu is missing.
pub(crate) fn start(masters: usize, tablet_servers: usize) -> Option<TestCluster> {
    start_with(&ClusterOptions::new(masters, tablet_servers))
}

/// The same with options.
pub(crate) fn start_with(options: &ClusterOptions) -> Option<TestCluster> {
    if let Err(why) = kudu_home() {
        return peers::require("Kudu", &why, None);
    }
    Some(TestCluster::start(options).expect("the cluster starts"))
}
