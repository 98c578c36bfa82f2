//! Log-in by Kerberos: SASL's GSSAPI mechanism (RFC 4752) inside negotiation messages.
//!
//! 1. tokens go back and forth until both sides are proven;
//! 2. the server offers layers of protection, the client takes integrity (TLS does the rest);
//! 3. with its success the server sends, signed, the hash of its TLS certificate, which ties the two together:
//!    whoever sits between cannot sign it; and perhaps a number that the client signs and returns.
//!
//! A success that comes before all that is a server that does not want to prove itself, and is refused.

use ring::digest;
use tokio::io::{AsyncRead, AsyncWrite};

use super::gssapi::Context;
use super::negotiation::{receive_one_of, send};
use crate::error::{Error, ErrorKind, Result};
use crate::pb::rpc::*;
use bytes::Bytes;

const LAYER_INTEGRITY: u8 = 2;
/// Integrity, and that messages of up to 64 KiB are taken; the two that follow are tens of bytes.
const CHOSEN_LAYER: [u8; 4] = [LAYER_INTEGRITY, 0, 0xff, 0xff];

/// Kerberos takes two rounds and the layers one; another mechanism may take some more.
const MOST_ROUNDS: usize = 10;

enum Stage {
    Proving,
    Layers,
    Done,
}

/// Logs in and gives the answer to the server's number, if it sent one. `certificate` is the server's, if the
/// connection went through a TLS handshake.
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
    let mut stage = Stage::Proving;
    let mut token;
    (context, stage, token) = advance(context, stage, Bytes::new()).await?;
    let mut message = Negotiate {
        step: STEP_SASL_INITIATE,
        sasl_mechanisms: vec![SaslMechanism { mechanism: "GSSAPI".into() }],
        token: Some(token),
        ..Default::default()
    };
    for _ in 0..MOST_ROUNDS {
        send(stream, &message).await?;
        let answer = receive_one_of(stream, &[STEP_SASL_CHALLENGE, STEP_SASL_SUCCESS]).await?;
        if answer.step == STEP_SASL_SUCCESS {
            if !matches!(stage, Stage::Done) {
                let message = "Kerberos: the server called it a success before it proved itself";
                return Err(Error::new(ErrorKind::NotAuthenticated, message));
            }
            return finish(&mut context, &answer, certificate);
        }
        let challenge = answer.token.unwrap_or_default();
        (context, stage, token) = advance(context, stage, challenge).await?;
        message = Negotiate { step: STEP_SASL_RESPONSE, token: Some(token), ..Default::default() };
    }
    Err(Error::protocol("the Kerberos log-in does not come to an end"))
}

/// One step, off the runtime's threads: it may wait for the key distribution centre.
async fn advance(context: Context, stage: Stage, challenge: Bytes) -> Result<(Context, Stage, Bytes)> {
    let step = move || {
        let mut context = context;
        let (stage, token) = match stage {
            Stage::Proving => match context.step(&challenge)? {
                (token, true) => (Stage::Layers, token),
                (token, false) => (Stage::Proving, token),
            },
            Stage::Layers => match context.unwrap(&challenge)?[..] {
                [layers, _, _, _] if layers & LAYER_INTEGRITY != 0 => {
                    (Stage::Done, context.wrap(&CHOSEN_LAYER)?)
                }
                _ => return Err(Error::protocol("Kerberos: the server offers no integrity")),
            },
            Stage::Done => return Err(Error::protocol("Kerberos: a challenge after the last")),
        };
        Ok((context, stage, Bytes::from(token)))
    };
    tokio::task::spawn_blocking(step)
        .await
        .unwrap_or_else(|error| Err(Error::protocol(format!("the Kerberos log-in broke off: {error}"))))
}

fn finish(context: &mut Context, success: &Negotiate, certificate: Option<&[u8]>) -> Result<Option<Bytes>> {
    if let Some(certificate) = certificate {
        let refuse = |why| Error::new(ErrorKind::NotAuthenticated, format!("Kerberos: {why}"));
        let sent = success.channel_bindings.as_deref();
        let sent = sent.ok_or_else(|| refuse("the server does not vouch for its certificate"))?;
        if context.unwrap(unframed(sent)?)? != certificate_hash(certificate)? {
            return Err(refuse("the certificate is not that of the server which logged us in"));
        }
    }
    let Some(nonce) = &success.nonce else { return Ok(None) };
    let signed = context.wrap(nonce)?;
    Ok(Some([&(signed.len() as u32).to_be_bytes()[..], &signed].concat().into()))
}

/// SASL puts its length before what it protects.
fn unframed(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_first_chunk::<4>() {
        Some((length, rest)) if u32::from_be_bytes(*length) as usize == rest.len() => Ok(rest),
        _ => Err(Error::protocol("Kerberos: a protected value of another length than it says")),
    }
}

/// The certificate's hash as RFC 5929 (`tls-server-end-point`) has it: by the algorithm it was signed with, and
/// SHA-256 in place of weaker ones.
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
            let message = format!("the server's certificate is signed in an unknown way ({other:02x?})");
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
    };
    Ok(digest::digest(algorithm, certificate).as_ref().to_vec())
}

/// The object id in `SEQUENCE { SEQUENCE (what is signed), SEQUENCE { object id …`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_ID: u8 = 6;
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    Some(element(algorithm, OBJECT_ID)?.0)
}

/// Splits an element of this tag off: its content, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
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
    fn a_certificate_is_hashed_as_it_is_signed() {
        let rsa = |last| certificate(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, last]);
        for (last, bytes) in [(4, 32), (5, 32), (11, 32), (12, 48), (13, 64)] {
            assert_eq!(certificate_hash(&rsa(last)).unwrap().len(), bytes, "{last}");
        }
        assert_eq!(certificate_hash(&rsa(14)).unwrap_err().kind(), ErrorKind::NotSupported);
        assert!(certificate_hash(b"").is_err());
    }

    #[test]
    fn protected_values_must_be_as_long_as_they_say() {
        assert_eq!(unframed(b"\0\0\0\x02ab").unwrap(), b"ab");
        for bad in [&b""[..], b"\0\0\0", b"\0\0\0\x03ab", b"\xff\xff\xff\xffab"] {
            assert!(unframed(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_certificate_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = signature_algorithm(&bytes);
        }
    }
}
