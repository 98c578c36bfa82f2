//! Bearer tokens: JSON Web Tokens (RFC 7519) signed with a secret that server and issuer share.
//!
//! Only the HMAC algorithms are known, so that a token can neither do without a signature nor be signed with
//! what is public; the algorithm that a token names decides how its signature is checked. A token must
//! expire, and may not name whom it is for: the server has no name that it could be compared with. When it
//! was issued does not matter (RFC 7519, 4.1.6), because the issuer's clock may be ahead.

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::hmac;
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The shortest secret that is taken, in bytes: as long as the shortest hash (RFC 7518, 3.2).
const MIN_BYTES: usize = 32;
/// The longest token that is read.
const TOKEN_MAX_BYTES: usize = 16 << 10;

/// A secret that tokens are signed with. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedSecret(String);

impl SharedSecret {
    /// Refuses a secret so short that someone could guess it.
    pub fn check(&self) -> Result<(), String> {
        match self.0.len() {
            length @ 0..MIN_BYTES => Err(format!(
                "shared-secret has {length} bytes: bearer tokens signed with it could be forged; use {MIN_BYTES} random ones or more, or leave it out"
            )),
            _ => Ok(()),
        }
    }

    /// The user that a token names, if it is valid at a time of day; else what is wrong with it.
    pub fn user_of(&self, token: &str, now_ns: i64) -> Result<String, String> {
        if token.len() > TOKEN_MAX_BYTES {
            return Err("token is too long".into());
        }
        let mut parts = token.split('.');
        let (Some(head), Some(body), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("token is malformed: token contains an invalid number of segments".into());
        };
        let algorithm = match object(head).as_ref().and_then(|head| head.get("alg")).and_then(Value::as_str) {
            Some("HS256") => hmac::HMAC_SHA256,
            Some("HS384") => hmac::HMAC_SHA384,
            Some("HS512") => hmac::HMAC_SHA512,
            Some(other) => return Err(format!("token is unverifiable: unexpected signing method {other}")),
            None => return Err("token is unverifiable: signing method (alg) is unspecified".into()),
        };
        let key = hmac::Key::new(algorithm, self.0.as_bytes());
        let signed = &token.as_bytes()[..head.len() + 1 + body.len()];
        let signature = Base64UrlUnpadded::decode_vec(signature).map_err(|_| "token signature is invalid")?;
        hmac::verify(&key, signed, &signature).map_err(|_| "token signature is invalid")?;
        // The body is not trusted before this line.
        let claims = object(body).ok_or("token is malformed")?;
        check_times(&claims, now_ns as f64 / 1e9)?;
        check_audience(&claims)?;
        match claims.get("username") {
            Some(Value::String(name)) if name.is_empty() => Err("token must contain a username".into()),
            Some(Value::String(name)) => Ok(name.clone()),
            _ => Err("username in token must be a string".into()),
        }
    }
}

/// Checks `exp` and `nbf`, which are seconds since 1970.
fn check_times(claims: &Map<String, Value>, now: f64) -> Result<(), String> {
    let expires = claims.get("exp").and_then(Value::as_f64).filter(|expires| *expires > 0.0);
    let expires = expires.ok_or("token expiration required")?;
    if now >= expires {
        return Err("token is expired".into());
    }
    match claims.get("nbf") {
        None => Ok(()),
        Some(value) if value.as_f64().is_some_and(|from| from <= now) => Ok(()),
        Some(_) => Err("token is not valid yet".into()),
    }
}

/// Refuses tokens that name in `aud` whom they are for (RFC 7519, 4.1.3): that is somebody else.
fn check_audience(claims: &Map<String, Value>) -> Result<(), String> {
    let names = match claims.get("aud") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
    };
    match names {
        [] => Ok(()),
        _ if names.iter().all(Value::is_string) => {
            Err("token audience is invalid: audience value was expected but not provided".into())
        }
        _ => Err("token is malformed: couldn't parse 'aud' value".into()),
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&Base64UrlUnpadded::decode_vec(part).ok()?).ok()
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret([REDACTED])")
    }
}

// When one of these fails, neither its error nor those of its callers may show the text.

