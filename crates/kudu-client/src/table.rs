//! An open table: its schema, its partitions, and the ways to write and read it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::client::Client;
use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::location_cache::LocationCache;
use crate::partition::PartitionSchema;
use crate::pb::master::*;
use crate::pb::rpc::SignedToken;
use crate::row::{Operation, Row};
use crate::schema::Schema;

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
    pub(crate) locations: LocationCache,
    name: String,
    owner: String,
    comment: String,
    replicas: i32,
    extra_configs: HashMap<String, String>,
    authorization: Mutex<Option<SignedToken>>,
    /// Held while the token is renewed, so that many writers send one request.
    renewing: tokio::sync::Mutex<()>,
}

/// Sizes of a table as tablet servers last reported them to the masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStatistics {
    /// Bytes on disk of the leaders of all tablets.
    pub on_disk_bytes: Option<u64>,
    /// Rows.
    pub live_rows: Option<u64>,
}

impl Client {
    /// Opens a table.
    ///
    /// # Errors
    /// `NotFound` when there is none of this name.
    pub async fn open_table(&self, name: &str) -> Result<Table> {
        Table::open(self, TableIdentifier::by_name(name)).await
    }

    /// Opens a table by its id.
    ///
    /// # Errors
    /// `NotFound` when there is none with this id.
    pub async fn open_table_by_id(&self, id: &str) -> Result<Table> {
        Table::open(self, TableIdentifier::by_id(Bytes::copy_from_slice(id.as_bytes()))).await
    }
}

