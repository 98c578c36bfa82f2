//! The scan of one tablet, or of a range of its keys, with recovery on other replicas.
//!
//! A scan that has not returned rows yet can start again on any replica. After it has returned rows, it can only
//! continue elsewhere if it is ordered and reads a snapshot: a new scanner then starts after the last key received.
//! Otherwise the scan ends with an error when it loses its server, so rows are never missing unnoticed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_array::RecordBatch;
use bytes::Bytes;
use rand::Rng;
use tokio::time::Instant;

use super::columnar::{decode_columnar, decode_rowwise};
use super::{ReplicaSelection, ScanSpec, TabletRange};
use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind, Result};
use crate::location_cache::{Lookup, Tablet};
use crate::metrics::Metrics;
use crate::pb::rpc::SignedToken;
use crate::pb::tserver::*;
use crate::rpc::messenger::Address;
use crate::rpc::{CallOptions, Login};

const SERVICE: &str = "kudu.tserver.TabletServerService";

/// Calls that find the server of an open scanner not ready, before the scan continues on another replica.
const UNAVAILABLE_CALLS: u32 = 5;
/// Closing only frees memory early: servers expire scanners by themselves.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct TabletScan {
    spec: Arc<ScanSpec>,
    range: TabletRange,
    /// Which replicas failed since the locations were last fetched.
    excluded: Vec<bool>,
    open: Option<OpenScanner>,
    /// Where a new scanner continues (ordered scans only).
    last_primary_key: Option<Bytes>,
    has_returned_rows: bool,
    is_done: bool,
    snapshot: Option<u64>,
    /// What the scanner was last opened with.
    authorization: Option<SignedToken>,
}

#[derive(Debug)]
struct OpenScanner {
    id: Bytes,
    address: Address,
    replica: usize,
    next_call: u32,
}

impl TabletScan {
    pub(super) fn new(spec: Arc<ScanSpec>, range: TabletRange) -> Self {
        let excluded = vec![false; range.tablet.replicas.len()];
        Self {
            spec,
            range,
            excluded,
            open: None,
            last_primary_key: None,
            has_returned_rows: false,
            is_done: false,
            snapshot: None,
            authorization: None,
        }
    }

    pub(super) fn span(&self) -> tracing::Span {
        tracing::debug_span!("kudu_scan", tablet = %self.range.tablet.id_text())
    }

    pub(super) fn hash_buckets(&self) -> &[u32] {
        &self.range.tablet.hash_buckets
    }

    /// Whether all rows were returned.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next batch with rows; `None` at the end. `limit` is the number of rows still wanted.
    pub(super) async fn next_rows(&mut self, limit: Option<u64>) -> Result<Option<RecordBatch>> {
        loop {
            match self.next(limit).await? {
                Some(batch) if batch.num_rows() == 0 => {}
                other => return Ok(other),
            }
        }
    }

    /// The next batch, which may be empty; `None` at the end.
    async fn next(&mut self, limit: Option<u64>) -> Result<Option<RecordBatch>> {
        if self.is_done {
            return Ok(None);
        }
        let deadline = Instant::now() + self.spec.timeout;
        let mut backoff = Backoff::default();
        let mut unavailable = 0;
        loop {
            let attempt = if self.open.is_some() {
                self.fetch_next(deadline).await
            } else {
                self.open_scanner(limit, deadline).await
            };
            let error = match attempt {
                Ok(batch) => {
                    self.has_returned_rows |= batch.num_rows() > 0;
                    let rows = batch.num_rows() as u64;
                    Metrics::add(&self.spec.table.client.cluster.metrics.rows_scanned, rows);
                    return Ok(Some(batch));
                }
                Err(error) => error.at_tablet(&self.range.tablet.id_text()),
            };
            tracing::debug!(%error, "scan attempt failed");
            self.recover(&error, &mut unavailable, deadline).await?;
            Metrics::count(&self.spec.table.client.cluster.metrics.retries);
            if !backoff.wait(deadline).await {
                return Err(error.context("the scan gave up at its deadline"));
            }
        }
    }

    /// Prepares another attempt; fails when none is possible.
    async fn recover(&mut self, error: &Error, unavailable: &mut u32, deadline: Instant) -> Result<()> {
        let cluster = self.spec.table.client.cluster.clone();
        match error.kind() {
            // The scanner is still open; the same call can be repeated.
            ErrorKind::Busy => return Ok(()),
            ErrorKind::Unavailable if self.open.is_some() => {
                *unavailable += 1;
                if *unavailable < UNAVAILABLE_CALLS {
                    return Ok(());
                }
            }
            ErrorKind::InvalidAuthenticationToken => {
                cluster.renew_authentication_token(deadline).await?;
            }
            ErrorKind::InvalidAuthorizationToken => {
                self.spec.table.renew_authorization(self.authorization.as_ref(), deadline).await?;
                return Ok(());
            }
            ErrorKind::NotSupported
                if !self.has_returned_rows && !self.spec.rowwise.swap(true, Ordering::Relaxed) =>
            {
                tracing::warn!(%error, "the server does not know the columnar layout; reading row by row");
                return Ok(());
            }
            _ if !error.can_retry() => return Err(error.clone()),
            _ => {}
        }
        // From here on, the next attempt needs a new scanner.
        let replica = self.open.take().map(|open| open.replica);
        if self.has_returned_rows && !self.spec.is_ordered() {
            return Err(error.clone().context("the scan lost its server after it had returned rows"));
        }
        if self.has_returned_rows {
            Metrics::count(&cluster.metrics.scans_resumed);
        }
        let keeps_replica =
            matches!(error.kind(), ErrorKind::ScannerExpired | ErrorKind::InvalidAuthenticationToken);
        if !keeps_replica && let Some(replica) = replica {
            self.exclude(replica);
        }
        if matches!(error.kind(), ErrorKind::TimedOut)
            && let Some(replica) = replica
        {
            cluster.messenger.forget_server(&self.range.tablet.replicas[replica].address);
        }
        if error.kind() == ErrorKind::TabletNotFound {
            self.excluded.fill(true);
        }
        Ok(())
    }

