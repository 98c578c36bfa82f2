//! What clients are answered. Every function appends one message to a buffer.

use crate::error::Failure;
use crate::value::Format;
use crate::value::types::ColumnType;

/// How bad an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Something that the client should know.
    Warning,
    /// Something that the client may want to know.
    Notice,
}

/// Whether a session is in a transaction, in the letters of the protocol.
pub const IDLE: u8 = b'I';
/// In a transaction.
pub const ACTIVE: u8 = b'T';
/// In a transaction that failed.
pub const FAILED: u8 = b'E';

/// Appends a message whose fields a function writes.
fn message(out: &mut Vec<u8>, letter: u8, write_fields: impl FnOnce(&mut Vec<u8>)) {
    out.push(letter);
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    write_fields(out);
    set_length(out, begin);
}

/// Writes the length of a message before its fields.
fn set_length(out: &mut [u8], begin: usize) {
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    // A zero would end the text, and the client would take the rest for the next field.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// The kinds of authentication requests.
pub enum Authentication<'a> {
    /// The client is logged in.
    Ok,
    /// It must send its password.
    Cleartext,
    /// It must choose one of these.
    Sasl(&'a [&'a str]),
    /// The exchange goes on.
    SaslContinue(&'a [u8]),
    /// The exchange has ended well.
    SaslFinal(&'a [u8]),
}

/// Asks for credentials, or says that they are right.
pub fn authentication(out: &mut Vec<u8>, request: &Authentication<'_>) {
    message(out, b'R', |out| match request {
        Authentication::Ok => out.extend_from_slice(&0_i32.to_be_bytes()),
        Authentication::Cleartext => out.extend_from_slice(&3_i32.to_be_bytes()),
        Authentication::Sasl(mechanisms) => {
            out.extend_from_slice(&10_i32.to_be_bytes());
            mechanisms.iter().for_each(|name| text(out, name));
            out.push(0);
        }
        Authentication::SaslContinue(data) => {
            out.extend_from_slice(&11_i32.to_be_bytes());
            out.extend_from_slice(data);
        }
        Authentication::SaslFinal(data) => {
            out.extend_from_slice(&12_i32.to_be_bytes());
            out.extend_from_slice(data);
        }
    });
}

/// Says which version of the protocol is spoken, and which extensions are not known. The version is whole, as PostgreSQL sends it:
/// its clients take a minor version alone for one before 3.0, and leave.
pub fn negotiate_version(out: &mut Vec<u8>, unknown: &[&str]) {
    message(out, b'v', |out| {
        out.extend_from_slice(&(3_i32 << 16).to_be_bytes());
        out.extend_from_slice(&(unknown.len() as i32).to_be_bytes());
        unknown.iter().for_each(|name| text(out, name));
    });
}

/// The value of a setting.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

/// What a client needs to cancel its query.
pub fn backend_key_data(out: &mut Vec<u8>, number: i32, secret: i32) {
    message(out, b'K', |out| {
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&secret.to_be_bytes());
    });
}

/// The server waits for the next statement.
pub fn ready_for_query(out: &mut Vec<u8>, transaction: u8) {
    message(out, b'Z', |out| out.push(transaction));
}

/// An error or a notice.
pub fn failure(out: &mut Vec<u8>, severity: Severity, failure: &Failure) {
    let (letter, word) = match severity {
        Severity::Error => (b'E', "ERROR"),
        Severity::Fatal => (b'E', "FATAL"),
        Severity::Warning => (b'N', "WARNING"),
        Severity::Notice => (b'N', "NOTICE"),
    };
    message(out, letter, |out| {
        let mut field = |name: u8, value: &str| {
            out.push(name);
            text(out, value);
        };
        field(b'S', word);
        field(b'V', word);
        field(b'C', failure.code);
        field(b'M', &failure.message);
        failure.detail.iter().for_each(|detail| field(b'D', detail));
        failure.hint.iter().for_each(|hint| field(b'H', hint));
        failure.context.iter().for_each(|context| field(b'W', context));
        failure.position.iter().for_each(|position| field(b'P', &position.to_string()));
        if let Some(rule) = &failure.broken_rule {
            field(b's', rule.schema);
            field(b't', &rule.table);
            rule.column.iter().for_each(|column| field(b'c', column));
            rule.constraint.iter().for_each(|constraint| field(b'n', constraint));
        }
        out.push(0);
    });
}

