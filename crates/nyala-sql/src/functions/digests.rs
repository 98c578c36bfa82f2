//! Digests of texts and bytes, and bytes as texts.

use super::plain::{Call, Kind, PlainFunction, bytes, immutable, text};
use crate::error::{SqlError, SqlResult, SqlState};
use base64ct::{Base64, Encoding};
use datafusion::common::ScalarValue;
use md5::{Digest, Md5};
use ring::digest;

/// Letters of a line of base64, as PostgreSQL breaks them.
const LINE_LETTERS: usize = 76;

pub(super) static FUNCTIONS: &[PlainFunction] = &[
    immutable("md5", &[&[Kind::Text], &[Kind::Bytes]], Kind::Text, |call| {
        Ok(text(hex(&Md5::digest(call.bytes(0)))))
    }),
    immutable("sha256", &[&[Kind::Bytes]], Kind::Bytes, |call| digest_of(&digest::SHA256, call)),
    immutable("sha384", &[&[Kind::Bytes]], Kind::Bytes, |call| digest_of(&digest::SHA384, call)),
    immutable("sha512", &[&[Kind::Bytes]], Kind::Bytes, |call| digest_of(&digest::SHA512, call)),
    immutable("encode", &[&[Kind::Bytes, Kind::Text]], Kind::Text, encoded),
    immutable("decode", &[&[Kind::Text, Kind::Text]], Kind::Bytes, decoded),
    immutable("convert_from", &[&[Kind::Bytes, Kind::Text]], Kind::Text, |call| {
        need_utf8(call.text(1))?;
        let words = || "invalid byte sequence for encoding \"UTF8\"";
        let own = std::str::from_utf8(call.bytes(0));
        Ok(text(own.map_err(|_| SqlError::new(SqlState::INVALID_ENCODING, words()))?))
    }),
    immutable("convert_to", &[&[Kind::Text, Kind::Text]], Kind::Bytes, |call| {
        need_utf8(call.text(1))?;
        Ok(bytes(call.bytes(0)))
    }),
];

fn digest_of(algorithm: &'static digest::Algorithm, call: &Call<'_>) -> SqlResult<ScalarValue> {
    Ok(bytes(digest::digest(algorithm, call.bytes(0)).as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn need_utf8(encoding: &str) -> SqlResult<()> {
    let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.eq_ignore_ascii_case("utf8") {
        true => Ok(()),
        false => Err(SqlError::unsupported(format!("the encoding {encoding}")).with_hint("Texts are UTF8.")),
    }
}

fn unknown_form(form: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER, format!("unrecognized encoding: \"{form}\""))
}

fn encoded(call: &Call<'_>) -> SqlResult<ScalarValue> {
    let own = call.bytes(0);
    Ok(text(match &*call.text(1).to_lowercase() {
        "hex" => hex(own),
        "base64" => {
            let letters = Base64::encode_string(own);
            let lines: Vec<&str> = letters
                .as_bytes()
                .chunks(LINE_LETTERS)
                .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
                .collect();
            lines.join("\n")
        }
        "escape" => own
            .iter()
            .map(|byte| match byte {
                0 | 128.. => format!("\\{byte:03o}"),
                b'\\' => "\\\\".to_owned(),
                byte => char::from(*byte).to_string(),
            })
            .collect(),
        other => return Err(unknown_form(other)),
    }))
}

fn decoded(call: &Call<'_>) -> SqlResult<ScalarValue> {
    let refused = |form: &str| {
        SqlError::new(
            SqlState::INVALID_PARAMETER,
            format!("invalid symbol found while decoding {form} sequence"),
        )
    };
    let written: String = call.text(0).to_owned();
    let plain = || written.chars().filter(|own| !own.is_ascii_whitespace()).collect::<String>();
    let own = match &*call.text(1).to_lowercase() {
        "hex" => from_hex(&plain()).ok_or_else(|| refused("hexadecimal"))?,
        "base64" => Base64::decode_vec(&plain()).map_err(|_| refused("base64"))?,
        "escape" => unescaped(&written)
            .ok_or_else(|| SqlError::new(SqlState::INVALID_TEXT, "invalid input syntax for type bytea"))?,
        other => return Err(unknown_form(other)),
    };
    Ok(bytes(&own))
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

fn unescaped(written: &str) -> Option<Vec<u8>> {
    let (mut own, mut rest) = (Vec::with_capacity(written.len()), written.as_bytes());
    while let [byte, more @ ..] = rest {
        rest = more;
        if *byte != b'\\' {
            own.push(*byte);
            continue;
        }
        match more {
            [b'\\', more @ ..] => {
                own.push(b'\\');
                rest = more;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', more @ ..] => {
                own.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = more;
            }
            _ => return None,
        }
    }
    Some(own)
}
