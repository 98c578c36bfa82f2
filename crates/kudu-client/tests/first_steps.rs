//! Creates, writes, reads and drops a table on one master and one tablet server.

mod support;

use kudu_client::test_cluster::ClusterOptions;
use kudu_client::{FlushMode, Operation, Predicate};
use support::*;

#[test]
fn a_table_is_created_written_read_and_dropped() {
    if !have_kudu() {
        return;
    }
    let cluster = start(&ClusterOptions::new(1, 1));
    run(async {
        let client = connect(&cluster).await;
        assert!(client.cluster_id().is_some());
        assert_eq!(client.list_tablet_servers().await.unwrap().len(), 1);
        let table = small_table(&client, "first", 4, 1).await;
        insert_range(&table, 0..1000).await;
        assert_eq!(table.scan().count().await.unwrap(), 1000);
        let found = table.scan().filter(Predicate::eq("key", 7_i64)).collect_one().await;
        assert_eq!(found, 1);
        let session = table.session().mode(FlushMode::Sync).open();
        let error = session.apply(&small_row(&table, Operation::Insert, 5)).await.unwrap_err();
        assert_eq!(error.kind(), kudu_client::ErrorKind::AlreadyPresent);
        client.delete_table("first").await.unwrap();
        assert!(client.list_tables("").await.unwrap().is_empty());
    });
}

trait CollectOne {
    async fn collect_one(self) -> usize;
}

impl CollectOne for kudu_client::ScanBuilder {
    async fn collect_one(self) -> usize {
        let scanner = self.open().await.unwrap();
        assert_eq!(scanner.tablets(), 1, "the other buckets are pruned");
        scanner.collect().await.unwrap().iter().map(|batch| batch.num_rows()).sum()
    }
}
