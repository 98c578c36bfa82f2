//! PostgreSQL's protocol, as its own clients and hostile ones use it.
//!
//! - `NYALA_PSQL` names psql (Debian: `postgresql-client`), else the search path is tried.
//! - `NYALA_PYTHON` names a Python with psycopg 3, SQLAlchemy, pandas, pgcli, ADBC's driver and pyodbc (`pip install 'psycopg[binary]'
//!   sqlalchemy pandas pgcli adbc-driver-postgresql pyarrow pyodbc`), else `python3` is tried. `NYALA_ODBC` names psqlodbc (Debian:
//!   `odbc-postgresql`).
//! - `NYALA_PGX` names the program that `go build` makes of `clients/pgx`.
//! - `NYALA_NODE_MODULES` names a directory with pg (`clients/package.json`), for `node`.
//! - `NYALA_PGJDBC` names a directory with pgJDBC (`clients/pgjdbc.xml`), for `java`.
//!
//! A client that is missing skips its test (`support/peers.rs`).

#![cfg(feature = "sql")]

#[path = "../support/certificate.rs"]
mod certificate;
#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

mod advisory_locks;
mod catalog;
mod copy;
mod definitions_beside;
mod drivers;
mod hostile;
mod indexes;
mod joins;
mod psql;
mod sequences;
mod series;
mod server;
mod sessions;
mod sqllogictest;
mod statements;
mod table_locks;
mod temporary;
mod transactions;
