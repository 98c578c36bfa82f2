//! Threads that others come before.

/// The threads' priority (in steps of `nice`): when cores are short, threads that answer clients come first.
const NICENESS: i32 = 5;

/// Lowers the priority of the calling thread, for good. If that fails, answers come later.
pub(crate) fn lower() {
    // This sets the priority of the calling thread only.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}
