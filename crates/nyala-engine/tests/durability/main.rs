//! Tests of durability: the simulated disk, the log and the manifest on it, and both on the machine's disk.

mod formats;
mod fs_real;
mod fs_simulated;
mod manifest;
mod support;
mod wal_concurrent;
mod wal_crash;
mod wal_damage;
mod wal_faults;
mod wal_spares;
