//! The exchange of SCRAM-SHA-256 (RFC 5802): two messages of the client, two answers.
//!
//! Channel binding is not offered. A client that could bind says so (`y`), and is content with a server that cannot.

use crate::error::Failure;
use base64ct::{Base64, Encoding};
use nyala_db::users::ScramVerifier;

/// The only mechanism that is offered.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// Random bytes of the server's part of the nonce, as in PostgreSQL.
pub const NONCE_BYTES: usize = 18;
/// The longest part of a client's nonce: real ones have 24 to 32 letters.
const NONCE_LETTERS_MAX: usize = 1024;

/// An exchange after the client's first message.
pub struct Exchange {
    verifier: ScramVerifier,
    /// What the client's second message must repeat of its first.
    binding: String,
    nonce: String,
    /// The client's first message without its header, and the answer.
    messages: String,
}

impl Exchange {
    /// Reads the client's first message, and answers it.
    pub fn begin(
        message: &str,
        verifier: ScramVerifier,
        server_nonce: [u8; NONCE_BYTES],
    ) -> Result<(Self, String), Failure> {
        let mut parts = message.splitn(3, ',');
        let (flag, identity, bare) = (parts.next(), parts.next(), parts.next());
        let (Some(flag), Some(identity), Some(bare)) = (flag, identity, bare) else {
            return Err(malformed());
        };
        match flag {
            "n" | "y" => {}
            _ if flag.starts_with("p=") => {
                return Err(Failure::protocol("SCRAM with channel binding was not offered"));
            }
            _ => return Err(malformed()),
        }
        if !identity.is_empty() {
            return Err(Failure::unsupported("client uses authorization identity, but it is not supported"));
        }
        let mut fields = bare.split(',');
        // The name in it is ignored, as in PostgreSQL: it was sent before.
        let _name = fields.next().and_then(|field| field.strip_prefix("n=")).ok_or_else(malformed)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or_else(malformed)?;
        let is_nonce = nonce.bytes().all(|letter| letter.is_ascii_graphic());
        if nonce.is_empty() || nonce.len() > NONCE_LETTERS_MAX || !is_nonce {
            return Err(malformed());
        }
        let nonce = nonce.to_owned() + &Base64::encode_string(&server_nonce);
        let salt = Base64::encode_string(verifier.salt());
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations());
        let binding = Base64::encode_string(format!("{flag},,").as_bytes());
        let messages = format!("{bare},{answer}");
        Ok((Self { verifier, binding, nonce, messages }, answer))
    }

    /// Reads the client's second message, and answers it; `None` if the client does not know the password.
    pub fn finish(self, message: &str) -> Result<Option<String>, Failure> {
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or_else(malformed)?;
        let mut fields = without_proof.split(',');
        let binding = fields.next().and_then(|field| field.strip_prefix("c=")).ok_or_else(malformed)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or_else(malformed)?;
        if binding != self.binding {
            return Err(Failure::protocol(
                "unexpected SCRAM channel-binding attribute in client-final-message",
            ));
        }
        if nonce != self.nonce {
            return Err(Failure::protocol("invalid SCRAM response: nonce does not match"));
        }
        let proof = Base64::decode_vec(proof).map_err(|_| malformed())?;
        let messages = format!("{},{without_proof}", self.messages);
        let signature = self.verifier.check(messages.as_bytes(), &proof);
        Ok(signature.map(|signature| format!("v={}", Base64::encode_string(&signature))))
    }
}

fn malformed() -> Failure {
    Failure::protocol("malformed SCRAM message")
}
