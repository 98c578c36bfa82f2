//! The protocol's messages, written by hand with the fields this client uses.
//!
//! Kudu speaks protobuf (proto2). Only tags and types matter on the wire, so these structs name just what is
//! sent or read; fields left out are skipped when they arrive, as are enum values from newer servers, because
//! enums stay plain integers here and are judged where they are used.

pub(crate) mod common;
pub(crate) mod master;
pub(crate) mod rpc;
pub(crate) mod tserver;

pub(crate) use common::*;
