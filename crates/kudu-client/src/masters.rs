//! The masters: which of them leads, and calls to that one.
//!
//! All known masters are asked at once who leads; the first that says "I do" is used, and tells the full set
//! of masters, the cluster's CA and our authentication token. When it stops leading or answering the question
//! is asked again, until the operation's deadline.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use prost::Message;
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;
use tracing::Instrument;

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
    /// Held while the leader is looked for, so that many callers ask once.
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

/// Callers that saw their token refused at about the same time share one renewal.
const RENEWAL_LASTS: Duration = Duration::from_millis(500);

impl Masters {
    pub(crate) fn new(configured: Vec<Address>, rpc_timeout: Duration) -> Self {
        Self { configured, rpc_timeout, state: Mutex::default(), searching: tokio::sync::Mutex::new(()) }
    }

    pub(crate) fn cluster_id(&self) -> Option<String> {
        self.state.lock().cluster_id.clone()
    }

    /// The location the masters assigned to this client, for the choice of near replicas.
    pub(crate) fn client_location(&self) -> Option<String> {
        self.state.lock().client_location.clone()
    }

    /// Calls the leading master, finding it and retrying as needed.
    pub(crate) async fn call<Answer: MasterAnswer>(
        &self,
        messenger: &Messenger,
        method: &'static str,
        request: &impl Message,
        features: &[u32],
        deadline: Instant,
    ) -> Result<Answer> {
        let span = tracing::debug_span!("kudu_master", method);
        let mut repeated = false;
        let call = self.call_noting_repeats(messenger, method, request, features, deadline, &mut repeated);
        call.instrument(span).await
    }

    /// Like [`Self::call`]; `repeated` becomes true when an earlier attempt may have taken effect unseen.
    pub(crate) async fn call_noting_repeats<Answer: MasterAnswer>(
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
                // Unavailable: the leader answers, what was asked for (a new tablet, say) is just not ready.
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

    /// Logs in afresh and so gets a new authentication token.
    pub(crate) async fn renew_token(&self, messenger: &Messenger, deadline: Instant) -> Result<()> {
        {
            let mut state = self.state.lock();
            if state.renewed_at.is_some_and(|at| at.elapsed() < RENEWAL_LASTS) {
                return Ok(());
            }
            state.renewed_at = Some(Instant::now());
            state.leader = None;
        }
        // A token is given to those who logged in with their primary identity, once per connection.
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
        let _searching = match tokio::time::timeout_at(deadline, self.searching.lock()).await {
            Ok(guard) => guard,
            Err(_) => return Err(Error::timed_out("no leading master was found in time")),
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
            let hopeless = !last.can_retry();
            if hopeless || !backoff.wait(deadline).await {
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

        let mut worst = Error::new(ErrorKind::Unavailable, "no master says that it leads");
        while let Some((address, answer)) = answers.next().await {
            match answer {
                Ok((answer, _)) if answer.error.is_none() && answer.role == Some(ROLE_LEADER) => {
                    self.accept(messenger, &address, answer);
                    return Ok(address);
                }
                Ok((answer, _)) => {
                    let error = answer.error.as_ref().map(Error::from_master);
                    tracing::debug!(%address, role = answer.role, ?error, "a master that does not lead");
                    // It knows the others, of which one may lead; they are asked in the next round.
                    self.learn(&answer);
                }
                // A refusal says more than a silence.
                Err(error) if !error.can_retry() || worst.kind() == ErrorKind::Unavailable => worst = error,
                Err(_) => {}
            }
        }
        Err(worst)
    }

    fn learn(&self, answer: &ConnectToMasterResponse) {
        let mut state = self.state.lock();
        for address in addresses_of(answer) {
            if !state.known.contains(&address) && state.known.len() < MOST_MASTERS {
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
                "more masters than configured"
            );
        }
        tracing::debug!(leader = %address, "found the leading master");
    }
}

/// More than any cluster has; a broken master must not make every search ask the world.
const MOST_MASTERS: usize = 16;

fn addresses_of(answer: &ConnectToMasterResponse) -> Vec<Address> {
    answer.master_addrs.iter().filter_map(|known| Address::from_pb(known).ok()).take(MOST_MASTERS).collect()
}
