//! Calls to the leading master.
//!
//! To find it, the client asks all known masters at once whether they lead. The first that says so is used; its answer
//! contains the addresses of all masters, the cluster's CA and an authentication token. When it stops leading or
//! answering, the client searches again until the operation's deadline.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use prost::Message;
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::{Code, Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::pb::master::{
    ConnectToMasterRequest, ConnectToMasterResponse, FEATURE_CONNECT_TO_MASTER, MasterAnswer, ROLE_LEADER,
};
use crate::rpc::messenger::Address;
use crate::rpc::{CallOptions, Login, Messenger};

const SERVICE: &str = "kudu.master.MasterService";

#[derive(Debug)]
pub(crate) struct Masters {
    configured: Vec<Address>,
    rpc_timeout: Duration,
    state: Mutex<State>,
    /// Held during the search for the leader, so that many callers share one search.
    searching: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    leader: Option<Address>,
    known: Vec<Address>,
    cluster_id: Option<String>,
    client_location: Option<String>,
    /// When the authentication token was last renewed.
    renewed_at: Option<Instant>,
}

/// Callers whose token was refused within this time of a renewal share that renewal.
const RENEWAL_SHARED_FOR: Duration = Duration::from_millis(500);

impl Masters {
    pub(crate) fn new(configured: Vec<Address>, rpc_timeout: Duration) -> Self {
        Self { configured, rpc_timeout, state: Mutex::default(), searching: tokio::sync::Mutex::new(()) }
    }

    pub(crate) fn cluster_id(&self) -> Option<String> {
        self.state.lock().cluster_id.clone()
    }

    /// The location that the masters assigned to this client, for choosing replicas near it.
    pub(crate) fn client_location(&self) -> Option<String> {
        self.state.lock().client_location.clone()
    }

    /// Calls the leading master, finding it and retrying as needed. `repeated` becomes true when an earlier attempt
    /// may have taken effect unseen.
    pub(crate) async fn call<Answer: MasterAnswer>(
        &self,
        messenger: &Messenger,
        method: &'static str,
        request: &impl Message,
        features: &[u32],
        deadline: Instant,
        repeated: &mut bool,
    ) -> Result<Answer> {
        let mut backoff = Backoff::default();
        loop {
            let leader = self.leader(messenger, deadline).await?;
            let rpc_deadline = deadline.min(Instant::now() + self.rpc_timeout);
            let options = CallOptions { features: features.to_vec(), ..CallOptions::until(rpc_deadline) };
            let result =
                messenger.call::<Answer>(&leader, Login::Primary, (SERVICE, method), request, &options).await;
            let error = match result {
                Ok((answer, _)) => match answer.error() {
                    None => return Ok(answer),
                    Some(error) => Error::from_master(error).at_server(&leader.to_string()),
                },
                Err(error) => error,
            };
            match error.kind() {
                // The leader answers, but something (a new tablet, for example) is not ready yet.
                ErrorKind::Unavailable if matches!(error.code(), Some(Code::Master(..))) => {}
                ErrorKind::Busy => {}
                ErrorKind::Network | ErrorKind::TimedOut => {
                    *repeated = true;
                    self.forget(&leader);
                    messenger.forget_server(&leader);
                }
                ErrorKind::NotLeader | ErrorKind::Unavailable => self.forget(&leader),
                ErrorKind::InvalidAuthenticationToken => messenger.forget(Login::Primary),
                _ => return Err(error),
            }
            Metrics::count(&messenger.metrics.retries);
            if !backoff.wait(deadline).await {
                return Err(error.context(&format!("{method}: gave up at the deadline")));
            }
        }
    }

    /// Logs in again, which gives a new authentication token.
    pub(crate) async fn renew_token(&self, messenger: &Messenger, deadline: Instant) -> Result<()> {
        {
            let mut state = self.state.lock();
            if state.renewed_at.is_some_and(|at| at.elapsed() < RENEWAL_SHARED_FOR) {
                return Ok(());
            }
            state.renewed_at = Some(Instant::now());
            state.leader = None;
        }
        // Masters give a token once per connection, to those who log in with their primary identity.
        messenger.forget(Login::Token);
        messenger.forget(Login::Primary);
        self.leader(messenger, deadline).await.map(drop)
    }

    fn forget(&self, leader: &Address) {
        let mut state = self.state.lock();
        if state.leader.as_ref() == Some(leader) {
            state.leader = None;
        }
    }

    pub(crate) async fn leader(&self, messenger: &Messenger, deadline: Instant) -> Result<Address> {
        if let Some(leader) = self.state.lock().leader.clone() {
            return Ok(leader);
        }
        let Ok(_searching) = tokio::time::timeout_at(deadline, self.searching.lock()).await else {
            return Err(Error::timed_out("no leading master was found in time"));
        };
        let mut backoff = Backoff::default();
        loop {
            if let Some(leader) = self.state.lock().leader.clone() {
                return Ok(leader);
            }
            let last = match self.search_once(messenger, deadline).await {
                Ok(leader) => return Ok(leader),
                Err(error) => error,
            };
            if !last.can_retry() || !backoff.wait(deadline).await {
                return Err(last.context("no leading master was found"));
            }
        }
    }

    async fn search_once(&self, messenger: &Messenger, deadline: Instant) -> Result<Address> {
        let mut candidates = self.configured.clone();
        for known in &self.state.lock().known {
            if !candidates.contains(known) {
                candidates.push(known.clone());
            }
        }
        let rpc_deadline = deadline.min(Instant::now() + self.rpc_timeout);
        let options =
            CallOptions { features: vec![FEATURE_CONNECT_TO_MASTER], ..CallOptions::until(rpc_deadline) };
        let options = &options;
        let mut answers: FuturesUnordered<_> = candidates
            .into_iter()
            .map(async |address| {
                let request = ConnectToMasterRequest {};
                let call = (SERVICE, "ConnectToMaster");
                let answer = messenger
                    .call::<ConnectToMasterResponse>(&address, Login::Primary, call, &request, options)
                    .await;
                (address, answer)
            })
            .collect();

        let mut reported = Error::new(ErrorKind::Unavailable, "no master says that it leads");
        while let Some((address, answer)) = answers.next().await {
            match answer {
                Ok((answer, _)) if answer.error.is_none() && answer.role == Some(ROLE_LEADER) => {
                    self.accept(messenger, &address, answer);
                    return Ok(address);
                }
                Ok((answer, _)) => {
                    let error = answer.error.as_ref().map(Error::from_master);
                    tracing::debug!(%address, role = answer.role, ?error, "this master does not lead");
                    // It knows the other masters, of which one may lead: the next round asks them too.
                    self.learn(&answer);
                }
                // A refusal is more informative than no answer.
                Err(error) if !error.can_retry() || reported.kind() == ErrorKind::Unavailable => {
                    reported = error
                }
                Err(_) => {}
            }
        }
        Err(reported)
    }

    fn learn(&self, answer: &ConnectToMasterResponse) {
        let mut state = self.state.lock();
        for address in addresses_of(answer) {
            if !state.known.contains(&address) && state.known.len() < MAX_MASTERS {
                state.known.push(address);
            }
        }
    }

    fn accept(&self, messenger: &Messenger, address: &Address, answer: ConnectToMasterResponse) {
        let certificates = answer.ca_cert_der.iter().map(|der| CertificateDer::from(der.to_vec())).collect();
        messenger.credentials.grant(answer.authn_token.clone(), certificates);
        Metrics::count(&messenger.metrics.leader_changes);
        let mut state = self.state.lock();
        state.leader = Some(address.clone());
        state.known = addresses_of(&answer);
        state.cluster_id = answer.cluster_id;
        state.client_location = answer.client_location;
        if state.known.len() > self.configured.len() {
            tracing::warn!(
                known = state.known.len(),
                configured = self.configured.len(),
                "the cluster has more masters than are configured"
            );
        }
        tracing::debug!(leader = %address, "found the leading master");
    }
}

/// More than any cluster has. It bounds the search when a broken master lists many addresses.
const MAX_MASTERS: usize = 16;

fn addresses_of(answer: &ConnectToMasterResponse) -> Vec<Address> {
    answer.master_addrs.iter().filter_map(|known| Address::from_pb(known).ok()).take(MAX_MASTERS).collect()
}
