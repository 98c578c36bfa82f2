//! What clients of Flight SQL send, to begin with.

/// A member of a message of protocol buffers, shorter than 128 bytes.
fn member(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat()
}

/// Inputs to begin with.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery";
    let command = [member(1, name), member(2, &member(1, b"SELECT 1"))].concat();
    let ticket = [member(1, &[7; 16]), member(2, b"SELECT 1"), member(3, b"d")].concat();
    vec![
        b"\0\0\0\0\0\x03abc\0\0\0\0\0".to_vec(),
        [&b"\x01\0\x04"[..], &member(2, b"\x08\0")].concat(),
        [&b"\x02"[..], &command].concat(),
        [&b"\x03"[..], &ticket].concat(),
        b"\x04bmFtZQ~dG9rZW4.1795689900.c2ln".to_vec(),
    ]
}
