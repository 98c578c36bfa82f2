//! What tests of ALTER MEASUREMENT have in common: a server with some points in the database `d`.

use super::process::Process;
use serde_json::{Value, json};
use std::path::Path;

/// The points.
pub const POINTS: &str = "\
t,room=k c=21.5,ok=true 1
t,room=b c=19.25,n=3i 2
t,room=k c=22,msg=\"a\" 3
u,room=k c=22 3
";
pub fn started(dir: &Path, arguments: &[&str]) -> Process {
    let server = Process::start(dir, arguments);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    server
}

/// The names, columns and rows of the series of an answer.
pub fn series(answer: &Value) -> Value {
    assert!(answer["results"][0].get("error").is_none(), "{answer}");
    let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    series.iter().map(|one| json!([one["name"], one["columns"], one["values"]])).collect()
}

pub fn done(server: &Process, statement: &str) {
    assert_eq!(server.query(statement), json!({"results": [{"statement_id": 0}]}), "{statement}");
}

pub fn error(server: &Process, statement: &str) -> String {
    let answer = server.query(statement);
    let error = answer["results"][0]["error"].as_str().or(answer["error"].as_str());
    error.unwrap_or_else(|| panic!("{statement}: {answer}")).to_owned()
}

/// What shows everything in a database.
pub const SHOWN: [&str; 7] = [
    "SHOW MEASUREMENTS",
    "SHOW SERIES",
    "SHOW FIELD KEYS",
    "SHOW TAG KEYS",
    "SHOW TAG VALUES WITH KEY =~ /./",
    "SELECT * FROM /./",
    "SHOW ALIASES",
];

/// Everything that the database `d` shows.
pub fn all(server: &Process) -> Vec<Value> {
    SHOWN.map(|query| series(&server.query(query))).into()
}

/// Kills a server and starts it again; everything is as it was.
pub fn killed(mut server: Process, dir: &Path, arguments: &[&str]) -> Process {
    let before = all(&server);
    server.kill();
    let server = Process::start(dir, arguments);
    assert_eq!(all(&server), before, "after a kill");
    server
}
