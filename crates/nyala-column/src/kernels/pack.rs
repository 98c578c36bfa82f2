//! Bit-packing: value `i` occupies bits `i * width .. (i + 1) * width` of a little-endian bit stream.
//!
//! A plain dense stream, without lanes or padding: any length costs `ceil(count * width / 8)` bytes, the
//! position of a value is computed, and a range is unpacked from any multiple of 64 on. (Interleaved layouts need whole
//! blocks of 1024 values, which short series do not have.) With AVX-512 VBMI one byte permutation and one
//! multi-shift yield 64 bytes of output whatever the width; with BMI2 a bit deposit yields 8.
//!
//! Widths 30, 31 and 58–63 are not used: a value and its bit offset would not fit the machine word, so
//! [`storable_width`] rounds them up.

use std::any::TypeId;

use crate::cpu::CpuFeatures;
#[cfg(target_arch = "x86_64")]
use crate::cpu::Feature;
use crate::narrow::Narrow;

/// Values that one call unpacks at most; callers work vector by vector.
const UNPACK_LIMIT: usize = 1024;

/// The narrowest width in use that holds `width` bits.
#[inline]
pub(crate) fn storable_width(width: u32) -> u32 {
    match width {
        30 | 31 => 32,
        58..=63 => 64,
        other => other,
    }
}

/// Whether a width read from disk is in use.
#[inline]
pub(crate) fn is_storable(width: u32) -> bool {
    width <= 64 && storable_width(width) == width
}

/// Bytes of `count` values.
#[inline]
pub(crate) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends `values`, each of which fits in `width` bits.
pub(crate) fn pack<T: Narrow>(values: &[T], width: u32, out: &mut Vec<u8>) {
    debug_assert!(is_storable(width));
    if width == 0 {
        return;
    }
    out.reserve(packed_bytes(values.len(), width) + 8);
    let end = out.len() + packed_bytes(values.len(), width);
    let (eights, values) = if width <= 8 { values.as_chunks::<8>() } else { (&[][..], values) };
    for eight in eights {
        if T::BITS == 8 {
            let bytes = (0..8).fold(0, |word, index| word | eight[index].widen() << (8 * index));
            let length = out.len() + width as usize;
            out.extend_from_slice(&join_bytes(bytes, width).to_le_bytes());
            out.truncate(length);
            continue;
        }
        let at = |index: usize| eight[index].widen() << (index as u32 * width);
        let (left, right) = (at(0) | at(1) | at(2) | at(3), at(4) | at(5) | at(6) | at(7));
        // They end at a byte; what is written beyond is zero, and overwritten.
        let length = out.len() + width as usize;
        out.extend_from_slice(&(left | right).to_le_bytes());
        out.truncate(length);
    }
    let mut word = 0_u64;
    let mut filled = 0_u32;
    for value in values {
        let value = value.widen();
        debug_assert!(width == 64 || value >> width == 0, "{value} does not fit {width} bits");
        word |= value << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= 64;
            // The bits that did not fit; after a shift by the whole width (filled == 0) there are none.
            word = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

/// Eight values of `width` bits, 1 to 8, from a byte each to one behind the other.
#[inline(always)]
fn join_bytes(bytes: u64, width: u32) -> u64 {
    const PAIRS: u64 = 0x00ff_00ff_00ff_00ff;
    const FOURS: u64 = 0x0000_ffff_0000_ffff;
    let pairs = (bytes & PAIRS) | (bytes & !PAIRS) >> (8 - width);
    let fours = (pairs & FOURS) | (pairs & !FOURS) >> (16 - 2 * width);
    (fours & 0xffff_ffff) | fours >> 32 << (4 * width)
}

/// The value at `index`. The stream must hold it.
#[inline]
pub(crate) fn get(packed: &[u8], width: u32, index: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let bit = index * width as usize;
    let word = load_word(packed, bit / 8);
    (word >> (bit % 8)) & mask(width)
}

#[inline(always)]
fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// Eight bytes from `at`, zeroes past the end.
#[inline(always)]
pub(crate) fn load_word(packed: &[u8], at: usize) -> u64 {
    match packed.get(at..at + 8) {
        Some(word) => u64::from_le_bytes(word.try_into().expect("eight bytes")),
        None => crate::little_endian::load(&packed[at.min(packed.len())..]),
    }
}

/// Unpacks values `first..first + out.len()`. `first` is a multiple of 64, the stream holds the range, and
/// values wider than `T` are truncated (see [`Narrow`] for why that is right).
pub(crate) fn unpack<T: Narrow>(cpu: CpuFeatures, packed: &[u8], width: u32, first: usize, out: &mut [T]) {
    assert!(first.is_multiple_of(64) && out.len() <= UNPACK_LIMIT && is_storable(width));
    assert!(packed.len() >= packed_bytes(first + out.len(), width));
    match width {
        0 => out.fill(T::default()),
        1..=8 => unpack_through::<u8, T>(cpu, packed, width, first, out),
        9..=16 => unpack_through::<u16, T>(cpu, packed, width, first, out),
        17..=32 => unpack_through::<u32, T>(cpu, packed, width, first, out),
        _ => unpack_through::<u64, T>(cpu, packed, width, first, out),
    }
}

/// Unpacks into the natural type of the width, then converts if `T` is another one.
#[allow(unsafe_code, reason = "a slice cast between identical types, see SAFETY")]
fn unpack_through<N: Narrow, T: Narrow>(
    cpu: CpuFeatures,
    packed: &[u8],
    width: u32,
    first: usize,
    out: &mut [T],
) {
    if TypeId::of::<N>() == TypeId::of::<T>() {
        // SAFETY: N and T are the same type, so this is the same slice.
        let out = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<N>(), out.len()) };
        return unpack_natural(cpu, packed, width, first, out);
    }
    let mut natural = [N::default(); UNPACK_LIMIT];
    let natural = &mut natural[..out.len()];
    unpack_natural(cpu, packed, width, first, natural);
    convert(cpu, natural, out);
}

