//! The files of InfluxDB 1.x and 2.x, read without InfluxDB: what a server that is stopped has stored, or a backup of it.
//!
//! Reading begins with [`source`]: which shards there are ([`directory`]), and settings of databases, policies and users
//! ([`meta`]). `version2` makes the same of InfluxDB 2.x's buckets ([`bolt`]), `backup` of portable backups. [`shard`] reads a shard the way InfluxDB would: its TSM files ([`tsm`]) in order of their generations without
//! what tombstones cover, and its log ([`wal`]) on top of them. It yields rows of one series after the other, in the
//! order of series keys, with bounded memory.
//!
//! Bytes are not trusted. What cannot be read is a [`Damage`], with the file and the place in it, and everything else is
//! read. Sizes that files claim are compared with the sizes that they have before memory is taken for them.

mod backup;
pub mod bolt;
pub mod damage;
pub mod directory;
pub mod key;
pub mod meta;
pub mod shard;
pub mod source;
pub mod tsm;
pub mod values;
mod varint;
mod version2;
pub mod wal;

pub use damage::{Damage, DamageList};
