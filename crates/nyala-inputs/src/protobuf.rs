//! Reads a protocol buffers message field by field, without decoding it into a structure, so that a small request
//! cannot become a large one in memory.

use nyala_core::{Error, Result};
use prost::encoding::{WireType, decode_key, decode_varint};

/// The fields of a message with their numbers, in the order in which they were sent; ends after an error.
pub struct Fields<'a>(pub &'a [u8]);

/// The value of a field.
pub enum FieldValue<'a> {
    /// A number of a few bytes.
    Number(u64),
    /// A number of eight bytes, little-endian.
    EightBytes([u8; 8]),
    /// A number of four bytes, which nobody needs.
    FourBytes,
    /// A text or another message.
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u32, FieldValue<'a>)> {
        let (number, wire_type) = decode_key(&mut self.0).map_err(|error| broken(&error))?;
        let value = match wire_type {
            WireType::Varint => FieldValue::Number(self.number()?),
            WireType::SixtyFourBit => {
                FieldValue::EightBytes(self.take(8)?.try_into().expect("eight bytes were taken"))
            }
            WireType::ThirtyTwoBit => self.take(4).map(|_| FieldValue::FourBytes)?,
            WireType::LengthDelimited => {
                let length = self.number()?;
                FieldValue::Bytes(self.take(length)?)
            }
            WireType::StartGroup | WireType::EndGroup => {
                return Err(Error::invalid("protocol buffers with groups are not understood"));
            }
        };
        Ok((number, value))
    }

    fn number(&mut self) -> Result<u64> {
        decode_varint(&mut self.0).map_err(|error| broken(&error))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let (taken, rest) =
            usize::try_from(length)
                .ok()
                .and_then(|length| self.0.split_at_checked(length))
                .ok_or_else(|| Error::invalid("protocol buffers: a member ends behind its message"))?;
        self.0 = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, FieldValue<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// The text of a field.
///
/// # Errors
/// Invalid for what is not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| broken(&error))
}

/// The error of a field whose value is of another type.
pub fn wrong_type() -> Error {
    Error::invalid("protocol buffers: a member is of another type than it should be")
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::invalid(error.to_string())
}
