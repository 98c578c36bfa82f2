//! The entry: a client for one cluster, and how to make one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;

use crate::backoff::Pace;
use crate::clock::{Clock, Timestamp};
use crate::create::TableCreator;
use crate::error::{Error, Result};
use crate::masters::Masters;
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::pb::master::*;
use crate::pb::rpc::{ServerClockRequest, ServerClockResponse};
use crate::rpc::connection::Limits;
use crate::rpc::credentials::Credentials;
use crate::rpc::messenger::{Address, MessengerSettings};
use crate::rpc::{CallOptions, Login, Messenger};
use crate::schema::Schema;
use crate::table::Table;
use crate::write::request_ids::RequestIds;

/// Settings of a client, from [`Client::builder`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    masters: Vec<String>,
    user: Option<String>,
    kerberos_service: Option<String>,
    jwt: Option<String>,
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
    /// The user name to log in with; by default `$USER`, or `kudu`.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Logs in by Kerberos, with the ticket in the user's credential cache (`kinit`, or `KRB5_CLIENT_KTNAME` for a
    /// keytab), to servers whose principals are `service/host`; Kudu's own default is `kudu`. The servers prove
    /// themselves as well, and the certificates they encrypt with are tied to that proof. A client told to use
    /// Kerberos does not fall back to a user name.
    ///
    /// The system's GSSAPI library (MIT Kerberos or Heimdal) is loaded when it is first needed.
    #[cfg(feature = "kerberos")]
    #[must_use]
    pub fn kerberos(mut self, service: impl Into<String>) -> Self {
        self.kerberos_service = Some(service.into());
        self
    }

    /// A JSON web token to log in with. Needs [`Self::trust_certificate`]: the token is only shown to servers
    /// that prove to belong to the cluster.
    #[must_use]
    pub fn jwt(mut self, token: impl Into<String>) -> Self {
        self.jwt = Some(token.into());
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

    /// Encrypts connections within one machine too, which Kudu otherwise leaves in the clear after the
    /// handshake where servers agree.
    #[must_use]
    pub fn encrypt_loopback(mut self) -> Self {
        self.encrypt_loopback = true;
        self
    }

    /// How long connecting and negotiating may take (5 s).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one attempt of a call may take before another server is tried (10 s).
    #[must_use]
    pub fn rpc_timeout(mut self, timeout: Duration) -> Self {
        self.rpc_timeout = timeout;
        self
    }

    /// How long an operation on the catalogue may take with all its attempts (30 s).
    #[must_use]
    pub fn admin_timeout(mut self, timeout: Duration) -> Self {
        self.admin_timeout = timeout;
        self
    }

    /// The largest answer accepted (64 MiB); bounds what a broken server can make this client reserve. All but the
    /// data of scans is bounded by a quarter of it.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// After how long without a call a connection is closed (50 s; servers close after 65 s unless told otherwise).
    /// The next call opens another.
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
                "a JWT needs a trusted certificate: it must not be shown to strangers",
            ));
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
        let inner = Arc::new(Inner {
            messenger: Messenger::new(settings, credentials, metrics.clone()),
            masters: Masters::new(masters, self.rpc_timeout),
            clock: Clock::default(),
            metrics,
            request_ids: RequestIds::default(),
            rpc_timeout: self.rpc_timeout,
            admin_timeout: self.admin_timeout,
            paces: Mutex::default(),
            servers: tokio::sync::Mutex::default(),
        });
        let deadline = inner.admin_deadline();
        inner.masters.leader(&inner.messenger, deadline).await?;
        Ok(Client { inner })
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
    pub(crate) inner: Arc<Inner>,
}

/// What all handles of one client share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) messenger: Messenger,
    pub(crate) masters: Masters,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) request_ids: RequestIds,
    pub(crate) rpc_timeout: Duration,
    pub(crate) admin_timeout: Duration,
    paces: Mutex<HashMap<Address, Arc<Pace>>>,
    servers: tokio::sync::Mutex<Option<(Instant, Arc<[Address]>)>>,
}

