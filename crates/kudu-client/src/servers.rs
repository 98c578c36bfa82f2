//! The tablet servers, as far as the masters tell.
//!
//! A master knows tablet servers by their heartbeats, and keeps that in memory: after its start it lists none, then some, and
//! in the end all that found it. So a server that is not listed may be there, and may lead tablets. Those that were listed
//! before are remembered. A list of fewer servers than a tablet has replicas lacks some.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::Result;
use crate::pb::master::ListedTabletServer;
use crate::rpc::messenger::Address;

/// How long a list is used before the masters are asked again.
const LIST_USED_FOR: Duration = Duration::from_secs(5);

/// A server from which the masters have heard nothing for this long leads no tablet.
const SILENT: Duration = Duration::from_secs(30);

/// After so long without a heartbeat Kudu has made other copies of what a server had (by default).
const REMEMBERED: Duration = Duration::from_secs(300);

/// The servers that were listed lately.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    by_id: HashMap<Bytes, Server>,
    listed_at: Option<Instant>,
}

#[derive(Debug)]
struct Server {
    address: Option<Address>,
    listed_at: Instant,
    /// How long the masters had not heard of it then.
    silence: Duration,
}

/// The servers at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveServers {
    pub(crate) addresses: Vec<Address>,
    /// How many others were not heard of for [`SILENT`].
    silent: usize,
}

impl Servers {
    /// Notes what the masters list.
    pub(crate) fn note(&mut self, listed: Vec<ListedTabletServer>, now: Instant) -> Result<()> {
        self.by_id.retain(|_, server| now.duration_since(server.listed_at) < REMEMBERED);
        for server in listed {
            let id = server.instance_id.map(|instance| instance.permanent_uuid).unwrap_or_default();
            let addresses = server.registration.map(|known| known.rpc_addresses).unwrap_or_default();
            let address = addresses.first().map(Address::from_pb).transpose()?;
            let millis = server.millis_since_heartbeat.unwrap_or(0);
            let silence = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
            self.by_id.insert(id, Server { address, listed_at: now, silence });
        }
        self.listed_at = Some(now);
        Ok(())
    }

    /// The servers, unless the masters have to be asked first: a list that lacks some is used once.
    pub(crate) fn known(&self, now: Instant) -> Option<LiveServers> {
        let listed_at = self.listed_at.filter(|at| now.duration_since(*at) < LIST_USED_FOR)?;
        let is_lacking = |server: &Server| server.listed_at < listed_at && !server.is_silent(now);
        (!self.by_id.values().any(is_lacking)).then(|| self.live(now))
    }

    pub(crate) fn live(&self, now: Instant) -> LiveServers {
        let live = self.by_id.values().filter(|server| !server.is_silent(now));
        let addresses: Vec<Address> = live.filter_map(|server| server.address.clone()).collect();
        LiveServers { silent: self.by_id.len() - addresses.len(), addresses }
    }

    /// The next to ask for them asks the masters.
    pub(crate) fn doubt(&mut self) {
        self.listed_at = None;
    }
}

impl Server {
    fn is_silent(&self, now: Instant) -> bool {
        self.silence + now.duration_since(self.listed_at) > SILENT
    }
}

impl LiveServers {
    /// How many of them need not answer: the others still have a majority of the replicas of every tablet. `None`: the
    /// masters do not know enough servers.
    pub(crate) fn may_fail(&self, replicas: usize) -> Option<usize> {
        let minority = replicas.saturating_sub(1) / 2;
        let not_listed = replicas.saturating_sub(self.addresses.len() + self.silent);
        let may_fail = minority.saturating_sub(self.silent).checked_sub(not_listed)?;
        (self.addresses.len() >= replicas - minority).then_some(may_fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::HostPort;
    use crate::pb::master::{NodeInstance, ServerRegistration};

    fn listed(port: u32, silence_ms: i32) -> ListedTabletServer {
        let address = HostPort { host: "h".into(), port };
        ListedTabletServer {
            instance_id: Some(NodeInstance { permanent_uuid: Bytes::from(port.to_string()) }),
            registration: Some(ServerRegistration { rpc_addresses: vec![address] }),
            millis_since_heartbeat: Some(silence_ms),
            location: None,
        }
    }

    fn after(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_list_of_too_few_servers_is_not_believed() {
        let may_fail = |live: u32, silent: u32, replicas: usize| {
            let mut servers = Servers::default();
            let silent = (live..live + silent).map(|port| listed(port, 30_001));
            servers.note((0..live).map(|port| listed(port, 0)).chain(silent).collect(), after(0)).unwrap();
            servers.live(after(0)).may_fail(replicas)
        };
        assert_eq!([may_fail(3, 0, 3), may_fail(5, 0, 3), may_fail(5, 0, 5)], [Some(1), Some(1), Some(2)]);
        assert_eq!([may_fail(2, 1, 3), may_fail(5, 2, 3)], [Some(0), Some(0)], "those that answer have all");
        assert_eq!(may_fail(2, 0, 3), Some(0), "the third may lead");
        assert_eq!([may_fail(1, 0, 3), may_fail(0, 0, 3), may_fail(0, 0, 1)], [None; 3]);
        assert_eq!([may_fail(1, 1, 3), may_fail(1, 2, 3), may_fail(0, 1, 1)], [None; 3]);
        assert_eq!(may_fail(1, 0, 1), Some(0));
    }

    #[test]
    fn servers_that_a_list_lacks_are_remembered() {
        let mut servers = Servers::default();
        let ports = |live: &LiveServers| {
            let mut ports: Vec<u16> = live.addresses.iter().map(|address| address.port).collect();
            ports.sort_unstable();
            (ports, live.silent)
        };
        assert_eq!(servers.known(after(0)), None);
        servers.note((0..3).map(|port| listed(port, 0)).collect(), after(0)).unwrap();
        assert_eq!(ports(&servers.known(after(4)).unwrap()), (vec![0, 1, 2], 0));
        assert_eq!(servers.known(after(5)), None, "it is old");
        // The master was restarted.
        servers.note(vec![listed(1, 0)], after(5)).unwrap();
        assert_eq!(ports(&servers.live(after(5))), (vec![0, 1, 2], 0));
        assert_eq!(servers.known(after(5)), None, "the next list may have them");
        servers.note(vec![listed(1, 0), listed(2, 0)], after(31)).unwrap();
        assert_eq!(ports(&servers.live(after(31))), (vec![1, 2], 1));
        assert!(servers.known(after(32)).is_some(), "the other is silent");
        servers.doubt();
        assert_eq!(servers.known(after(32)), None);
        servers.note(vec![listed(1, 0), listed(2, 0)], after(300)).unwrap();
        assert_eq!(ports(&servers.live(after(300))), (vec![1, 2], 0), "it is forgotten");
    }
}
