//! Choosing how to encode one vector of integers.
//!
//! One pass profiles the vector; each encoding's size is then estimated from the profile and from sorted samples
//! of values and differences, and only the winner is written. The preference weighs the sizes: an encoding that
//! reads slower must be smaller by its factor. Entropy coding is tried when size is preferred, on
//! what a count of its symbols says.

use super::delta::{BaseLine, GROUP_ROWS, header_bytes, push_delta};
use super::dictionary::{ENTRY_LIMIT, dictionary_bytes, push_dictionary};
use super::encoding::{Encoding, TAG_DIVISOR};
use super::entropy::push_entropy;
use super::frame::push_frame;
use super::plan::{Plan, counted, plan, take_sample};
use super::runs::{push_runs, runs_bytes};
use super::scratch::IntegerScratch;
use super::vector::Vector;
use crate::cpu::CpuFeatures;
use crate::directory::VECTOR_VALUES;
use crate::kernels::line::decodes_to;
use crate::kernels::pack::{packed_bytes, storable_width};
use crate::kernels::profile::{
    Profile, differences, divide_exactly, min_max_i64, profile as profile_of, residuals,
};
use crate::little_endian::{bit_width, push, signed_width, unsigned_width};
use crate::narrow::{FrameOfReference, Offsets, with_narrow};
use crate::preference::Preference;

/// Vectors with fewer values are framed without looking further.
const CHOICE_VALUES_MIN: usize = 8;
/// Entropy coding has a header of some 16 bytes and more, so small vectors cannot win.
const ENTROPY_BYTES_WORTH: usize = 48;

/// Entropy coding must take at most this much of the best other encoding: reading takes several times as long, which a
/// percent or two is not worth.
const ENTROPY_PERCENT_MAX: usize = 97;

/// What the directory keeps of an encoded vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoded {
    /// The encoding, and whether a divisor precedes it.
    pub(crate) tag: u8,
    pub(crate) profile: Profile,
}

/// A candidate: what it would write, and how many bytes.
#[derive(Debug, Clone, Copy)]
enum Candidate {
    Frame { slope: i64, first: i64, plan: Plan },
    Delta { plan: Plan, line: BaseLine },
    Runs,
    Dictionary,
}

/// Reading cost relative to a frame, in percent: by how much smaller an encoding must be to be chosen.
fn weight(candidate: &Candidate, preference: Preference) -> usize {
    match (preference, candidate) {
        (Preference::Size, _) | (_, Candidate::Frame { .. } | Candidate::Runs) => 100,
        (Preference::Speed, Candidate::Delta { .. }) => 210,
        (Preference::Speed, Candidate::Dictionary) => 130,
        (Preference::Balanced, Candidate::Delta { .. }) => 110,
        (Preference::Balanced, Candidate::Dictionary) => 105,
    }
}

/// Calls [`encode_vector`] and decodes the result. A vector that does not decode to the same values is written again as
/// a plain frame.
///
/// Soon these bytes are the only copy of acknowledged values, and the encoder has many branches. The check costs a
/// tenth of encoding.
pub(super) fn encode_verified(
    cpu: CpuFeatures,
    values: &[i64],
    preference: Preference,
    scratch: &mut IntegerScratch,
    out: &mut Vec<u8>,
) -> Encoded {
    let start = out.len();
    let encoded = encode_vector(cpu, values, preference, scratch, out);
    if reads_back(cpu, values, &encoded, &out[start..]) {
        return encoded;
    }
    debug_assert!(false, "an encoding lost values: tag {:#x}", encoded.tag);
    out.truncate(start);
    let range = encoded.profile.range();
    let plan = Plan { width: storable_width(bit_width(range)), low: encoded.profile.min, cost: 0 };
    let candidate = Candidate::Frame { slope: 0, first: 0, plan };
    let encoding = write(cpu, values, &encoded.profile, candidate, scratch, out);
    Encoded { tag: encoding as u8, ..encoded }
}

fn reads_back(cpu: CpuFeatures, values: &[i64], encoded: &Encoded, payload: &[u8]) -> bool {
    let Ok(vector) = Vector::parse(encoded.tag, values.len(), payload) else { return false };
    let reference = FrameOfReference { min: encoded.profile.min, divisor: vector.divisor };
    with_narrow!(encoded.profile.range() / vector.divisor, T => {
        let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
        let decoded = vector.decode(cpu, 0..values.len(), &mut offsets);
        decoded.is_ok() && decodes_to(cpu, &offsets[..values.len()], reference, values)
    })
}