const SERVER_CLOCK: (&str, &str) = ("kudu.server.GenericService", "ServerClock");

/// How long the list of tablet servers is taken for true.
const SERVERS_KNOWN_FOR: Duration = Duration::from_secs(5);

/// A server that has not been heard of for this long leads nothing.
const SILENT: Duration = Duration::from_secs(30);

impl Inner {
    pub(crate) fn admin_deadline(&self) -> Instant {
        Instant::now() + self.admin_timeout
    }

    pub(crate) fn rpc_deadline(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.rpc_timeout)
    }

    pub(crate) fn pace(&self, address: &Address) -> Arc<Pace> {
        self.paces.lock().entry(address.clone()).or_default().clone()
    }

    pub(crate) async fn call_master<Answer: MasterAnswer>(
        &self,
        method: &'static str,
        request: &impl Message,
        features: &[u32],
        deadline: Instant,
    ) -> Result<Answer> {
        self.masters.call(&self.messenger, method, request, features, deadline).await
    }

    /// Where the tablet servers are, as the masters said not long ago.
    async fn server_addresses(&self) -> Result<Arc<[Address]>> {
        let mut known = self.servers.lock().await;
        if let Some((since, addresses)) = &*known
            && since.elapsed() < SERVERS_KNOWN_FOR
        {
            return Ok(addresses.clone());
        }
        let request = ListTabletServersRequest {};
        let answer: ListTabletServersResponse =
            self.call_master("ListTabletServers", &request, &[], self.admin_deadline()).await?;
        let mut addresses = Vec::new();
        for server in answer.servers {
            let is_silent =
                server.millis_since_heartbeat.is_some_and(|silent| silent > SILENT.as_millis() as i32);
            let registered = server.registration.map(|registration| registration.rpc_addresses);
            if let (Some(address), false) = (registered.unwrap_or_default().first(), is_silent) {
                addresses.push(Address::from_pb(address)?);
            }
        }
        let addresses: Arc<[Address]> = addresses.into();
        *known = Some((Instant::now(), addresses.clone()));
        Ok(addresses)
    }

    pub(crate) async fn renew_authentication_token(&self, deadline: Instant) -> Result<()> {
        self.masters.renew_token(&self.messenger, deadline).await
    }
}

/// A table in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedTable {
    /// The table's id, which survives renaming.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Rows, where the master knows.
    pub live_rows: Option<u64>,
    /// Number of tablets.
    pub tablets: Option<u32>,
    /// Copies of each tablet.
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

