//! InfluxQL: parse, plan, execute over nyala-db.
//!
//! `influxql` turns text into statements, `plan` resolves every name of a SELECT, `exec` computes it;
//! `statement` is where all of them are executed. What other languages execute with too is in nyala-exec.

pub mod continuous;
pub mod exec;
pub mod influxql;
pub mod plan;
pub mod report;
pub mod statement;
