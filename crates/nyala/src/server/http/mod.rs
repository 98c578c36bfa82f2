//! HTTP: which path is answered by what, and the headers every answer has.

pub mod access;
mod body;
mod debug;
mod deflate;
mod gzip;
mod multipart;
mod output;
mod params;
mod pieces;
mod prometheus;
mod query;
mod requests;
mod response;
pub mod rooms;
pub mod site;
mod unpack;
mod v2;
mod write;

use super::audit::Audit;
use super::format::Format;
use super::health::{self, Check, Checks};
use super::metrics::Metrics;
use super::slots::Slot;
use super::stage::Stage;
use access::Access;
use body::Incoming;
use hyper::header::{ACCEPT, ALLOW, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use nyala_core::env::ClockRef;
use nyala_core::memory::MemoryBudget;
use nyala_db::catalog::Catalog;
use nyala_db::users::Rights;
use nyala_db::write::LineWriter;
use nyala_exec::Surroundings;
use nyala_exec::running::RunningQueries;
use nyala_query::plan::QueryContext;
use nyala_query::report::Reporter;
use requests::RequestWatch;
use response::{Answer, Failure, Taken, empty, failure, in_format, plainly, whole};
use rooms::Rooms;
use site::{Sites, Stranger};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

/// The version that clients are told: the one whose behaviour they get.
pub const INFLUXDB_VERSION: &str = "1.8.10";

const TEXT: &str = "text/plain; charset=utf-8";

/// What `GET /` says.
const ABOUT: &str = "\
nyala, a time-series database that takes the place of InfluxDB 1.x

/write   takes points in line protocol
/query   answers InfluxQL
/health  says whether all is well
/metrics counts, for Prometheus
";

/// What requests are answered with.
pub struct Context {
    /// What queries and writes go to, once the store is open.
    pub databases: OnceLock<Databases>,
    /// The time of day.
    pub clock: ClockRef,
    /// When the server was started.
    pub started_ns: i64,
    /// Threads for what takes long or waits for the disk.
    pub work: tokio::runtime::Handle,
    /// Bounds on requests.
    pub limits: HttpLimits,
    /// Whether clients must say who they are.
    pub access: Access,
    /// Which names and web pages requests may come by and from.
    pub sites: Sites,
    /// Writes about clients into the log.
    pub audit: Arc<Audit>,
    /// Queries that run.
    pub running: Arc<RunningQueries>,
    /// Counts for people.
    pub metrics: Arc<Metrics>,
    /// Who watches requests.
    pub watch: RequestWatch,
    /// Tells what the server knows of itself.
    pub reporter: Reporter,
    /// What the server is at.
    pub stage: Stage,
    /// What is not as it should be.
    pub checks: Checks,
    /// Numbers requests.
    pub requests: AtomicU64,
}

/// What queries and writes go to.
pub struct Databases {
    /// All databases.
    pub catalog: Arc<Catalog>,
    /// Writes line protocol.
    pub writer: Arc<LineWriter>,
    /// The account of memory that requests charge.
    pub memory: Arc<MemoryBudget>,
    /// Where the text of long answers is written.
    pub rooms: Arc<Rooms>,
    /// Where bodies are gathered.
    pub body_rooms: Arc<Rooms>,
}

impl Context {
    /// The databases, or what to tell a client that came too early.
    pub(crate) fn databases(&self) -> Result<&Databases, Failure> {
        self.databases.get().ok_or_else(|| failure(StatusCode::SERVICE_UNAVAILABLE, self.stage.describe().1))
    }

    /// What surrounds a query at this moment.
    pub(crate) fn query(
        &self,
        databases: &Databases,
        database: String,
        retention_policy: String,
        rights: Rights,
    ) -> QueryContext {
        QueryContext {
            around: Surroundings {
                catalog: databases.catalog.clone(),
                now_ns: self.clock.now_ns(),
                rights,
                running: self.running.clone(),
                query: None,
            },
            database,
            retention_policy,
            writer: databases.writer.clone(),
            reporter: self.reporter.clone(),
        }
    }
}

/// Bounds on requests.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// The largest body, packed and unpacked, bytes.
    pub body_bytes: usize,
    /// What one query may hold in memory, bytes.
    pub query_bytes: usize,
    /// Rows of an answer that is not chunked; 0: any number.
    pub rows: usize,
}

