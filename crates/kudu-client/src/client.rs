//! The entry point: a client for one cluster, its settings, and its operations on the catalogue.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::pki_types::CertificateDer;

use crate::clock::{Clock, Timestamp};
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::masters::Masters;
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::pb::master::*;
use crate::rpc::Messenger;
use crate::rpc::connection::Limits;
use crate::rpc::credentials::{Credentials, JwtSource};
use crate::rpc::messenger::{Address, MessengerSettings};

/// Settings of a client, from [`Client::builder`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    masters: Vec<String>,
    user: Option<String>,
    kerberos_service: Option<String>,
    jwt: Option<JwtSource>,
    trusted_certificates: Vec<Vec<u8>>,
    require_encryption: bool,
    encrypt_loopback: bool,
    connect_timeout: Duration,
    rpc_timeout: Duration,
    admin_timeout: Duration,
    max_message_bytes: usize,
    idle_timeout: Duration,
}

impl ClientBuilder {
    /// Sets the user name to log in with; by default `$USER`, or `kudu`.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Logs in by Kerberos, with the ticket in the user's credential cache (`kinit`, or `KRB5_CLIENT_KTNAME` for a
    /// keytab), to servers whose principals are `service/host`; Kudu's default service is `kudu`. The servers
    /// authenticate themselves as well, and their TLS certificates are bound to that authentication. A client with
    /// Kerberos never falls back to a user name.
    ///
    /// The system's GSSAPI library (MIT Kerberos or Heimdal) is loaded when it is first needed. A program that is linked
    /// statically cannot load it, and is refused by [`Self::connect`].
    #[cfg(feature = "kerberos")]
    #[must_use]
    pub fn kerberos(mut self, service: impl Into<String>) -> Self {
        self.kerberos_service = Some(service.into());
        self
    }

    /// Sets a JSON web token to log in with. Needs [`Self::trust_certificate`]: the token is only sent to servers
    /// that prove to belong to the cluster.
    #[must_use]
    pub fn jwt(self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.jwt_from(move || Ok(token.clone()))
    }

    /// The same for a token that is replaced before it expires: it is read whenever the client logs in. Where it is read from
    /// should answer soon.
    #[must_use]
    pub fn jwt_from(mut self, read: impl Fn() -> std::io::Result<String> + Send + Sync + 'static) -> Self {
        self.jwt = Some(JwtSource::new(read));
        self
    }

    /// Trusts this certificate authority (DER), as found at a master's `/ipki-ca-cert-der`.
    #[must_use]
    pub fn trust_certificate(mut self, der: impl Into<Vec<u8>>) -> Self {
        self.trusted_certificates.push(der.into());
        self
    }

    /// Refuses servers that do not encrypt.
    #[must_use]
    pub fn require_encryption(mut self) -> Self {
        self.require_encryption = true;
        self
    }

    /// Encrypts connections within one machine too. By default they go back to clear text after the handshake if the
    /// server offers it.
    #[must_use]
    pub fn encrypt_loopback(mut self) -> Self {
        self.encrypt_loopback = true;
        self
    }

    /// Sets how long connecting and negotiating may take (5 s).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long one attempt of a call may take before another server is tried (10 s).
    #[must_use]
    pub fn rpc_timeout(mut self, timeout: Duration) -> Self {
        self.rpc_timeout = timeout;
        self
    }

    /// Sets how long an operation on the catalogue may take with all its attempts (30 s).
    #[must_use]
    pub fn admin_timeout(mut self, timeout: Duration) -> Self {
        self.admin_timeout = timeout;
        self
    }

