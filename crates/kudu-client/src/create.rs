//! Creating tables.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backoff::Backoff;
use crate::client::Client;
use crate::error::{Code, Error, ErrorKind, Result};
use crate::partition::{HashPartition, RangePartition, encode_split_row, identifiers, row_operations};
use crate::pb;
use crate::pb::codes::master::REPLICATION_FACTOR_TOO_HIGH;
use crate::pb::master::*;
use crate::row::EncodedRows;
use crate::schema::Schema;
use crate::table::Table;
use crate::value::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Tablet servers report to a master that starts to lead within a second or two. Before that it knows of none.
const SERVERS_REGISTER_WITHIN: Duration = Duration::from_secs(5);

/// A table to be created; from [`Client::create_table`].
///
/// Without [`Self::range_columns`], a table with hash dimensions has one range, and a table without them is
/// partitioned by ranges of its primary key.
#[derive(Clone, Debug)]
pub struct TableCreator {
    client: Client,
    name: String,
    schema: Schema,
    hash: Vec<HashPartition>,
    range_columns: Option<Vec<String>>,
    ranges: Vec<RangePartition>,
    split_rows: Vec<Vec<(String, Value)>>,
    replicas: Option<i32>,
    owner: Option<String>,
    comment: Option<String>,
    dimension_label: Option<String>,
    extra_configs: HashMap<String, String>,
}

impl Client {
    /// Begins to create a table.
    pub fn create_table(&self, name: impl Into<String>, schema: Schema) -> TableCreator {
        TableCreator {
            client: self.clone(),
            name: name.into(),
            schema,
            hash: Vec::new(),
            range_columns: None,
            ranges: Vec::new(),
            split_rows: Vec::new(),
            replicas: None,
            owner: None,
            comment: None,
            dimension_label: None,
            extra_configs: HashMap::new(),
        }
    }
}

impl TableCreator {
    /// Adds a hash dimension.
    #[must_use]
    pub fn hash(mut self, dimension: HashPartition) -> Self {
        self.hash.push(dimension);
        self
    }

    /// Sets the columns of range partitions.
    #[must_use]
    pub fn range_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.range_columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a range partition. Without any, the table has one that is unbounded.
    #[must_use]
    pub fn range(mut self, range: RangePartition) -> Self {
        self.ranges.push(range);
        self
    }

    /// Splits ranges at these values of range columns.
    #[must_use]
    pub fn split_at(mut self, values: Vec<(String, Value)>) -> Self {
        self.split_rows.push(values);
        self
    }

