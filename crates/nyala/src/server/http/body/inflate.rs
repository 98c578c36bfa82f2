//! Decompresses one deflate stream (RFC 1951) that is in memory as a whole, by libdeflate: in less than half the time
//! of a decompressor that can stop anywhere, because it looks neither for the end of its input nor for the end of its
//! room while it decodes a symbol.
//!
//! It writes into the room that the caller has charged and reserved, and never beyond it: a stream that needs more is
//! left to the caller. libdeflate is C, and this is the only file of this crate that calls it.

#![allow(unsafe_code)]

use libdeflate_sys as ffi;
use std::cell::RefCell;
use std::ptr::NonNull;

/// Tables of a decompressor: each thread keeps one, so that a body costs no allocation of them.
struct Inflater(NonNull<ffi::libdeflate_decompressor>);

impl Inflater {
    fn new() -> Option<Self> {
        // SAFETY: has no conditions; null means that there is no memory.
        NonNull::new(unsafe { ffi::libdeflate_alloc_decompressor() }).map(Self)
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `libdeflate_alloc_decompressor` and is freed once.
        unsafe { ffi::libdeflate_free_decompressor(self.0.as_ptr()) };
    }
}

thread_local! {
    static INFLATER: RefCell<Option<Inflater>> = const { RefCell::new(None) };
}

/// Appends what a stream at the start of `compressed` decompresses to. Answers how many bytes the stream has; `None`, and
/// nothing is appended, if there is no room for all of it, or if it is cut off or no deflate stream.
pub(super) fn inflate(compressed: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    INFLATER.with_borrow_mut(|kept| {
        let inflater = kept.take().or_else(Inflater::new)?;
        let read = inflate_by(&inflater, compressed, into);
        *kept = Some(inflater);
        read
    })
}

fn inflate_by(inflater: &Inflater, compressed: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let (mut read, mut written) = (0, 0);
    let room = into.spare_capacity_mut();
    // SAFETY: the input is read within its length only, the output written within the spare capacity only, and both
    // counts are valid places. The decompressor belongs to this thread, and nobody else uses it meanwhile.
    let result = unsafe {
        ffi::libdeflate_deflate_decompress_ex(
            inflater.0.as_ptr(),
            compressed.as_ptr().cast(),
            compressed.len(),
            room.as_mut_ptr().cast(),
            room.len(),
            &mut read,
            &mut written,
        )
    };
    if result != ffi::libdeflate_result_LIBDEFLATE_SUCCESS {
        return None;
    }
    assert!(read <= compressed.len() && written <= room.len(), "libdeflate keeps within its buffers");
    // SAFETY: so many bytes behind the length were initialised, and they are within the capacity.
    unsafe { into.set_len(into.len() + written) };
    Some(read)
}
