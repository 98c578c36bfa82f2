//! Authentication, authorization and encryption.

mod support;

use kudu_client::test_cluster::{ClusterOptions, TestCluster};
use kudu_client::*;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::*;

async fn work(client: &Client, name: &str) {
    let table = small_table(client, name, 2, 1).await;
    insert_range(&table, 0..500).await;
    assert_eq!(table.scan().fault_tolerant().count().await.unwrap(), 500);
    let rows = table.scan().batch_bytes(2000).open().await.unwrap().collect().await.unwrap();
    assert_eq!(rows_of(&rows).len(), 500);
}

#[test]
fn encryption_and_tokens_where_they_are_required() {
    if !have_kudu() {
        return;
    }
    let options = ClusterOptions::new(1, 1)
        .flag("--rpc_encryption=required")
        .flag("--rpc_encrypt_loopback_connections=true")
        .tablet_server_flag("--tserver_enforce_access_control=true")
        .master_flag("--authz_token_validity_seconds=15")
        .master_flag("--authn_token_validity_seconds=3600");
    let cluster = start(&options);
    run(async {
        let builder = || patient(Client::builder(cluster.masters()).user("somebody")).require_encryption();
        let client = builder().connect().await.unwrap();
        work(&client, "encrypted").await;

        // A forged authentication token is refused; the client fetches a valid one and continues.
        let connections = client.metrics().connections;
        client.forge_authentication_token();
        work(&client, "forged").await;
        assert!(client.metrics().connections >= connections + 2);

        // Reading the clocks does so, too: nothing may have been written or scanned before.
        client.forge_authentication_token();
        client.server_time(1).await.unwrap();

        // Authorization tokens that live so shortly look expired to a client whose clock is ahead. They are used until a server
        // refuses them: a scan is one call to each of the two tablets, and none to a master.
        wait_until("three scans are made while a token lives", async || {
            let opened = Instant::now();
            let table = client.open_table("encrypted").await.unwrap();
            assert_eq!(table.scan().count().await.unwrap(), 500);
            let calls = client.metrics().calls;
            for _ in 0..3 {
                assert_eq!(table.scan().count().await.unwrap(), 500);
            }
            let calls = client.metrics().calls - calls;
            let is_valid = opened.elapsed() < Duration::from_secs(14);
            assert!(calls == 3 * 2 || !is_valid, "{calls} calls");
            is_valid
        })
        .await;

        // Large answers cross many TLS records.
        let table = client.open_table("encrypted").await.unwrap();
        let session = table.session().mode(FlushMode::Background).open();
        let text = "y".repeat(60_000);
        for key in 1000..1100_i64 {
            let mut row = table.row(Operation::Insert);
            row.set("key", key).unwrap().set("text", &text).unwrap();
            session.apply(&row).await.unwrap();
        }
        session.flush().await.unwrap();
        let scan = table.scan().filter(Predicate::ge("key", 1000_i64)).batch_bytes(4 << 20);
        let rows = rows_of(&scan.open().await.unwrap().collect().await.unwrap());
        assert!(rows.len() == 100 && rows.iter().all(|row| row.len() > 60_000));
    });
}

#[test]
fn servers_with_tls_1_2_are_supported() {
    if !have_kudu() {
        return;
    }
    let options = ClusterOptions::new(1, 1)
        .flag("--rpc_encryption=required")
        .flag("--rpc_encrypt_loopback_connections=true")
        .flag("--rpc_tls_excluded_protocols=TLSv1.3");
    let cluster = start(&options);
    run(async {
        let builder = patient(Client::builder(cluster.masters())).require_encryption();
        let client = builder.connect().await.unwrap();
        work(&client, "older_tls").await;
    });
}

