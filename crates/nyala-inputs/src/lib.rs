//! Reads what other programs send by their own protocols: bytes in, points out, as InfluxDB 1.8 makes them. No sockets, no
//! clock, no settings: the caller has those. Next: `point`, then a protocol.

pub mod collectd;
pub mod graphite;
pub mod opentsdb;
pub mod otlp;
mod point;
pub mod protobuf;

pub use point::{Point, Refused, Value};
