//! Negotiation: from a fresh TCP connection to one that carries calls.
//!
//! 1. both sides name features and ways to authenticate; the server picks one way;
//! 2. TLS, its handshake carried inside negotiation messages;
//! 3. authentication: PLAIN user name, Kerberos, authentication token, or JSON web token;
//! 4. a connection context, which nobody answers.
//!
//! A token or JWT is only shown to a server whose certificate chains to a trusted authority; a client told to use
//! Kerberos never falls back to a mere user name. Frames are read
//! to the byte, never ahead: what follows the handshake already belongs to the TLS session.

use bytes::Bytes;
use prost::Message;
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::credentials::Credentials;
use super::frame::{encode_request, read_response};
use super::tls::{TlsStream, client_session, tls_error};
use crate::error::{Error, ErrorKind, Result};
use crate::pb::rpc::*;

const NEGOTIATION_CALL_ID: i32 = -33;
const CONTEXT_CALL_ID: i32 = -3;

/// "hrpc", version 9, service class and protocol 0.
const GREETING: [u8; 7] = *b"hrpc\x09\0\0";

/// Negotiation messages are small; certificates are the largest part.
const MAX_NEGOTIATION_BYTES: usize = 1 << 20;

/// How many handshake messages may go back and forth before a server is taken for broken.
const MAX_HANDSHAKE_ROUNDS: usize = 16;

/// How a connection must or may be protected and authenticated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Refuse servers that do not offer TLS.
    pub(crate) require_encryption: bool,
    /// The server runs on this machine.
    pub(crate) is_loopback: bool,
    /// Encrypt even between processes of one machine.
    pub(crate) encrypt_loopback: bool,
    /// Offer the authentication token, if there is one.
    pub(crate) offer_token: bool,
}

/// A negotiated connection.
pub(crate) enum Transport<S> {
    Plain(S),
    Tls(Box<TlsStream<S>>),
}

enum Chosen {
    Sasl,
    Token,
    Jwt,
}

/// What authentication needs to know of the server.
struct Server<'a> {
    #[cfg_attr(not(feature = "kerberos"), allow(dead_code, reason = "only Kerberos logs in to a host"))]
    host: &'a str,
    mechanisms: &'a [SaslMechanism],
    /// From the TLS handshake, if there was one.
    #[cfg_attr(not(feature = "kerberos"), allow(dead_code, reason = "only Kerberos vouches for it"))]
    certificate: Option<Vec<u8>>,
}

/// Negotiates over a fresh connection to this host.
pub(crate) async fn negotiate<S>(
    mut socket: S,
    host: &str,
    credentials: &Credentials,
    terms: Terms,
) -> Result<Transport<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let granted = credentials.granted();
    let trusted = &granted.trusted_certificates[..];
    let token = granted.authentication_token.as_ref().filter(|_| terms.offer_token && !trusted.is_empty());
    let jwt = credentials.jwt.as_ref().filter(|_| !trusted.is_empty());
    let offer_clear_after_handshake =
        terms.is_loopback && !terms.encrypt_loopback && !terms.require_encryption;

    socket.write_all(&GREETING).await?;

    let mut features = vec![FEATURE_APPLICATION_FLAGS, FEATURE_TLS];
    if offer_clear_after_handshake {
        features.push(FEATURE_TLS_AUTHENTICATION_ONLY);
    }
    let mut offered = vec![AuthenticationType { sasl: Some(Empty {}), ..Default::default() }];
    if token.is_some() {
        offered.push(AuthenticationType { token: Some(Empty {}), ..Default::default() });
    }
    if jwt.is_some() {
        offered.push(AuthenticationType { jwt: Some(Empty {}), ..Default::default() });
    }
    let mechanism = SaslMechanism { mechanism: credentials.mechanism().into() };
    let hello = Negotiate {
        step: STEP_NEGOTIATE,
        supported_features: features,
        authn_types: offered,
        sasl_mechanisms: vec![mechanism],
        ..Default::default()
    };
    send(&mut socket, &hello).await?;
    let answer = receive(&mut socket, STEP_NEGOTIATE).await?;

    let chosen = match answer.authn_types.first() {
        Some(AuthenticationType { token: Some(_), .. }) if token.is_some() => Chosen::Token,
        Some(AuthenticationType { jwt: Some(_), .. }) if jwt.is_some() => Chosen::Jwt,
        Some(AuthenticationType { sasl: Some(_), .. }) | None => Chosen::Sasl,
        Some(_) => return Err(Error::protocol("the server chose an authentication that was not offered")),
    };
    let server_has = |feature| answer.supported_features.contains(&feature);
    let verify = matches!(chosen, Chosen::Token | Chosen::Jwt);

    let mut session = None;
    let mut certificate = None;
    if server_has(FEATURE_TLS) {
        let tls = client_session(verify.then_some(trusted))?;
        let tls = handshake(&mut socket, tls).await?;
        certificate = tls.peer_certificates().and_then(|chain| Some(chain.first()?.to_vec()));
        let clear = offer_clear_after_handshake && server_has(FEATURE_TLS_AUTHENTICATION_ONLY);
        session = (!clear).then_some(tls);
    } else if verify || terms.require_encryption {
        let message = "the server does not offer TLS, which this client requires";
        return Err(Error::new(ErrorKind::NotAuthenticated, message));
    }

    let mut transport = match session {
        Some(session) => Transport::Tls(Box::new(TlsStream::new(socket, session))),
        None => Transport::Plain(socket),
    };
    let server = Server { host, mechanisms: &answer.sasl_mechanisms, certificate };
    match &mut transport {
        Transport::Plain(stream) => authenticate(stream, credentials, chosen, token, &server).await?,
        Transport::Tls(stream) => authenticate(stream.as_mut(), credentials, chosen, token, &server).await?,
    }
    Ok(transport)
}

