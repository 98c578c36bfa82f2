//! `GET /debug/vars`: the counts of SHOW STATS, for people and for Telegraf's input. `/debug/pprof`: an error that
//! names another profiler.

use super::response::{Answer, Failure, failure, with_body};
use super::{Context, access};
use crate::server::statistics::shown;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use nyala_db::users::Principal;
use nyala_query::report::{Datum, Report};
use nyala_query::statement;
use serde_json::{Map, Value, json};

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
