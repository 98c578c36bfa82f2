//! The protocol's messages, written by hand with the fields this client uses.
//!
//! Kudu uses protobuf (proto2), where only tags and types matter on the wire. These structs have just the fields that
//! are sent or read; other fields are skipped when they arrive. Enums are plain integers, checked where they are used,
//! so values from newer servers do not fail to decode.

pub(crate) mod codes;
pub(crate) mod common;
pub(crate) mod master;
pub(crate) mod rpc;
pub(crate) mod tserver;

pub(crate) use common::*;
