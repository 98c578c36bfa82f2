//! `GET /debug/vars`: the counts of SHOW STATS, for people and for Telegraf's input. `/debug/log`: what is logged, and
//! the last lines of it.
//! `/debug/pprof`: an error that names another profiler.

use super::response::{Answer, Failure, failure, with_body};
use super::{Context, access, params::Params};
use crate::log_filter;
use crate::log_lines::{self, LogLine};
use crate::server::statistics::shown;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use nyala_db::users::Principal;
use nyala_query::report::{Datum, Report};
use nyala_query::statement;
use serde_json::{Map, Value, json};
use tracing::Level;

/// `GET /debug/vars`
pub(super) async fn vars(context: &Context, head: &Parts) -> Result<Response<Answer>, Failure> {
    access::check_admin(context, head).await?;
    let databases = context.databases()?;
    let mut vars = Map::new();
    let now_ns = context.clock.now_ns();
    vars.insert(
        "system".into(),
        json!({
            "currentTime": shown(now_ns),
            "started": shown(context.started_ns),
            "uptime": (now_ns - context.started_ns) / 1_000_000_000,
        }),
    );
    // Arguments may hold secrets.
    vars.insert("cmdline".into(), json!(["nyala"]));
    let used_bytes = databases.memory.total_bytes();
    let memory = json!({"Alloc": used_bytes, "HeapAlloc": used_bytes, "Sys": databases.memory.limit_bytes()});
    vars.insert("memstats".into(), memory);
    let query = context.query(databases, String::new(), String::new(), Principal::Open);
    vars.extend(statement::statistics(&query).await.iter().map(|report| (key(report), statistic(report))));
    let body = Value::Object(vars).to_string() + "\n";
    Ok(with_body(StatusCode::OK, "application/json; charset=utf-8", body))
}

/// `/debug/log`: what is logged. `POST` changes that, until the next change, SIGHUP or start.
pub(super) async fn log(context: &Context, head: &Parts) -> Result<Response<Answer>, Failure> {
    access::check_admin(context, head).await?;
    if head.method == Method::POST {
        let params = Params::parse(head.uri.query().unwrap_or(""));
        let level = params.get("level");
        log_filter::set(level).map_err(|message| failure(StatusCode::BAD_REQUEST, message))?;
        tracing::info!(log_level = level, "the level of the log was changed");
    }
    let body = json!({"level": log_filter::current()}).to_string() + "\n";
    Ok(with_body(StatusCode::OK, "application/json; charset=utf-8", body))
}

/// `GET /debug/log/lines`: the last lines of the log, from a level on and after a number, oldest first.
pub(super) async fn log_lines(context: &Context, head: &Parts) -> Result<Response<Answer>, Failure> {
    access::check_admin(context, head).await?;
    let params = Params::parse(head.uri.query().unwrap_or(""));
    let level = match params.get("level") {
        "" => Level::TRACE,
        text => text.parse().map_err(|_| {
            let words = format!("level={text}: choose error, warn, info, debug or trace");
            failure(StatusCode::BAD_REQUEST, words)
        })?,
    };
    let after = match params.get("after") {
        "" => 0,
        text => text.parse().map_err(|_| {
            failure(StatusCode::BAD_REQUEST, format!("after={text}: give the number of a line"))
        })?,
    };
    let shown = |line: LogLine| {
        json!({
            "number": line.number,
            "time": shown(line.time_ns),
            "level": line.level.as_str().to_ascii_lowercase(),
            "target": line.target,
            "message": line.message,
            "fields": line.fields,
        })
    };
    let lines: Vec<Value> = log_lines::after(after, level).into_iter().map(shown).collect();
    let body = json!({"level": log_filter::current(), "lines": lines}).to_string() + "\n";
    Ok(with_body(StatusCode::OK, "application/json; charset=utf-8", body))
}

/// `/debug/pprof`: profiles of a Go program, which this is not.
pub(super) async fn profile(context: &Context, head: &Parts) -> Result<Response<Answer>, Failure> {
    access::check_admin(context, head).await?;
    let words = format!(
        "{}: nyala takes no profiles of itself; `perf record -g -p {}` does on its machine, and SHOW STATS and /metrics \
         tell where memory is",
        head.uri.path(),
        std::process::id()
    );
    Err(failure(StatusCode::NOT_IMPLEMENTED, words))
}

/// A unique name for each report, formed as InfluxDB does.
fn key(report: &Report) -> String {
    const TAGS: [&str; 7] =
        ["bind", "database", "retention_policy", "retentionPolicy", "name", "destination", "id"];
    let values = TAGS.iter().filter_map(|tag| report.tags.iter().find(|(own, _)| own == tag));
    values.fold(report.name.clone(), |key, (_, value)| key + ":" + value)
}

fn statistic(report: &Report) -> Value {
    let value = |value: &Datum| match value {
        Datum::Integer(number) => json!(number),
        Datum::Boolean(is) => json!(is),
        Datum::Text(text) => json!(text),
    };
    let tags: Map<String, Value> =
        report.tags.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    let values: Map<String, Value> =
        report.values.iter().map(|(name, own)| (name.clone(), value(own))).collect();
    json!({"name": report.name, "tags": tags, "values": values})
}
