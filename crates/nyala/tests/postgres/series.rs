//! Statements that clients send together: one transaction.

use super::psql::{self, compare};
use super::server::Server;

/// Statements of `testdata/postgres/texts.sql`, whose answers a real PostgreSQL 15 has given.
#[test]
fn the_statements_of_a_text_are_one_transaction_as_in_postgresql() {
    let Some(psql) = psql::program() else { return };
    compare(&psql, &Server::start(&[]), "texts", &[]);
}
