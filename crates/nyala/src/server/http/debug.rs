//! `GET /debug/vars`: counts for people and for Telegraf's input, under InfluxDB's names.
//!
//! What has no counterpart here is left out rather than made up.

use super::response::{Answer, Failure, failure, status_of, whole};
use super::{Context, access, params::Params};
use crate::server::format::push_rfc3339;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::{Map, Value, json};

/// `GET /debug/vars`
pub(super) async fn vars(context: &Context, request: Request<Incoming>) -> Result<Response<Answer>, Failure> {
    let of_url = Params::parse(request.uri().query().unwrap_or(""));
    access::check_admin(context, &of_url, request.headers()).await?;
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
    let databases = context.databases()?;
    let used_bytes = databases.memory.total_bytes();
    let memory = json!({"Alloc": used_bytes, "HeapAlloc": used_bytes, "Sys": databases.memory.limit_bytes()});
    vars.insert("memstats".into(), memory);
    let requests = context.metrics.counts();
    let of_path = |wanted: &str| sum(&requests, |path, _| path == wanted);
    let httpd = json!({
        "req": sum(&requests, |_, _| true),
        "queryReq": of_path("/query"),
        "writeReq": of_path("/write") + of_path("/api/v2/write"),
        "promWriteReq": of_path("/api/v1/prom/write"),
        "promReadReq": of_path("/api/v1/prom/read"),
        "pingReq": of_path("/ping"),
        "statusReq": of_path("/status"),
        "authFail": sum(&requests, |_, status| status == 401),
        "clientError": sum(&requests, |_, status| status / 100 == 4),
        "serverError": sum(&requests, |_, status| status / 100 == 5),
    });
    vars.insert("httpd".into(), statistic("httpd", json!({}), httpd));
    let queries = json!({
        "queriesActive": context.running.all().len(),
        "queriesExecuted": context.running.count(),
    });
    vars.insert("queryExecutor".into(), statistic("queryExecutor", json!({}), queries));
    for database in databases.catalog.databases() {
        let (mut measurements, mut series) = (0, 0);
        for policy in &database.policies {
            let found = databases.catalog.measurements(&database.name, &policy.name).await;
            let found = found.map_err(|error| failure(status_of(&error), error.to_string()))?;
            measurements += found.len();
            series += found.iter().map(|measurement| measurement.series().len()).sum::<usize>();
        }
        let values = json!({"numMeasurements": measurements, "numSeries": series});
        let tags = json!({"database": database.name});
        vars.insert(format!("database:{}", database.name), statistic("database", tags, values));
    }
    let body = Value::Object(vars).to_string() + "\n";
    Ok(whole(StatusCode::OK, "application/json; charset=utf-8", body))
}

fn statistic(name: &str, tags: Value, values: Value) -> Value {
    json!({"name": name, "tags": tags, "values": values})
}

fn sum(requests: &[(&str, u16, u64)], counted: impl Fn(&str, u16) -> bool) -> u64 {
    requests.iter().filter(|(path, status, _)| counted(path, *status)).map(|(_, _, count)| count).sum()
}

fn shown(time_ns: i64) -> String {
    let mut text = Vec::new();
    push_rfc3339(&mut text, time_ns, None);
    String::from_utf8_lossy(&text).into_owned()
}