/// Appends the payload of `values` (1..=1024) to `out`.
pub(crate) fn encode_vector(
    cpu: CpuFeatures,
    values: &[i64],
    preference: Preference,
    scratch: &mut IntegerScratch,
    out: &mut Vec<u8>,
) -> Encoded {
    assert!((1..=VECTOR_VALUES).contains(&values.len()));
    let profile = profile_of(cpu, values);
    if profile.range() == 0 {
        return Encoded { tag: Encoding::Constant as u8, profile };
    }
    let divisor = match profile.difference_min == profile.difference_max {
        // A line is as small as it gets.
        true => 1,
        false => common_divisor(values, profile.min),
    };
    if divisor == 1 {
        let encoding = encode_offsets(cpu, values, &profile, preference, scratch, out);
        return Encoded { tag: encoding as u8, profile };
    }
    let width = unsigned_width(divisor);
    out.push(width as u8);
    push(out, divisor, width);
    let mut quotients = std::mem::take(&mut scratch.quotients);
    quotients.resize(values.len(), 0);
    divide_exactly(cpu, values, profile.min, divisor, &mut quotients);
    let divided = profile_of(cpu, &quotients);
    let encoding = encode_offsets(cpu, &quotients, &divided, preference, scratch, out);
    scratch.quotients = quotients;
    Encoded { tag: encoding as u8 | TAG_DIVISOR, profile }
}

/// The greatest common divisor of all `values` minus `min`. It is mostly 1, which a few values show.
fn common_divisor(values: &[i64], min: i64) -> u64 {
    let offset = |value: i64| value.wrapping_sub(min) as u64;
    let spread = values.iter().step_by(values.len().div_ceil(16));
    let mut divisor = 0;
    for value in spread {
        divisor = greatest_common_divisor(divisor, offset(*value));
        if divisor == 1 {
            return 1;
        }
    }
    for value in values {
        if divisor == 0 || !offset(*value).is_multiple_of(divisor) {
            divisor = greatest_common_divisor(divisor, offset(*value));
            if divisor == 1 {
                return 1;
            }
        }
    }
    divisor.max(1)
}

fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    if left == 0 || right == 0 {
        return left | right;
    }
    let shared_twos = (left | right).trailing_zeros();
    left >>= left.trailing_zeros();
    while right != 0 {
        right >>= right.trailing_zeros();
        (left, right) = (left.min(right), left.abs_diff(right));
    }
    left << shared_twos
}

/// Appends the payload of `values` in the encoding that suits them.
fn encode_offsets(
    cpu: CpuFeatures,
    values: &[i64],
    profile: &Profile,
    preference: Preference,
    scratch: &mut IntegerScratch,
    out: &mut Vec<u8>,
) -> Encoding {
    let start = out.len();
    let candidate = match from_history(cpu, values, profile, preference, scratch) {
        Some(candidate) => candidate,
        None => choose(cpu, values, profile, preference, scratch),
    };
    let mut encoding = write(cpu, values, profile, candidate, scratch, out);
    if preference == Preference::Size && out.len() - start > ENTROPY_BYTES_WORTH {
        scratch.trial.clear();
        offsets(values, profile, &mut scratch.packed);
        let most_bytes = (out.len() - start) * ENTROPY_PERCENT_MAX / 100;
        let mut trial = std::mem::take(&mut scratch.trial);
        if push_entropy(cpu, scratch, most_bytes, &mut trial) {
            out.truncate(start);
            out.extend_from_slice(&trial);
            encoding = Encoding::Entropy;
        }
        scratch.trial = trial;
    }
    encoding
}