    fn exclude(&mut self, replica: usize) {
        self.excluded[replica] = true;
        self.range.tablet.mark_failed(replica);
    }

    async fn open_scanner(&mut self, limit: Option<u64>, deadline: Instant) -> Result<RecordBatch> {
        let spec = self.spec.clone();
        let Some(replica) = self.choose_replica(deadline).await? else {
            self.is_done = true;
            return Ok(RecordBatch::new_empty(spec.arrow_schema.clone()));
        };
        let cluster = &spec.table.client.cluster;
        // The other tablets wait until the first one has returned the time of the snapshot.
        let mut unknown_snapshot = None;
        if self.snapshot.is_none() && spec.needs_common_snapshot() {
            let known = spec.snapshot.lock().await;
            self.snapshot = *known;
            unknown_snapshot = known.is_none().then_some(known);
        }
        let address = self.range.tablet.replicas[replica].address.clone();
        self.authorization = spec.table.authorization();
        let mut new_scan = NewScanRequest {
            tablet_id: self.range.tablet.id.clone(),
            limit,
            snap_timestamp: self.snapshot,
            propagated_timestamp: cluster.clock.latest(),
            start_primary_key: self.range.start_primary_key.clone(),
            stop_primary_key: self.range.stop_primary_key.clone(),
            last_primary_key: self.last_primary_key.clone(),
            authz_token: self.authorization.clone(),
            ..spec.template.clone()
        };
        let mut features = Vec::new();
        if !new_scan.column_predicates.is_empty() {
            features.push(FEATURE_COLUMN_PREDICATES);
        }
        if spec.uses_bloom_filters {
            features.push(FEATURE_BLOOM_FILTER_PREDICATE_V2);
        }
        if spec.rowwise.load(Ordering::Relaxed) {
            new_scan.row_format_flags = None;
        } else {
            features.push(FEATURE_COLUMNAR_LAYOUT);
        }
        let request = ScanRequest {
            new_scan_request: Some(new_scan),
            call_seq_id: Some(0),
            batch_size_bytes: Some(spec.batch_bytes),
            ..Default::default()
        };
        let options = CallOptions { features, ..CallOptions::until(cluster.rpc_deadline(deadline)) };
        let result = self.call_scan(&address, &request, &options).await;
        let (answer, sidecars) = match result {
            Ok(answer) => answer,
            Err(error) => {
                // No scanner was opened, so another replica can be tried.
                let replica_failed = matches!(
                    error.kind(),
                    ErrorKind::Network | ErrorKind::TimedOut | ErrorKind::Unavailable | ErrorKind::NotLeader
                );
                if replica_failed {
                    self.exclude(replica);
                }
                if error.kind() == ErrorKind::TimedOut {
                    cluster.messenger.forget_server(&address);
                }
                return Err(error);
            }
        };
        if let Some(snapshot) = answer.snap_timestamp
            && spec.needs_common_snapshot()
        {
            self.snapshot = Some(snapshot);
            if let Some(unknown) = &mut unknown_snapshot {
                **unknown = Some(snapshot);
            }
        }
        drop(unknown_snapshot);
        if let Some(id) = answer.scanner_id.clone().filter(|_| answer.has_more_results == Some(true)) {
            self.open = Some(OpenScanner { id, address, replica, next_call: 1 });
        }
        self.take_answer(answer, sidecars)
    }

    async fn fetch_next(&mut self, deadline: Instant) -> Result<RecordBatch> {
        let Some(open) = &self.open else { return Err(Error::invalid("no scanner is open")) };
        let request = ScanRequest {
            scanner_id: Some(open.id.clone()),
            call_seq_id: Some(open.next_call),
            batch_size_bytes: Some(self.spec.batch_bytes),
            ..Default::default()
        };
        let address = open.address.clone();
        let options = CallOptions::until(self.spec.table.client.cluster.rpc_deadline(deadline));
        let (answer, sidecars) = self.call_scan(&address, &request, &options).await?;
        match &mut self.open {
            Some(open) if answer.has_more_results == Some(true) => open.next_call += 1,
            _ => self.open = None,
        }
        self.take_answer(answer, sidecars)
    }

