//! Numbers of objects: computed from their names, so that every server and every session gives the same.

use std::collections::HashSet;

/// PostgreSQL's first number of an object that users create.
const FIRST: u32 = 16_384;
/// Numbers stay below this: some clients read them as signed.
const END: u32 = i32::MAX as u32;

/// The role that owns everything.
pub(crate) const OWNER: u32 = 10;
/// The role that owns the schema `public`.
pub(crate) const DATABASE_OWNER: u32 = 6171;
pub(crate) const DATABASE_OWNER_NAME: &str = "pg_database_owner";
/// The schema `pg_catalog`.
pub(crate) const PG_CATALOG_SCHEMA: u32 = 11;
pub(crate) const INFORMATION_SCHEMA_SCHEMA: u32 = 13_207;
/// The schema `public`.
pub(crate) const PUBLIC_SCHEMA: u32 = 2200;
/// The tablespace of everything.
pub(crate) const DEFAULT_TABLESPACE: u32 = 1663;
/// The collation of texts.
pub(crate) const DEFAULT_COLLATION: u32 = 100;
/// The way that tables are stored, as PostgreSQL calls its own.
pub(crate) const HEAP: u32 = 2;
/// The way that keys are stored.
pub(crate) const BTREE: u32 = 403;

/// The number that names give. Two objects may have the same: [`Taken`].
pub(crate) fn of(kind: &str, names: &[&str]) -> u32 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for part in std::iter::once(&kind).chain(names) {
        part.bytes().for_each(&mut add);
        add(0);
    }
    // The low bits of the product alone are not mixed well.
    let mixed = hash ^ (hash >> 32);
    FIRST + (mixed % u64::from(END - FIRST)) as u32
}

/// Numbers that objects have.
#[derive(Debug, Default)]
pub(crate) struct Taken(HashSet<u32>);

impl Taken {
    /// The number of an object: that of its names, or the next one that is free.
    pub(crate) fn take(&mut self, kind: &str, names: &[&str]) -> u32 {
        let mut oid = of(kind, names);
        while !self.0.insert(oid) {
            oid = if oid + 1 < END { oid + 1 } else { FIRST };
        }
        oid
    }
}
