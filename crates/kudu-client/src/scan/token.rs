//! Scan tokens: parts of a scan that other processes can run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::columnar::ProjectedColumn;
use super::{IS_DELETED, ReplicaSelection, ScanSpec, Scanner, TabletRange, arrow_schema_of};
use crate::backoff::Backoff;
use crate::client::Client;
use crate::clock::Timestamp;
use crate::data_type::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::location_cache::{Lookup, Tablet};
use crate::pb::tserver::*;
use crate::rpc::{CallOptions, Login};
use crate::table::Table;

const FORMAT: u32 = 1;

/// The serialized form. It has a version and is not that of the official clients.
#[derive(Clone, PartialEq, Message)]
struct SerializedToken {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(bytes = "bytes", tag = "2")]
    table_id: Bytes,
    #[prost(message, optional, tag = "3")]
    template: Option<NewScanRequest>,
    #[prost(bytes = "bytes", tag = "4")]
    partition_key_start: Bytes,
    #[prost(uint64, optional, tag = "5")]
    limit: Option<u64>,
    #[prost(uint32, tag = "6")]
    batch_bytes: u32,
    #[prost(bool, tag = "7")]
    closest_replica: bool,
    #[prost(uint64, tag = "8")]
    timeout_ms: u64,
    #[prost(bool, tag = "9")]
    strings_as_binary: bool,
    #[prost(bool, tag = "10")]
    rowwise: bool,
    #[prost(bool, tag = "11")]
    uses_bloom_filters: bool,
}

/// A part of a scan, from [`ScanBuilder::into_tokens`](super::ScanBuilder::into_tokens).
///
/// A limit applies to each token separately.
#[derive(Clone, Debug)]
pub struct ScanToken {
    token: SerializedToken,
    servers: Vec<String>,
}

impl ScanToken {
    /// `host:port` of the servers that have the data, so that the token can be run near one of them.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// The token as bytes. Contains no credentials.
    pub fn serialize(&self) -> Vec<u8> {
        self.token.encode_to_vec()
    }

    /// Opens the scan of a token from [`Self::serialize`].
    ///
    /// # Errors
    /// When the bytes are not a token, or the table or tablet no longer exists.
    pub async fn open_serialized(client: &Client, token: &[u8]) -> Result<Scanner> {
        open(client, read(token)?).await
    }

    /// Opens the scan.
    ///
    /// # Errors
    /// When the table or tablet no longer exists.
    pub async fn open(&self, client: &Client) -> Result<Scanner> {
        open(client, self.token.clone()).await
    }
}

fn read(token: &[u8]) -> Result<SerializedToken> {
    let token = SerializedToken::decode(token)?;
    match token.format {
        FORMAT => Ok(token),
        other => Err(Error::new(ErrorKind::NotSupported, format!("a scan token of format {other}"))),
    }
}

fn columns_of(request: &NewScanRequest) -> Vec<ProjectedColumn> {
    let column = |column: &crate::pb::ColumnSchema| ProjectedColumn {
        name: column.name.clone(),
        data_type: if column.data_type == IS_DELETED {
            DataType::Bool
        } else {
            DataType::from_pb(column.data_type, column.type_attributes.as_ref())
        },
        is_nullable: column.is_nullable.unwrap_or(false),
    };
    request.projected_columns.iter().map(column).collect()
}

/// Reads bytes as a token, and whether they are one: what a fuzzer calls. A token is read as it is written.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_arbitrary(bytes: &[u8]) -> bool {
    let Ok(token) = read(bytes) else { return false };
    let columns = columns_of(&token.template.clone().unwrap_or_default());
    assert_eq!(arrow_schema_of(&columns, token.strings_as_binary).fields().len(), columns.len());
    assert!(read(&token.encode_to_vec()).is_ok_and(|again| again == token));
    true
}

async fn open(client: &Client, token: SerializedToken) -> Result<Scanner> {
    let id =
        std::str::from_utf8(&token.table_id).map_err(|_| Error::protocol("a table id that is not text"))?;
    let table = client.open_table_by_id(id).await?;
    let template = token.template.ok_or_else(|| Error::protocol("a scan token without request"))?;
    let timeout = Duration::from_millis(token.timeout_ms);
    let deadline = Instant::now() + timeout;
    let tablets = &table.inner.locations;
    let tablet = match tablets.find(&client.cluster, &token.partition_key_start, deadline).await? {
        Lookup::Tablet(tablet) if tablet.id == template.tablet_id => tablet,
        Lookup::Tablet(_) | Lookup::NonCoveredRange { .. } => {
            return Err(Error::new(ErrorKind::NotFound, "the partition of the scan token was dropped"));
        }
    };
    let columns = columns_of(&template);
    let range = TabletRange {
        tablet,
        start_primary_key: template.start_primary_key.clone(),
        stop_primary_key: template.stop_primary_key.clone(),
    };
    let spec = ScanSpec {
        arrow_schema: arrow_schema_of(&columns, token.strings_as_binary),
        columns,
        limit: token.limit,
        hidden: 0..0,
        replica: if token.closest_replica { ReplicaSelection::Closest } else { ReplicaSelection::Leader },
        batch_bytes: token.batch_bytes,
        parallelism: 1,
        prefetch: 2,
        timeout,
        uses_bloom_filters: token.uses_bloom_filters,
        rowwise: AtomicBool::new(token.rowwise),
        snapshot: tokio::sync::Mutex::new(template.snap_timestamp),
        template,
        table: table.inner.clone(),
    };
    Ok(Scanner::start(Arc::new(spec), vec![range]))
}

