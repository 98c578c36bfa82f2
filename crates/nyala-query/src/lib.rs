//! InfluxQL: parse, plan, execute over nyala-db.
//!
//! `influxql` parses text to statements, `plan` resolves every name of a SELECT, `exec` computes it, and `statement` executes
//! all statements. What all query languages share is in nyala-exec.

pub mod continuous;
pub mod exec;
pub mod influxql;
pub mod plan;
pub mod report;
pub mod statement;