#[test]
fn expired_tokens_are_replaced() {
    if !have_kudu() {
        return;
    }
    let options = ClusterOptions::new(1, 1)
        .tablet_server_flag("--tserver_enforce_access_control=true")
        .master_flag("--authn_token_validity_seconds=2")
        .master_flag("--authz_token_validity_seconds=2")
        .master_flag("--tsk_rotation_seconds=2");
    let cluster = start(&options);
    run(async {
        let client = connect(&cluster).await;
        let table = small_table(&client, "expiring", 2, 1).await;
        for round in 0..3 {
            insert_range(&table, round * 100..(round + 1) * 100).await;
            tokio::time::sleep(Duration::from_millis(2500)).await;
            // Only new connections send the authentication token.
            client.drop_connections();
            assert_eq!(table.scan().timeout(TIMEOUT).count().await.unwrap() as i64, (round + 1) * 100);
        }
    });
}

#[test]
fn injected_token_refusals_do_not_reach_the_caller() {
    if !have_kudu() {
        return;
    }
    let cluster = start(&ClusterOptions::new(1, 1).flag("--rpc_inject_invalid_authn_token_ratio=0.3"));
    run(async {
        let client = connect(&cluster).await;
        let table = small_table(&client, "injected", 2, 1).await;
        for round in 0..10 {
            client.drop_connections();
            insert_range(&table, round * 10..(round + 1) * 10).await;
            client.drop_connections();
            client.server_time(1).await.unwrap();
        }
        assert_eq!(table.scan().count().await.unwrap(), 100);
    });
}

#[test]
fn json_web_tokens_log_in_and_forged_ones_do_not() {
    if !have_kudu() {
        return;
    }
    let mut options = ClusterOptions::new(1, 1).flag("--rpc_encryption=required");
    options.jwt = true;
    let mut cluster = start(&options);
    let token = cluster.create_jwt("dave", true).unwrap();
    let forged = cluster.create_jwt("dave", false).unwrap();
    let certificate = certificate_of(&cluster);
    run(async {
        let builder = |token: &str| patient(Client::builder(cluster.masters())).jwt(token);
        let client = builder(&token).trust_certificate(certificate.clone()).connect().await.unwrap();
        work(&client, "by_jwt").await;
        assert_eq!(client.open_table("by_jwt").await.unwrap().owner(), "dave");

        let error = builder(&forged).trust_certificate(certificate.clone()).connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
        // A server that cannot prove that it belongs to the cluster never receives the token.
        let other = start(&ClusterOptions::new(1, 1));
        let strangers = certificate_of(&other);
        let error = builder(&token).trust_certificate(strangers).connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
    });
}

#[test]
fn a_json_web_token_is_read_at_every_log_in() {
    if !have_kudu() {
        return;
    }
    let mut options = ClusterOptions::new(1, 1).flag("--rpc_encryption=required");
    options.jwt = true;
    let mut cluster = start(&options);
    let token = cluster.create_jwt("dave", true).unwrap();
    let refused = cluster.create_jwt("dave", false).unwrap();
    let certificate = certificate_of(&cluster);
    run(async {
        let given = Arc::new(Mutex::new(token.clone()));
        let give = |token: &String| given.lock().unwrap().clone_from(token);
        let source = given.clone();
        let builder = patient(Client::builder(cluster.masters())).trust_certificate(certificate);
        let builder = builder.jwt_from(move || Ok(source.lock().unwrap().clone()));
        assert!(!format!("{builder:?}").contains(&token));
        let client = builder.connect().await.unwrap();
        assert!(!format!("{client:?}").contains(&token));
        // As one that has expired.
        give(&refused);
        client.drop_connections();
        let error = client.list_tables("").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
        give(&token);
        client.list_tables("").await.unwrap();
        work(&client, "by_another_jwt").await;
    });
}

#[test]
fn a_client_that_requires_encryption_refuses_clear_text() {
    if !have_kudu() {
        return;
    }
    let cluster = start(
        &ClusterOptions::new(1, 1).flag("--rpc_encryption=disabled").flag("--rpc_authentication=disabled"),
    );
    run(async {
        let error = Client::builder(cluster.masters()).require_encryption().connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
        let client = connect(&cluster).await;
        work(&client, "clear").await;
    });
}

/// The certificate of the cluster's authority, from the master's web page.
fn certificate_of(cluster: &TestCluster) -> Vec<u8> {
    page(&cluster.master_web()[0], "/ipki-ca-cert-der")
}
