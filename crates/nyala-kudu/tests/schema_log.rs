//! The log of schema changes on a real cluster: changes larger than a row, and what remains after it was shortened.

#[path = "../../nyala/tests/support/peers.rs"]
mod peers;

use kudu_client::Client;
use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use nyala_core::schema::TableSchema;
use nyala_core::store::{Alteration, Freshness, Store};
use nyala_core::{ColumnType, Result};
use nyala_kudu::{KuduOptions, KuduStore};

async fn open(cluster: &TestCluster) -> Result<KuduStore> {
    let client = Client::builder(cluster.masters()).user("tester").connect().await;
    let options = KuduOptions { replicas: 1, ..KuduOptions::default() };
    KuduStore::open(client.expect("the cluster answers"), options).await
}

/// A measurement with names that take more than a row.
fn wide(name: &str) -> (TableSchema, Vec<Alteration>) {
    let add = |number: u32| Alteration::add_column(format!("{number:0>400}"), ColumnType::Float64);
    (TableSchema::measurement(name, 1000), (0..250).map(add).collect())
}

#[test]
fn daemons_agree_on_large_changes_and_on_a_log_that_was_shortened() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (writer, reader) =
            (open(&cluster).await.expect("a store"), open(&cluster).await.expect("a store"));
        let (schema, columns) = wide("wide");
        let table = writer.create_table(schema).await.expect("created");
        writer.alter_table(table, columns).await.expect("altered");
        reader.snapshot(Freshness::Latest).await.expect("a snapshot");
        assert_eq!(reader.tables(), writer.tables());
        assert_eq!(reader.schema(table).expect("it is known").columns.len(), 252);
        // Each creation and each removal is a change; 512 make a new beginning. Now and then the reader looks, once just
        // before that and once after others.
        for number in 0..270 {
            let table = TableSchema::measurement(format!("table {number}"), 1000);
            let table = writer.create_table(table).await.expect("created");
            if number % 10 > 0 {
                writer.drop_table(table).await.expect("dropped");
            }
            if number % 100 == 0 {
                reader.snapshot(Freshness::Latest).await.expect("a snapshot");
                assert_eq!(reader.tables(), writer.tables());
            }
        }
        assert_eq!(writer.tables().len(), 1 + 27);
        reader.snapshot(Freshness::Latest).await.expect("a snapshot");
        assert_eq!(reader.tables(), writer.tables());
        assert_eq!(open(&cluster).await.expect("a store").tables(), writer.tables());
        let client = Client::builder(cluster.masters()).user("tester").connect().await.expect("an answer");
        let rows =
            client.open_table("nyala.schema").await.expect("a table").scan().count().await.expect("a count");
        assert!(rows < 100, "{rows} changes are kept");
        let texts = client.open_table("nyala.schema_text").await.expect("a table").scan().count().await;
        assert!(texts.expect("a count") < 10);
    });
}
