//! InfluxQL: parse, plan, execute over nyala-db.

pub mod influxql;