async fn handshake<S>(socket: &mut S, mut session: ClientConnection) -> Result<ClientConnection>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..MAX_HANDSHAKE_ROUNDS {
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records)?;
        }
        if !records.is_empty() {
            let message = Negotiate {
                step: STEP_TLS_HANDSHAKE,
                tls_handshake: Some(Bytes::from(records)),
                ..Default::default()
            };
            send(socket, &message).await?;
        }
        // TLS 1.3 ends with our message, 1.2 with theirs; either way nothing more is to come.
        if !session.is_handshaking() {
            return Ok(session);
        }
        let answer = receive(socket, STEP_TLS_HANDSHAKE).await?;
        let mut records = answer.tls_handshake.as_deref().unwrap_or_default();
        while !records.is_empty() {
            session.read_tls(&mut records)?;
            session.process_new_packets().map_err(tls_error)?;
        }
    }
    Err(Error::protocol("the TLS handshake does not come to an end"))
}

async fn authenticate<S>(
    stream: &mut S,
    credentials: &Credentials,
    chosen: Chosen,
    token: Option<&SignedToken>,
    server: &Server<'_>,
) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let encoded_nonce = match chosen {
        Chosen::Token => {
            let message =
                Negotiate { step: STEP_TOKEN_EXCHANGE, authn_token: token.cloned(), ..Default::default() };
            send(stream, &message).await?;
            receive(stream, STEP_TOKEN_EXCHANGE).await?;
            None
        }
        Chosen::Jwt => {
            let jwt = credentials.jwt.clone().unwrap_or_default();
            let message = Negotiate {
                step: STEP_JWT_EXCHANGE,
                jwt_raw: Some(JwtRaw { jwt_data: Some(Bytes::from(jwt)) }),
                ..Default::default()
            };
            send(stream, &message).await?;
            receive(stream, STEP_JWT_EXCHANGE).await?;
            None
        }
        Chosen::Sasl => {
            let offered: Vec<&str> = server.mechanisms.iter().map(|item| item.mechanism.as_str()).collect();
            let wanted = credentials.mechanism();
            if !offered.is_empty() && !offered.contains(&wanted) {
                let advice = if offered.contains(&"GSSAPI") { "; log in by Kerberos" } else { "" };
                let message =
                    format!("the server accepts {offered:?}, this client logs in by {wanted}{advice}");
                return Err(Error::new(ErrorKind::NotAuthenticated, message));
            }
            match &credentials.kerberos_service {
                None => {
                    log_in_by_name(stream, &credentials.user).await?;
                    None
                }
                #[cfg(feature = "kerberos")]
                Some(service) => {
                    let certificate = server.certificate.as_deref();
                    super::kerberos::log_in(stream, service, server.host, certificate).await?
                }
                #[cfg(not(feature = "kerberos"))]
                Some(_) => return Err(Error::new(ErrorKind::NotSupported, "built without Kerberos")),
            }
        }
    };
    let header = RequestHeader { call_id: CONTEXT_CALL_ID, ..Default::default() };
    let context = ConnectionContext { encoded_nonce };
    stream.write_all(&encode_request(&header, &context)).await?;
    stream.flush().await?;
    Ok(())
}

async fn log_in_by_name<S>(stream: &mut S, user: &str) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // Authorization id (empty: same user), user, password (which Kudu does not check).
    let secret = format!("\0{user}\0");
    let message = Negotiate {
        step: STEP_SASL_INITIATE,
        sasl_mechanisms: vec![SaslMechanism { mechanism: "PLAIN".into() }],
        token: Some(Bytes::from(secret)),
        ..Default::default()
    };
    send(stream, &message).await?;
    receive(stream, STEP_SASL_SUCCESS).await.map(drop)
}

pub(super) async fn send<S>(stream: &mut S, message: &Negotiate) -> Result<()>
where
    S: AsyncWrite + Unpin,
{
    let header = RequestHeader { call_id: NEGOTIATION_CALL_ID, ..Default::default() };
    stream.write_all(&encode_request(&header, message)).await?;
    stream.flush().await?;
    Ok(())
}

async fn receive<S>(stream: &mut S, step: i32) -> Result<Negotiate>
where
    S: AsyncRead + Unpin,
{
    receive_one_of(stream, &[step]).await
}

