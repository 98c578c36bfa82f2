//! Log-in by Kerberos: SASL's GSSAPI mechanism (RFC 4752) inside negotiation messages.
//!
//! 1. Client and server exchange tokens until both are authenticated.
//! 2. The server offers security layers, and the client chooses integrity (TLS encrypts).
//! 3. With its success message the server sends the signed hash of its TLS certificate (channel binding), which nobody
//!    in between could sign. It may also send a nonce, which the client signs and returns.
//!
//! A server that sends success before steps 1 and 2 are complete has not authenticated itself, and is refused.

use ring::digest;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{receive_one_of, send};
use crate::error::{Error, ErrorKind, Result};
use crate::pb::rpc::*;
use crate::rpc::gssapi::Context;
use bytes::Bytes;

const LAYER_INTEGRITY: u8 = 2;
/// Integrity, and that messages of up to 64 KiB are taken; the two that follow are tens of bytes.
const CHOSEN_LAYER: [u8; 4] = [LAYER_INTEGRITY, 0, 0xff, 0xff];

/// Kerberos needs two rounds and the security layer one; other mechanisms may need some more.
const MAX_ROUNDS: usize = 10;

enum LoginState {
    Authenticating,
    ChoosingLayer,
    Done,
}

/// Logs in and returns the signed nonce, if the server sent one. `certificate` is the server's, if there was a TLS
/// handshake.
pub(super) async fn log_in<S>(
    stream: &mut S,
    service: &str,
    host: &str,
    certificate: Option<&[u8]>,
) -> Result<Option<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut context = Context::new(service, host)?;
    let mut state = LoginState::Authenticating;
    let mut token;
    (context, state, token) = advance(context, state, Bytes::new()).await?;
    let mut message = Negotiate {
        step: STEP_SASL_INITIATE,
        sasl_mechanisms: vec![SaslMechanism { mechanism: "GSSAPI".into() }],
        token: Some(token),
        ..Default::default()
    };
    for _ in 0..MAX_ROUNDS {
        send(stream, &message).await?;
        let answer = receive_one_of(stream, &[STEP_SASL_CHALLENGE, STEP_SASL_SUCCESS]).await?;
        if answer.step == STEP_SASL_SUCCESS {
            if !matches!(state, LoginState::Done) {
                let message = "Kerberos: the server sent success before it authenticated itself";
                return Err(Error::new(ErrorKind::NotAuthenticated, message));
            }
            return finish(&mut context, &answer, certificate);
        }
        let challenge = answer.token.unwrap_or_default();
        (context, state, token) = advance(context, state, challenge).await?;
        message = Negotiate { step: STEP_SASL_RESPONSE, token: Some(token), ..Default::default() };
    }
    Err(Error::protocol("the Kerberos log-in does not end"))
}

/// One step, on a blocking thread because it may wait for the key distribution centre.
async fn advance(
    context: Context,
    state: LoginState,
    challenge: Bytes,
) -> Result<(Context, LoginState, Bytes)> {
    let step = move || {
        let mut context = context;
        let (state, token) = match state {
            LoginState::Authenticating => match context.step(&challenge)? {
                (token, true) => (LoginState::ChoosingLayer, token),
                (token, false) => (LoginState::Authenticating, token),
            },
            LoginState::ChoosingLayer => match context.unwrap(&challenge)?[..] {
                [layers, _, _, _] if layers & LAYER_INTEGRITY != 0 => {
                    (LoginState::Done, context.wrap(&CHOSEN_LAYER)?)
                }
                _ => return Err(Error::protocol("Kerberos: the server offers no integrity")),
            },
            LoginState::Done => return Err(Error::protocol("Kerberos: a challenge after the last")),
        };
        Ok((context, state, Bytes::from(token)))
    };
    tokio::task::spawn_blocking(step)
        .await
        .unwrap_or_else(|error| Err(Error::protocol(format!("the Kerberos log-in panicked: {error}"))))
}