#[inline(always)]
fn convert_body<N: Narrow, T: Narrow>(from: &[N], to: &mut [T]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = T::truncate(from.widen());
    }
}

/// Converts between narrow types, truncating; written out because [`dispatched!`] takes one type parameter.
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
fn convert<N: Narrow, T: Narrow>(cpu: CpuFeatures, from: &[N], to: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2<N: Narrow, T: Narrow>(from: &[N], to: &mut [T]) {
            convert_body(from, to)
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<N: Narrow, T: Narrow>(from: &[N], to: &mut [T]) {
            convert_body(from, to)
        }
        match cpu.feature() {
            // SAFETY: a CpuFeatures exists only for instructions that the processor has.
            Feature::Avx512 => return unsafe { avx512(from, to) },
            // SAFETY: as above.
            Feature::Avx2 => return unsafe { avx2(from, to) },
            Feature::Portable => {}
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = cpu;
    convert_body(from, to)
}

#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
fn unpack_natural<N: Narrow>(cpu: CpuFeatures, packed: &[u8], width: u32, first: usize, out: &mut [N]) {
    match cpu.feature() {
        // SAFETY: a CpuFeatures exists only for instructions that the processor has.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::unpack_avx512(packed, width, first, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx2 if N::BITS < 64 => unsafe { x86::unpack_bmi2(packed, width, first, out) },
        _ => unpack_portable(packed, width, first, out),
    }
}

fn unpack_portable<N: Narrow>(packed: &[u8], width: u32, first: usize, out: &mut [N]) {
    unpack_words(packed, width, first, out, |word, mask, out| {
        for (lane, value) in out.iter_mut().enumerate() {
            *value = N::truncate((word >> (lane as u32 * width)) & mask);
        }
    });
}

/// Loads eight bytes for as many values as their type puts into eight bytes, which `spread` takes apart.
///
/// Storable widths keep these values and the bit offset of the first (0 or 4 below 64-bit types, whose values
/// come one at a time) within the word.
#[inline(always)]
fn unpack_words<N: Narrow>(
    packed: &[u8],
    width: u32,
    first: usize,
    out: &mut [N],
    spread: impl Fn(u64, u64, &mut [N]),
) {
    let mask = mask(width);
    let per_word = 64 / N::BITS as usize;
    let step_bits = per_word * width as usize;
    let mut bit = first * width as usize;
    // Words that lie wholly inside the stream need no end-of-stream check.
    let whole = match packed.len().checked_sub(8) {
        Some(last_word) if last_word * 8 >= bit => (last_word * 8 - bit) / step_bits + 1,
        _ => 0,
    };
    let words = whole.min(out.len() / per_word);
    let (body, tail) = out.split_at_mut(words * per_word);
    for out in body.chunks_exact_mut(per_word) {
        let word = u64::from_le_bytes(packed[bit / 8..bit / 8 + 8].try_into().expect("eight bytes"));
        spread(word >> (bit % 8), mask, out);
        bit += step_bits;
    }
    for value in tail {
        *value = N::truncate((load_word(packed, bit / 8) >> (bit % 8)) & mask);
        bit += width as usize;
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "intrinsics and unaligned stores inside checked slices, see SAFETY")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::{mask, unpack_words};
    use crate::narrow::Narrow;

    /// For one width: where each output byte's qword starts in the 64 input bytes, and by how much to shift.
    #[repr(C, align(64))]
    #[derive(Clone, Copy)]
    struct Control {
        permute: [u8; 64],
        shift: [u8; 64],
    }

    static CONTROLS: [Control; 65] = controls();

    const fn controls() -> [Control; 65] {
        let mut controls = [Control { permute: [0; 64], shift: [0; 64] }; 65];
        let mut width = 1;
        while width <= 64 {
            let size = match width {
                1..=8 => 1,
                9..=16 => 2,
                17..=32 => 4,
                _ => 8,
            };
            let mut byte = 0;
            while byte < 64 {
                let qword = byte / 8;
                let start = qword * (8 / size) * width;
                let within = byte % 8;
                // The modulo only matters for widths that are not storable.
                controls[width].permute[byte] = ((start / 8 + within) % 64) as u8;
                controls[width].shift[byte] =
                    ((start % 8 + within / size * width + within % size * 8) % 64) as u8;
                byte += 1;
            }
            width += 1;
        }
        controls
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn unpack_avx512<N: Narrow>(packed: &[u8], width: u32, first: usize, out: &mut [N]) {
        let control = &CONTROLS[width as usize];
        let per_step = 512 / N::BITS as usize;
        let bytes_per_step = per_step * width as usize / 8;
        let mut from = &packed[first * width as usize / 8..];
        let limit = match N::BITS {
            8 => _mm512_set1_epi8(mask(width) as i8),
            16 => _mm512_set1_epi16(mask(width) as i16),
            32 => _mm512_set1_epi32(mask(width) as i32),
            _ => _mm512_set1_epi64(mask(width) as i64),
        };
        // SAFETY: both arrays are 64 bytes long and aligned to 64.
        let (permute, shift) = unsafe {
            (
                _mm512_load_si512(control.permute.as_ptr().cast()),
                _mm512_load_si512(control.shift.as_ptr().cast()),
            )
        };
        for out in out.chunks_mut(per_step) {
            let available = from.len().min(64);
            let load = u64::MAX.checked_shr(64 - available as u32).unwrap_or(0);
            let store = u64::MAX >> (64 - size_of_val(out) as u32);
            // SAFETY: the masks keep the load inside `from` and the store inside `out` (1..=64 bytes).
            unsafe {
                let input = _mm512_maskz_loadu_epi8(load, from.as_ptr().cast());
                let spread = _mm512_permutexvar_epi8(permute, input);
                let values = _mm512_and_si512(_mm512_multishift_epi64_epi8(shift, spread), limit);
                _mm512_mask_storeu_epi8(out.as_mut_ptr().cast(), store, values);
            }
            from = &from[bytes_per_step.min(from.len())..];
        }
    }

    /// Values of at most eight bits, 64 at a time in a register.
    pub(crate) struct ByteStream<'a> {
        packed: &'a [u8],
        width: usize,
        permute: __m512i,
        shift: __m512i,
        limit: __m512i,
    }

    impl<'a> ByteStream<'a> {
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        #[inline]
        pub(crate) fn new(packed: &'a [u8], width: u32) -> Self {
            let control = &CONTROLS[width as usize];
            // SAFETY: both arrays are 64 bytes long and aligned to 64.
            let (permute, shift) = unsafe {
                (
                    _mm512_load_si512(control.permute.as_ptr().cast()),
                    _mm512_load_si512(control.shift.as_ptr().cast()),
                )
            };
            // Of width 0 there are no bytes, and what is loaded is zero anyway.
            let limit = _mm512_set1_epi8(mask(width.max(1)) as i8);
            Self { packed, width: width as usize, permute, shift, limit }
        }

        /// The values from `first` on, a multiple of 64; nonsense beyond the end of the stream.
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        #[inline]
        pub(crate) fn values(&self, first: usize) -> __m512i {
            let from = &self.packed[(first / 8 * self.width).min(self.packed.len())..];
            let load = u64::MAX.checked_shr(64 - from.len().min(64) as u32).unwrap_or(0);
            // SAFETY: the mask keeps the load inside `from`.
            let input = unsafe { _mm512_maskz_loadu_epi8(load, from.as_ptr().cast()) };
            let spread = _mm512_permutexvar_epi8(self.permute, input);
            _mm512_and_si512(_mm512_multishift_epi64_epi8(self.shift, spread), self.limit)
        }
    }

    /// For types below 64 bits: eight bytes of output per bit deposit.
    #[target_feature(enable = "bmi1,bmi2")]
    pub(super) fn unpack_bmi2<N: Narrow>(packed: &[u8], width: u32, first: usize, out: &mut [N]) {
        let mut deposit = 0_u64;
        for lane in 0..64 / N::BITS {
            deposit |= mask(width) << (lane * N::BITS);
        }
        unpack_words(packed, width, first, out, |word, _, out| {
            let values = _pdep_u64(word, deposit);
            // SAFETY: `out` is as many values of N as eight bytes hold.
            unsafe { out.as_mut_ptr().cast::<u64>().write_unaligned(values) };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(width: u32, count: usize) -> (Vec<u64>, Vec<u8>) {
        let values: Vec<u64> = (0..count as u64)
            .map(|index| index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(index as u32))
            .map(|value| if width == 0 { 0 } else { value & mask(width) })
            .collect();
        let mut packed = Vec::new();
        pack(&values, width, &mut packed);
        assert_eq!(packed.len(), packed_bytes(count, width));
        (values, packed)
    }

    /// Naive: bit by bit.
    fn naive(packed: &[u8], width: u32, index: usize) -> u64 {
        (0..width as usize).fold(0, |value, bit| {
            let at = index * width as usize + bit;
            value | u64::from(packed[at / 8] >> (at % 8) & 1) << bit
        })
    }

    fn check<T: Narrow>(width: u32, count: usize) {
        let (values, packed) = stream(width, count);
        if width <= T::BITS {
            let mut again = Vec::new();
            let narrow: Vec<T> = values.iter().map(|value| T::truncate(*value)).collect();
            pack(&narrow, width, &mut again);
            assert_eq!(again, packed);
        }
        for cpu in CpuFeatures::available() {
            for first in (0..count).step_by(64) {
                let mut out = vec![T::MAX; count - first];
                unpack(cpu, &packed, width, first, &mut out);
                for (index, value) in out.iter().enumerate() {
                    assert_eq!(*value, T::truncate(values[first + index]), "{cpu:?} {width} {first} {index}");
                }
            }
        }
        for (index, value) in values.iter().enumerate() {
            assert_eq!(get(&packed, width, index), *value);
            assert_eq!(naive(&packed, width, index), *value);
        }
    }

    #[test]
    fn every_width_unpacks_to_every_type_at_every_instruction_set() {
        for width in (0..=64).filter(|width| is_storable(*width)) {
            for count in [1, 7, 8, 63, 64, 65, 129, 200, 1024] {
                check::<u8>(width, count);
                check::<u16>(width, count);
                check::<u32>(width, count);
                check::<u64>(width, count);
            }
        }
    }

    #[test]
    fn unused_widths_round_up() {
        let unused: Vec<u32> = (0..=64).filter(|width| !is_storable(*width)).collect();
        assert_eq!(unused, [30, 31, 58, 59, 60, 61, 62, 63]);
        assert!(unused.iter().all(|width| is_storable(storable_width(*width))));
    }
}
