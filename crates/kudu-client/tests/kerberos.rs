//! Log-in by Kerberos, on clusters that require it.
//!
//! The environment says where tickets are, and a running program must not change it. So each test starts itself again
//! with the environment of each user of its cluster.

mod support;

use std::process::Command;

use kudu_client::test_cluster::{ClusterOptions, TestCluster, have_kerberos};
use kudu_client::*;
use support::*;

const MASTERS: &str = "KUDU_KERBEROS_TEST_MASTERS";

/// A cluster that requires Kerberos; `None`, with a message, where it cannot be started.
fn start_with_kerberos(options: ClusterOptions) -> Option<TestCluster> {
    if !have_kudu() {
        return None;
    }
    if let Err(why) = have_kerberos() {
        return peers::require("Kerberos", &why.to_string(), None);
    }
    Some(start(&ClusterOptions { kerberos: true, ..options }))
}

/// Runs the test of this name, which is otherwise ignored, with these variables.
fn run_as(test: &str, cluster: &TestCluster, environment: &[(String, String)]) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .env(MASTERS, cluster.masters().join(","))
        .envs(environment.iter().cloned())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {text}");
}

fn builder() -> ClientBuilder {
    let masters = std::env::var(MASTERS).expect("started by another test");
    patient(Client::builder(masters.split(',')))
}

async fn work(client: &Client, name: &str) {
    let table = small_table(client, name, 2, 1).await;
    assert_eq!(table.owner(), "test-user");
    insert_range(&table, 0..500).await;
    assert_eq!(table.scan().fault_tolerant().count().await.unwrap(), 500);
}

#[test]
fn only_a_ticket_gives_access() {
    let options = ClusterOptions::new(1, 1)
        .flag("--rpc_encryption=required")
        .flag("--rpc_encrypt_loopback_connections=true")
        .tablet_server_flag("--tserver_enforce_access_control=true");
    let Some(mut cluster) = start_with_kerberos(options) else { return };
    cluster.kinit("test-user").unwrap();
    let environment = cluster.kerberos_environment().unwrap();
    run_as("user_with_ticket", &cluster, &environment);
    let nowhere = ("KRB5CCNAME".to_owned(), "/nonexistent/cache".to_owned());
    run_as("user_without_ticket", &cluster, &[environment, vec![nowhere]].concat());
}

#[test]
fn on_one_machine_clear_text_may_follow_the_handshake() {
    let Some(mut cluster) = start_with_kerberos(ClusterOptions::new(1, 1)) else { return };
    cluster.kinit("test-user").unwrap();
    let environment = cluster.kerberos_environment().unwrap();
    run_as("user_in_the_clear", &cluster, &environment);
}

#[test]
fn a_client_with_kerberos_refuses_a_cluster_without_it() {
    if !have_kudu() {
        return;
    }
    let cluster = start(&ClusterOptions::new(1, 1));
    run(async {
        let builder = patient(Client::builder(cluster.masters())).kerberos("kudu");
        let error = builder.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
        assert!(error.message().contains("GSSAPI"), "{error}");
    });
}

#[test]
#[ignore = "started by another test"]
fn user_with_ticket() {
    run(async {
        let client = builder().kerberos("kudu").require_encryption().connect().await.unwrap();
        work(&client, "with_ticket").await;
        // An invalid authentication token makes the client log in by Kerberos again.
        client.forge_authentication_token();
        work(&client, "again").await;

        let by_name = builder().user("test-user").connect().await.unwrap_err();
        assert_eq!(by_name.kind(), ErrorKind::NotAuthenticated, "{by_name}");
        assert!(by_name.message().contains("Kerberos"), "{by_name}");
        let other_service = builder().kerberos("other").connect().await.unwrap_err();
        assert_eq!(other_service.kind(), ErrorKind::NotAuthenticated, "{other_service}");
    });
}

#[test]
#[ignore = "started by another test"]
fn user_without_ticket() {
    run(async {
        let error = builder().kerberos("kudu").connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
        assert!(error.message().contains("kinit"), "{error}");
    });
}

#[test]
#[ignore = "started by another test"]
fn user_in_the_clear() {
    run(async {
        let client = builder().kerberos("kudu").connect().await.unwrap();
        work(&client, "in_the_clear").await;
    });
}
