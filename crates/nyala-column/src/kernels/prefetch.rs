//! Hints to the processor that memory is going to be read.

/// Bytes that the processor fetches at once.
pub const LINE_BYTES: usize = 64;

/// Begins to bring bytes near the processor.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_at(line.as_ptr());
    }
}

/// The same of the line that has an address, whatever is there: nothing is read.
#[inline]
#[allow(unsafe_code, reason = "a hint that touches no memory, see SAFETY")]
pub fn prefetch_at<T>(address: *const T) {
    // SAFETY: prefetching takes any address and has no effect that a program could see.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
