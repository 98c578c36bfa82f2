//! InfluxQL: parse, plan, execute over nyala-db.
