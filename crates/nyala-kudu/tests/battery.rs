//! The conformance battery on real clusters: the naive store judges every answer.
//!
//! `NYALA_BATTERY_SEEDS` does more of it, `NYALA_BATTERY_SEED` one seed again.

mod support;

use async_trait::async_trait;
use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use nyala_core::Result;
use nyala_core::store::battery::{Disturbance, Settings, Subject, run};
use nyala_core::store::{StoreRef, emulate};
use nyala_kudu::{KuduOptions, KuduStore};
use std::sync::Arc;
use support::{connect, patient_options, peers};

struct Cluster<'a> {
    cluster: &'a TestCluster,
    options: KuduOptions,
    store: StoreRef,
}

impl<'a> Cluster<'a> {
    async fn open(cluster: &'a TestCluster, options: KuduOptions) -> Result<Self> {
        let store = open(cluster, &options).await?;
        Ok(Self { cluster, options, store })
    }
}

async fn open(cluster: &TestCluster, options: &KuduOptions) -> Result<StoreRef> {
    Ok(emulate::complete(Arc::new(KuduStore::open(connect(cluster).await, options.clone()).await?)))
}

#[async_trait]
impl Subject for Cluster<'_> {
    fn store(&self) -> StoreRef {
        self.store.clone()
    }

    async fn disturb(&mut self, disturbance: Disturbance) -> Result<()> {
        if disturbance == Disturbance::Reopen {
            self.store = open(self.cluster, &self.options).await?;
        }
        Ok(())
    }
}

#[test]
fn a_cluster_agrees_with_the_naive_store() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match number("NYALA_BATTERY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NYALA_BATTERY_SEEDS").unwrap_or(3),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        for seed in seeds {
            let options = KuduOptions {
                prefix: format!("seed{seed}"),
                buckets: 1 + (seed % 3) as u32,
                ..patient_options()
            };
            let mut subject = Cluster::open(&cluster, options).await.expect("the store opens");
            let agreed = run(&mut subject, Settings { seed, steps: 120 }).await;
            agreed.unwrap_or_else(|error| panic!("{error}"));
        }
    });
}