impl Table {
    async fn open(client: &Client, identifier: TableIdentifier) -> Result<Self> {
        let answer = fetch_schema(client, identifier, client.cluster.admin_deadline()).await?;
        let schema = answer.schema.ok_or_else(|| Error::protocol("a table without schema"))?;
        let schema = Schema::from_pb(&schema)?;
        let partitions = PartitionSchema::from_pb(&schema, &answer.partition_schema.unwrap_or_default())?;
        let id = answer.table_id.ok_or_else(|| Error::protocol("a table without id"))?;
        let inner = TableInner {
            client: client.clone(),
            locations: LocationCache::new(id.clone()),
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

    /// Replicas of each tablet.
    pub fn replicas(&self) -> i32 {
        self.inner.replicas
    }

    /// Its options when it was opened.
    pub fn extra_configs(&self) -> &HashMap<String, String> {
        &self.inner.extra_configs
    }

    /// The hash dimensions of its range partitions, as far as they have none of their own: the columns of each, and the number
    /// of buckets. Each combination of buckets is a tablet.
    pub fn hash_dimensions(&self) -> impl Iterator<Item = (Vec<&str>, u32)> {
        let columns = self.inner.schema.columns();
        let names =
            move |indices: &[usize]| indices.iter().map(|index| columns[*index].name()).collect::<Vec<_>>();
        self.inner.partitions.hash().iter().map(move |known| (names(&known.columns), known.buckets))
    }

    /// The client it was opened with.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// A new, empty row operation.
    pub fn row(&self, operation: Operation) -> Row {
        Row::new(self.inner.schema.clone(), operation)
    }

    /// Rows and bytes, as tablet servers last reported them to the masters.
    ///
    /// # Errors
    /// When the masters cannot be reached, or the table no longer exists.
    pub async fn statistics(&self) -> Result<TableStatistics> {
        let cluster = &self.inner.client.cluster;
        let request = TableRequest { table: Some(self.inner.identifier()) };
        let deadline = cluster.admin_deadline();
        let answer: GetTableStatisticsResponse =
            cluster.call_master("GetTableStatistics", &request, &[], deadline).await?;
        let count = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        Ok(TableStatistics {
            on_disk_bytes: count(answer.on_disk_size),
            live_rows: count(answer.live_row_count),
        })
    }

    /// The number of tablets.
    ///
    /// # Errors
    /// When the masters cannot be reached, or the table no longer exists.
    pub async fn tablet_count(&self) -> Result<usize> {
        let cluster = &self.inner.client.cluster;
        Ok(self.inner.locations.all(cluster, cluster.admin_deadline()).await?.len())
    }

    /// The range partitions of a table that is divided by an `INT64` column, in order: the first value of each, and the first
    /// behind it; `None`: it has no end there. The masters are asked, whatever is cached.
    ///
    /// # Errors
    /// When the masters cannot be reached, the table no longer exists, or is divided by something else.
    pub async fn int64_ranges(&self) -> Result<Vec<(Option<i64>, Option<i64>)>> {
        let inner = &self.inner;
        let columns = inner.partitions.range_columns.iter().map(|index| &inner.schema.columns()[*index]);
        if !columns.map(|column| column.data_type()).eq([DataType::Int64]) {
            return Err(Error::invalid("the table is not divided by an INT64 column"));
        }
        inner.locations.forget_all();
        let cluster = &inner.client.cluster;
        let mut ranges = Vec::new();
        for tablet in inner.locations.all(cluster, cluster.admin_deadline()).await? {
            let (start, end) = tablet.range_keys();
            ranges.push((int64_of(start)?, int64_of(end)?));
        }
        ranges.sort_unstable();
        ranges.dedup();
        Ok(ranges)
    }

    /// Clears the cache of tablet locations, so that the next write or scan asks the masters. Needed only when another
    /// client changed range partitions and the change must be seen at once.
    pub fn forget_locations(&self) {
        self.inner.locations.forget_all();
    }
}

impl TableInner {
    fn identifier(&self) -> TableIdentifier {
        TableIdentifier::by_id(self.id.clone())
    }

    /// The token that authorizes this user for this table. Servers say when it has expired: only their clocks and the masters'
    /// agree, and this machine's may differ from them by more than a token lives.
    pub(crate) fn authorization(&self) -> Option<SignedToken> {
        self.authorization.lock().clone()
    }

    /// Fetches a new token from the masters, unless the one that a server refused was replaced meanwhile.
    pub(crate) async fn renew_authorization(
        &self,
        refused: Option<&SignedToken>,
        deadline: Instant,
    ) -> Result<()> {
        let Ok(_renewing) = tokio::time::timeout_at(deadline, self.renewing.lock()).await else {
            return Err(Error::timed_out("waiting for a new authorization token"));
        };
        if self.authorization.lock().as_ref() != refused {
            return Ok(());
        }
        let answer = fetch_schema(&self.client, self.identifier(), deadline).await?;
        *self.authorization.lock() = answer.authz_token;
        Ok(())
    }
}

async fn fetch_schema(
    client: &Client,
    identifier: TableIdentifier,
    deadline: Instant,
) -> Result<GetTableSchemaResponse> {
    let request = TableRequest { table: Some(identifier) };
    let features = [FEATURE_GENERATE_AUTHZ_TOKEN];
    client.cluster.call_master("GetTableSchema", &request, &features, deadline).await
}

/// The value of an encoded range key of an `INT64` column; `None` if it is empty.
fn int64_of(key: &[u8]) -> Result<Option<i64>> {
    if key.is_empty() {
        return Ok(None);
    }
    let bytes: [u8; 8] = key.try_into().map_err(|_| Error::protocol("a range key of another length"))?;
    Ok(Some(i64::from_be_bytes(bytes) ^ i64::MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::encode_cell;

    #[test]
    fn encoded_numbers_are_read_again() {
        for value in [i64::MIN, -1, 0, 1, 1_700_000_000_000_000_000, i64::MAX] {
            let mut key = Vec::new();
            encode_cell(DataType::Int64, &value.to_le_bytes(), true, &mut key);
            assert_eq!(int64_of(&key).unwrap(), Some(value));
        }
        assert_eq!(int64_of(b"").unwrap(), None);
        assert!(int64_of(b"short").is_err());
    }
}
