//! HTTP: routes each path to its handler, and adds the headers that every answer has.

pub mod access;
mod backup;
mod body;
mod body_stream;
pub mod buffer_pool;
mod console;
mod debug;
mod deflate;
mod gzip;
pub mod host_origin;
mod moving;
mod multipart;
pub(in crate::server) mod opentsdb;
mod otlp;
mod output;
mod params;
mod prometheus;
mod query;
mod request_lines;
mod request_watch;
mod response;
#[cfg(feature = "sql")]
mod sql;
mod v2;
mod write;

#[cfg(feature = "sql")]
pub use sql::LoadAttempts;

use super::INFLUXDB_VERSION;
use super::audit::Audit;
use super::connection_limit::ConnectionPermit;
use super::copies::Copies;
use super::format::Format;
use super::health::{self, Check, Checks};
use super::lifecycle::Lifecycle;
use super::metrics::Metrics;
use super::received::Writer;
use access::Access;
use body::RequestBody;
use buffer_pool::BufferPool;
use host_origin::{AllowedSites, Rejection};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use nyala_core::env::ClockRef;
use nyala_core::memory::MemoryBudget;
use nyala_core::span;
use nyala_core::span::{Instrument, field};
use nyala_core::store::Freshness;
use nyala_db::catalog::Catalog;
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_db::handover::Handover;
use nyala_db::users::Principal;
use nyala_db::write::LineWriter;
use nyala_exec::ExecutionContext;
use nyala_exec::running::RunningQueries;
use nyala_query::plan::QueryContext;
use nyala_query::report::Reporter;
use request_watch::RequestWatch;
pub(crate) use response::TrackedBody;
use response::{Answer, Failure, empty, failure, in_format, status_of, with_body, without_sniffing};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;
use write::Protocol;

const TEXT: &str = "text/plain; charset=utf-8";

/// What `GET /` says to a program; a browser gets the console.
const ABOUT: &str = "\
nyala, a time-series database that takes the place of InfluxDB 1.x

/write   takes points in line protocol
/query   answers InfluxQL
/api/sql answers SQL
/health  says whether all is well
/metrics counts, for Prometheus

A browser finds the console at this address.
";

/// What the handlers of requests share.
pub struct Context {
    /// Databases and writer, once the store is open.
    pub databases: OnceLock<Databases>,
    /// The time of day.
    pub clock: ClockRef,
    /// When the server started.
    pub started_ns: i64,
    /// The thread pool for work that takes long or waits for the disk.
    pub work: tokio::runtime::Handle,
    /// Limits of requests.
    pub limits: HttpLimits,
    /// Whether clients must log in.
    pub access: Access,
    /// Host names and web pages that requests may use.
    pub allowed_sites: AllowedSites,
    /// Logs what clients did.
    pub audit: Arc<Audit>,
    /// Queries that run.
    pub running: Arc<RunningQueries>,
    /// Counts and latencies.
    pub metrics: Arc<Metrics>,
    /// Counts requests per client while somebody watches.
    pub watch: RequestWatch,
    /// Makes reports about the server.
    pub reporter: Reporter,
    /// Whether the server is starting, ready or stopping.
    pub lifecycle: Lifecycle,
    /// Lists problems.
    pub checks: Checks,
    /// Where metrics of OpenTelemetry are written, if they are taken.
    pub otlp: Option<Writer>,
    /// The number of the next request.
    pub requests: AtomicU64,
    /// Attempts to load the same rows.
    #[cfg(feature = "sql")]
    pub load_attempts: Arc<LoadAttempts>,
}

/// What queries and writes use.
pub struct Databases {
    /// All databases.
    pub catalog: Arc<Catalog>,
    /// Writes line protocol.
    pub writer: Arc<LineWriter>,
    /// What sessions of SQL share.
    #[cfg(feature = "sql")]
    pub sql: Arc<nyala_sql::SqlServer>,
    /// Makes the copies that backups are made of.
    pub copies: Arc<Copies>,
    /// Hands the store over to another one, if the server has it for itself.
    pub handover: Option<Arc<Handover>>,
    /// The memory budget that requests charge.
    pub memory: Arc<MemoryBudget>,
    /// Buffers for the text of long answers.
    pub answer_buffers: Arc<BufferPool>,
    /// Buffers for bodies.
    pub body_buffers: Arc<BufferPool>,
}

impl Context {
    /// The databases, or 503 while the store is not open.
    pub(crate) fn databases(&self) -> Result<&Databases, Failure> {
        self.databases
            .get()
            .ok_or_else(|| failure(StatusCode::SERVICE_UNAVAILABLE, self.lifecycle.describe().1))
    }

    /// What all sessions of SQL share.
    #[cfg(feature = "sql")]
    pub(crate) fn sql(&self) -> Result<Arc<nyala_sql::SqlServer>, Failure> {
        Ok(self.databases()?.sql.clone())
    }