    async fn call_scan(
        &self,
        address: &Address,
        request: &ScanRequest,
        options: &CallOptions,
    ) -> Result<(ScanResponse, Vec<Vec<u8>>)> {
        let cluster = &self.spec.table.client.cluster;
        let call = (SERVICE, "Scan");
        let (answer, sidecars) =
            cluster.messenger.call::<ScanResponse>(address, Login::Token, call, request, options).await?;
        match &answer.error {
            Some(error) => Err(Error::from_tablet_server(error).at_server(&address.to_string())),
            None => {
                cluster.clock.observe(answer.propagated_timestamp);
                cluster.clock.observe(answer.snap_timestamp);
                Ok((answer, sidecars))
            }
        }
    }

    fn take_answer(&mut self, answer: ScanResponse, sidecars: Vec<Vec<u8>>) -> Result<RecordBatch> {
        let spec = &self.spec;
        let batch = if let Some(block) = &answer.columnar_data {
            decode_columnar(&spec.arrow_schema, &spec.columns, block, sidecars)
        } else if let Some(block) = &answer.data {
            decode_rowwise(&spec.arrow_schema, &spec.columns, block, &sidecars)
        } else {
            Ok(RecordBatch::new_empty(spec.arrow_schema.clone()))
        };
        // A batch that cannot be decoded must not be skipped: the scanner is not continued after it.
        let batch = batch.inspect_err(|_| self.open = None)?;
        if answer.last_primary_key.is_some() {
            self.last_primary_key = answer.last_primary_key;
        }
        self.is_done = answer.has_more_results != Some(true);
        if !self.is_done && self.open.is_none() {
            return Err(Error::protocol("more results were announced, but no scanner"));
        }
        Ok(batch)
    }

    /// The replica to open a scanner on; `None` when the partition was dropped, and its rows with it.
    async fn choose_replica(&mut self, deadline: Instant) -> Result<Option<usize>> {
        let cluster = self.spec.table.client.cluster.clone();
        if self.excluded.iter().all(|excluded| *excluded) {
            let table = &self.spec.table;
            table.locations.forget(&self.range.tablet);
            let found = table.locations.find(&cluster, &self.range.tablet.start, deadline).await?;
            match found {
                // The same tablet; or a new one, if the partition was dropped and added again before anything was read.
                Lookup::Tablet(found)
                    if found.id == self.range.tablet.id
                        || !self.has_returned_rows
                            && found.start == self.range.tablet.start
                            && found.end == self.range.tablet.end =>
                {
                    self.excluded = vec![false; found.replicas.len()];
                    self.range.tablet = found;
                }
                Lookup::NonCoveredRange { .. } if !self.has_returned_rows => return Ok(None),
                Lookup::Tablet(_) | Lookup::NonCoveredRange { .. } => {
                    return Err(Error::new(ErrorKind::NotFound, "the partition was dropped during the scan"));
                }
            }
            if self.excluded.is_empty() {
                return Err(Error::new(ErrorKind::Unavailable, "the tablet has no replica"));
            }
        }
        let tablet: &Tablet = &self.range.tablet;
        let usable = |index: &usize| !self.excluded[*index];
        let candidates: Vec<usize> = (0..tablet.replicas.len()).filter(usable).collect();
        let leader = tablet.leader().filter(usable);
        Ok(Some(match self.spec.replica {
            ReplicaSelection::Leader => leader.unwrap_or(candidates[0]),
            ReplicaSelection::Closest => {
                let here = cluster.masters.client_location().unwrap_or_default();
                let is_near = |index: &usize| !here.is_empty() && tablet.replicas[*index].location == here;
                let nearest = candidates.iter().copied().find(is_near);
                nearest.unwrap_or_else(|| candidates[rand::rng().random_range(0..candidates.len())])
            }
        }))
    }

    /// Keeps the scanner alive while the caller is busy.
    pub(super) async fn keep_alive(&self) {
        let Some(open) = &self.open else { return };
        let cluster = &self.spec.table.client.cluster;
        let request = ScannerKeepAliveRequest { scanner_id: open.id.clone() };
        let options = CallOptions::until(cluster.rpc_deadline(Instant::now() + self.spec.timeout));
        let call = (SERVICE, "ScannerKeepAlive");
        // If it fails, the next call for a batch recovers.
        let _ = cluster
            .messenger
            .call::<ScannerKeepAliveResponse>(&open.address, Login::Token, call, &request, &options)
            .await;
    }
}

impl Drop for TabletScan {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let client = self.spec.table.client.clone();
        runtime.spawn(async move {
            let request = ScanRequest {
                scanner_id: Some(open.id),
                call_seq_id: Some(open.next_call),
                batch_size_bytes: Some(0),
                close_scanner: Some(true),
                ..Default::default()
            };
            let options = CallOptions::until(Instant::now() + CLOSE_TIMEOUT);
            let call = (SERVICE, "Scan");
            let messenger = &client.cluster.messenger;
            let _ =
                messenger.call::<ScanResponse>(&open.address, Login::Token, call, &request, &options).await;
        });
    }
}
