//! Configures the allocator: how long it keeps freed memory, and when it returns it to the system.
//!
//! Huge pages are switched off. A page of 2 MiB is resident as a whole when one byte of it is used, and the kernel
//! forms such pages out of memory that is hardly used. Resident memory then grows to many times what is charged: 800
//! connections that each held 32 KiB took 1.7 GB.
//!
//! The allocator is C, and this is the only file of this crate that calls it directly.

#![allow(unsafe_code)]

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};

/// The number of the option in mimalloc's list; the crate has no name for it.
const PURGE_DELAY: mi_option_t = 15;
/// An operator who sets this variable wants another delay.
const PURGE_DELAY_VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// From now on the kernel uses pages of the usual size only.
pub(crate) fn refuse_huge_pages() -> std::io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

/// Sets how long freed memory is kept for the next allocation. Must be called before other threads start.
pub(crate) fn keep_freed_memory(milliseconds: u16) {
    if std::env::var_os(PURGE_DELAY_VARIABLE).is_none() {
        // SAFETY: writes a number into the allocator's table of options; the index is in the table (`mi_option_t`
        // counts from 0 to `_mi_option_last`), and no other thread reads it meanwhile, for there is none.
        unsafe { mi_option_set(PURGE_DELAY, milliseconds.into()) };
    }
}

/// Returns free memory to the system.
pub(crate) fn return_free_memory() {
    // SAFETY: visits the pages of the calling thread and those that no thread owns, which is allowed at any time.
    unsafe { mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::mi_option_get;

    #[test]
    fn the_option_number_is_that_of_the_purge_delay() {
        // SAFETY: reads a number of the allocator's table of options.
        let value = unsafe { mi_option_get(PURGE_DELAY) };
        // The allocator's default, which no other option has.
        assert_eq!(value, 1_000);
    }
}