    /// The context of a query that begins now.
    pub(crate) fn query(
        &self,
        databases: &Databases,
        database: String,
        retention_policy: String,
        principal: Principal,
    ) -> QueryContext {
        QueryContext {
            around: ExecutionContext {
                catalog: databases.catalog.clone(),
                freshness: Freshness::Latest,
                now_ns: self.clock.now_ns(),
                principal,
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

/// Limits of requests.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// The largest body, compressed and decompressed.
    pub body_bytes: usize,
    /// The most memory of one query.
    pub query_bytes: usize,
    /// The most rows of an answer that is not chunked; 0: any number.
    pub rows: usize,
}

/// Answers a request. `client` is the address of its client, which a client of the Unix socket does not have.
pub async fn answer(
    context: Arc<Context>,
    mut request: Request<hyper::body::Incoming>,
    client: Option<IpAddr>,
    permit: Arc<ConnectionPermit>,
) -> Result<Response<TrackedBody>, Infallible> {
    let begun = Instant::now();
    let Some(active) = permit.begin_request() else {
        // The connection is being closed.
        return std::future::pending().await;
    };
    context.watch.mark(&mut request, client);
    access::mark(&context.access, &mut request, client);
    let (head, incoming) = request.into_parts();
    let mut incoming = RequestBody::new(incoming, permit);
    let requested_id = ["x-request-id", "request-id"].into_iter().find_map(|name| header(&head, name));
    let accepted = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accepted);
    let span = span!(
        "HTTP request",
        http.request.method = head.method.as_str(),
        url.path = head.uri.path(),
        http.response.status_code = field::Empty,
        error = field::Empty,
        traceparent = head.headers.get("traceparent").and_then(|value| value.to_str().ok()),
    );
    // It is large: pinned, it is not moved into the span.
    let answered =
        pin!(check_and_route(&context, &head, &mut incoming, format, client)).instrument(span.clone()).await;
    let mut response = answered.unwrap_or_else(|rejection| rejected(&context, rejection, format, client));
    if response.status() == StatusCode::UNAUTHORIZED
        && let Some(user) = access::claimed(&head)
    {
        context.audit.log_in_failed(&user, RemoteClient::of(client, ClientProtocol::Http));
    }
    if matches!(response.status(), StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS)
        && !response::is_audited(&response)
        && let Some(reason) = response::message_of(&response)
    {
        let what = format!("{} {}", head.method, head.uri.path());
        context.audit.denied(access::sender(&head).as_deref(), client, &what, reason);
    }
    span.record("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.record("error", response.status().as_str());
    }
    body::discard(&mut incoming, &head.headers).await;
    context.metrics.requests.answered(head.uri.path(), response.status(), begun.elapsed());
    let number = context.requests.fetch_add(1, Ordering::Relaxed);
    let headers = response.headers_mut();
    if matches!(context.access, Access::Users { .. }) {
        // What is shown after a log-in is for nobody else: no cache keeps it, and no browser guesses what it is.
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    headers.insert(HeaderName::from_static("x-influxdb-version"), HeaderValue::from_static(INFLUXDB_VERSION));
    headers.insert(HeaderName::from_static("x-influxdb-build"), HeaderValue::from_static("OSS"));
    let id = requested_id.unwrap_or_else(|| request_id(number));
    headers.insert(HeaderName::from_static("request-id"), id.clone());
    headers.insert(HeaderName::from_static("x-request-id"), id);
    Ok(response.map(|answer| TrackedBody { answer, _active: active }))
}

/// Answers a request, unless it uses a host name or comes from a web page that is not allowed. Paths that show only
/// that the server runs are answered to every page, but a browser hides the answer from pages that are not allowed.
async fn check_and_route(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    format: Format,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Rejection> {
    // Web pages cannot reach the Unix socket, and its clients may send any host name.
    context.allowed_sites.check_host(head, client.is_some())?;
    Ok(match allowed(head.uri.path()) {
        None => without_sniffing(with_body(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")),
        Some(allowed) if !allowed.split(", ").any(|method| method == head.method.as_str()) => {
            let mut refused =
                without_sniffing(with_body(StatusCode::METHOD_NOT_ALLOWED, TEXT, "Method Not Allowed\n"));
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            refused
        }
        Some(_) => {
            let origin = match context.allowed_sites.check_origin(head) {
                Err(_) if shows_status_only(head.uri.path()) => None,
                checked => checked?,
            };
            let routed = route(context, head, incoming, format, client).await;
            let mut response = routed.unwrap_or_else(|failure| *in_format(failure, format));
            if let Some(origin) = origin {
                host_origin::allow_origin(response.headers_mut(), origin);
            }
            response
        }
    })
}

/// The answer to a request that is rejected.
fn rejected(
    context: &Context,
    rejection: Rejection,
    format: Format,
    client: Option<IpAddr>,
) -> Response<Answer> {
    match rejection {
        Rejection::Invalid(response) => *response,
        Rejection::Forbidden { who, failure } => {
            context.audit.refused(&who, client);
            *in_format(failure, format)
        }
    }
}

/// Whether a path shows only that the server runs, or is a file of the console, which shows no more.
fn shows_status_only(path: &str) -> bool {
    matches!(path, "/" | "/ping" | "/status" | "/health" | "/ready") || console::has(path)
}

fn header(head: &Parts, name: &str) -> Option<HeaderValue> {
    head.headers.get(name).filter(|value| !value.is_empty()).cloned()
}

/// The methods that a path allows; `None` when there is no such path.
fn allowed(path: &str) -> Option<&'static str> {
    match path {
        "/write" => Some("OPTIONS, POST"),
        "/query" => Some("GET, OPTIONS, POST"),
        "/" | "/ping" | "/status" | "/ready" => Some("GET, HEAD"),
        "/health" | "/metrics" => Some("GET"),
        "/debug/vars" | "/debug/requests" => Some("GET, HEAD"),
        "/debug/log" => Some("GET, HEAD, POST"),
        "/debug/log/lines" => Some("GET, HEAD"),
        "/api/v2/query" | "/api/v2/write" | "/api/v2/delete" | "/api/v1/prom/write" | "/api/v1/prom/read"
        | "/v1/metrics" => Some("POST"),
        "/api/v2/buckets" => Some("GET, POST"),
        "/api/sql" => Some("OPTIONS, POST"),
        "/api/backup" => Some("DELETE, POST"),
        "/api/move" => Some("DELETE, GET, POST"),
        path if path.starts_with(v2::buckets::BUCKET) => Some("DELETE"),
        path if is_profile(path) => Some("GET, HEAD, POST"),
        path if console::has(path) => Some("GET, HEAD"),
        _ => None,
    }
}

fn is_profile(path: &str) -> bool {
    path == "/debug/pprof" || path.starts_with("/debug/pprof/")
}

async fn route(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    format: Format,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    if head.method == Method::OPTIONS {
        return Ok(empty(StatusCode::OK));
    }
    let freshness = match shows_data(head.uri.path()) {
        true => follow(context).await?,
        false => Freshness::Latest,
    };
    match head.uri.path() {
        "/write" => write::handle(context, head, incoming, Protocol::V1).await,
        "/query" => query::handle(context, head, incoming, freshness, format, client).await,
        #[cfg(feature = "sql")]
        "/api/sql" => sql::handle(context, head, incoming, client).await,
        #[cfg(not(feature = "sql"))]
        "/api/sql" => Err(failure(StatusCode::NOT_IMPLEMENTED, "this program was built without SQL")),
        "/api/backup" => backup::handle(context, head, client).await,
        "/api/move" => moving::handle(context, head, client).await,
        "/api/v2/write" => write::handle(context, head, incoming, Protocol::V2).await,
        "/api/v1/prom/write" => write::handle(context, head, incoming, Protocol::Prometheus).await,
        "/v1/metrics" => otlp::handle(context, head, incoming).await,
        "/api/v1/prom/read" => prometheus::read::handle(context, head, incoming, freshness).await,
        "/api/v2/delete" => v2::delete::handle(context, head, incoming, client).await,
        "/api/v2/buckets" => v2::buckets::handle(context, head, incoming, client).await,
        path if path.starts_with(v2::buckets::BUCKET) => v2::buckets::drop(context, head, client).await,
        "/" => Ok(console::root(head)),
        path if console::has(path) => Ok(console::file(head)),
        "/ping" => Ok(ping(head)),
        "/status" => Ok(empty(StatusCode::NO_CONTENT)),
        "/health" => Ok(health(context, &(context.checks)())),
        "/ready" => Ok(health(context, &[])),
        "/debug/vars" => debug::vars(context, head).await,
        "/debug/log" => debug::log(context, head).await,
        "/debug/log/lines" => debug::log_lines(context, head).await,
        "/debug/requests" => request_watch::handle(context, head).await,
        path if is_profile(path) => debug::profile(context, head).await,
        "/metrics" => {
            access::check_admin(context, head).await?;
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            Ok(with_body(StatusCode::OK, kind, context.metrics.text()))
        }
        _ => {
            let words = "nyala has no Flux: use InfluxQL on /query\n";
            Ok(without_sniffing(with_body(StatusCode::FORBIDDEN, TEXT, words)))
        }
    }
}

/// Whether the answer must show what all servers of a shared store acknowledged before. Writers look by themselves.
fn shows_data(path: &str) -> bool {
    matches!(path, "/query" | "/api/v1/prom/read" | "/api/v2/delete") || path.starts_with("/api/v2/buckets")
}

async fn follow(context: &Context) -> Result<Freshness, Failure> {
    let followed = context.databases()?.catalog.follow().await;
    followed.map_err(|error| failure(status_of(&error), error.message()))
}

/// An id in the form of a UUID, unique within a run of the server.
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

/// Overwrites digits with the last hexadecimal digits of a number.
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
        _ => with_body(StatusCode::OK, "application/json", format!("{{\"version\":\"{INFLUXDB_VERSION}\"}}")),
    }
}

fn health(context: &Context, checks: &[Check]) -> Response<Answer> {
    let (is_answering, message) = context.lifecycle.describe();
    let (passes, body) = health::body(&message, is_answering, checks);
    let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    with_body(status, "application/json", body)
}