fn choose(
    cpu: CpuFeatures,
    values: &[i64],
    profile: &Profile,
    preference: Preference,
    scratch: &mut IntegerScratch,
) -> Candidate {
    let first = values[0];
    if profile.difference_min == profile.difference_max {
        let plan = Plan { width: 0, low: 0, cost: 0 };
        return Candidate::Frame { slope: profile.difference_min, first, plan };
    }
    let mut best = Best { preference, candidate: None, bytes: 0, cost: usize::MAX };
    take_sample(cpu, values, &mut scratch.sample);
    let framed = plan(cpu, values, (profile.min, profile.max), &scratch.sample, preference);
    let anchor_bytes = signed_width(framed.low.wrapping_sub(profile.min));
    best.offer(Candidate::Frame { slope: 0, first: 0, plan: framed }, 3 + anchor_bytes + framed.cost);
    if values.len() < CHOICE_VALUES_MIN {
        return best.candidate.expect("a frame was offered");
    }
    best.offer(Candidate::Runs, runs_bytes(profile.changes + 1, values.len(), profile.range()));
    if let Some(bytes) = gather_distinct(values, profile, best.cost, scratch) {
        best.offer(Candidate::Dictionary, bytes);
    }
    if framed.width > 0 {
        offer_differences(cpu, values, profile, scratch, &mut best);
    }
    let candidate = best.candidate.expect("a frame was offered");
    match candidate {
        Candidate::Delta { plan, .. } => {
            scratch.history.begin(Encoding::Delta, (plan.width, plan.low), best.bytes, values.len());
        }
        Candidate::Frame { slope: 0, .. } => {
            scratch.history.begin(Encoding::Frame, (0, 0), best.bytes, values.len());
        }
        _ => scratch.history.end(values.len()),
    }
    candidate
}

/// The encoding of the column's last vectors, if it still suits.
fn from_history(
    cpu: CpuFeatures,
    values: &[i64],
    profile: &Profile,
    preference: Preference,
    scratch: &mut IntegerScratch,
) -> Option<Candidate> {
    if profile.difference_min == profile.difference_max {
        return None;
    }
    let encoding = scratch.history.take(values.len())?;
    let (candidate, bytes) = match encoding {
        Encoding::Delta => delta_from_history(cpu, values, profile, preference, scratch)?,
        _ => frame_from_history(cpu, values, profile, preference, scratch),
    };
    let runs = runs_bytes(profile.changes + 1, values.len(), profile.range());
    if runs <= bytes || !scratch.history.fits(bytes, values.len()) {
        scratch.history.end(values.len());
        return None;
    }
    Some(candidate)
}

fn frame_from_history(
    cpu: CpuFeatures,
    values: &[i64],
    profile: &Profile,
    preference: Preference,
    scratch: &mut IntegerScratch,
) -> (Candidate, usize) {
    take_sample(cpu, values, &mut scratch.sample);
    let plan = plan(cpu, values, (profile.min, profile.max), &scratch.sample, preference);
    let bytes = 3 + signed_width(plan.low.wrapping_sub(profile.min)) + plan.cost;
    (Candidate::Frame { slope: 0, first: 0, plan }, bytes)
}

fn delta_from_history(
    cpu: CpuFeatures,
    values: &[i64],
    profile: &Profile,
    preference: Preference,
    scratch: &mut IntegerScratch,
) -> Option<(Candidate, usize)> {
    let rows = values.len();
    gather_differences(cpu, values, scratch);
    let (width, low) = scratch.history.delta();
    let range = profile.difference_max.wrapping_sub(profile.difference_min) as u64;
    let plans = neighbours(width, low)
        .into_iter()
        .filter_map(|window| counted(cpu, &scratch.differences, window, range, preference));
    let plan = plans.min_by_key(|plan| plan.cost);
    let (line, groups) = base_line(values, profile);
    let bytes = plan.map(|plan| (plan, header_bytes(plan.low, line, groups) + plan.cost));
    // Compared with a frame of all values, which needs no search.
    let framed = 100 * (3 + packed_bytes(rows, storable_width(bit_width(profile.range()))));
    let candidate = Candidate::Delta { plan: plan.unwrap_or_default(), line };
    match bytes.filter(|(_, bytes)| bytes * weight(&candidate, preference) < framed) {
        Some((plan, bytes)) => Some((Candidate::Delta { plan, line }, bytes)),
        None => {
            scratch.history.end(values.len());
            None
        }
    }
}

/// A window of a width, and those around the same middle that are a bit narrower and wider.
fn neighbours(width: u32, low: i64) -> [(u32, i64); 3] {
    let around = |other: u32| match (width, other) {
        (1..30, 1..30) => (other, low.wrapping_add(1 << (width - 1)).wrapping_sub(1 << (other - 1))),
        _ => (width, low),
    };
    [(width, low), around(width.saturating_sub(1)), around(width + 1)]
}