    /// Sets the largest answer accepted (64 MiB), which bounds the memory that a broken server can make this client
    /// reserve. A quarter of it bounds everything but the data of scans.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets after how long without a call a connection is closed (50 s; servers close after 65 s by default). The
    /// next call opens another.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Connects to the leading master.
    ///
    /// # Errors
    /// When no master leads or answers within the admin timeout, or the log-in is refused.
    pub async fn connect(self) -> Result<Client> {
        let masters: Vec<Address> =
            self.masters.iter().map(|address| Address::parse(address)).collect::<Result<_>>()?;
        if masters.is_empty() {
            return Err(Error::invalid("no master address was given"));
        }
        if self.jwt.is_some() && self.trusted_certificates.is_empty() {
            return Err(Error::invalid(
                "a JWT needs a trusted certificate, so that it is only sent to servers of the cluster",
            ));
        }
        #[cfg(feature = "kerberos")]
        if self.kerberos_service.is_some() {
            crate::rpc::gssapi::check_linkage()?;
        }
        let user = self.user.clone().or_else(|| std::env::var("USER").ok()).filter(|user| !user.is_empty());
        let trusted = self.trusted_certificates.into_iter().map(CertificateDer::from).collect();
        let credentials =
            Credentials::new(user.unwrap_or_else(|| "kudu".into()), self.kerberos_service, self.jwt, trusted);
        let metrics = Arc::new(Metrics::default());
        let settings = MessengerSettings {
            connect_timeout: self.connect_timeout,
            limits: Limits { max_message_bytes: self.max_message_bytes, idle_timeout: self.idle_timeout },
            require_encryption: self.require_encryption,
            encrypt_loopback: self.encrypt_loopback,
        };
        let cluster = Cluster {
            messenger: Messenger::new(settings, credentials, metrics.clone()),
            masters: Masters::new(masters, self.rpc_timeout),
            clock: Clock::default(),
            metrics,
            request_tracker: Default::default(),
            rpc_timeout: self.rpc_timeout,
            admin_timeout: self.admin_timeout,
            write_limits: Default::default(),
            servers: Default::default(),
        };
        cluster.masters.leader(&cluster.messenger, cluster.admin_deadline()).await?;
        Ok(Client { cluster: Arc::new(cluster) })
    }
}

/// A client for one Kudu cluster. Cheap to clone; clones share connections, tokens and caches.
///
/// ```no_run
/// # async fn example() -> kudu_client::Result<()> {
/// let client = kudu_client::Client::builder(["master-1:7051", "master-2:7051"]).connect().await?;
/// for table in client.list_tables("").await? {
///     println!("{}", table.name);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) cluster: Arc<Cluster>,
}

/// A table in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedTable {
    /// The table's id, which survives renaming.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Rows, if the master knows.
    pub live_rows: Option<u64>,
    /// Number of tablets.
    pub tablets: Option<u32>,
    /// Replicas of each tablet.
    pub replicas: Option<u32>,
}

