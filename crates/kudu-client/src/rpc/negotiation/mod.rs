//! Negotiation: from a fresh TCP connection to one that carries calls.
//!
//! 1. Both sides send their features and types of authentication, and the server chooses a type.
//! 2. TLS, whose handshake is carried inside negotiation messages.
//! 3. Authentication by user name (SASL PLAIN), Kerberos, authentication token, or JSON web token.
//! 4. The client sends a connection context, which has no answer.
//!
//! A token or JWT is only sent to a server whose certificate chains to a trusted authority. A client with Kerberos
//! never falls back to a user name. Frames are read to their last byte and not beyond, because what follows the
//! handshake belongs to the TLS session.

use bytes::Bytes;
use prost::Message;
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

#[cfg(feature = "kerberos")]
mod kerberos;

use super::credentials::{Credentials, JwtSource};
use super::frame::{encode_request, read_response};
use super::tls::{TlsStream, client_session, tls_error};
use crate::error::{Error, ErrorKind, Result};
use crate::pb::rpc::*;

const NEGOTIATION_CALL_ID: i32 = -33;
const CONTEXT_CALL_ID: i32 = -3;

/// Negotiation messages are small; certificates are the largest part.
const MAX_NEGOTIATION_BYTES: usize = 1 << 20;

/// "hrpc", version 9, service class and protocol 0.
const GREETING: [u8; 7] = *b"hrpc\x09\0\0";

/// The most rounds of handshake messages; a server that needs more is broken.
const MAX_HANDSHAKE_ROUNDS: usize = 16;

/// What the client requires and offers in a negotiation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NegotiationOptions {
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

enum Authentication {
    Sasl,
    Token,
    Jwt,
}

/// What authentication needs to know about the server.
struct ServerIdentity<'a> {
    #[cfg_attr(not(feature = "kerberos"), allow(dead_code, reason = "only Kerberos authenticates hosts"))]
    host: &'a str,
    mechanisms: &'a [SaslMechanism],
    /// From the TLS handshake, if there was one.
    #[cfg_attr(not(feature = "kerberos"), allow(dead_code, reason = "only Kerberos binds it"))]
    certificate: Option<Vec<u8>>,
}

/// Negotiates over a fresh connection to this host.
pub(crate) async fn negotiate<S>(
    mut socket: S,
    host: &str,
    credentials: &Credentials,
    options: NegotiationOptions,
) -> Result<Transport<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let granted = credentials.granted();
    let trusted = &granted.trusted_certificates[..];
    let token = granted.authentication_token.as_ref().filter(|_| options.offer_token && !trusted.is_empty());
    let jwt = credentials.jwt.as_ref().filter(|_| !trusted.is_empty());
    let offer_clear_after_handshake =
        options.is_loopback && !options.encrypt_loopback && !options.require_encryption;

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
        Some(AuthenticationType { token: Some(_), .. }) if token.is_some() => Authentication::Token,
        Some(AuthenticationType { jwt: Some(_), .. }) if jwt.is_some() => Authentication::Jwt,
        Some(AuthenticationType { sasl: Some(_), .. }) | None => Authentication::Sasl,
        Some(_) => {
            return Err(Error::protocol("the server chose a type of authentication that was not offered"));
        }
    };
    let server_has = |feature| answer.supported_features.contains(&feature);
    let verify = matches!(chosen, Authentication::Token | Authentication::Jwt);

    let mut session = None;
    let mut certificate = None;
    if server_has(FEATURE_TLS) {
        let tls = client_session(verify.then_some(trusted))?;
        let tls = handshake(&mut socket, tls).await?;
        certificate = tls.peer_certificates().and_then(|chain| Some(chain.first()?.to_vec()));
        let clear = offer_clear_after_handshake && server_has(FEATURE_TLS_AUTHENTICATION_ONLY);
        session = (!clear).then_some(tls);
    } else if verify || options.require_encryption {
        let message = "the server does not offer TLS, which this client requires";
        return Err(Error::new(ErrorKind::NotAuthenticated, message));
    }

    let mut transport = match session {
        Some(session) => Transport::Tls(Box::new(TlsStream::new(socket, session))),
        None => Transport::Plain(socket),
    };
    let server = ServerIdentity { host, mechanisms: &answer.sasl_mechanisms, certificate };
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
        // TLS 1.3 ends with the client's message, 1.2 with the server's; in both cases no further message follows.
        if !session.is_handshaking() {
            return Ok(session);
        }
        let answer = receive(socket, STEP_TLS_HANDSHAKE).await?;
        let mut records = answer.tls_handshake.as_deref().unwrap_or_default();
        while !records.is_empty() {
            // A server that has closed the session sends nothing further: otherwise this would go on for ever.
            if session.read_tls(&mut records)? == 0 {
                return Err(Error::protocol("bytes after the end of the TLS session"));
            }
            session.process_new_packets().map_err(tls_error)?;
        }
    }
    Err(Error::protocol("the TLS handshake does not end"))
}