/// The differences of neighbours, each group's first apart.
fn gather_differences(cpu: CpuFeatures, values: &[i64], scratch: &mut IntegerScratch) {
    let rows = values.len();
    scratch.differences.resize(rows, 0);
    differences(cpu, values, &mut scratch.differences[1..]);
    // The difference before a group's first row is not packed. A copy of its neighbour keeps statistics clean.
    for start in (0..rows).step_by(GROUP_ROWS) {
        scratch.differences[start] = scratch.differences[(start + 1).min(rows - 1)];
    }
}

/// The cheapest candidate so far.
struct Best {
    preference: Preference,
    candidate: Option<Candidate>,
    bytes: usize,
    /// Bytes times weight.
    cost: usize,
}

impl Best {
    fn offer(&mut self, candidate: Candidate, bytes: usize) {
        let cost = bytes * weight(&candidate, self.preference);
        if cost < self.cost {
            (self.candidate, self.bytes, self.cost) = (Some(candidate), bytes, cost);
        }
    }
}

/// Offers the encodings that use differences: deltas, and a sloped frame where the differences suggest a line.
fn offer_differences(
    cpu: CpuFeatures,
    values: &[i64],
    profile: &Profile,
    scratch: &mut IntegerScratch,
    best: &mut Best,
) {
    let rows = values.len();
    gather_differences(cpu, values, scratch);
    take_sample(cpu, &scratch.differences, &mut scratch.sample);
    let median = scratch.sample[scratch.sample.len() / 2];
    let spread = min_max_i64(cpu, &scratch.differences);
    let planned = plan(cpu, &scratch.differences, spread, &scratch.sample, best.preference);
    let (line, groups) = base_line(values, profile);
    let bytes = header_bytes(planned.low, line, groups) + planned.cost;
    best.offer(Candidate::Delta { plan: planned, line }, bytes);
    // A line is worth a pass over the values only where one step dominates or the values keep rising.
    let repeated = scratch.sample.iter().filter(|difference| **difference == median).count();
    let drift = values[rows - 1].abs_diff(values[0]);
    let trending = drift / 2 > profile.range() / 4 && median.unsigned_abs() > 0;
    if median != 0 && (repeated > scratch.sample.len() / 2 || trending) {
        let slopes =
            [median, (i128::from(values[rows - 1]) - i128::from(values[0])) as i64 / (rows - 1) as i64];
        let slopes = if repeated > scratch.sample.len() / 2 { &slopes[..1] } else { &slopes[..] };
        // A line of slope 0 is the plain frame, which was offered before.
        for slope in slopes.iter().filter(|slope| **slope != 0) {
            offer_line(cpu, values, *slope, scratch, best);
        }
    }
}

fn offer_line(cpu: CpuFeatures, values: &[i64], slope: i64, scratch: &mut IntegerScratch, best: &mut Best) {
    // Anchored at the first value; if that is itself an exception, the plan's `low` moves to where most are.
    let first = values[0];
    scratch.residuals.resize(values.len(), 0);
    residuals(cpu, values, first, slope, &mut scratch.residuals);
    take_sample(cpu, &scratch.residuals, &mut scratch.sample);
    let spread = min_max_i64(cpu, &scratch.residuals);
    let planned = plan(cpu, &scratch.residuals, spread, &scratch.sample, best.preference);
    let bytes = 3 + signed_width(slope) + signed_width(planned.low) + planned.cost;
    best.offer(Candidate::Frame { slope, first, plan: planned }, bytes);
}

/// The line that stores a vector's group bases in the fewest bits: of slope 0, or from the first to the last base.
fn base_line(values: &[i64], profile: &Profile) -> (BaseLine, usize) {
    let groups = values.len().div_ceil(GROUP_ROWS);
    let bases = || values.iter().step_by(GROUP_ROWS).map(|value| value.wrapping_sub(profile.min));
    let mut best: Option<(usize, BaseLine)> = None;
    let (first, last) = (values[0], values[(groups - 1) * GROUP_ROWS]);
    let rise = (i128::from(last) - i128::from(first)) / (groups.max(2) - 1) as i128;
    for slope in [0, rise as i64] {
        let rests = || bases().zip(0..).map(|(base, group)| base.wrapping_sub(slope.wrapping_mul(group)));
        let low = rests().min().expect("a vector has a group");
        // With slope 0 no base is below the minimum: an anchor of 0 may save its bytes.
        let anchor = if slope == 0 && low as u64 <= profile.range() / 8 { 0 } else { low };
        let widest =
            rests().map(|rest| rest.wrapping_sub(anchor) as u64).max().expect("a vector has a group");
        let width = storable_width(bit_width(widest));
        let line = BaseLine { slope, anchor, width };
        let bytes = header_bytes(0, line, groups);
        if best.is_none_or(|(least, _)| bytes < least) {
            best = Some((bytes, line));
        }
    }
    (best.expect("two lines were tried").1, groups)
}

