//! The files of InfluxDB 1.x, read without InfluxDB: what a server that is stopped has stored.
//!
//! Reading begins with [`directory`] (which databases, policies and shards there are) and [`meta`] (their settings, and
//! users). [`shard`] reads a shard the way InfluxDB would: its TSM files ([`tsm`]) in order of their generations without
//! what tombstones cover, and its log ([`wal`]) on top of them. It yields rows of one series after the other, in the
//! order of series keys, with bounded memory.
//!
//! Bytes are not trusted. What cannot be read is a [`Damage`], with the file and the place in it, and everything else is
//! read. Sizes that files claim are compared with the sizes that they have before memory is taken for them.

pub mod damage;
pub mod directory;
pub mod key;
pub mod meta;
pub mod shard;
pub mod tsm;
pub mod values;
mod varint;
pub mod wal;

pub use damage::{Damage, DamageList};
