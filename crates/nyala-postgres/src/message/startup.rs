//! What a connection begins with: a request for TLS, a request to cancel a query, or the names of user and database.

use super::fields::Fields;
use crate::error::Failure;
use bytes::Bytes;

/// The longest such message, as in PostgreSQL.
pub const LENGTH_MAX: usize = 10_000;

const CANCEL: i32 = 1234 << 16 | 5678;
const TLS: i32 = 1234 << 16 | 5679;
const GSS: i32 = 1234 << 16 | 5680;

/// The first message of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Startup {
    /// The client wants TLS.
    Tls,
    /// The client wants encryption by Kerberos, which is always refused.
    Gss,
    /// Cancels the query of another connection.
    Cancel {
        /// The connection.
        number: i32,
        /// What proves that its client sent this.
        secret: i32,
    },
    /// Begins a session.
    Session {
        /// Whether the client knows a later version of the protocol.
        is_newer: bool,
        /// Names and values: `user`, `database`, and settings.
        parameters: Vec<(String, String)>,
    },
}

impl Startup {
    /// Reads a message, without its length.
    pub fn read(body: Bytes) -> Result<Self, Failure> {
        let mut fields = Fields::of(body);
        match fields.i32()? {
            CANCEL => {
                let (number, secret) = (fields.i32()?, fields.i32()?);
                fields.end()?;
                Ok(Startup::Cancel { number, secret })
            }
            TLS => Ok(Startup::Tls),
            GSS => Ok(Startup::Gss),
            version if version >> 16 == 3 => {
                let mut parameters = Vec::new();
                loop {
                    let name = fields.text()?;
                    if name.is_empty() {
                        break;
                    }
                    parameters.push((name, fields.text()?));
                }
                fields.end()?;
                Ok(Startup::Session { is_newer: version & 0xffff > 0, parameters })
            }
            version => {
                let (major, minor) = (version >> 16, version & 0xffff);
                Err(Failure::new(
                    "0A000",
                    format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"),
                ))
            }
        }
    }
}

/// The settings in the parameter `options`: `-c name=value` and `--name=value`, with spaces escaped by backslashes.
pub fn settings_of(options: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut words = vec![String::new()];
    let mut letters = options.chars();
    while let Some(letter) = letters.next() {
        let word = words.last_mut().expect("there is one from the start");
        match letter {
            '\\' => word.extend(letters.next()),
            ' ' | '\t' => words.push(String::new()),
            other => word.push(other),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next(),
            Some(rest) => Some(rest.to_owned()),
            None => word.strip_prefix("--").map(str::to_owned),
        };
        let setting = setting.as_deref().and_then(|setting| setting.split_once('='));
        let Some((name, value)) = setting else {
            return Err(Failure::new(
                "42601",
                format!("invalid command-line argument for server process: {word}"),
            ));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_messages_are_read() {
        let read = |body: &'static [u8]| Startup::read(Bytes::from_static(body));
        assert_eq!(read(b"\x04\xd2\x16\x2f"), Ok(Startup::Tls));
        assert_eq!(
            read(b"\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02"),
            Ok(Startup::Cancel { number: 1, secret: 2 })
        );
        let parameters = vec![("user".to_owned(), "ann".to_owned())];
        assert_eq!(read(b"\0\x03\0\0user\0ann\0\0"), Ok(Startup::Session { is_newer: false, parameters }));
        assert_eq!(read(b"\0\x02\0\0").unwrap_err().code, "0A000");
        for broken in
            [b"".as_slice(), b"\0\x03\0\0user\0ann\0", b"\0\x03\0\0user\0ann\0\0x", b"\x04\xd2\x16\x2e\0"]
        {
            assert_eq!(Startup::read(Bytes::from_static(broken)).unwrap_err().code, "08P01", "{broken:?}");
        }
    }

    #[test]
    fn options_are_settings() {
        let read = settings_of(r"-c search_path=a\ b  --statement-timeout=5 -cx=1").unwrap();
        let expected = [("search_path", "a b"), ("statement_timeout", "5"), ("x", "1")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(settings_of("-d").is_err());
    }
}
