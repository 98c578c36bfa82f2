//! Hints to the processor that memory will be read soon.

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Begins to load bytes into the processor's cache.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_at(line.as_ptr());
    }
}

/// The same for the cache line of an address. Any address is allowed, because nothing is read.
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
