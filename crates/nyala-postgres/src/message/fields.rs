//! The fields of a message, read one after the other.

use crate::error::Failure;
use crate::value::parameter::utf8;
use bytes::{Buf, Bytes};

/// What is left of a message.
pub(super) struct Fields(Bytes);

impl Fields {
    pub(super) fn of(body: Bytes) -> Self {
        Self(body)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Failure> {
        self.0.try_get_u8().map_err(|_| too_short())
    }

    pub(super) fn i16(&mut self) -> Result<i16, Failure> {
        self.0.try_get_i16().map_err(|_| too_short())
    }

    pub(super) fn i32(&mut self) -> Result<i32, Failure> {
        self.0.try_get_i32().map_err(|_| too_short())
    }

    /// A count of items that follow, of at least so many bytes each: never more than there can be.
    pub(super) fn count(&mut self, item_bytes: usize) -> Result<usize, Failure> {
        // PostgreSQL reads it without a sign, so that 65 535 parameters are possible.
        let count = usize::from(self.i16()? as u16);
        if count * item_bytes > self.0.len() { Err(too_short()) } else { Ok(count) }
    }

    /// A text that ends with a zero.
    pub(super) fn text(&mut self) -> Result<String, Failure> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(too_short)?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        utf8(&text).map(str::to_owned)
    }

    /// So many bytes; −1 stands for NULL.
    pub(super) fn value(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| too_short())?;
                if length > self.0.len() { Err(too_short()) } else { Ok(Some(self.0.split_to(length))) }
            }
        }
    }

    /// All that is left.
    pub(super) fn rest(self) -> Bytes {
        self.0
    }

    /// Refuses what follows the last field.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Failure::protocol("invalid message format")),
        }
    }
}

fn too_short() -> Failure {
    Failure::protocol("insufficient data left in message")
}
