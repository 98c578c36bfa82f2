//! `GET /debug/requests`: counts queries and writes per client for some seconds, while somebody asks for it.
//!
//! As long as nobody asks, this costs one atomic load per request.

use super::params::Params;
use super::response::{Answer, Failure, failure, with_body};
use super::{Context, access};
use crate::server::format::push_string;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::Extensions;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use nyala_db::users::Principal;
use nyala_query::influxql::format_duration;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const DEFAULT_SECONDS: i64 = 10;
/// The longest time to count: 6 hours.
const SECONDS_MAX: i64 = 6 * 3600;
/// The most requests that watch at once.
const WATCHERS_MAX: usize = 16;
/// The most clients that each of them counts separately. Other clients are counted together, under the name below.
const CLIENTS_MAX: usize = 10_000;
const FURTHER_CLIENTS: &str = "others";
/// How often a watcher checks whether the server stops.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The address of a request's client. A request carries it only while somebody watches.
#[derive(Clone, Copy)]
struct Client(IpAddr);

/// All watchers and their counts.
#[derive(Default)]
pub struct RequestWatch {
    watchers: AtomicUsize,
    all: Mutex<Vec<Watcher>>,
}

/// One watcher and its counts.
#[derive(Default)]
struct Watcher {
    number: u64,
    by_client: BTreeMap<String, Counts>,
}

#[derive(Default, Clone, Copy)]
struct Counts {
    writes: u64,
    queries: u64,
}

impl RequestWatch {
    /// Marks a request with its client's address, if anyone watches.
    pub(super) fn mark<B>(&self, request: &mut Request<B>, address: Option<IpAddr>) {
        if self.watchers.load(Ordering::Relaxed) > 0
            && let Some(address) = address
        {
            request.extensions_mut().insert(Client(address));
        }
    }

    /// Counts a request after authentication.
    pub(super) fn count(&self, path: &str, extensions: &Extensions, principal: &Principal) {
        let Some(Client(address)) = extensions.get().filter(|_| matches!(path, "/query" | "/write")) else {
            return;
        };
        let client = match principal {
            Principal::User(user) => format!("{}:{address}", user.name()),
            Principal::Open | Principal::FirstAdmin => address.to_string(),
        };
        for watcher in &mut *self.lock() {
            let is_separate =
                watcher.by_client.len() < CLIENTS_MAX || watcher.by_client.contains_key(&client);
            let client = if is_separate { &client } else { FURTHER_CLIENTS };
            let counts = watcher.by_client.entry(client.to_owned()).or_default();
            match path {
                "/query" => counts.queries += 1,
                _ => counts.writes += 1,
            }
        }
    }

    fn begin(&self) -> Result<WatchGuard<'_>, Failure> {
        let mut all = self.lock();
        if all.len() >= WATCHERS_MAX {
            let message = format!("{WATCHERS_MAX} clients watch requests already: ask again later");
            return Err(failure(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let number = all.iter().map(|watcher| watcher.number + 1).max().unwrap_or(0);
        all.push(Watcher { number, by_client: BTreeMap::new() });
        self.watchers.store(all.len(), Ordering::Relaxed);
        Ok(WatchGuard { watch: self, number })
    }

    fn end(&self, number: u64) -> BTreeMap<String, Counts> {
        let mut all = self.lock();
        let position = all.iter().position(|watcher| watcher.number == number);
        let watcher = position.map(|position| all.swap_remove(position)).unwrap_or_default();
        self.watchers.store(all.len(), Ordering::Relaxed);
        watcher.by_client
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watcher>> {
        // No code under this lock can panic and leave a change unfinished.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a watcher when its request ends or its client disconnects.
struct WatchGuard<'a> {
    watch: &'a RequestWatch,
    number: u64,
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        self.watch.end(self.number);
    }
}

/// `GET /debug/requests`
pub(super) async fn handle(context: &Context, head: &Parts) -> Result<Response<Answer>, Failure> {
    let params = Params::parse(head.uri.query().unwrap_or(""));
    access::check_admin(context, head).await?;
    let watching = context.watch.begin()?;
    let until = Instant::now() + seconds(params.get("seconds"))?;
    while let Some(left) = until.checked_duration_since(Instant::now())
        && is_answering(context)
    {
        tokio::time::sleep(left.min(POLL_INTERVAL)).await;
    }
    let mut body = b"{\n".to_vec();
    for (index, (client, counts)) in context.watch.end(watching.number).iter().enumerate() {
        if index > 0 {
            body.extend_from_slice(b",\n");
        }
        push_string(&mut body, client);
        let Counts { writes, queries } = counts;
        body.extend_from_slice(format!(": {{\"writes\":{writes},\"queries\":{queries}}}").as_bytes());
    }
    body.extend_from_slice(b"\n}\n");
    let mut response = with_body(StatusCode::OK, "application/json; charset=utf-8", body);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(response)
}

fn is_answering(context: &Context) -> bool {
    let (is_answering, _message) = context.lifecycle.describe();
    is_answering
}

/// How long to watch, from the parameter `seconds`.
fn seconds(text: &str) -> Result<Duration, Failure> {
    let seconds = match text {
        "" => DEFAULT_SECONDS,
        text => text.parse().map_err(|_| {
            let message = format!("strconv.ParseInt: parsing {}: invalid syntax", nyala_db::quoted(text));
            failure(StatusCode::BAD_REQUEST, message)
        })?,
    };
    if seconds > SECONDS_MAX {
        let shown = |seconds: i64| format_duration(seconds.saturating_mul(1_000_000_000));
        let message = format!("exceeded maximum interval time: {} > {}", shown(seconds), shown(SECONDS_MAX));
        return Err(failure(StatusCode::BAD_REQUEST, message));
    }
    Ok(Duration::from_secs(seconds.max(0) as u64))
}