/// The columns of an answer: names, types and formats.
pub fn row_description<'a>(
    out: &mut Vec<u8>,
    columns: impl ExactSizeIterator<Item = (&'a str, ColumnType, Format)>,
) {
    message(out, b'T', |out| {
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for (name, column, format) in columns {
            text(out, name);
            // The table and the number of the column in it: not known here.
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&column.oid().to_be_bytes());
            out.extend_from_slice(&column.size_bytes().to_be_bytes());
            out.extend_from_slice(&column.modifier().to_be_bytes());
            out.extend_from_slice(&format.code().to_be_bytes());
        }
    });
}

/// The types of the parameters of a statement.
pub fn parameter_description(out: &mut Vec<u8>, types: &[ColumnType]) {
    message(out, b't', |out| {
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.iter().for_each(|each| out.extend_from_slice(&each.oid().to_be_bytes()));
    });
}

/// A row, whose cells a function writes. If it fails, nothing is appended.
pub fn data_row(
    out: &mut Vec<u8>,
    columns: usize,
    write_cells: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    long_message(out, b'D', |out| {
        out.extend_from_slice(&(columns as u16).to_be_bytes());
        write_cells(out)
    })
}

/// Appends a message that may be too long. If it fails, nothing is appended.
fn long_message(
    out: &mut Vec<u8>,
    letter: u8,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let begin = out.len();
    out.extend_from_slice(&[letter, 0, 0, 0, 0]);
    match write(out) {
        Ok(()) if out.len() - begin <= i32::MAX as usize => {
            set_length(out, begin + 1);
            Ok(())
        }
        Ok(()) => {
            out.truncate(begin);
            Err(Failure::new("54000", "a row is longer than 2 GiB"))
        }
        Err(error) => {
            out.truncate(begin);
            Err(error)
        }
    }
}

/// The server waits for rows of a COPY, in the overall format and with so many columns.
pub fn copy_in_response(out: &mut Vec<u8>, format: Format, columns: usize) {
    copy_response(out, b'G', format, columns);
}

/// Rows of a COPY follow.
pub fn copy_out_response(out: &mut Vec<u8>, format: Format, columns: usize) {
    copy_response(out, b'H', format, columns);
}

fn copy_response(out: &mut Vec<u8>, letter: u8, format: Format, columns: usize) {
    message(out, letter, |out| {
        out.push(format.code() as u8);
        out.extend_from_slice(&(columns as u16).to_be_bytes());
        (0..columns).for_each(|_| out.extend_from_slice(&format.code().to_be_bytes()));
    });
}

/// A part of the rows of a COPY, which a function writes. If it fails, nothing is appended.
pub fn copy_data(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    long_message(out, b'd', write)
}

/// There are no more rows of a COPY.
pub fn copy_done(out: &mut Vec<u8>) {
    message(out, b'c', |_| ());
}

/// A statement ended: what it did.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| text(out, tag));
}

/// A text without a statement was executed.
pub fn empty_query_response(out: &mut Vec<u8>) {
    message(out, b'I', |_| ());
}

/// A statement was prepared.
pub fn parse_complete(out: &mut Vec<u8>) {
    message(out, b'1', |_| ());
}

/// A portal was made.
pub fn bind_complete(out: &mut Vec<u8>) {
    message(out, b'2', |_| ());
}

/// A statement or portal was forgotten.
pub fn close_complete(out: &mut Vec<u8>) {
    message(out, b'3', |_| ());
}

/// A statement gives no rows.
pub fn no_data(out: &mut Vec<u8>) {
    message(out, b'n', |_| ());
}

/// A portal has given as many rows as were asked for, and may have more.
pub fn portal_suspended(out: &mut Vec<u8>) {
    message(out, b's', |_| ());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_lengths() {
        let mut out = Vec::new();
        ready_for_query(&mut out, IDLE);
        command_complete(&mut out, "SELECT 1");
        assert_eq!(out, b"Z\0\0\0\x05IC\0\0\0\x0dSELECT 1\0");
        out.clear();
        assert!(data_row(&mut out, 1, |_| Err(Failure::protocol("x"))).is_err());
        assert!(out.is_empty());
        let error = Failure { position: Some(7), ..Failure::new("42601", "a\0b") };
        failure(&mut out, Severity::Error, &error);
        assert_eq!(&out[5..], b"SERROR\0VERROR\0C42601\0Mab\0P7\0\0");
    }
}
