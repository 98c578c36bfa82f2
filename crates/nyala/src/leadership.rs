//! This server among the servers of a shared store: whether it does what one of them does for all, and what it reports of
//! the others. A server that has its store for itself always leads.

use crate::config::Config;
use crate::server::metric::Metric;
use crate::server::statistics::{hostname, shown};
use nyala_core::Result;
use nyala_core::store::StoreRef;
use nyala_db::daemons::{Daemon, Daemons, HEARTBEAT_INTERVAL};
use nyala_db::handover::Handover;
use nyala_query::report::{Datum, Report};
use std::sync::Arc;
use std::time::Duration;

/// How long a stop waits until the others know of it.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether this server leads; always if it has its store for itself, and has not handed it over.
pub struct Lead {
    daemons: Option<Daemons>,
    handover: Option<Arc<Handover>>,
}

impl Lead {
    /// Joins the servers of a store.
    pub async fn open(
        store: &StoreRef,
        handover: Option<Arc<Handover>>,
        config: &Config,
        started_ns: i64,
    ) -> Result<Self> {
        let own = Daemon {
            address: config.http_bind.to_string(),
            host: hostname(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ns,
        };
        Ok(Self { daemons: Daemons::open(store, own).await?, handover })
    }

    /// Tells the others again and again that this server is there.
    pub async fn keep(&self) {
        let Some(daemons) = &self.daemons else { return };
        let mut ticks = tokio::time::interval(HEARTBEAT_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut has_failed, mut has_led) = (false, false);
        loop {
            ticks.tick().await;
            let heartbeat = daemons.heartbeat().await;
            if let Some(error) = heartbeat.as_ref().err().filter(|_| !has_failed) {
                tracing::warn!(%error, "cannot tell other servers that this one is there: it runs no continuous queries");
            }
            let leads = daemons.leads();
            if leads != has_led {
                tracing::info!(leads, "continuous queries and retention are the work of one server");
            }
            (has_failed, has_led) = (heartbeat.is_err(), leads);
        }
    }

    /// Whether this server leads at this moment.
    pub fn is_held(&self) -> bool {
        let takes_changes = self.handover.as_ref().is_none_or(|handover| handover.takes_changes());
        takes_changes && self.daemons.as_ref().is_none_or(Daemons::leads)
    }

    /// Returns when this server does not lead any more.
    pub async fn lost(&self) {
        match &self.daemons {
            Some(daemons) => daemons.lead_lost().await,
            None => std::future::pending().await,
        }
    }

    /// Says that this server is going, so that another leads at once. [`Self::keep`] does not run any more.
    pub async fn leave(&self) {
        let Some(daemons) = &self.daemons else { return };
        let left = tokio::time::timeout(LEAVE_TIMEOUT, daemons.leave()).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::info!("the other servers find out by themselves that this one is gone");
        }
    }

    /// Numbers of servers for `/metrics`.
    pub fn metrics(&self) -> Vec<Metric> {
        let Some(daemons) = &self.daemons else { return Vec::new() };
        let all = daemons.all().len() as u64;
        vec![
            Metric::gauge("nyala_daemons", "Servers that use this store.", all),
            Metric::gauge(
                "nyala_leads",
                "1 if this server runs continuous queries and retention for all.",
                daemons.leads().into(),
            ),
        ]
    }

    /// The report `daemons`, one for each server.
    pub fn reports(&self) -> Vec<Report> {
        let all = self.daemons.as_ref().map(Daemons::all).unwrap_or_default();
        let report = |known: nyala_db::daemons::KnownDaemon| {
            let Daemon { address, host, version, started_ns } = known.daemon;
            let values = [
                ("address", Datum::Text(address)),
                ("hostname", Datum::Text(host)),
                ("leads", Datum::Boolean(known.leads)),
                ("silentSeconds", Datum::count(known.silent.as_secs())),
                ("started", Datum::Text(shown(started_ns))),
                ("version", Datum::Text(version)),
            ];
            Report::new("daemons", values).with_tags(vec![("id", format!("{:016x}", known.id))])
        };
        all.into_iter().map(report).collect()
    }
}