fn finish(context: &mut Context, success: &Negotiate, certificate: Option<&[u8]>) -> Result<Option<Bytes>> {
    if let Some(certificate) = certificate {
        let refuse = |why| Error::new(ErrorKind::NotAuthenticated, format!("Kerberos: {why}"));
        let sent = success.channel_bindings.as_deref();
        let sent = sent.ok_or_else(|| refuse("the server did not sign its certificate's hash"))?;
        if context.unwrap(strip_length(sent)?)? != certificate_hash(certificate)? {
            return Err(refuse("the TLS certificate is not that of the authenticated server"));
        }
    }
    let Some(nonce) = &success.nonce else { return Ok(None) };
    let signed = context.wrap(nonce)?;
    Ok(Some([&(signed.len() as u32).to_be_bytes()[..], &signed].concat().into()))
}

/// Checks and removes the length that SASL puts before a protected value.
fn strip_length(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_first_chunk::<4>() {
        Some((length, rest)) if u32::from_be_bytes(*length) as usize == rest.len() => Ok(rest),
        _ => Err(Error::protocol("Kerberos: a protected value with a wrong length")),
    }
}

/// The certificate's hash by RFC 5929 (`tls-server-end-point`): with the hash function of its signature, or SHA-256 in
/// place of weaker ones.
fn certificate_hash(certificate: &[u8]) -> Result<Vec<u8>> {
    let algorithm = match signature_algorithm(certificate) {
        // RSA with MD5, SHA-1, SHA-256; ECDSA with SHA-1, SHA-256.
        Some(
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4 | 5 | 11]
            | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1]
            | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2],
        ) => &digest::SHA256,
        Some([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12] | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3]) => {
            &digest::SHA384
        }
        Some([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13] | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4]) => {
            &digest::SHA512
        }
        other => {
            let message =
                format!("the server's certificate has an unknown signature algorithm ({other:02x?})");
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
    };
    Ok(digest::digest(algorithm, certificate).as_ref().to_vec())
}

/// The object id in `SEQUENCE { SEQUENCE (the signed part), SEQUENCE { object id …`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_ID: u8 = 6;
    let (certificate, _) = der_element(certificate, SEQUENCE)?;
    let (_, rest) = der_element(certificate, SEQUENCE)?;
    let (algorithm, _) = der_element(rest, SEQUENCE)?;
    Some(der_element(algorithm, OBJECT_ID)?.0)
}

/// Reads a DER element with this tag: its content, and what follows it.
fn der_element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], mut rest) = bytes.split_first_chunk::<2>()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let digits;
        (digits, rest) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(digits, _)| digits.len() <= 4)?;
        length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
    }
    if found == tag { rest.split_at_checked(length) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn certificate(algorithm: &[u8]) -> Vec<u8> {
        let wrap = |tag: u8, content: &[u8]| {
            let length = (content.len() as u16).to_be_bytes();
            [&[tag, 0x82, length[0], length[1]], content].concat()
        };
        let algorithm = wrap(0x30, &[&[6, algorithm.len() as u8][..], algorithm, &[5, 0]].concat());
        wrap(0x30, &[wrap(0x30, &[7; 300]), algorithm, vec![3, 2, 0, 1]].concat())
    }

    #[test]
    fn a_certificate_is_hashed_by_its_signature_algorithm() {
        let rsa = |last| certificate(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, last]);
        for (last, bytes) in [(4, 32), (5, 32), (11, 32), (12, 48), (13, 64)] {
            assert_eq!(certificate_hash(&rsa(last)).unwrap().len(), bytes, "{last}");
        }
        assert_eq!(certificate_hash(&rsa(14)).unwrap_err().kind(), ErrorKind::NotSupported);
        assert!(certificate_hash(b"").is_err());
    }

    #[test]
    fn protected_values_must_have_their_length() {
        assert_eq!(strip_length(b"\0\0\0\x02ab").unwrap(), b"ab");
        for bad in [&b""[..], b"\0\0\0", b"\0\0\0\x03ab", b"\xff\xff\xff\xffab"] {
            assert!(strip_length(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_certificate_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = signature_algorithm(&bytes);
        }
    }
}
