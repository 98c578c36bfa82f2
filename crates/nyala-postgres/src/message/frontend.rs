//! What clients send once they are connected.

use super::fields::Fields;
use crate::error::Failure;
use crate::value::Format;
use bytes::Bytes;

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frontend {
    /// Executes the statements of a text.
    Query(String),
    /// Prepares a statement, which gets a name; the types of its parameters are numbers, 0 if unknown.
    Parse {
        /// The name; empty for the statement that has none.
        name: String,
        /// Its text.
        text: String,
        /// The types of its first parameters.
        types: Vec<u32>,
    },
    /// Makes a portal of a statement and values.
    Bind(Bind),
    /// Asks for columns and parameters.
    Describe(Target),
    /// Asks for rows of a portal: at most so many, or 0 for all.
    Execute {
        /// The portal.
        portal: String,
        /// The most rows.
        rows: usize,
    },
    /// Forgets a statement or portal.
    Close(Target),
    /// Asks for all answers so far.
    Flush,
    /// Ends a series of messages, and a failure.
    Sync,
    /// Rows of a COPY.
    CopyData(Bytes),
    /// The end of the rows.
    CopyDone,
    /// The client gives up a COPY, and says why.
    CopyFail(String),
    /// An answer to what authentication asks.
    Password(Bytes),
    /// Calls a function, as clients did before 2003.
    FunctionCall,
    /// Ends the connection.
    Terminate,
}

/// A portal to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The portal's name; empty for the portal that has none.
    pub portal: String,
    /// The statement.
    pub statement: String,
    /// The formats of the parameters: none (all are text), one for all, or one each.
    pub parameter_formats: Vec<Format>,
    /// The parameters.
    pub parameters: Vec<Option<Bytes>>,
    /// The formats of the columns, as those of the parameters.
    pub column_formats: Vec<Format>,
}

/// A statement or portal, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement(String),
    /// A portal.
    Portal(String),
}

impl Frontend {
    /// Reads a message: its letter and its body.
    ///
    /// # Errors
    /// A protocol violation, or text that is not UTF-8.
    pub fn read(letter: u8, body: Bytes) -> Result<Self, Failure> {
        let mut fields = Fields::of(body);
        let message = match letter {
            b'Q' => Frontend::Query(fields.text()?),
            b'P' => {
                let (name, text) = (fields.text()?, fields.text()?);
                let count = fields.count(4)?;
                let types =
                    (0..count).map(|_| fields.i32().map(|oid| oid as u32)).collect::<Result<_, _>>()?;
                Frontend::Parse { name, text, types }
            }
            b'B' => {
                let (portal, statement) = (fields.text()?, fields.text()?);
                let parameter_formats = formats(&mut fields)?;
                let count = fields.count(4)?;
                let parameters = (0..count).map(|_| fields.value()).collect::<Result<_, _>>()?;
                let column_formats = formats(&mut fields)?;
                Frontend::Bind(Bind { portal, statement, parameter_formats, parameters, column_formats })
            }
            b'D' => Frontend::Describe(target(&mut fields)?),
            b'C' => Frontend::Close(target(&mut fields)?),
            b'E' => {
                let portal = fields.text()?;
                // PostgreSQL takes a negative number for "all", too.
                Frontend::Execute { portal, rows: usize::try_from(fields.i32()?).unwrap_or(0) }
            }
            b'H' => Frontend::Flush,
            b'S' => Frontend::Sync,
            b'd' => return Ok(Frontend::CopyData(fields.rest())),
            b'c' => Frontend::CopyDone,
            b'f' => Frontend::CopyFail(fields.text()?),
            b'p' => return Ok(Frontend::Password(fields.rest())),
            b'F' => return Ok(Frontend::FunctionCall),
            b'X' => Frontend::Terminate,
            other => return Err(Failure::protocol(format!("invalid frontend message type {other}"))),
        };
        fields.end()?;
        Ok(message)
    }

    /// Whether a letter begins a message of the extended protocol: after a failure in one of them, all up to the next
    /// Sync are skipped.
    pub fn is_extended(letter: u8) -> bool {
        matches!(letter, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
    }

    /// Whether a letter begins any message.
    pub fn is_known(letter: u8) -> bool {
        b"QPBDCEHSdcfpFX".contains(&letter)
    }
}

fn formats(fields: &mut Fields) -> Result<Vec<Format>, Failure> {
    let count = fields.count(2)?;
    (0..count).map(|_| Format::of_code(fields.i16()?)).collect()
}

fn target(fields: &mut Fields) -> Result<Target, Failure> {
    let kind = fields.u8()?;
    let name = fields.text()?;
    match kind {
        b'S' => Ok(Target::Statement(name)),
        b'P' => Ok(Target::Portal(name)),
        other => Err(Failure::protocol(format!("invalid message subtype {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(letter: u8, body: &'static [u8]) -> Result<Frontend, Failure> {
        Frontend::read(letter, Bytes::from_static(body))
    }

    #[test]
    fn messages_are_read() {
        assert_eq!(read(b'Q', b"SELECT 1\0"), Ok(Frontend::Query("SELECT 1".into())));
        let parse = Frontend::Parse { name: "s".into(), text: "x".into(), types: vec![23, 0] };
        assert_eq!(read(b'P', b"s\0x\0\0\x02\0\0\0\x17\0\0\0\0"), Ok(parse));
        let bind = Bind {
            portal: String::new(),
            statement: "s".into(),
            parameter_formats: vec![Format::Binary],
            parameters: vec![None, Some(Bytes::from_static(b"ab"))],
            column_formats: vec![],
        };
        let bytes = b"\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x02ab\0\0";
        assert_eq!(read(b'B', bytes), Ok(Frontend::Bind(bind)));
        assert_eq!(
            read(b'E', b"\0\xff\xff\xff\xff"),
            Ok(Frontend::Execute { portal: String::new(), rows: 0 })
        );
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (letter, body) in [
            (b'Q', b"SELECT 1".as_slice()),
            (b'Q', b"SELECT 1\0x"),
            (b'P', b"s\0x\0\xff\xff"),
            (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'D', b"Q\0"),
            (b'D', b""),
            (b'S', b"x"),
            (b'z', b""),
        ] {
            assert_eq!(read(letter, body).unwrap_err().code, "08P01", "{letter} {body:?}");
        }
        assert_eq!(read(b'Q', b"\xff\0").unwrap_err().code, "22021");
    }
}