pub(crate) fn by_name(name: &str) -> Option<TableIdentifier> {
    Some(TableIdentifier { table_id: None, table_name: Some(name.to_owned()) })
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
    /// As all operations on the catalogue: after retries until the admin timeout.
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
        let deadline = self.inner.admin_deadline();
        let answer: ListTablesResponse =
            self.inner.call_master("ListTables", &request, &[], deadline).await?;
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
        let deadline = self.inner.admin_deadline();
        let request = ListTabletServersRequest {};
        let answer: ListTabletServersResponse =
            self.inner.call_master("ListTabletServers", &request, &[], deadline).await?;
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

    /// Opens a table.
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    pub async fn open_table(&self, name: &str) -> Result<Table> {
        Table::open(self, by_name(name)).await
    }

    /// Opens a table by its id.
    ///
    /// # Errors
    /// `NotFound` when there is none with this id.
    pub async fn open_table_by_id(&self, id: &str) -> Result<Table> {
        let id = Bytes::copy_from_slice(id.as_bytes());
        Table::open(self, Some(TableIdentifier { table_id: Some(id), table_name: None })).await
    }

    /// Begins to create a table.
    pub fn create_table(&self, name: impl Into<String>, schema: Schema) -> TableCreator {
        TableCreator::new(self.clone(), name.into(), schema)
    }

    /// Deletes a table for good.
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    pub async fn delete_table(&self, name: &str) -> Result<()> {
        self.delete(name, None).await
    }

    /// Deletes a table, but keeps its data for a while, for [`Self::recall_table`].
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    pub async fn soft_delete_table(&self, name: &str, keep: Duration) -> Result<()> {
        self.delete(name, Some(u32::try_from(keep.as_secs()).unwrap_or(u32::MAX))).await
    }

    async fn delete(&self, name: &str, reserve_seconds: Option<u32>) -> Result<()> {
        let request = DeleteTableRequest { table: by_name(name), reserve_seconds };
        let deadline = self.inner.admin_deadline();
        let mut repeated = false;
        let result: Result<PlainResponse> = self
            .inner
            .masters
            .call_noting_repeats(&self.inner.messenger, "DeleteTable", &request, &[], deadline, &mut repeated)
            .await;
        match result {
            // An attempt whose answer was lost has done it.
            Err(error) if repeated && error.kind() == crate::ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// Takes back a soft deletion, by the table's id; optionally under a new name.
    ///
    /// # Errors
    /// `NotFound` when the table is gone.
    pub async fn recall_table(&self, id: &str, new_name: Option<&str>) -> Result<()> {
        let id = Bytes::copy_from_slice(id.as_bytes());
        let request = RecallDeletedTableRequest {
            table: Some(TableIdentifier { table_id: Some(id), table_name: None }),
            new_table_name: new_name.map(str::to_owned),
        };
        let deadline = self.inner.admin_deadline();
        let _: PlainResponse = self.inner.call_master("RecallDeletedTable", &request, &[], deadline).await?;
        Ok(())
    }

    /// The cluster's id.
    pub fn cluster_id(&self) -> Option<String> {
        self.inner.masters.cluster_id()
    }

    /// A point in the cluster's time at which everything is there that any client was told of before this call: the
    /// latest of the tablet servers' clocks.
    ///
    /// Servers that the masters have not heard of for half a minute are not asked.
    ///
    /// # Errors
    /// When a server does not answer within the time of a call: what it acknowledged might be later.
    pub async fn server_time(&self) -> Result<Timestamp> {
        let addresses = self.inner.server_addresses().await?;
        let deadline = Instant::now() + self.inner.rpc_timeout;
        let options = CallOptions { deadline, features: Vec::new(), request_id: None };
        let asked = addresses.iter().map(async |address| {
            let call = self.inner.messenger.call::<ServerClockResponse>(
                address,
                Login::Token,
                SERVER_CLOCK,
                &ServerClockRequest {},
                &options,
            );
            Ok::<_, Error>(call.await?.0.timestamp)
        });
        for timestamp in futures::future::try_join_all(asked).await? {
            self.inner.clock.observe(timestamp);
        }
        self.last_timestamp().ok_or_else(|| Error::protocol("no server has a clock"))
    }

    /// The latest point in the cluster's time that this client has seen.
    pub fn last_timestamp(&self) -> Option<Timestamp> {
        self.inner.clock.latest().map(Timestamp)
    }

    /// Makes this client see everything up to a point another client reported with [`Self::last_timestamp`].
    pub fn observe_timestamp(&self, timestamp: Timestamp) {
        self.inner.clock.observe(Some(timestamp.0));
    }

    /// The counters so far.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.inner.metrics.snapshot()
    }

    /// Spoils the authentication token, to test how servers and this client take it.
    #[cfg(feature = "test-cluster")]
    #[doc(hidden)]
    pub fn forge_authentication_token(&self) {
        self.inner.messenger.forget(crate::rpc::Login::Token);
        self.inner.messenger.credentials.replace_token(|token| {
            token.signature = Some(Bytes::from_static(b"forged"));
        });
    }

    /// Closes all connections; the next call negotiates anew.
    #[cfg(feature = "test-cluster")]
    #[doc(hidden)]
    pub fn drop_connections(&self) {
        self.inner.messenger.forget(crate::rpc::Login::Token);
        self.inner.messenger.forget(crate::rpc::Login::Primary);
    }
}