pub(super) async fn receive_one_of<S>(stream: &mut S, steps: &[i32]) -> Result<Negotiate>
where
    S: AsyncRead + Unpin,
{
    let response = read_response(stream, MAX_NEGOTIATION_BYTES).await?;
    let response = response.ok_or_else(|| {
        Error::new(ErrorKind::Network, "the server closed the connection during negotiation")
    })?;
    if response.is_error {
        let error = Error::from_rpc(&ErrorStatus::decode(response.body)?);
        // The same code means "no privilege" once a connection stands; here it is about who we are.
        return Err(match error.kind() {
            ErrorKind::NotAuthorized => error.with_kind(ErrorKind::NotAuthenticated),
            _ => error,
        });
    }
    if response.call_id != NEGOTIATION_CALL_ID {
        return Err(Error::protocol(format!("call id {} during negotiation", response.call_id)));
    }
    let message = Negotiate::decode(response.body)?;
    if !steps.contains(&message.step) {
        return Err(Error::protocol(format!("negotiation step {} where {steps:?} was due", message.step)));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::frame::tests::encode_response;
    use proptest::prelude::*;

    const TERMS: Terms =
        Terms { require_encryption: false, is_loopback: true, encrypt_loopback: false, offer_token: true };

    fn frame(is_error: bool, message: &impl Message) -> Vec<u8> {
        let header =
            ResponseHeader { call_id: NEGOTIATION_CALL_ID, is_error: Some(is_error), ..Default::default() };
        encode_response(&header, &message.encode_to_vec())
    }

    /// Negotiates with a server that says these bytes, whatever it hears, and then closes.
    fn against(bytes: Vec<u8>, terms: Terms) -> Result<()> {
        against_as(bytes, terms, Credentials::new("me".into(), None, None, Vec::new()))
    }

    fn against_as(bytes: Vec<u8>, terms: Terms, credentials: Credentials) -> Result<()> {
        let server = tokio::io::join(&bytes[..], tokio::io::sink());
        let negotiation = negotiate(server, "127.0.0.1", &credentials, terms);
        // Everything is there already: what waits now would wait for ever.
        match futures::FutureExt::now_or_never(negotiation).expect("it comes to an end")? {
            Transport::Plain(_) => Ok(()),
            Transport::Tls(_) => panic!("no canned bytes can finish a handshake"),
        }
    }

    fn hello(features: Vec<i32>) -> Negotiate {
        let mechanism = SaslMechanism { mechanism: "PLAIN".into() };
        let sasl = AuthenticationType { sasl: Some(Empty {}), ..Default::default() };
        Negotiate {
            step: STEP_NEGOTIATE,
            supported_features: features,
            sasl_mechanisms: vec![mechanism],
            authn_types: vec![sasl],
            ..Default::default()
        }
    }

    fn success() -> Negotiate {
        Negotiate { step: STEP_SASL_SUCCESS, ..Default::default() }
    }

    #[test]
    fn a_plain_server_is_accepted_unless_encryption_is_required() {
        let words = [frame(false, &hello(vec![1])), frame(false, &success())].concat();
        against(words.clone(), TERMS).unwrap();
        let strict = Terms { require_encryption: true, ..TERMS };
        assert_eq!(against(words, strict).err().unwrap().kind(), ErrorKind::NotAuthenticated);
    }

    #[test]
    fn refusals_and_strange_choices_are_told_apart() {
        let refusal = ErrorStatus { message: "no".into(), code: Some(15), unsupported_feature_flags: vec![] };
        let refused = [frame(false, &hello(vec![1])), frame(true, &refusal)].concat();
        assert_eq!(against(refused, TERMS).err().unwrap().kind(), ErrorKind::NotAuthenticated);
        let mut only_kerberos = hello(vec![1]);
        only_kerberos.sasl_mechanisms[0].mechanism = "GSSAPI".into();
        let error = against(frame(false, &only_kerberos), TERMS).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated);
        let mut token = hello(vec![1]);
        token.authn_types = vec![AuthenticationType { token: Some(Empty {}), ..Default::default() }];
        assert_eq!(against(frame(false, &token), TERMS).err().unwrap().kind(), ErrorKind::Protocol);
        assert_eq!(against(Vec::new(), TERMS).err().unwrap().kind(), ErrorKind::Network);
    }

    #[test]
    fn who_wants_kerberos_is_not_talked_out_of_it() {
        let credentials = || Credentials::new("me".into(), Some("kudu".into()), None, Vec::new());
        let words = [frame(false, &hello(vec![1])), frame(false, &success())].concat();
        let error = against_as(words, TERMS, credentials()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_server_makes_the_negotiation_panic_or_hang(
            features in proptest::collection::vec(0i32..5, 0..4),
            steps in proptest::collection::vec((0i32..9, proptest::collection::vec(any::<u8>(), 0..60)), 0..5),
            tail in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut words = frame(false, &hello(features));
            for (step, bytes) in steps {
                let bytes = Some(Bytes::from(bytes));
                let message = Negotiate { step, tls_handshake: bytes.clone(), token: bytes, ..Default::default() };
                words.extend(frame(false, &message));
            }
            words.extend(tail);
            let _ = against(words, TERMS);
        }
    }
}
