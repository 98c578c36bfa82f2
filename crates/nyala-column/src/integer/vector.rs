//! One integer vector: its encoding's bytes, read back as offsets from the vector's minimum.
//!
//! Offsets are counted in the vector's divisor (a clock of milliseconds stored in nanoseconds has one of a
//! million), which precedes the encoding's bytes where it is not 1. Every encoding decodes any range of rows into a
//! caller's buffer of the narrowest fitting type (see [`Narrow`]) and finds single values. Parsing a vector checks its header; what only the data can show
//! (codes beyond a dictionary, positions that do not rise) is checked while decoding.

use std::ops::Range;

use super::delta::Delta;
use super::dictionary::Dictionary;
use super::encoding::{Encoding, TAG_DIVISOR};
use super::entropy::Entropy;
use super::frame::Frame;
use super::runs::Runs;
use crate::cpu::CpuFeatures;
use crate::directory::VECTOR_VALUES;
use crate::error::{Result, ensure};
use crate::little_endian::Reader;
use crate::narrow::{Narrow, Offsets};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Vector<'a> {
    pub(crate) divisor: u64,
    pub(crate) form: Form<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Form<'a> {
    Constant,
    Frame(Frame<'a>),
    Delta(Delta<'a>),
    Runs(Runs<'a>),
    Dictionary(Dictionary<'a>),
    Entropy(Entropy<'a>),
}

impl<'a> Vector<'a> {
    pub(crate) fn parse(tag: u8, rows: usize, payload: &'a [u8]) -> Result<Self> {
        debug_assert!(rows <= VECTOR_VALUES);
        let (mut divisor, mut payload) = (1, payload);
        if tag & TAG_DIVISOR != 0 {
            let mut reader = Reader::new(payload);
            let width = reader.u8()? as usize;
            divisor = reader.unsigned(width)?;
            ensure(divisor > 0, "divisor of zero")?;
            payload = reader.rest();
        }
        let form = match Encoding::of(tag)? {
            Encoding::Constant => {
                ensure(payload.is_empty(), "constant vector with bytes")?;
                Form::Constant
            }
            Encoding::Frame => Form::Frame(Frame::parse(rows, payload)?),
            Encoding::Delta => Form::Delta(Delta::parse(rows, payload)?),
            Encoding::Runs => Form::Runs(Runs::parse(rows, payload)?),
            Encoding::Dictionary => Form::Dictionary(Dictionary::parse(rows, payload)?),
            Encoding::Entropy => Form::Entropy(Entropy::parse(rows, payload)?),
        };
        Ok(Self { divisor, form })
    }

    /// Decodes the offsets of `rows` to the same rows of `out`; other rows may be overwritten too.
    pub(crate) fn decode<T: Narrow>(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut Offsets<T>,
    ) -> Result<()> {
        match &self.form {
            Form::Constant => {
                out[rows].fill(T::default());
                Ok(())
            }
            Form::Frame(frame) => frame.decode(cpu, rows, out),
            Form::Delta(delta) => delta.decode(cpu, rows, out),
            Form::Runs(runs) => runs.decode(rows, out),
            Form::Dictionary(dictionary) => dictionary.decode(cpu, rows, out),
            Form::Entropy(entropy) => entropy.decode(cpu, rows, out),
        }
    }

    /// The offset of one row.
    pub(crate) fn get(&self, cpu: CpuFeatures, row: usize) -> Result<u64> {
        match &self.form {
            Form::Constant => Ok(0),
            Form::Frame(frame) => frame.get(row),
            Form::Delta(delta) => delta.get(cpu, row),
            Form::Runs(runs) => runs.get(row),
            Form::Dictionary(dictionary) => dictionary.get(row),
            Form::Entropy(entropy) => entropy.get(cpu, row),
        }
    }

    /// `(offset of row 0, step in offsets)` where `rows` lie on a straight line.
    pub(crate) fn line(&self, rows: Range<usize>) -> Option<(u64, u64)> {
        match &self.form {
            Form::Constant => Some((0, 0)),
            Form::Frame(frame) => frame.line(rows),
            _ => None,
        }
    }
}
