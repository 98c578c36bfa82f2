//! Sends lines to a destination: as datagrams, or as requests to `/write` over a connection that is kept open.
//!
//! Redirections are not followed. Only the status of an answer counts.

use super::roots;
use base64ct::{Base64, Encoding};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use nyala_core::memory::Charge;
use nyala_db::catalog::{Destination as DestinationUrl, Scheme};
use nyala_db::ingest::Lines;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio_rustls::TlsConnector;

/// How long a destination may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest payload of a datagram over IPv4.
const DATAGRAM_MAX_BYTES: usize = 65_507;
/// The most that is read of an answer, so that its connection can be used again.
const ANSWER_MAX_BYTES: usize = 64 << 10;

type Result<T> = std::result::Result<T, String>;

/// Lines that are sent together, and what is charged for them.
pub(super) struct Batch {
    pub(super) lines: Lines,
    pub(super) _charge: Charge,
}

/// Sends to one destination.
pub(super) struct Sender {
    /// `None`: its text is no URL, which only happens in records that another version wrote.
    destination: Option<DestinationUrl>,
    /// Path and parameters of requests.
    target: String,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Sender {
    /// Sends to a URL, naming the same database and retention policy.
    pub(super) fn to(url: &str, database: &str, policy: &str) -> Self {
        let destination = DestinationUrl::parse(url);
        let path = destination.as_ref().map_or("", |destination| &destination.path);
        let (database, policy) = (encoded(database), encoded(policy));
        let mut target = format!("{path}/write?consistency=&db={database}&precision=ns&rp={policy}");
        if let Some(own) = destination.as_ref().map(|own| &own.parameters).filter(|own| !own.is_empty()) {
            target.push('&');
            target.push_str(own);
        }
        Self { destination, target, connection: None }
    }

    /// Sends a batch, or says why that failed. Returns how many lines were too long to be sent.
    pub(super) async fn send(&mut self, batch: &Arc<Batch>) -> Result<usize> {
        let destination = self.destination.clone().ok_or("the destination is no URL")?;
        let sending = async {
            match destination.scheme {
                Scheme::Udp => send_datagrams(&destination, batch).await,
                Scheme::Http | Scheme::Https => {
                    self.request(&destination, &Bytes::from_owner(Text(batch.clone()))).await.map(|()| 0)
                }
            }
        };
        let sent = tokio::time::timeout(TIMEOUT, sending).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")));
        sent.inspect_err(|_| self.connection = None)
    }

    async fn request(&mut self, destination: &DestinationUrl, body: &Bytes) -> Result<()> {
        if let Some(mut connection) = self.connection.take().filter(SendRequest::is_ready)
            // The destination may have closed it meanwhile: then a new connection is tried.
            && let Ok(accepted) = exchange(&mut connection, self.request_with(destination, body)?).await
        {
            self.connection = Some(connection);
            return accepted;
        }
        let mut connection = connect(destination).await?;
        let accepted = exchange(&mut connection, self.request_with(destination, body)?).await?;
        self.connection = Some(connection);
        accepted
    }

    fn request_with(&self, destination: &DestinationUrl, body: &Bytes) -> Result<Request<Full<Bytes>>> {
        let DestinationUrl { host, port, login, .. } = destination;
        let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = Request::post(&*self.target)
            .header(HOST, host)
            .header(USER_AGENT, concat!("nyala/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "text/plain; charset=utf-8");
        if let Some(login) = login {
            // A `%` that begins no escape stays.
            let login: Vec<u8> = percent_decode_str(login).collect();
            request = request.header(AUTHORIZATION, format!("Basic {}", Base64::encode_string(&login)));
        }
        request.body(Full::new(body.clone())).map_err(|error| error.to_string())
    }
}

/// The text of a batch.
struct Text(Arc<Batch>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0.lines.text
    }
}

/// Sends a request. The outer error means that no answer came, the inner one that the answer was an error.
async fn exchange(
    connection: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Result<()>> {
    let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    Limited::new(response.into_body(), ANSWER_MAX_BYTES)
        .collect()
        .await
        .map_err(|error| error.to_string())?;
    Ok(if status.is_success() { Ok(()) } else { Err(format!("the answer was {status}")) })
}

async fn connect(destination: &DestinationUrl) -> Result<SendRequest<Full<Bytes>>> {
    let words = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect((&*destination.host, destination.port)).await.map_err(words)?;
    stream.set_nodelay(true).map_err(words)?;
    if destination.scheme == Scheme::Http {
        return shake_hands(stream).await;
    }
    let name = ServerName::try_from(destination.host.clone()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(roots::client()?);
    shake_hands(connector.connect(name, stream).await.map_err(words)?).await
}

async fn shake_hands(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // The connection ends with its sender or when the destination closes it; neither needs to be logged.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Sends one datagram per point, as InfluxDB's listeners expect. Returns how many points were too long.
async fn send_datagrams(destination: &DestinationUrl, batch: &Batch) -> Result<usize> {
    let words = |error: std::io::Error| error.to_string();
    let mut addresses = lookup_host((&*destination.host, destination.port)).await.map_err(words)?;
    let address = addresses.next().ok_or("the host has no address")?;
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).await.map_err(words)?;
    // The socket is not connected, so that an ICMP error for one datagram does not fail the next.
    let mut too_long = 0;
    for line in batch.lines.iter() {
        if line.len() > DATAGRAM_MAX_BYTES {
            too_long += 1;
            continue;
        }
        socket.send_to(line, address).await.map_err(words)?;
    }
    Ok(too_long)
}

/// Text as it may stand in a URL's parameters.
fn encoded(text: &str) -> PercentEncode<'_> {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, ESCAPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_parameter() {
        let sender = Sender::to("http://h:1/a", "d&rp=x y", "p\r\n");
        assert_eq!(sender.target, "/a/write?consistency=&db=d%26rp%3Dx%20y&precision=ns&rp=p%0D%0A");
        let sender = Sender::to("http://h:1?u=v#w", "d", "p");
        assert_eq!(sender.target, "/write?consistency=&db=d&precision=ns&rp=p&u=v");
        let (destination, body) = (DestinationUrl::parse("http://u:p%40ss%zz%4@h:1"), Bytes::new());
        let request = sender.request_with(&destination.expect("a URL"), &body).expect("a request");
        assert_eq!(request.headers()[AUTHORIZATION], "Basic dTpwQHNzJXp6JTQ=", "u:p@ss%zz%4");
    }
}