/// Collects the distinct offsets, sorted, if so few that a dictionary may win; returns its bytes.
fn gather_distinct(
    values: &[i64],
    profile: &Profile,
    best_cost: usize,
    scratch: &mut IntegerScratch,
) -> Option<usize> {
    // The sample still holds values, sorted: many distinct ones there rule a dictionary out.
    let sample = &scratch.sample;
    let in_sample = 1 + sample.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if in_sample > sample.len() / 2 {
        return None;
    }
    let at_least = dictionary_bytes(in_sample, values.len(), profile.range());
    if at_least * 100 >= best_cost {
        return None;
    }
    scratch.distinct.clear();
    let mut table = DistinctTable::new();
    for value in values {
        let offset = value.wrapping_sub(profile.min) as u64;
        if table.insert(offset, &scratch.distinct) {
            if scratch.distinct.len() == ENTRY_LIMIT {
                return None;
            }
            scratch.distinct.push(offset);
        }
    }
    scratch.distinct.sort_unstable();
    Some(dictionary_bytes(scratch.distinct.len(), values.len(), profile.range()))
}

/// Open addressing over indexes into the list of distinct values: four slots per entry at most.
struct DistinctTable {
    slots: [u16; 4 * ENTRY_LIMIT],
}

impl DistinctTable {
    const EMPTY: u16 = u16::MAX;

    fn new() -> Self {
        Self { slots: [Self::EMPTY; 4 * ENTRY_LIMIT] }
    }

    /// Whether `offset` is new; if so the caller appends it to `entries`.
    fn insert(&mut self, offset: u64, entries: &[u64]) -> bool {
        let mask = self.slots.len() - 1;
        let mut slot = (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize & mask;
        loop {
            match self.slots[slot] {
                Self::EMPTY => {
                    self.slots[slot] = entries.len() as u16;
                    return true;
                }
                index if entries[index as usize] == offset => return false,
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

fn offsets(values: &[i64], profile: &Profile, out: &mut Vec<u64>) {
    out.clear();
    out.extend(values.iter().map(|value| value.wrapping_sub(profile.min) as u64));
}

fn write(
    cpu: CpuFeatures,
    values: &[i64],
    profile: &Profile,
    candidate: Candidate,
    scratch: &mut IntegerScratch,
    out: &mut Vec<u8>,
) -> Encoding {
    match candidate {
        Candidate::Frame { slope: 0, plan, .. } => {
            let anchor = plan.low.wrapping_sub(profile.min);
            push_frame((0, anchor), &scratch.patched.split(cpu, values, plan), out);
            Encoding::Frame
        }
        Candidate::Frame { slope, first, plan } => {
            scratch.residuals.resize(values.len(), 0);
            residuals(cpu, values, first, slope, &mut scratch.residuals);
            let anchor = first.wrapping_add(plan.low).wrapping_sub(profile.min);
            push_frame((slope, anchor), &scratch.patched.split(cpu, &scratch.residuals, plan), out);
            Encoding::Frame
        }
        Candidate::Delta { plan, line } => {
            let differences = &mut scratch.differences;
            // A group's first row has no difference; as the plan's lowest value it is packed as 0.
            differences.iter_mut().step_by(GROUP_ROWS).for_each(|difference| *difference = plan.low);
            let base = |(value, group): (&i64, i64)| {
                let on_line = line.anchor.wrapping_add(line.slope.wrapping_mul(group));
                value.wrapping_sub(profile.min).wrapping_sub(on_line) as u64
            };
            let bases: Vec<u64> = values.iter().step_by(GROUP_ROWS).zip(0..).map(base).collect();
            let patched = scratch.patched.split(cpu, differences, plan);
            push_delta(plan.low, line, &bases, &patched, out);
            Encoding::Delta
        }
        Candidate::Runs => {
            offsets(values, profile, &mut scratch.packed);
            push_runs(&scratch.packed, profile.range(), out);
            Encoding::Runs
        }
        Candidate::Dictionary => {
            offsets(values, profile, &mut scratch.packed);
            push_dictionary(&scratch.distinct, &scratch.packed, profile.range(), out);
            Encoding::Dictionary
        }
    }
}
