//! Statements of SQL over `POST /api/sql`, in the database `d`.

use super::client::{self, Request, Response};
use super::process::Process;
use serde_json::Value;

/// Sends a body to a path.
pub fn post(server: &Process, target: &str, body: &str) -> Response {
    let request = Request {
        method: "POST".to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
    };
    client::send(server.address, &request).expect("an answer")
}

/// What a text of SQL answers in the database `d`: rows, or an object with the code of an error.
pub fn answer(server: &Process, text: &str) -> Value {
    let response = post(server, "/api/sql?db=d", text);
    serde_json::from_slice(&response.body)
        .unwrap_or_else(|error| panic!("{text}: {error}: {}", String::from_utf8_lossy(&response.body)))
}

/// The lines of an answer as CSV, without the names of the columns.
pub fn lines(server: &Process, query: &str) -> Vec<String> {
    let request = Request {
        method: "POST".to_owned(),
        target: "/api/sql?db=d".to_owned(),
        headers: vec![("Accept".to_owned(), "text/csv".to_owned())],
        body: query.as_bytes().to_vec(),
    };
    let response = client::send(server.address, &request).expect("an answer");
    let text = String::from_utf8(response.body).expect("text");
    assert_eq!(response.status, 200, "{query}: {text}");
    text.lines().skip(1).map(str::to_owned).collect()
}

/// The code of the error that a statement ends with.
pub fn code(server: &Process, text: &str) -> String {
    let answer = answer(server, text);
    answer["code"].as_str().unwrap_or_else(|| panic!("{text}: {answer}")).to_owned()
}

/// How many rows a statement says that it has changed.
pub fn changed(server: &Process, text: &str) -> u64 {
    let answer = answer(server, text);
    answer[0]["rows_affected"].as_u64().unwrap_or_else(|| panic!("{text}: {answer}"))
}

/// Executes a statement that gives no rows.
pub fn done(server: &Process, text: &str) {
    let answer = answer(server, text);
    assert!(answer[0]["command"].is_string(), "{text}: {answer}");
}

/// The only number that a query gives.
pub fn number(server: &Process, text: &str) -> i64 {
    let answer = answer(server, text);
    let row = answer[0].as_object().unwrap_or_else(|| panic!("{text}: {answer}"));
    row.values().next().and_then(Value::as_i64).unwrap_or_else(|| panic!("{text}: {answer}"))
}
