//! Float blocks: `f64`, bit by bit, NaN payloads and −0.0 included.
//!
//! Minimum and maximum in the directory ignore NaN and follow the total order. There are no stored sums, because
//! a sum of floats depends on the order of additions, and must not depend on how rows were cut into blocks. The store
//! decodes the rows and adds them in its own order.

mod block;
mod decimal;
mod encode;
mod split;
mod vector;

pub use block::{FloatBlock, FloatLayout, FloatVectorSummary};
pub use vector::FloatEncoding;

pub(crate) use encode::FloatScratch;
use encode::encode_verified;

use crate::directory::{Entry, Kind, push_block, vector_ranges};
use crate::integer::IntegerEncoder;
use crate::kernels::float::{min_max_floats, some_and_all_nan, to_ordered};
use crate::preference::Preference;

/// Set in a vector's tag where some value is NaN.
const TAG_SOME_NAN: u8 = 0x80;
/// Set in a vector's tag where all are NaN: minimum and range say nothing.
const TAG_ALL_NAN: u8 = 0x40;

/// Appends a block of `values`; see [`encode_floats`](crate::encode_floats).
pub(crate) fn encode_block(
    values: &[f64],
    breaks: &[u32],
    preference: Preference,
    floats: &mut FloatScratch,
    integers: &mut IntegerEncoder,
    out: &mut Vec<u8>,
) {
    let cpu = integers.cpu;
    let (entries, payload) = (&mut integers.block.entries, &mut integers.block.payload);
    entries.clear();
    payload.clear();
    for rows in vector_ranges(values.len(), breaks) {
        let row_end = rows.end as u32;
        let values = &values[rows];
        let encoding = encode_verified(cpu, values, preference, floats, &mut integers.vector, payload);
        let mut tag = encoding as u8;
        let (some_nan, all_nan) = some_and_all_nan(cpu, values);
        if some_nan {
            tag |= TAG_SOME_NAN;
        }
        let (min, max) = min_max_floats(cpu, values);
        let (mut min, mut range) = (to_ordered(min), to_ordered(max).wrapping_sub(to_ordered(min)) as u64);
        if all_nan {
            tag |= TAG_ALL_NAN;
            (min, range) = (0, 0);
        }
        entries.push(Entry { tag, row_end, payload_end: payload.len(), min, range, sum_offset: 0 });
    }
    push_block(out, Kind::Float, values.len(), entries, payload);
}
