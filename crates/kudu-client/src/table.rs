//! An open table: its schema, its partitions, and the ways to write and read it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use tokio::time::Instant;

use crate::alter::TableAlterer;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::partition::PartitionSchema;
use crate::pb::master::*;
use crate::pb::rpc::{SignedToken, Token};
use crate::row::{Operation, Row};
use crate::scan::ScanBuilder;
use crate::schema::Schema;
use crate::tablets::Tablets;
use crate::write::SessionBuilder;

/// Authorization tokens are renewed this long before they end.
const RENEW_BEFORE: Duration = Duration::from_secs(20);

/// An open table. Cheap to clone; clones share the cache of tablet locations.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) inner: Arc<TableInner>,
}

#[derive(Debug)]
pub(crate) struct TableInner {
    pub(crate) client: Client,
    pub(crate) id: Bytes,
    pub(crate) schema: Arc<Schema>,
    pub(crate) partitions: PartitionSchema,
    pub(crate) tablets: Tablets,
    name: String,
    owner: String,
    comment: String,
    replicas: i32,
    extra_configs: HashMap<String, String>,
    authorization: Mutex<Option<SignedToken>>,
    /// Held while the token is renewed, so that many writers ask once.
    renewing: tokio::sync::Mutex<()>,
}

/// Sizes of a table as the masters last heard of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStatistics {
    /// Bytes on disk of all tablets' leaders.
    pub on_disk_bytes: Option<u64>,
    /// Rows.
    pub live_rows: Option<u64>,
}

impl Table {
    pub(crate) async fn open(client: &Client, identifier: Option<TableIdentifier>) -> Result<Self> {
        let deadline = client.inner.admin_deadline();
        let answer = fetch_schema(client, identifier, deadline).await?;
        let schema = answer.schema.ok_or_else(|| Error::protocol("a table without schema"))?;
        let schema = Schema::from_pb(&schema)?;
        let partitions = PartitionSchema::from_pb(&schema, &answer.partition_schema.unwrap_or_default())?;
        let id = answer.table_id.ok_or_else(|| Error::protocol("a table without id"))?;
        let inner = TableInner {
            client: client.clone(),
            tablets: Tablets::new(id.clone()),
            id,
            schema,
            partitions,
            name: answer.table_name.unwrap_or_default(),
            owner: answer.owner.unwrap_or_default(),
            comment: answer.comment.unwrap_or_default(),
            replicas: answer.num_replicas.unwrap_or(0),
            extra_configs: answer.extra_configs,
            authorization: Mutex::new(answer.authz_token),
            renewing: tokio::sync::Mutex::new(()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The table's name when it was opened.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The table's id.
    pub fn id(&self) -> String {
        String::from_utf8_lossy(&self.inner.id).into_owned()
    }

    /// Its columns when it was opened.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.inner.schema
    }

    /// Its owner when it was opened.
    pub fn owner(&self) -> &str {
        &self.inner.owner
    }

    /// Its comment when it was opened.
    pub fn comment(&self) -> &str {
        &self.inner.comment
    }

    /// Copies of each tablet.
    pub fn replicas(&self) -> i32 {
        self.inner.replicas
    }

    /// Its settings when it was opened.
    pub fn extra_configs(&self) -> &HashMap<String, String> {
        &self.inner.extra_configs
    }

    /// The client it was opened with.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// A new, empty row operation.
    pub fn row(&self, operation: Operation) -> Row {
        Row::new(self.inner.schema.clone(), operation)
    }

    /// Begins a write session.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.clone())
    }

    /// Begins a scan.
    pub fn scan(&self) -> ScanBuilder {
        ScanBuilder::new(self.clone())
    }

    /// Begins to change the table.
    pub fn alter(&self) -> TableAlterer {
        TableAlterer::new(self.inner.client.clone(), self.clone())
    }

    /// Rows and bytes, as the masters last heard from the tablets.
    ///
    /// # Errors
    /// When the masters cannot be asked, or the table is gone.
    pub async fn statistics(&self) -> Result<TableStatistics> {
        let client = &self.inner.client.inner;
        let request = TableRequest { table: self.inner.identifier() };
        let deadline = client.admin_deadline();
        let answer: GetTableStatisticsResponse =
            client.call_master("GetTableStatistics", &request, &[], deadline).await?;
        let count = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        Ok(TableStatistics {
            on_disk_bytes: count(answer.on_disk_size),
            live_rows: count(answer.live_row_count),
        })
    }

    /// The number of tablets.
    ///
    /// # Errors
    /// When the masters cannot be asked, or the table is gone.
    pub async fn tablet_count(&self) -> Result<usize> {
        let client = &self.inner.client.inner;
        Ok(self.inner.tablets.all(client, client.admin_deadline()).await?.len())
    }

    /// Forgets where the tablets are; the next write or scan asks the masters. Needed only after range
    /// partitions were changed elsewhere and the change must be seen at once.
    pub fn forget_locations(&self) {
        self.inner.tablets.forget_all();
    }
}

impl TableInner {
    fn identifier(&self) -> Option<TableIdentifier> {
        Some(TableIdentifier { table_id: Some(self.id.clone()), table_name: None })
    }

    /// A token that lets this user touch this table; renewed when it is about to end.
    pub(crate) async fn authorization(&self, deadline: Instant) -> Result<Option<SignedToken>> {
        // A cluster that issues none does not ask for any.
        let usable = |token: &Option<SignedToken>| {
            token.as_ref().is_none_or(|token| lives_beyond(token, RENEW_BEFORE))
        };
        let kept = self.authorization.lock().clone();
        if usable(&kept) {
            return Ok(kept);
        }
        let Ok(_renewing) = tokio::time::timeout_at(deadline, self.renewing.lock()).await else {
            return Err(Error::timed_out("waiting for a new authorization token"));
        };
        let kept = self.authorization.lock().clone();
        if usable(&kept) {
            return Ok(kept);
        }
        self.renew_authorization(deadline).await
    }

    pub(crate) async fn renew_authorization(&self, deadline: Instant) -> Result<Option<SignedToken>> {
        let answer = fetch_schema(&self.client, self.identifier(), deadline).await?;
        *self.authorization.lock() = answer.authz_token.clone();
        Ok(answer.authz_token)
    }
}

async fn fetch_schema(
    client: &Client,
    identifier: Option<TableIdentifier>,
    deadline: Instant,
) -> Result<GetTableSchemaResponse> {
    let request = TableRequest { table: identifier };
    let features = [FEATURE_GENERATE_AUTHZ_TOKEN];
    client.inner.call_master("GetTableSchema", &request, &features, deadline).await
}

fn lives_beyond(token: &SignedToken, margin: Duration) -> bool {
    let data = token.token_data.clone().unwrap_or_default();
    let end = Token::decode(data).ok().and_then(|token| token.expire_unix_epoch_seconds).unwrap_or(i64::MAX);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(end).is_ok_and(|end| (now + margin).as_secs() < end)
}
