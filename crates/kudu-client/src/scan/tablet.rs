//! The scan of one tablet: opening, going on, and starting again elsewhere.
//!
//! A scan that has handed out nothing yet can start again on any replica. One that has can only be continued
//! if it is ordered and reads a snapshot: a new scanner, anywhere, then begins behind the last key received.
//! Otherwise losing the server ends the scan with an error; it never ends silently short.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_array::RecordBatch;
use bytes::Bytes;
use rand::Rng;
use tokio::time::Instant;

use super::columnar::{decode_columnar, decode_rowwise};
use super::{Part, ReplicaSelection, Spec};
use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::pb::tserver::*;
use crate::rpc::messenger::Address;
use crate::rpc::{CallOptions, Login};
use crate::tablets::{Found, Tablet};

const SERVICE: &str = "kudu.tserver.TabletServerService";

/// Closing is a courtesy; a server forgets scanners by itself.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct TabletScan {
    spec: Arc<Spec>,
    part: Part,
    /// Replicas that failed since the locations were last fetched.
    excluded: Vec<bool>,
    open: Option<OpenScanner>,
    /// Where a new scanner goes on (ordered scans).
    last_primary_key: Option<Bytes>,
    handed_out: bool,
    is_done: bool,
    snapshot: Option<u64>,
}

#[derive(Debug)]
struct OpenScanner {
    id: Bytes,
    address: Address,
    replica: usize,
    next_call: u32,
}

impl TabletScan {
    pub(super) fn new(spec: Arc<Spec>, part: Part) -> Self {
        let excluded = vec![false; part.tablet.replicas.len()];
        Self {
            spec,
            part,
            excluded,
            open: None,
            last_primary_key: None,
            handed_out: false,
            is_done: false,
            snapshot: None,
        }
    }

    /// The next batch, perhaps empty; `None` at the end. `limit` is how many rows are still wanted.
    pub(super) async fn next(&mut self, limit: Option<u64>) -> Result<Option<RecordBatch>> {
        if self.is_done {
            return Ok(None);
        }
        let deadline = Instant::now() + self.spec.timeout;
        let mut backoff = Backoff::default();
        let mut unavailable = 0;
        loop {
            let attempt = if self.open.is_some() {
                self.go_on(deadline).await
            } else {
                self.open_scanner(limit, deadline).await
            };
            let error = match attempt {
                Ok(batch) => {
                    self.handed_out |= batch.num_rows() > 0;
                    let rows = batch.num_rows() as u64;
                    Metrics::add(&self.spec.table.client.inner.metrics.rows_scanned, rows);
                    return Ok(Some(batch));
                }
                Err(error) => error.at_tablet(&self.part.tablet.id_text()),
            };
            tracing::debug!(%error, "scan attempt failed");
            self.recover(&error, &mut unavailable, deadline).await?;
            Metrics::count(&self.spec.table.client.inner.metrics.retries);
            if !backoff.wait(deadline).await {
                return Err(error.context("the scan gave up at its deadline"));
            }
        }
    }

    /// Prepares another attempt, or says that there can be none.
    async fn recover(&mut self, error: &Error, unavailable: &mut u32, deadline: Instant) -> Result<()> {
        let client = self.spec.table.client.inner.clone();
        match error.kind() {
            // The scanner is alive; the same call can be repeated.
            ErrorKind::Busy => return Ok(()),
            ErrorKind::Unavailable if self.open.is_some() => {
                *unavailable += 1;
                if *unavailable < 5 {
                    return Ok(());
                }
            }
            ErrorKind::InvalidAuthenticationToken => {
                client.renew_authentication_token(deadline).await?;
            }
            ErrorKind::InvalidAuthorizationToken => {
                self.spec.table.renew_authorization(deadline).await?;
                return Ok(());
            }
            ErrorKind::NotSupported
                if !self.handed_out && !self.spec.rowwise.swap(true, Ordering::Relaxed) =>
            {
                tracing::warn!(%error, "the server does not know the columnar layout; reading rows");
                return Ok(());
            }
            _ if !error.can_retry() => return Err(error.clone()),
            _ => {}
        }
        // What follows needs a new scanner.
        let replica = self.open.take().map(|open| open.replica);
        if self.handed_out && !self.spec.is_ordered() {
            return Err(error.clone().context("the scan lost its server after rows were handed out"));
        }
        if self.handed_out {
            Metrics::count(&client.metrics.scans_resumed);
        }
        let keeps_replica =
            matches!(error.kind(), ErrorKind::ScannerExpired | ErrorKind::InvalidAuthenticationToken);
        if !keeps_replica && let Some(replica) = replica {
            self.exclude(replica);
        }
        if matches!(error.kind(), ErrorKind::TimedOut)
            && let Some(replica) = replica
        {
            client.messenger.forget_server(&self.part.tablet.replicas[replica].address);
        }
        if error.kind() == ErrorKind::TabletNotFound {
            self.excluded.fill(true);
        }
        Ok(())
    }

