//! Digests of texts and bytes, and bytes as texts.

use super::plain::{Call, Kind, PlainFunction, bytes, immutable, text};
use crate::bytes_text::{hexadecimal, read_base64, read_escaped, read_hexadecimal};
use crate::error::{SqlError, SqlResult, SqlState};
use base64ct::{Base64, Encoding};
use datafusion::common::ScalarValue;
use md5::{Digest, Md5};
use ring::digest;

/// Letters of a line of base64, as PostgreSQL breaks them.
const LINE_LETTERS: usize = 76;

pub(super) static FUNCTIONS: &[PlainFunction] = &[
    immutable("md5", &[&[Kind::Text], &[Kind::Bytes]], Kind::Text, |call| {
        Ok(text(hexadecimal(&Md5::digest(call.bytes(0)))))
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
        "hex" => hexadecimal(own),
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
    let written = call.text(0);
    let own = match &*call.text(1).to_lowercase() {
        "hex" => read_hexadecimal(written)?,
        "base64" => read_base64(written)?,
        "escape" => read_escaped(written)?,
        other => return Err(unknown_form(other)),
    };
    Ok(bytes(&own))
}
