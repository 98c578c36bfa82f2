//! What the tests on real clusters share.

#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../nyala/tests/support/peers.rs"]
pub mod peers;

use kudu_client::Client;
use kudu_client::test_cluster::TestCluster;
use nyala_kudu::KuduOptions;
use std::time::Duration;

/// How long tests wait for what takes a moment on an idle machine: one that is slow and busy stands still for seconds.
pub const TIMEOUT: Duration = Duration::from_secs(240);

/// A client that does not take a slow server for a dead one.
pub async fn connect(cluster: &TestCluster) -> Client {
    let builder = Client::builder(cluster.masters()).user("tester").admin_timeout(TIMEOUT);
    let builder = builder.connect_timeout(Duration::from_secs(30)).rpc_timeout(Duration::from_secs(60));
    builder.connect().await.expect("the cluster answers")
}

/// Settings of a store that waits as long.
pub fn patient_options() -> KuduOptions {
    KuduOptions { replicas: 1, write_timeout: TIMEOUT, read_timeout: TIMEOUT, ..KuduOptions::default() }
}