impl FromStr for SharedSecret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for SharedSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer) {
            Ok(toml::Value::String(text)) => Ok(Self(text)),
            _ => Err(D::Error::custom("shared-secret must be a string in quotes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const NOW_NS: i64 = 1_700_000_000_000_000_000;

    fn token(head: &str, body: &str, secret: &[u8], algorithm: hmac::Algorithm) -> String {
        let signed = format!(
            "{}.{}",
            Base64UrlUnpadded::encode_string(head.as_bytes()),
            Base64UrlUnpadded::encode_string(body.as_bytes())
        );
        let signature = hmac::sign(&hmac::Key::new(algorithm, secret), signed.as_bytes());
        format!("{signed}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
    }

    fn user_of_token(token: &str) -> Result<String, String> {
        SharedSecret(SECRET.into()).user_of(token, NOW_NS)
    }

    #[test]
    fn only_signed_tokens_that_expire_are_taken() {
        const HEAD: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
        const BODY: &str = r#"{"username":"ann","exp":1700000001}"#;
        let own = |body: &str| token(HEAD, body, SECRET.as_bytes(), hmac::HMAC_SHA256);
        assert_eq!(user_of_token(&own(BODY)), Ok("ann".into()));
        for claims in [r#""iat":1700000005"#, r#""iat":"x""#, r#""aud":[]"#, r#""aud":null"#] {
            let body = BODY.replace('}', &format!(",{claims}}}"));
            assert_eq!(user_of_token(&own(&body)), Ok("ann".into()), "{body}");
        }
        for (name, algorithm) in [("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)] {
            let head = HEAD.replace("HS256", name);
            assert_eq!(user_of_token(&token(&head, BODY, SECRET.as_bytes(), algorithm)), Ok("ann".into()));
            // The algorithm named is the one that counts.
            assert!(user_of_token(&token(HEAD, BODY, SECRET.as_bytes(), algorithm)).is_err());
        }
        for body in [
            r#"{"username":"ann"}"#,
            r#"{"username":"ann","exp":0}"#,
            r#"{"username":"ann","exp":-5}"#,
            r#"{"username":"ann","exp":"1800000000"}"#,
            r#"{"username":"ann","exp":null}"#,
            r#"{"username":"ann","exp":1700000000}"#,
            r#"{"username":"ann","exp":1700000009,"nbf":1700000005}"#,
            r#"{"username":"ann","exp":1700000001,"aud":"grafana"}"#,
            r#"{"username":"ann","exp":1700000001,"aud":["nyala","grafana"]}"#,
            r#"{"username":"ann","exp":1700000001,"aud":""}"#,
            r#"{"username":"ann","exp":1700000001,"aud":7}"#,
            r#"{"username":"ann","exp":1700000009,"nbf":"x"}"#,
            r#"{"username":"","exp":1700000001}"#,
            r#"{"username":["ann"],"exp":1700000001}"#,
            r#"{"exp":1700000001}"#,
            r#"["username"]"#,
            "",
        ] {
            assert!(user_of_token(&own(body)).is_err(), "{body}");
        }
        for other in [
            token(HEAD, BODY, b"", hmac::HMAC_SHA256),
            token(HEAD, BODY, b"another secret of about that size", hmac::HMAC_SHA256),
            token(r#"{"alg":"none"}"#, BODY, SECRET.as_bytes(), hmac::HMAC_SHA256),
            token(r#"{"alg":"hs256"}"#, BODY, SECRET.as_bytes(), hmac::HMAC_SHA256),
            token(r#"{"alg":"RS256"}"#, BODY, SECRET.as_bytes(), hmac::HMAC_SHA256),
            token(r#"{"alg":["HS256"]}"#, BODY, SECRET.as_bytes(), hmac::HMAC_SHA256),
            token("{}", BODY, SECRET.as_bytes(), hmac::HMAC_SHA256),
            own(BODY).rsplit_once('.').unwrap().0.to_owned() + ".",
            own(BODY).rsplit_once('.').unwrap().0.to_owned(),
            own(BODY) + ".",
            own(BODY) + "A",
            String::new(),
            "..".into(),
            "a.b.c".into(),
        ] {
            assert!(user_of_token(&other).is_err(), "{other}");
        }
    }

    #[test]
    fn short_secrets_are_refused_and_none_is_shown() {
        for short in ["", "short", "0123456789abcdef0123456789abcde"] {
            assert!(SharedSecret(short.into()).check().is_err());
        }
        assert!(SharedSecret(SECRET.into()).check().is_ok());
        assert!(!format!("{:?}", SharedSecret(SECRET.into())).contains("0123"));
    }
}
