//! A scan of one tablet that its caller reads without a task in between.

use super::tablet_scan::TabletScan;
use super::{ScanSpec, TabletRange};
use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind, Result};
use crate::location_cache::Tablet;
use crate::pb::tserver::{SplitKeyRangeRequest, SplitKeyRangeResponse};
use crate::rpc::messenger::Address;
use crate::rpc::{CallOptions, Login};
use arrow_array::RecordBatch;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A scan of one tablet, from [`ScanBuilder::into_tablets`](super::ScanBuilder::into_tablets). Dropping it ends the work
/// on the server.
///
/// Servers forget a scanner that is not called for 60 s. Then an ordered scan begins again behind the last row; others
/// fail.
#[derive(Debug)]
pub struct TabletScanner {
    spec: Arc<ScanSpec>,
    tablet: Arc<Tablet>,
    scan: TabletScan,
    rows_left: Option<u64>,
}

impl TabletScanner {
    pub(super) fn new(spec: Arc<ScanSpec>, tablet: Arc<Tablet>) -> Self {
        let rows_left = spec.limit;
        let scan = TabletScan::new(spec.clone(), TabletRange::whole(tablet.clone()));
        Self { spec, tablet, scan, rows_left }
    }

    /// The tablet's bucket in each hash dimension.
    pub fn hash_buckets(&self) -> &[u32] {
        self.scan.hash_buckets()
    }

    /// The next batch of rows; never an empty one. `None` at the end.
    ///
    /// # Errors
    /// After retries.
    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows_left == Some(0) {
            return Ok(None);
        }
        let Some(batch) = self.scan.next_rows(self.rows_left).await? else { return Ok(None) };
        let Some(left) = &mut self.rows_left else { return Ok(Some(batch)) };
        let taken = (*left).min(batch.num_rows() as u64);
        *left -= taken;
        Ok(Some(batch.slice(0, taken as usize)))
    }

    /// Waits until no write to the tablet can be acknowledged any more, after its range partition was dropped. Its servers
    /// delete it some time after the masters have said that the range is gone, and take writes until then.
    ///
    /// # Errors
    /// `TimedOut` when so many of its replicas are still there, or do not answer, that they could take a write.
    pub async fn wait_until_deleted(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let majority = self.tablet.replicas.len() / 2 + 1;
        let mut left: Vec<&Address> = self.tablet.replicas.iter().map(|replica| &replica.address).collect();
        let mut backoff = Backoff::default();
        loop {
            let asked = left.iter().map(|address| self.is_deleted_at(address, deadline));
            let deleted: Vec<bool> = join_all(asked).await.into_iter().collect::<Result<_>>()?;
            left =
                left.into_iter().zip(deleted).filter(|(_, is_gone)| !is_gone).map(|(left, _)| left).collect();
            if left.len() < majority {
                return Ok(());
            }
            if !backoff.wait(deadline).await {
                let error = Error::timed_out("the servers have not deleted the tablet yet");
                return Err(error.at_tablet(&self.tablet.id_text()));
            }
        }
    }

    /// Asks a server for something small about the tablet.
    async fn is_deleted_at(&self, address: &Address, deadline: Instant) -> Result<bool> {
        let table = &self.spec.table;
        let cluster = &table.client.cluster;
        let authorization = table.authorization();
        let request = SplitKeyRangeRequest {
            tablet_id: self.tablet.id.clone(),
            target_chunk_size_bytes: Some(1 << 60),
            authz_token: authorization.clone(),
        };
        let options = CallOptions::until(cluster.rpc_deadline(deadline));
        let call = ("kudu.tserver.TabletServerService", "SplitKeyRange");
        let answer =
            cluster.messenger.call::<SplitKeyRangeResponse>(address, Login::Token, call, &request, &options);
        let error = match answer.await {
            Ok((SplitKeyRangeResponse { error: None, .. }, _)) => return Ok(false),
            Ok((SplitKeyRangeResponse { error: Some(error), .. }, _)) => Error::from_tablet_server(&error),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::TabletNotFound => return Ok(true),
            ErrorKind::InvalidAuthenticationToken => cluster.renew_authentication_token(deadline).await?,
            ErrorKind::InvalidAuthorizationToken => {
                table.renew_authorization(authorization.as_ref(), deadline).await?;
            }
            _ if error.can_retry() => {}
            _ => return Err(error),
        }
        Ok(false)
    }
}