/// A tablet server as the masters see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TabletServer {
    /// Its permanent id.
    pub uuid: String,
    /// `host:port`, one or more.
    pub addresses: Vec<String>,
    /// Its location label; empty if none is assigned.
    pub location: String,
    /// Time since its last heartbeat.
    pub since_heartbeat: Duration,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Client {
    /// Settings for a client of the cluster with these masters (`host:port`; 7051 is the default port).
    pub fn builder(masters: impl IntoIterator<Item = impl Into<String>>) -> ClientBuilder {
        ClientBuilder {
            masters: masters.into_iter().map(Into::into).collect(),
            user: None,
            kerberos_service: None,
            jwt: None,
            trusted_certificates: Vec::new(),
            require_encryption: false,
            encrypt_loopback: false,
            connect_timeout: Duration::from_secs(5),
            rpc_timeout: Duration::from_secs(10),
            admin_timeout: Duration::from_secs(30),
            max_message_bytes: 64 << 20,
            idle_timeout: Duration::from_secs(50),
        }
    }

    /// Lists the tables whose name contains `filter` (empty: all).
    ///
    /// # Errors
    /// When the masters cannot be reached or refuse, after retries until the admin timeout.
    pub async fn list_tables(&self, filter: &str) -> Result<Vec<ListedTable>> {
        self.list(filter, false).await
    }

    /// Lists the tables that were deleted but can still be recalled.
    ///
    /// # Errors
    /// See [`Self::list_tables`].
    pub async fn list_soft_deleted_tables(&self) -> Result<Vec<ListedTable>> {
        self.list("", true).await
    }

    async fn list(&self, filter: &str, soft_deleted: bool) -> Result<Vec<ListedTable>> {
        let request = ListTablesRequest {
            name_filter: (!filter.is_empty()).then(|| filter.to_owned()),
            show_soft_deleted: soft_deleted.then_some(true),
        };
        let deadline = self.cluster.admin_deadline();
        let answer: ListTablesResponse =
            self.cluster.call_master("ListTables", &request, &[], deadline).await?;
        let tables = answer.tables.into_iter().map(|table| ListedTable {
            id: text(&table.id),
            name: table.name,
            live_rows: table.live_row_count.and_then(|rows| u64::try_from(rows).ok()),
            tablets: table.num_tablets.map(|count| count as u32),
            replicas: table.num_replicas.map(|count| count as u32),
        });
        Ok(tables.collect())
    }

    /// Whether there is a table of this name.
    ///
    /// # Errors
    /// See [`Self::list_tables`].
    pub async fn table_exists(&self, name: &str) -> Result<bool> {
        Ok(self.list_tables(name).await?.iter().any(|table| table.name == name))
    }

    /// Lists the tablet servers known to the masters.
    ///
    /// # Errors
    /// See [`Self::list_tables`].
    pub async fn list_tablet_servers(&self) -> Result<Vec<TabletServer>> {
        let deadline = self.cluster.admin_deadline();
        let request = ListTabletServersRequest {};
        let answer: ListTabletServersResponse =
            self.cluster.call_master("ListTabletServers", &request, &[], deadline).await?;
        let servers = answer.servers.into_iter().map(|server| TabletServer {
            uuid: server.instance_id.map(|id| text(&id.permanent_uuid)).unwrap_or_default(),
            addresses: server
                .registration
                .map(|registration| registration.rpc_addresses)
                .unwrap_or_default()
                .iter()
                .map(|address| format!("{}:{}", address.host, address.port))
                .collect(),
            location: server.location.unwrap_or_default(),
            since_heartbeat: Duration::from_millis(server.millis_since_heartbeat.unwrap_or(0).max(0) as u64),
        });
        Ok(servers.collect())
    }

    /// Deletes a table for good.
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    pub async fn delete_table(&self, name: &str) -> Result<()> {
        self.delete(name, None).await
    }

    /// Deletes a table, but keeps its data for a while so that [`Self::recall_table`] can restore it.
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    pub async fn soft_delete_table(&self, name: &str, keep: Duration) -> Result<()> {
        self.delete(name, Some(u32::try_from(keep.as_secs()).unwrap_or(u32::MAX))).await
    }

    async fn delete(&self, name: &str, reserve_seconds: Option<u32>) -> Result<()> {
        let request = DeleteTableRequest { table: Some(TableIdentifier::by_name(name)), reserve_seconds };
        let deadline = self.cluster.admin_deadline();
        let mut repeated = false;
        let result: Result<PlainResponse> = self
            .cluster
            .call_master_noting_repeats("DeleteTable", &request, &[], deadline, &mut repeated)
            .await;
        match result {
            // An earlier attempt, whose answer was lost, deleted it.
            Err(error) if repeated && error.kind() == crate::ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// Restores a soft-deleted table by its id, optionally under a new name.
    ///
    /// # Errors
    /// `NotFound` when the table no longer exists.
    pub async fn recall_table(&self, id: &str, new_name: Option<&str>) -> Result<()> {
        let request = RecallDeletedTableRequest {
            table: Some(TableIdentifier::by_id(Bytes::copy_from_slice(id.as_bytes()))),
            new_table_name: new_name.map(str::to_owned),
        };
        let deadline = self.cluster.admin_deadline();
        let _: PlainResponse =
            self.cluster.call_master("RecallDeletedTable", &request, &[], deadline).await?;
        Ok(())
    }

    /// The cluster's id.
    pub fn cluster_id(&self) -> Option<String> {
        self.cluster.masters.cluster_id()
    }

    /// A point in the cluster's time at which everything is there that any client was told of before this call, in tables
    /// of at least so many replicas: the latest of the tablet servers' clocks.
    ///
    /// A write was acknowledged when a majority of its tablet's replicas had it, and their clocks are not behind its time.
    /// So not every server has to answer: of three replicas one may be missing. Servers that the masters have not heard of
    /// for half a minute are not asked.
    ///
    /// # Errors
    /// When too few servers answer within the time of a call: what the others acknowledged might be later. And when the
    /// masters know too few, because they were started a moment ago.
    pub async fn server_time(&self, replicas: usize) -> Result<Timestamp> {
        self.cluster.observe_server_clocks(replicas).await?;
        self.last_timestamp().ok_or_else(|| Error::protocol("no server has a clock"))
    }

    /// The latest point in the cluster's time that this client has seen.
    pub fn last_timestamp(&self) -> Option<Timestamp> {
        self.cluster.clock.latest().map(Timestamp)
    }

    /// Makes this client see everything that another client had seen when it returned [`Self::last_timestamp`].
    pub fn observe_timestamp(&self, timestamp: Timestamp) {
        self.cluster.clock.observe(Some(timestamp.0));
    }

    /// The counters so far.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.cluster.metrics.snapshot()
    }

    /// Invalidates the authentication token, to test how servers and this client react.
    #[cfg(feature = "test-cluster")]
    #[doc(hidden)]
    pub fn forge_authentication_token(&self) {
        self.cluster.messenger.forget(crate::rpc::Login::Token);
        self.cluster.messenger.credentials.replace_token(|token| {
            token.signature = Some(Bytes::from_static(b"forged"));
        });
    }

    /// Closes all connections; the next call negotiates again.
    #[cfg(feature = "test-cluster")]
    #[doc(hidden)]
    pub fn drop_connections(&self) {
        self.cluster.messenger.forget(crate::rpc::Login::Token);
        self.cluster.messenger.forget(crate::rpc::Login::Primary);
    }
}
