//! The dashboard of the demonstration, which the console shows. Dashboards are rows of a table of SQL
//! (`console/src/dashboards/store.ts`).

use nyala_bench::demo::DemoSettings;
use nyala_bench::time::{HOUR_SECONDS, TSBS_START};
use nyala_client::{Body, ClientError, Connection, Target};
use std::time::Duration;

/// The name of the dashboard.
const NAME: &str = "Fleet";
const PANELS: &str = include_str!("dashboard.json");
/// Two statements, which a semicolon parts.
const STATEMENTS: &str = include_str!("dashboard.sql");
const TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_MAX_BYTES: usize = 64 << 10;

/// Saves it, and gives the page of the console that shows it.
pub(super) fn save(url: &str, settings: &DemoSettings) -> Result<String, ClientError> {
    let DemoSettings { database, hours, .. } = settings;
    let end = TSBS_START + hours * HOUR_SECONDS;
    let range = format!(r#"{{"from": "{TSBS_START}000", "to": "{end}000"}}"#);
    let definition = format!(r#"{{"panels": {PANELS}, "range": {range}}}"#).replace('\'', "''");
    let mut connection = Connection::new(&Target::parse(url)?, TIMEOUT);
    for statement in STATEMENTS.split(';') {
        let statement = statement.replace("NAME", NAME).replace("DEFINITION", &definition);
        let mut answer = Vec::new();
        let body = Body::Collect { into: &mut answer, limit_bytes: ANSWER_MAX_BYTES };
        connection.expect_success("POST", &format!("/api/sql?db={database}"), statement.as_bytes(), body)?;
    }
    Ok(format!("{url}/#/dashboards?db={database}&name={NAME}"))
}
