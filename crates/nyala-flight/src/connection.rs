//! A connection: HTTP/2 with a call in each of its streams.
//!
//! A client says with each call who it is, and is refused before its message is read. A connection without calls is closed
//! after a while; clients open another one when they need it.

use crate::body::{ChargedBody, HeldBody};
use crate::caller::Caller;
use crate::service::Service;
use crate::shared::Server;
use arrow_flight::flight_service_server::FlightServiceServer;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::any::Any;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::codegen::Service as _;
use tonic::{Code, Status};

/// What of requests is received and not read yet, of a connection.
const WINDOW_BYTES: u32 = 256 << 10;
/// What of an answer is written and not sent yet, of a stream.
const SEND_BYTES: usize = 64 << 10;
/// The calls of a connection at once.
const CALLS_MAX: u32 = 32;
/// The headers of a call.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// How often a client is asked whether it is still there, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection that is being closed waits for its client while there is no call: to take the end of the last answer, and
/// to say that it knows.
const FAREWELL: Duration = Duration::from_secs(2);

/// Says that a call begins. What it returns is held until the call ends; `None`: the connection is being closed.
pub type BeginCall = Arc<dyn Fn() -> Option<Box<dyn Any + Send + Sync>> + Send + Sync>;

/// The handshake is the only call before a client is known.
const HANDSHAKE: &str = "/arrow.flight.protocol.FlightService/Handshake";

/// The calls of a connection.
struct Calls {
    server: Arc<Server>,
    begin: BeginCall,
    state: Mutex<CallsState>,
}

struct CallsState {
    open: usize,
    /// What the first of the open calls holds.
    held: Option<Box<dyn Any + Send + Sync>>,
    /// When the last call ended.
    idle_since: Instant,
}

/// A call, until it is dropped.
struct OpenCall {
    calls: Arc<Calls>,
    began: Instant,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.calls.server.counts.durations.observe(self.began.elapsed());
        let mut state = self.calls.state.lock();
        state.open -= 1;
        if state.open == 0 {
            state.idle_since = Instant::now();
            state.held = None;
        }
    }
}

impl Calls {
    fn new(server: Arc<Server>, begin: BeginCall) -> Arc<Self> {
        let state = CallsState { open: 0, held: None, idle_since: Instant::now() };
        Arc::new(Self { server, begin, state: Mutex::new(state) })
    }

    fn begin(self: &Arc<Self>) -> Option<OpenCall> {
        let mut state = self.state.lock();
        if state.open == 0 {
            state.held = Some((self.begin)()?);
        }
        state.open += 1;
        drop(state);
        Some(OpenCall { calls: self.clone(), began: Instant::now() })
    }

    /// Waits until there was no call for this long.
    async fn idle_for(&self, timeout: Duration) {
        loop {
            let idle = {
                let state = self.state.lock();
                if state.open == 0 { state.idle_since.elapsed() } else { Duration::ZERO }
            };
            match timeout.saturating_sub(idle) {
                Duration::ZERO => return,
                left => tokio::time::sleep(left).await,
            }
        }
    }

    /// Waits until there was no call for the time of a farewell, which begins now.
    async fn farewell(&self) {
        tokio::time::sleep(FAREWELL).await;
        self.idle_for(FAREWELL).await;
    }
}

impl Server {
    /// Serves a connection until it ends.
    ///
    /// # Errors
    /// The client does not speak HTTP/2, or has left in the middle of something.
    pub async fn serve(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        client: Option<IpAddr>,
        begin: BeginCall,
    ) -> io::Result<()> {
        let (calls, service) = (Calls::new(self.clone(), begin), Service::new(self.clone(), client));
        let service =
            FlightServiceServer::new(service).max_decoding_message_size(self.settings.message_bytes_max);
        let (server, counted) = (self.clone(), calls.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let (server, service, calls) = (server.clone(), service.clone(), counted.clone());
            async move {
                let call = calls.begin();
                let inner = match &call {
                    Some(_) => server.answer(service, request, client).await,
                    None => Status::unavailable("the connection is being closed").into_http(),
                };
                Ok::<_, Infallible>(inner.map(|inner| HeldBody { inner, _held: call }))
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_concurrent_streams(CALLS_MAX)
            .max_header_list_size(HEADER_BYTES_MAX)
            .max_send_buf_size(SEND_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .serve_connection(TokioIo::new(stream), answer);
        let mut connection = std::pin::pin!(connection);
        let mut stopped = self.surroundings.stopped.clone();
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = calls.idle_for(self.settings.keep_alive_timeout) => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => ended.map_err(io::Error::other),
            // A client that has never begun to speak HTTP/2, or no longer answers, is not waited for.
            () = calls.farewell() => Ok(()),
        }
    }

    /// Answers a call, if it is one and its sender is known.
    async fn answer(
        self: &Arc<Self>,
        mut service: FlightServiceServer<Service>,
        mut request: Request<Incoming>,
        client: Option<IpAddr>,
    ) -> Response<tonic::body::Body> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        // Web pages cannot send that to another site without being asked first.
        let content_type = request.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        if !content_type.starts_with(b"application/grpc") {
            return Status::new(Code::InvalidArgument, "this is a server of gRPC: see docs/flight.md")
                .into_http();
        }
        if request.uri().path() != HANDSHAKE {
            match self.caller(request.headers(), client).await {
                Ok(caller) => drop(request.extensions_mut().insert::<Caller>(caller)),
                Err(status) => return status.into_http(),
            }
        }
        let (most, memory) = (self.settings.message_bytes_max, &self.surroundings.memory);
        let request = request.map(|body| ChargedBody::new(body, most, memory));
        let Ok(response) = service.call(request).await;
        response
    }
}
