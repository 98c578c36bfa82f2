//! All events are read: over PostgreSQL's protocol, as a stream of Arrow over HTTP, and by Flight SQL.

use super::{Run, timed};
use crate::cli::sql::StarArgs;
use crate::client::sql::Rows;
use crate::error::{BenchError, Result};
use nyala_client::{Body, Connection, query_escape};
use std::process::Command;
use std::time::Duration;

const ALL: &str = "SELECT * FROM event";
const PROGRAM: &str = include_str!("flight.py");

pub(super) fn read_everything(run: &mut Run<'_>, args: &StarArgs) -> Result<()> {
    let mut session = run.asker.connect()?;
    let postgres = timed("SELECT * over PostgreSQL's protocol, as text", || {
        let done = session.ask(ALL, Rows::Count)?;
        Ok((done.rows, Some(done.bytes)))
    })?;
    let rows = postgres.count;
    run.result.phases.push(postgres);
    let server = run.asker.server();
    let timeout = Duration::from_secs(args.suite.server.timeout as u64);
    let mut connection = Connection::new(&server.target, timeout);
    let path = format!("/api/sql?db={}", query_escape(&args.suite.server.database));
    let arrow = timed("SELECT * as Arrow over HTTP", || {
        let headers = "Accept: application/vnd.apache.arrow.stream\r\n";
        let response = connection.request("POST", &path, headers, ALL.as_bytes(), Body::Drop)?;
        match response.status {
            200..300 => Ok((rows, Some(response.body_bytes))),
            status => Err(BenchError::Server { status, message: connection.error_text() }),
        }
    })?;
    run.result.phases.push(arrow);
    if let (Some(python), Some(address)) = (&args.flight, &run.asker.server().flight) {
        let output = Command::new(python)
            .args(["-c", PROGRAM, address, &args.suite.server.database, ALL])
            .output()
            .map_err(BenchError::io(format!("starting {}", python.display())))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [seconds, rows, bytes] = numbers[..] else {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(BenchError::Invalid(format!(
                "{} with adbc_driver_flightsql: {words}",
                python.display()
            )));
        };
        let mut phase = timed("SELECT * by Flight SQL, into columns in memory", || {
            Ok((rows as u64, Some(bytes as u64)))
        })?;
        phase.seconds = seconds;
        run.result.phases.push(phase);
    }
    Ok(())
}