async fn authenticate<S>(
    stream: &mut S,
    credentials: &Credentials,
    chosen: Authentication,
    token: Option<&SignedToken>,
    server: &ServerIdentity<'_>,
) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let encoded_nonce = match chosen {
        Authentication::Token => {
            let message =
                Negotiate { step: STEP_TOKEN_EXCHANGE, authn_token: token.cloned(), ..Default::default() };
            send(stream, &message).await?;
            receive(stream, STEP_TOKEN_EXCHANGE).await?;
            None
        }
        Authentication::Jwt => {
            let jwt = credentials.jwt.as_ref().map(JwtSource::read).transpose()?;
            let message = Negotiate {
                step: STEP_JWT_EXCHANGE,
                jwt_raw: Some(JwtRaw { jwt_data: jwt.map(Bytes::from) }),
                ..Default::default()
            };
            send(stream, &message).await?;
            receive(stream, STEP_JWT_EXCHANGE).await?;
            None
        }
        Authentication::Sasl => {
            let offered: Vec<&str> = server.mechanisms.iter().map(|item| item.mechanism.as_str()).collect();
            let wanted = credentials.mechanism();
            if !offered.is_empty() && !offered.contains(&wanted) {
                let advice = if offered.contains(&"GSSAPI") { "; use Kerberos" } else { "" };
                let message = format!("the server accepts {offered:?}, this client uses {wanted}{advice}");
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
                    kerberos::log_in(stream, service, server.host, certificate).await?
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

async fn send<S>(stream: &mut S, message: &Negotiate) -> Result<()>
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

async fn receive_one_of<S>(stream: &mut S, steps: &[i32]) -> Result<Negotiate>
where
    S: AsyncRead + Unpin,
{
    let response = read_response(stream, MAX_NEGOTIATION_BYTES).await?;
    let response = response.ok_or_else(|| {
        Error::new(ErrorKind::Network, "the server closed the connection during negotiation")
    })?;
    if response.is_error {
        let error = Error::from_rpc(&ErrorStatus::decode(response.body)?);
        // After negotiation this code means "no privilege"; here it means that the log-in failed.
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
        return Err(Error::protocol(format!(
            "negotiation step {} where {steps:?} was expected",
            message.step
        )));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::frame::tests::encode_response;
    use proptest::prelude::*;
    use prost::Message;

    const OPTIONS: NegotiationOptions = NegotiationOptions {
        require_encryption: false,
        is_loopback: true,
        encrypt_loopback: false,
        offer_token: true,
    };

    fn frame(is_error: bool, message: &impl Message) -> Vec<u8> {
        let header =
            ResponseHeader { call_id: NEGOTIATION_CALL_ID, is_error: Some(is_error), ..Default::default() };
        encode_response(&header, &message.encode_to_vec())
    }

    /// Negotiates with a server that sends these bytes, whatever it receives, and then closes.
    fn against(bytes: Vec<u8>, options: NegotiationOptions) -> Result<()> {
        against_as(bytes, options, Credentials::new("me".into(), None, None, Vec::new()))
    }

    fn against_as(bytes: Vec<u8>, options: NegotiationOptions, credentials: Credentials) -> Result<()> {
        let server = tokio::io::join(&bytes[..], tokio::io::sink());
        let negotiation = negotiate(server, "127.0.0.1", &credentials, options);
        // All bytes are available already: a negotiation that waits now would wait for ever.
        match futures::FutureExt::now_or_never(negotiation).expect("it ends")? {
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
        let bytes = [frame(false, &hello(vec![1])), frame(false, &success())].concat();
        against(bytes.clone(), OPTIONS).unwrap();
        let strict = NegotiationOptions { require_encryption: true, ..OPTIONS };
        assert_eq!(against(bytes, strict).err().unwrap().kind(), ErrorKind::NotAuthenticated);
    }

    #[test]
    fn refusals_and_invalid_choices_have_different_kinds() {
        let refusal = ErrorStatus { message: "no".into(), code: Some(15), unsupported_feature_flags: vec![] };
        let refused = [frame(false, &hello(vec![1])), frame(true, &refusal)].concat();
        assert_eq!(against(refused, OPTIONS).err().unwrap().kind(), ErrorKind::NotAuthenticated);
        let mut only_kerberos = hello(vec![1]);
        only_kerberos.sasl_mechanisms[0].mechanism = "GSSAPI".into();
        let error = against(frame(false, &only_kerberos), OPTIONS).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated);
        let mut token = hello(vec![1]);
        token.authn_types = vec![AuthenticationType { token: Some(Empty {}), ..Default::default() }];
        assert_eq!(against(frame(false, &token), OPTIONS).err().unwrap().kind(), ErrorKind::Protocol);
        assert_eq!(against(Vec::new(), OPTIONS).err().unwrap().kind(), ErrorKind::Network);
    }

    #[test]
    fn a_client_with_kerberos_refuses_other_mechanisms() {
        let credentials = || Credentials::new("me".into(), Some("kudu".into()), None, Vec::new());
        let bytes = [frame(false, &hello(vec![1])), frame(false, &success())].concat();
        let error = against_as(bytes, OPTIONS, credentials()).err().unwrap();
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
            let mut bytes = frame(false, &hello(features));
            for (step, content) in steps {
                let content = Some(Bytes::from(content));
                let message = Negotiate { step, tls_handshake: content.clone(), token: content, ..Default::default() };
                bytes.extend(frame(false, &message));
            }
            bytes.extend(tail);
            let _ = against(bytes, OPTIONS);
        }
    }
}