/// Answers a request of a client at an address; it has none at the socket in the file system.
pub async fn answer(
    context: Arc<Context>,
    mut request: Request<hyper::body::Incoming>,
    client: Option<IpAddr>,
    slot: Arc<Slot>,
) -> Result<Response<Taken>, Infallible> {
    let Some(turn) = slot.begin() else {
        // The connection ends here.
        return std::future::pending().await;
    };
    context.watch.mark(&mut request, client);
    let (head, incoming) = request.into_parts();
    let mut incoming = Incoming::new(incoming, slot);
    let asked_id = ["x-request-id", "request-id"].into_iter().find_map(|name| header(&head, name));
    let accepted = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accepted);
    let answered = welcomed(&context, &head, &mut incoming, format, client).await;
    let mut response = answered.unwrap_or_else(|stranger| match stranger {
        Stranger::Broken(response) => *response,
        Stranger::Refused { who, failure } => {
            context.audit.refused(&who, client);
            *in_format(failure, format)
        }
    });
    if response.status() == StatusCode::UNAUTHORIZED
        && let Some(user) = access::claimed(&head)
    {
        context.audit.log_in_failed(&user, client);
    }
    body::discard(&mut incoming, &head.headers).await;
    context.metrics.request(head.uri.path(), response.status());
    let number = context.requests.fetch_add(1, Ordering::Relaxed);
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("x-influxdb-version"), HeaderValue::from_static(INFLUXDB_VERSION));
    headers.insert(HeaderName::from_static("x-influxdb-build"), HeaderValue::from_static("OSS"));
    let id = asked_id.unwrap_or_else(|| request_id(number));
    headers.insert(HeaderName::from_static("request-id"), id.clone());
    headers.insert(HeaderName::from_static("x-request-id"), id);
    Ok(response.map(|answer| Taken { answer, _turn: turn }))
}