    /// Sets the number of replicas of each tablet; it must be odd. The masters' default is 3.
    #[must_use]
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Sets the owner; by default the user who creates the table.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets a comment on the table.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }

    /// Sets a label; masters spread the replicas of tablets with the same label evenly.
    #[must_use]
    pub fn dimension_label(mut self, label: impl Into<String>) -> Self {
        self.dimension_label = Some(label.into());
        self
    }

    /// Sets an option of the table, such as `kudu.table.history_max_age_sec`.
    #[must_use]
    pub fn extra_config(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra_configs.insert(name.into(), value.into());
        self
    }

    /// Creates the table and waits until its tablets serve.
    ///
    /// # Errors
    /// `AlreadyPresent` when the name is taken; `InvalidArgument` when the masters refuse the description.
    pub async fn create(self) -> Result<Table> {
        let schema = Arc::new(self.schema.clone());
        let (request, features) = self.request(&schema)?;
        let cluster = &self.client.cluster;
        let deadline = cluster.admin_deadline();
        // When the masters first lacked tablet servers.
        let mut lacking_since = None;
        let mut repeated = false;
        let mut backoff = Backoff::default();
        loop {
            let result: Result<PlainResponse> = cluster
                .call_master_noting_repeats("CreateTable", &request, &features, deadline, &mut repeated)
                .await;
            match result {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyPresent && repeated => {
                    // An earlier attempt, whose answer was lost, may have created it; then it has our columns. Partitions
                    // are not compared: the masters may have added some by their own rules.
                    let table = self.client.open_table(&self.name).await?;
                    let columns = |schema: &Schema| -> Vec<_> {
                        schema
                            .columns()
                            .iter()
                            .map(|column| (column.name.clone(), column.data_type))
                            .collect()
                    };
                    if columns(table.schema()) != columns(&schema) {
                        return Err(error);
                    }
                    break;
                }
                Err(error) if lacks_servers(&error) => {
                    let error = error.with_kind(ErrorKind::Unavailable);
                    let since = *lacking_since.get_or_insert_with(Instant::now);
                    if !backoff.wait(deadline.min(since + SERVERS_REGISTER_WITHIN)).await {
                        return Err(error);
                    }
                }
                // A table of this name is just being deleted.
                Err(error) if error.can_retry() => {
                    if !backoff.wait(deadline).await {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        cluster.wait_until_done("IsCreateTableDone", &self.name, deadline).await?;
        self.client.open_table(&self.name).await
    }

    fn request(&self, schema: &Arc<Schema>) -> Result<(CreateTableRequest, Vec<u32>)> {
        let mut features = Vec::new();
        if schema.columns().iter().any(|column| column.is_immutable) {
            features.push(FEATURE_IMMUTABLE_COLUMN);
        }
        if schema.columns().iter().any(|column| column.is_auto_incrementing) {
            features.push(FEATURE_AUTO_INCREMENTING_COLUMN);
        }
        // The masters would default to ranges of the whole key; a hashed table should have just its buckets.
        let range_columns = match &self.range_columns {
            Some(columns) => Some(columns.clone()),
            None if !self.hash.is_empty() && self.ranges.is_empty() && self.split_rows.is_empty() => {
                Some(Vec::new())
            }
            None => None,
        };
        let mut partitions = pb::PartitionSchema {
            hash_schema: self.hash.iter().map(HashPartition::to_pb).collect(),
            range_schema: range_columns.map(|columns| pb::RangeSchema { columns: identifiers(&columns) }),
            custom_hash_schema_ranges: Vec::new(),
        };
        let mut bounds = EncodedRows::default();
        let any_custom = self.ranges.iter().any(|range| range.hash.is_some());
        for range in &self.ranges {
            if !any_custom {
                range.encode(schema, &mut bounds)?;
                continue;
            }
            let mut own = EncodedRows::default();
            range.encode(schema, &mut own)?;
            let dimensions = range.hash.as_ref().unwrap_or(&self.hash);
            partitions.custom_hash_schema_ranges.push(pb::RangeWithHashSchema {
                range_bounds: Some(row_operations(own)),
                hash_schema: dimensions.iter().map(HashPartition::to_pb).collect(),
            });
        }
        for split in &self.split_rows {
            encode_split_row(schema, split, &mut bounds)?;
        }
        if !self.ranges.is_empty() {
            features.push(FEATURE_RANGE_PARTITION_BOUNDS);
        }
        if any_custom {
            features.push(FEATURE_RANGE_SPECIFIC_HASH_SCHEMA);
        }
        let request = CreateTableRequest {
            name: self.name.clone(),
            schema: Some(schema.to_pb()?),
            num_replicas: self.replicas,
            split_rows_range_bounds: (bounds.count > 0).then(|| row_operations(bounds)),
            partition_schema: Some(partitions),
            owner: self.owner.clone(),
            extra_configs: self.extra_configs.clone(),
            dimension_label: self.dimension_label.clone(),
            comment: self.comment.clone(),
        };
        Ok((request, features))
    }
}

/// Whether fewer tablet servers are alive than a table is to have replicas.
fn lacks_servers(error: &Error) -> bool {
    matches!(error.code(), Some(Code::Master(REPLICATION_FACTOR_TOO_HIGH, _)))
}
