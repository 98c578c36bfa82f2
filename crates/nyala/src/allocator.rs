//! What the allocator is told: how long it may keep freed memory, and when to give it back.
//!
//! Huge pages are never asked for: a page of 2 MiB is resident as a whole when one byte of it is used, and the kernel
//! makes such pages by itself out of memory that is hardly used. Memory then grows to many times what is charged
//! (800 connections that each held 32 KiB took 1.7 GB).
//!
//! The allocator is C, and this is the only file of this crate that calls it directly.

#![allow(unsafe_code)]

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};

/// Number of the option in the allocator's list; the crate has no name for it.
const PURGE_DELAY: mi_option_t = 15;
/// Who sets this wants another delay.
const PURGE_DELAY_VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// Has the kernel use pages of the usual size only, from now on.
pub(crate) fn refuse_huge_pages() -> std::io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

/// Settles how long freed memory is kept for the next allocation. To be called before other threads are started.
pub(crate) fn keep_freed_memory(milliseconds: u16) {
    if std::env::var_os(PURGE_DELAY_VARIABLE).is_none() {
        // SAFETY: writes a number into the allocator's table of options; the index is in the table (`mi_option_t` counts
        // from 0 to `_mi_option_last`), and no other thread reads it meanwhile, for there is none.
        unsafe { mi_option_set(PURGE_DELAY, milliseconds.into()) };
    }
}

/// Gives back to the system what is free.
pub(crate) fn give_back() {
    // SAFETY: looks through the pages of the calling thread and those that no thread owns. Allowed at any time.
    unsafe { mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::mi_option_get;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: reads a number of the allocator's table of options.
        let value = unsafe { mi_option_get(PURGE_DELAY) };
        // The allocator's default, which no other option has.
        assert_eq!(value, 1_000);
    }
}
