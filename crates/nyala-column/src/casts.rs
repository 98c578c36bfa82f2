//! Lists of 64-bit words viewed as integers or floats with the same bits, without a copy.

use std::mem::ManuallyDrop;

/// A type of 64 bits.
///
/// # Safety
/// Every pattern of 64 bits is a value of the type, and every value is a pattern of 64 bits.
#[allow(unsafe_code, reason = "a promise about the type's layout, see SAFETY")]
pub unsafe trait Word: Copy {}

// SAFETY: eight bytes, aligned like `u64` on every target with 64-bit alignment of both (checked below), and
// every pattern is a value.
#[allow(unsafe_code, reason = "see SAFETY")]
unsafe impl Word for i64 {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "see SAFETY")]
unsafe impl Word for f64 {}

/// Lets `append` add to `words` as to a list of `T`.
#[allow(unsafe_code, reason = "the same allocation under another element type, see SAFETY")]
pub(crate) fn append_as<T: Word, R>(words: &mut Vec<u64>, append: impl FnOnce(&mut Vec<T>) -> R) -> R {
    const {
        assert!(size_of::<T>() == size_of::<u64>() && align_of::<T>() == align_of::<u64>());
    }
    let mut parts = ManuallyDrop::new(std::mem::take(words));
    // SAFETY: pointer, length and capacity are those of a vector whose elements have the same size and alignment
    // (asserted above), so the allocation's layout is the same; every pattern of bits is a T (see `Word`). The old
    // vector is never dropped. If `append` panics, `typed` is dropped and `words` stays empty.
    let mut typed =
        unsafe { Vec::from_raw_parts(parts.as_mut_ptr().cast::<T>(), parts.len(), parts.capacity()) };
    let result = append(&mut typed);
    let mut parts = ManuallyDrop::new(typed);
    // SAFETY: as above, the other way round.
    *words = unsafe { Vec::from_raw_parts(parts.as_mut_ptr().cast::<u64>(), parts.len(), parts.capacity()) };
    result
}

/// Words as the integers whose bits they are.
pub fn words_as_integers(words: &[u64]) -> &[i64] {
    view(words)
}

/// Words as the floats whose bits they are.
pub fn words_as_floats(words: &[u64]) -> &[f64] {
    view(words)
}

#[allow(unsafe_code, reason = "the same memory under another element type, see SAFETY")]
fn view<T: Word>(words: &[u64]) -> &[T] {
    const {
        assert!(size_of::<T>() == size_of::<u64>() && align_of::<T>() == align_of::<u64>());
    }
    // SAFETY: elements have the same size and alignment (asserted above), every pattern of bits is a T (see `Word`),
    // and the view borrows the words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<T>(), words.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_arrives_by_its_bits() {
        let mut words = vec![7, u64::MAX];
        append_as(&mut words, |out: &mut Vec<i64>| out.extend([-1, 5]));
        append_as(&mut words, |out: &mut Vec<f64>| {
            out.reserve(1000);
            out.push(-0.5);
        });
        // Naive: converted one by one.
        assert_eq!(words, [7, u64::MAX, -1_i64 as u64, 5, (-0.5_f64).to_bits()]);
        assert_eq!(words_as_integers(&words[2..4]), [-1, 5]);
        assert_eq!(words_as_floats(&words[4..]), [-0.5]);
        let mut none: Vec<u64> = Vec::new();
        append_as(&mut none, |out: &mut Vec<i64>| assert!(out.is_empty()));
        assert!(none.is_empty());
    }
}
