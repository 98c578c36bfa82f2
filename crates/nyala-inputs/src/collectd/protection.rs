//! Signed and encrypted packets: HMAC-SHA-256, and AES-256 in output feedback with a SHA-1 of what is encrypted.

use crate::Refused;
use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes256, Block};
use ring::{digest, hmac};
use std::collections::HashMap;

/// How a packet is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Not at all.
    None,
    /// Nobody else can have made it.
    Sign,
    /// Nor read it.
    Encrypt,
}

const TAG_BYTES: usize = 32;
const BLOCK_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 20;

/// Users and passwords of a file: `user: password`, one a line.
pub fn passwords(text: &str) -> HashMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(':'));
    pairs.map(|(user, password)| (user.trim().to_owned(), password.trim().to_owned())).collect()
}

/// Verifies a signature, tag and user, of the parts that follow.
pub(super) fn verify(
    signature: &[u8],
    signed: &[u8],
    password: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<(), Refused> {
    let (tag, user) =
        signature.split_at_checked(TAG_BYTES).ok_or(Refused::Invalid("a signature is too short"))?;
    let password = password_of(user, password)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, password.as_bytes());
    hmac::verify(&key, &[user, signed].concat(), tag).map_err(|_| Refused::NotAuthentic)
}

/// The parts in an encrypted one: the length of the user, the user, the first block of the key stream's input, and encrypted a
/// checksum and the parts.
pub(super) fn decrypt(
    payload: &[u8],
    password: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<Vec<u8>, Refused> {
    let short = Refused::Invalid("an encrypted part is too short");
    let (length, rest) = payload.split_at_checked(2).ok_or(short)?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let (user, rest) = rest.split_at_checked(length).ok_or(short)?;
    let (vector, encrypted) = rest.split_at_checked(BLOCK_BYTES).ok_or(short)?;
    let password = password_of(user, password)?;
    let key = digest::digest(&digest::SHA256, password.as_bytes());
    let cipher = Aes256::new_from_slice(key.as_ref()).expect("SHA-256 has the length of the key");
    let mut stream = *Block::from_slice(vector);
    let mut decrypted = encrypted.to_vec();
    for block in decrypted.chunks_mut(BLOCK_BYTES) {
        cipher.encrypt_block(&mut stream);
        block.iter_mut().zip(&stream).for_each(|(byte, key)| *byte ^= key);
    }
    let (checksum, parts) = decrypted.split_at_checked(CHECKSUM_BYTES).ok_or(short)?;
    if digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts).as_ref() != checksum {
        return Err(Refused::NotAuthentic);
    }
    Ok(parts.to_vec())
}

fn password_of(user: &[u8], password: &mut dyn FnMut(&str) -> Option<String>) -> Result<String, Refused> {
    std::str::from_utf8(user).ok().and_then(password).ok_or(Refused::NotAuthentic)
}
