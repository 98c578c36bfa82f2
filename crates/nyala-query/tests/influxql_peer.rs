//! Messages and canonical text, compared with those of a real InfluxDB 1.8.
//!
//! The scripts' answers were written by the peer. To have it write them again:
//! `NYALA_INFLUXD=path cargo test -p nyala-query --test influxql_peer -- --ignored`.

mod influxql_support;

use influxql_support::{Peer, Script};
use nyala_query::influxql::{Params, Statement, compile, parse_query};

const MESSAGES: [&str; 3] = ["parse_errors.txt", "statement_errors.txt", "regex_errors.txt"];
const CANONICAL: &str = "canonical.txt";
const PARAMETERS: &str = "parameters.txt";
const FINE: &str = "fine";

/// The error of a query, as the answer shows it.
fn message(query: &str, params: &Params) -> String {
    // The peer takes white space off both ends of what it is sent.
    match parse_query(query.trim(), params) {
        Err(error) => format!("error parsing query: {error}"),
        Ok(statements) => statements
            .iter()
            .find_map(|statement| match statement {
                Statement::Select(select) => {
                    compile((**select).clone(), 0).err().map(|error| error.to_string())
                }
                _ => None,
            })
            .unwrap_or_else(|| FINE.to_string()),
    }
}

fn peer_message(peer: &Peer, query: &str, params: Option<&str>) -> String {
    let answer = peer.query(query, params);
    error_in(&answer).unwrap_or_else(|| FINE.to_string())
}

fn error_in(answer: &serde_json::Value) -> Option<String> {
    let errors = [&answer["error"], &answer["results"][0]["error"]];
    errors.into_iter().find_map(|error| error.as_str()).map(str::to_string)
}

/// The canonical text of a SELECT INTO, as a continuous query shows it.
fn canonical(select: &str) -> String {
    let create = format!("CREATE CONTINUOUS QUERY q ON db BEGIN {select} END");
    match parse_query(&create, &Params::default()) {
        Ok(statements) => statements[0].to_string(),
        Err(error) => format!("error parsing query: {error}"),
    }
}

fn peer_canonical(peer: &Peer, select: &str) -> String {
    let answer = peer.query(&format!("CREATE CONTINUOUS QUERY q ON db BEGIN {select} END"), None);
    if let Some(error) = error_in(&answer) {
        return error;
    }
    let answer = peer.query("SHOW CONTINUOUS QUERIES", None);
    let series = answer["results"][0]["series"].as_array().unwrap();
    let text = series.iter().find(|series| series["name"] == "db").unwrap()["values"][0][1].as_str().unwrap();
    peer.query("DROP CONTINUOUS QUERY q ON db", None);
    text.to_string()
}

/// Creates the databases in the scripts' queries.
fn create_databases(peer: &Peer) {
    peer.query("CREATE DATABASE db", None);
    peer.query("CREATE DATABASE \"x y\" WITH NAME \"r-p\"", None);
}

/// `{"name": value} query`
fn split_params(line: &str) -> (&str, &str) {
    let end = line.find("} ").expect("parameters, a space, a query") + 1;
    (&line[..end], line[end..].trim_start())
}

fn message_with_params(line: &str) -> String {
    let (params, query) = split_params(line);
    message(query, &Params::from_json(params).unwrap())
}

#[test]
fn messages_are_the_peer_s() {
    for name in MESSAGES {
        Script::read(name).check(|query| message(query, &Params::default()));
    }
}

#[test]
fn canonical_text_is_the_peer_s() {
    Script::read(CANONICAL).check(canonical);
}

#[test]
fn parameters_are_bound_as_by_the_peer() {
    Script::read(PARAMETERS).check(message_with_params);
}

#[test]
fn scripts_are_what_the_peer_answers() {
    let Some(peer) = Peer::start() else { return };
    create_databases(&peer);
    for name in MESSAGES {
        Script::read(name).check(|query| peer_message(&peer, query, None));
    }
    Script::read(CANONICAL).check(|select| peer_canonical(&peer, select));
    Script::read(PARAMETERS).check(|line| {
        let (params, query) = split_params(line);
        peer_message(&peer, query, Some(params))
    });
}

#[test]
#[ignore = "rewrites the scripts"]
fn rewrite_scripts() {
    let peer = Peer::start().expect("a real InfluxDB rewrites them");
    create_databases(&peer);
    for name in MESSAGES {
        Script::read(name).rewrite(|query| peer_message(&peer, query, None));
    }
    Script::read(CANONICAL).rewrite(|select| peer_canonical(&peer, select));
    Script::read(PARAMETERS).rewrite(|line| {
        let (params, query) = split_params(line);
        peer_message(&peer, query, Some(params))
    });
}
