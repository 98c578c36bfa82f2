//! The cluster as one client sees it: connections, masters, time and counters.
//!
//! All handles of a client (tables, sessions, scanners) share one [`Cluster`].

use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use tokio::time::Instant;
use tracing::Instrument;

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::concurrency_limit::ConcurrencyLimit;
use crate::error::{Error, ErrorKind, Result};
use crate::masters::Masters;
use crate::metrics::Metrics;
use crate::pb::master::{
    IsDoneResponse, ListTabletServersRequest, ListTabletServersResponse, MasterAnswer, TableIdentifier,
    TableRequest,
};
use crate::pb::rpc::{ServerClockRequest, ServerClockResponse};
use crate::request_tracker::RequestTracker;
use crate::rpc::messenger::Address;
use crate::rpc::{CallOptions, Login, Messenger};
use crate::servers::{LiveServers, Servers};

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) messenger: Messenger,
    pub(crate) masters: Masters,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) request_tracker: RequestTracker,
    pub(crate) rpc_timeout: Duration,
    pub(crate) admin_timeout: Duration,
    pub(crate) write_limits: Mutex<HashMap<Address, Arc<ConcurrencyLimit>>>,
    /// Held while the masters are asked for them, so that many callers share one answer.
    pub(crate) servers: tokio::sync::Mutex<Servers>,
}

const SERVER_CLOCK: (&str, &str) = ("kudu.server.GenericService", "ServerClock");

impl Cluster {
    pub(crate) fn admin_deadline(&self) -> Instant {
        Instant::now() + self.admin_timeout
    }

    pub(crate) fn rpc_deadline(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.rpc_timeout)
    }

    /// How many writes at once this server takes.
    pub(crate) fn write_limit(&self, address: &Address) -> Arc<ConcurrencyLimit> {
        self.write_limits.lock().entry(address.clone()).or_default().clone()
    }

    pub(crate) async fn call_master<Answer: MasterAnswer>(
        &self,
        method: &'static str,
        request: &impl Message,
        features: &[u32],
        deadline: Instant,
    ) -> Result<Answer> {
        self.call_master_noting_repeats(method, request, features, deadline, &mut false).await
    }

    /// Like [`Self::call_master`]; `repeated` becomes true when an earlier attempt may have taken effect unseen.
    pub(crate) async fn call_master_noting_repeats<Answer: MasterAnswer>(
        &self,
        method: &'static str,
        request: &impl Message,
        features: &[u32],
        deadline: Instant,
        repeated: &mut bool,
    ) -> Result<Answer> {
        let span = tracing::debug_span!("kudu_master", method);
        let call = self.masters.call(&self.messenger, method, request, features, deadline, repeated);
        call.instrument(span).await
    }

    /// Asks the tablet servers for their clocks until a majority of the replicas of every tablet has answered. Every
    /// tablet has at least `replicas` of them.
    pub(crate) async fn observe_server_clocks(&self, replicas: usize) -> Result<()> {
        let (addresses, mut may_fail) = self.enough_servers(replicas).await?;
        let deadline = Instant::now() + self.rpc_timeout;
        let options = CallOptions { deadline, features: Vec::new(), request_id: None };
        let calls = addresses.iter().map(async |address| {
            let (request, mut backoff) = (ServerClockRequest {}, Backoff::default());
            loop {
                let call = self.messenger.call::<ServerClockResponse>(
                    address,
                    Login::Token,
                    SERVER_CLOCK,
                    &request,
                    &options,
                );
                let error = match call.await {
                    Ok((answer, _)) => return Ok::<_, Error>(answer.timestamp),
                    Err(error) => error,
                };
                match error.kind() {
                    ErrorKind::Busy => {}
                    ErrorKind::InvalidAuthenticationToken => {
                        self.renew_authentication_token(deadline).await?
                    }
                    _ => return Err(error),
                }
                if !backoff.wait(deadline).await {
                    return Err(error);
                }
            }
        });
        let mut answers: FuturesUnordered<_> = calls.collect();
        while answers.len() > may_fail {
            match answers.next().await {
                Some(Ok(timestamp)) => self.clock.observe(timestamp),
                Some(Err(error)) if may_fail == 0 => return Err(error),
                Some(Err(_)) => may_fail -= 1,
                None => break,
            }
        }
        Ok(())
    }

    /// The tablet servers, and how many of them need not answer.
    async fn enough_servers(&self, replicas: usize) -> Result<(Vec<Address>, usize)> {
        let (deadline, mut backoff) = (Instant::now() + self.rpc_timeout, Backoff::default());
        loop {
            let live = self.live_servers().await?;
            if let Some(may_fail) = live.may_fail(replicas) {
                return Ok((live.addresses, may_fail));
            }
            self.servers.lock().await.doubt();
            if !backoff.wait(deadline).await {
                let known = live.addresses.len();
                let words =
                    format!("too few tablet servers for {replicas} replicas: the masters know {known}");
                return Err(Error::new(ErrorKind::Unavailable, words));
            }
        }
    }

    async fn live_servers(&self) -> Result<LiveServers> {
        let mut servers = self.servers.lock().await;
        if let Some(known) = servers.known(Instant::now()) {
            return Ok(known);
        }
        let request = ListTabletServersRequest {};
        let answer: ListTabletServersResponse =
            self.call_master("ListTabletServers", &request, &[], self.admin_deadline()).await?;
        let now = Instant::now();
        servers.note(answer.servers, now)?;
        Ok(servers.live(now))
    }

    /// Polls until the masters have carried out a change of a table: they answer before it has taken effect.
    pub(crate) async fn wait_until_done(
        &self,
        method: &'static str,
        table: &str,
        deadline: Instant,
    ) -> Result<()> {
        let request = TableRequest { table: Some(TableIdentifier::by_name(table)) };
        let mut backoff = Backoff::default();
        loop {
            let answer: IsDoneResponse = self.call_master(method, &request, &[], deadline).await?;
            if answer.done == Some(true) {
                return Ok(());
            }
            if !backoff.wait(deadline).await {
                return Err(Error::timed_out(format!("{method} of table {table:?} did not become true")));
            }
        }
    }

    pub(crate) async fn renew_authentication_token(&self, deadline: Instant) -> Result<()> {
        self.masters.renew_token(&self.messenger, deadline).await
    }
}
