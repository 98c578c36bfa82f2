//! Support of the compatibility test: text scripts, played over HTTP to nyala and to InfluxDB.
//!
//! `script` reads and rewrites the files, `generate` expands their bulk data, `client` speaks HTTP,
//! `answer` turns a response into the text that a script holds, `prometheus` does so with remote read, `server` starts
//! and stops the two programs, `cluster` starts Kudu, `play` joins them, `peers` says what happens when one of these is
//! missing.

pub(crate) mod answer;
pub(crate) mod client;
#[allow(dead_code, reason = "only some programs use Kudu")]
pub(crate) mod cluster;
pub(crate) mod generate;
pub(crate) mod peers;
pub(crate) mod play;
#[allow(dead_code, reason = "other tests use more of it")]
pub(crate) mod prometheus;
pub(crate) mod script;
pub(crate) mod server;