    fn exclude(&mut self, replica: usize) {
        self.excluded[replica] = true;
        self.part.tablet.refused_by(replica);
    }

    async fn open_scanner(&mut self, limit: Option<u64>, deadline: Instant) -> Result<RecordBatch> {
        let spec = self.spec.clone();
        let Some(replica) = self.choose_replica(deadline).await? else {
            self.is_done = true;
            return Ok(RecordBatch::new_empty(spec.arrow_schema.clone()));
        };
        let client = &spec.table.client.inner;
        // Until one tablet has told the time of the snapshot the others wait.
        let mut common = None;
        if self.snapshot.is_none() && spec.needs_common_snapshot() {
            let known = spec.snapshot.lock().await;
            self.snapshot = *known;
            common = known.is_none().then_some(known);
        }
        let address = self.part.tablet.replicas[replica].address.clone();
        let mut new_scan = NewScanRequest {
            tablet_id: self.part.tablet.id.clone(),
            limit,
            snap_timestamp: self.snapshot,
            propagated_timestamp: client.clock.latest(),
            start_primary_key: self.part.start_primary_key.clone(),
            stop_primary_key: self.part.stop_primary_key.clone(),
            last_primary_key: self.last_primary_key.clone(),
            authz_token: spec.table.authorization(deadline).await?,
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
        let options = CallOptions { features, ..CallOptions::until(client.rpc_deadline(deadline)) };
        let result = self.exchange(&address, &request, &options).await;
        let (answer, sidecars) = match result {
            Ok(answer) => answer,
            Err(error) => {
                // Nothing is open there yet: another replica may be asked, whatever the reason.
                let elsewhere = matches!(
                    error.kind(),
                    ErrorKind::Network | ErrorKind::TimedOut | ErrorKind::Unavailable | ErrorKind::NotLeader
                );
                if elsewhere {
                    self.exclude(replica);
                }
                if error.kind() == ErrorKind::TimedOut {
                    client.messenger.forget_server(&address);
                }
                return Err(error);
            }
        };
        if let Some(snapshot) = answer.snap_timestamp
            && spec.needs_common_snapshot()
        {
            self.snapshot = Some(snapshot);
            if let Some(common) = &mut common {
                **common = Some(snapshot);
            }
        }
        drop(common);
        if let Some(id) = answer.scanner_id.clone().filter(|_| answer.has_more_results == Some(true)) {
            self.open = Some(OpenScanner { id, address, replica, next_call: 1 });
        }
        self.take_in(answer, sidecars)
    }

    async fn go_on(&mut self, deadline: Instant) -> Result<RecordBatch> {
        let Some(open) = &self.open else { return Err(Error::invalid("no scanner is open")) };
        let request = ScanRequest {
            scanner_id: Some(open.id.clone()),
            call_seq_id: Some(open.next_call),
            batch_size_bytes: Some(self.spec.batch_bytes),
            ..Default::default()
        };
        let address = open.address.clone();
        let options = CallOptions::until(self.spec.table.client.inner.rpc_deadline(deadline));
        let (answer, sidecars) = self.exchange(&address, &request, &options).await?;
        match &mut self.open {
            Some(open) if answer.has_more_results == Some(true) => open.next_call += 1,
            _ => self.open = None,
        }
        self.take_in(answer, sidecars)
    }

    async fn exchange(
        &self,
        address: &Address,
        request: &ScanRequest,
        options: &CallOptions,
    ) -> Result<(ScanResponse, Vec<Vec<u8>>)> {
        let client = &self.spec.table.client.inner;
        let call = (SERVICE, "Scan");
        let (answer, sidecars) =
            client.messenger.call::<ScanResponse>(address, Login::Token, call, request, options).await?;
        match &answer.error {
            Some(error) => Err(Error::from_tablet_server(error).at_server(&address.to_string())),
            None => {
                client.clock.observe(answer.propagated_timestamp);
                client.clock.observe(answer.snap_timestamp);
                Ok((answer, sidecars))
            }
        }
    }

    fn take_in(&mut self, answer: ScanResponse, sidecars: Vec<Vec<u8>>) -> Result<RecordBatch> {
        let spec = &self.spec;
        let batch = if let Some(block) = &answer.columnar_data {
            decode_columnar(&spec.arrow_schema, &spec.columns, block, sidecars)
        } else if let Some(block) = &answer.data {
            decode_rowwise(&spec.arrow_schema, &spec.columns, block, &sidecars)
        } else {
            Ok(RecordBatch::new_empty(spec.arrow_schema.clone()))
        };
        // A batch that cannot be decoded must not be skipped by going on behind it.
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

    /// The replica to open a scanner at; `None` when the partition is gone and with it its rows.
    async fn choose_replica(&mut self, deadline: Instant) -> Result<Option<usize>> {
        let client = self.spec.table.client.inner.clone();
        if self.excluded.iter().all(|excluded| *excluded) {
            let table = &self.spec.table;
            table.tablets.forget(&self.part.tablet);
            let found = table.tablets.find(&client, &self.part.tablet.start, deadline).await?;
            match found {
                // Dropped and added again since the locations were fetched, and nothing read yet.
                Found::Tablet(found)
                    if found.id == self.part.tablet.id
                        || !self.handed_out
                            && found.start == self.part.tablet.start
                            && found.end == self.part.tablet.end =>
                {
                    self.excluded = vec![false; found.replicas.len()];
                    self.part.tablet = found;
                }
                Found::Gap { .. } if !self.handed_out => return Ok(None),
                Found::Tablet(_) | Found::Gap { .. } => {
                    return Err(Error::new(ErrorKind::NotFound, "the partition was dropped during the scan"));
                }
            }
            if self.excluded.is_empty() {
                return Err(Error::new(ErrorKind::Unavailable, "the tablet has no replica"));
            }
        }
        let tablet: &Tablet = &self.part.tablet;
        let usable = |index: &usize| !self.excluded[*index];
        let candidates: Vec<usize> = (0..tablet.replicas.len()).filter(usable).collect();
        let leader = tablet.leader().filter(usable);
        Ok(Some(match self.spec.replica {
            ReplicaSelection::Leader => leader.unwrap_or(candidates[0]),
            ReplicaSelection::Closest => {
                let here = client.masters.client_location().unwrap_or_default();
                let near = |index: &usize| !here.is_empty() && tablet.replicas[*index].location == here;
                let near = candidates.iter().copied().find(near);
                near.unwrap_or_else(|| candidates[rand::rng().random_range(0..candidates.len())])
            }
        }))
    }

    /// Keeps the scanner alive while the caller is busy.
    pub(super) async fn keep_alive(&self) {
        let Some(open) = &self.open else { return };
        let client = &self.spec.table.client.inner;
        let request = ScannerKeepAliveRequest { scanner_id: open.id.clone() };
        let options = CallOptions::until(client.rpc_deadline(Instant::now() + self.spec.timeout));
        let call = (SERVICE, "ScannerKeepAlive");
        // If it failed, the next batch finds out and recovers.
        let _ = client
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
            let messenger = &client.inner.messenger;
            let _ =
                messenger.call::<ScanResponse>(&open.address, Login::Token, call, &request, &options).await;
        });
    }
}
