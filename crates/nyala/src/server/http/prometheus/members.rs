//! A message of protocol buffers read member by member, where it lies: what it holds is never built, so that a small
//! request cannot become a large one.

use super::broken;
use nyala_core::{Error, Result};
use prost::encoding::{WireType, decode_key, decode_varint};

/// The members of a message in the order in which they were sent; ends after an error.
pub(super) struct Members<'a>(pub(super) &'a [u8]);

/// The value of a member.
pub(super) enum Member<'a> {
    Number(u64),
    EightBytes([u8; 8]),
    FourBytes,
    /// A text or another message.
    Bytes(&'a [u8]),
}

impl<'a> Members<'a> {
    fn read(&mut self) -> Result<(u32, Member<'a>)> {
        let (number, wire_type) = decode_key(&mut self.0).map_err(|error| broken(&error))?;
        let member = match wire_type {
            WireType::Varint => Member::Number(self.number()?),
            WireType::SixtyFourBit => {
                Member::EightBytes(self.take(8)?.try_into().expect("eight bytes were taken"))
            }
            WireType::ThirtyTwoBit => self.take(4).map(|_| Member::FourBytes)?,
            WireType::LengthDelimited => {
                let length = self.number()?;
                Member::Bytes(self.take(length)?)
            }
            WireType::StartGroup | WireType::EndGroup => {
                return Err(Error::invalid("protocol buffers with groups are not understood"));
            }
        };
        Ok((number, member))
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

impl<'a> Iterator for Members<'a> {
    type Item = Result<(u32, Member<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let member = self.read();
        if member.is_err() {
            self.0 = &[];
        }
        Some(member)
    }
}

/// The text of a member.
pub(super) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| broken(&error))
}