/// The answer, unless the request calls the server by a strange name or comes from a strange page. What a browser needs
/// to find out no more than that the server runs is answered to every page, and read by none that is not allowed.
async fn welcomed(
    context: &Context,
    head: &Parts,
    incoming: &mut Incoming,
    format: Format,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Stranger> {
    // No page reaches the socket in the file system, and what its clients call it is anything.
    context.sites.check_host(head, client.is_some())?;
    Ok(match allowed(head.uri.path()) {
        None => plainly(whole(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")),
        Some(allowed) if !allowed.split(", ").any(|method| method == head.method.as_str()) => {
            let mut refused = plainly(whole(StatusCode::METHOD_NOT_ALLOWED, TEXT, "Method Not Allowed\n"));
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            refused
        }
        Some(_) => {
            let origin = match context.sites.check_origin(head) {
                Err(_) if tells_little(head.uri.path()) => None,
                checked => checked?,
            };
            let routed = route(context, head, incoming, format, client).await;
            let mut response = routed.unwrap_or_else(|failure| *in_format(failure, format));
            if let Some(origin) = origin {
                site::allow_origin(response.headers_mut(), origin);
            }
            response
        }
    })
}

/// Whether a path tells no more than that the server runs.
fn tells_little(path: &str) -> bool {
    matches!(path, "/" | "/ping" | "/status" | "/health" | "/ready")
}

fn header(head: &Parts, name: &str) -> Option<HeaderValue> {
    head.headers.get(name).filter(|value| !value.is_empty()).cloned()
}

/// The methods of a path; `None` where there is nothing.
fn allowed(path: &str) -> Option<&'static str> {
    match path {
        "/write" => Some("OPTIONS, POST"),
        "/query" => Some("GET, OPTIONS, POST"),
        "/" | "/ping" | "/status" | "/ready" => Some("GET, HEAD"),
        "/health" | "/metrics" => Some("GET"),
        "/debug/vars" | "/debug/requests" => Some("GET, HEAD"),
        "/api/v2/query" | "/api/v2/write" | "/api/v2/delete" | "/api/v1/prom/write" | "/api/v1/prom/read" => {
            Some("POST")
        }
        "/api/v2/buckets" => Some("GET, POST"),
        path if path.starts_with(v2::buckets::BUCKET) => Some("DELETE"),
        path if is_profile(path) => Some("GET, HEAD, POST"),
        _ => None,
    }
}

fn is_profile(path: &str) -> bool {
    path == "/debug/pprof" || path.starts_with("/debug/pprof/")
}

async fn route(
    context: &Context,
    head: &Parts,
    incoming: &mut Incoming,
    format: Format,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    if head.method == Method::OPTIONS {
        return Ok(empty(StatusCode::OK));
    }
    match head.uri.path() {
        "/write" => write::handle(context, head, incoming).await,
        "/query" => query::handle(context, head, incoming, format, client).await,
        "/api/v2/write" => write::handle_v2(context, head, incoming).await,
        "/api/v1/prom/write" => write::handle_prometheus(context, head, incoming).await,
        "/api/v1/prom/read" => prometheus::read::handle(context, head, incoming).await,
        "/api/v2/delete" => v2::deletion::handle(context, head, incoming).await,
        "/api/v2/buckets" => v2::buckets::handle(context, head, incoming).await,
        path if path.starts_with(v2::buckets::BUCKET) => v2::buckets::drop(context, head).await,
        "/" => Ok(plainly(whole(StatusCode::OK, TEXT, ABOUT))),
        "/ping" => Ok(ping(head)),
        "/status" => Ok(empty(StatusCode::NO_CONTENT)),
        "/health" => Ok(health(context, &(context.checks)())),
        "/ready" => Ok(health(context, &[])),
        "/debug/vars" => debug::vars(context, head).await,
        "/debug/requests" => requests::handle(context, head).await,
        path if is_profile(path) => debug::profile(context, head).await,
        "/metrics" => {
            let of_url = params::Params::parse(head.uri.query().unwrap_or(""));
            access::check_admin(context, &of_url, &head.headers).await?;
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            Ok(whole(StatusCode::OK, kind, context.metrics.text()))
        }
        _ => {
            let words = "nyala has no Flux: use InfluxQL on /query\n";
            Ok(plainly(whole(StatusCode::FORBIDDEN, TEXT, words)))
        }
    }
}

/// An id in the form of a UUID, distinct within a run of the server.
fn request_id(number: u64) -> HeaderValue {
    static ID: LazyLock<[u8; 36]> = LazyLock::new(|| {
        let mut id = *b"00000000-0000-11f0-8000-000000000000";
        set_hex(&mut id[24..], std::process::id().into());
        id
    });
    let mut id = *ID;
    set_hex(&mut id[..8], number >> 16);
    set_hex(&mut id[9..13], number);
    HeaderValue::from_bytes(&id).unwrap_or(HeaderValue::from_static("0"))
}

/// Writes the last hexadecimal digits of a number.
fn set_hex(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
    }
}

fn ping(head: &Parts) -> Response<Answer> {
    let params = params::Params::parse(head.uri.query().unwrap_or(""));
    match params.get("verbose") {
        "" | "0" | "false" => empty(StatusCode::NO_CONTENT),
        _ => whole(StatusCode::OK, "application/json", format!("{{\"version\":\"{INFLUXDB_VERSION}\"}}")),
    }
}

fn health(context: &Context, checks: &[Check]) -> Response<Answer> {
    let (is_answering, message) = context.stage.describe();
    let (passes, body) = health::body(&message, is_answering, checks);
    let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    whole(status, "application/json", body)
}
