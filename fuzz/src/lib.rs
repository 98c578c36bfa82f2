//! What the targets of this crate share: stores in memory whose files are changed, with checksums that are right, and modules of the
//! program, which has no library.

#[cfg(feature = "backup")]
#[allow(dead_code, reason = "they are modules of a program that uses all of them")]
#[path = "../../crates/nyala/src/backup/mod.rs"]
mod backup;
#[cfg(feature = "backup")]
pub mod backup_manifest;
pub mod catalog;
pub mod entropy;
#[cfg(feature = "flight")]
pub mod flight;
pub mod influxdb;
#[cfg(feature = "program")]
#[allow(dead_code, reason = "it is a module of a program that uses all of it")]
#[path = "../../crates/nyala/src/log_filter.rs"]
mod log_filter;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "postgres")]
pub mod postgres_values;
#[cfg(feature = "program")]
#[allow(dead_code, reason = "its modules are those of a program that uses all of them")]
pub mod program;
pub mod rowset;

/// From now on a panic ends the process only if nobody catches it. The hook of libFuzzer would end it at once, also where the code
/// makes an error of the panic of another crate.
pub fn contain_panics() {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| drop(std::panic::take_hook()));
}