/// The present time, but not before anything that this client has seen.
pub(super) fn now(table: &Table) -> Timestamp {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let wall = Timestamp::from_micros(wall as u64);
    table.client().last_timestamp().map_or(wall, |seen| seen.max(wall))
}

pub(super) async fn tokens(
    spec: &ScanSpec,
    tablets: Vec<Arc<Tablet>>,
    split_bytes: Option<u64>,
) -> Result<Vec<ScanToken>> {
    let mut tokens = Vec::new();
    for tablet in tablets {
        let ranges = match split_bytes {
            Some(bytes) => split(spec, &tablet, bytes).await?,
            None => vec![KeyRange::default()],
        };
        for range in ranges {
            let some = |key: Option<Bytes>| key.filter(|key| !key.is_empty());
            let template = NewScanRequest {
                tablet_id: tablet.id.clone(),
                start_primary_key: some(range.start_primary_key),
                stop_primary_key: some(range.stop_primary_key),
                ..spec.template.clone()
            };
            let token = SerializedToken {
                format: FORMAT,
                table_id: spec.table.id.clone(),
                template: Some(template),
                partition_key_start: tablet.start.clone(),
                limit: spec.limit,
                batch_bytes: spec.batch_bytes,
                closest_replica: spec.replica == ReplicaSelection::Closest,
                timeout_ms: spec.timeout.as_millis() as u64,
                strings_as_binary: spec
                    .arrow_schema
                    .fields()
                    .iter()
                    .zip(&spec.columns)
                    .any(|(field, column)| *field.data_type() != column.data_type.arrow_type()),
                rowwise: spec.rowwise.load(Ordering::Relaxed),
                uses_bloom_filters: spec.uses_bloom_filters,
            };
            let servers = tablet.replicas.iter().map(|replica| replica.address.to_string()).collect();
            tokens.push(ScanToken { token, servers });
        }
    }
    Ok(tokens)
}

/// Asks the tablet's leader to split it into key ranges.
async fn split(spec: &ScanSpec, tablet: &Tablet, bytes: u64) -> Result<Vec<KeyRange>> {
    let cluster = &spec.table.client.cluster;
    let deadline = Instant::now() + spec.timeout;
    let mut backoff = Backoff::default();
    loop {
        let authorization = spec.table.authorization();
        let request = SplitKeyRangeRequest {
            tablet_id: tablet.id.clone(),
            target_chunk_size_bytes: Some(bytes.max(1)),
            authz_token: authorization.clone(),
        };
        let options = CallOptions::until(cluster.rpc_deadline(deadline));
        let call = ("kudu.tserver.TabletServerService", "SplitKeyRange");
        let index = tablet.leader();
        let address = index.and_then(|index| tablet.replicas.get(index)).map(|replica| &replica.address);
        let error = match address {
            None => Error::new(ErrorKind::Unavailable, "no replica can split the tablet"),
            Some(address) => {
                let answer = cluster
                    .messenger
                    .call::<SplitKeyRangeResponse>(address, Login::Token, call, &request, &options)
                    .await;
                match answer {
                    Ok((SplitKeyRangeResponse { error: None, ranges }, _)) => return Ok(ranges),
                    Ok((answer, _)) => answer
                        .error
                        .as_ref()
                        .map_or_else(|| Error::protocol("no answer"), Error::from_tablet_server),
                    Err(error) => error,
                }
            }
        };
        match error.kind() {
            ErrorKind::InvalidAuthenticationToken => cluster.renew_authentication_token(deadline).await?,
            ErrorKind::InvalidAuthorizationToken => {
                spec.table.renew_authorization(authorization.as_ref(), deadline).await?;
            }
            // Splitting is optional: the whole tablet can be scanned instead.
            _ if error.can_retry() && address.is_none() => return Ok(vec![KeyRange::default()]),
            _ if error.can_retry() => index.into_iter().for_each(|index| tablet.mark_failed(index)),
            _ => return Err(error),
        }
        if !backoff.wait(deadline).await {
            return Err(error);
        }
    }
}
