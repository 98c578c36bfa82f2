//! Creates the InfluxDB database that a benchmark writes to.

use crate::error::{BenchError, Result};
use nyala_client::{Body, Connection, query_escape};

/// Creates an empty database. One that exists is dropped only with `overwrite`.
pub fn prepare_database(connection: &mut Connection, database: &str, overwrite: bool) -> Result<()> {
    let databases = influx_statement(connection, "SHOW DATABASES")?;
    if databases.contains(&format!("[\"{database}\"]")) {
        if !overwrite {
            return Err(BenchError::Invalid(format!(
                "the server already has a database '{database}': give --overwrite to replace it, \
                 --query-only to use what it holds, or --database for another name"
            )));
        }
        influx_statement(connection, &format!("DROP DATABASE \"{database}\""))?;
    }
    influx_statement(connection, &format!("CREATE DATABASE \"{database}\""))?;
    Ok(())
}

/// Runs an InfluxQL statement with a short answer, such as `CREATE DATABASE`, and returns the answer.
fn influx_statement(connection: &mut Connection, statement: &str) -> Result<String> {
    let mut answer = Vec::new();
    let path = format!("/query?q={}", query_escape(statement));
    let body = Body::Collect { into: &mut answer, limit_bytes: 16 << 20 };
    connection.expect_success("POST", &path, b"", body)?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    if text.contains("\"error\"") {
        return Err(BenchError::Server { status: 200, message: text });
    }
    Ok(text)
}
