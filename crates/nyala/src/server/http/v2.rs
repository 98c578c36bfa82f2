//! What of InfluxDB 2's interface 1.x has for its clients, beside `/api/v2/write`: deleting points, and databases with
//! their retention policies as buckets, `database[/policy]`. Organisations are ignored.
//!
//! All of it is done by statements, so that rights and effects are those of InfluxQL.

use super::response::{Answer, Failure, empty, failure, status_of, whole};
use super::write::bucket;
use super::{Context, access, body, params::Params};
use crate::server::format::push_string;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use nyala_core::{Error, Result as CoreResult};
use nyala_db::catalog::DEFAULT_POLICY_NAME;
use nyala_db::users::{Privilege, Rights};
use nyala_query::exec::QueryMemory;
use nyala_query::influxql::{
    BinaryOperator, CreateDatabase, CreateRetentionPolicy, DatabaseRetentionPolicy, Deletion, Expr,
    Measurement, MeasurementName, Regex, Statement, TimeLiteral, WriteLimits, parse_expr, parse_time,
};
use nyala_query::statement::{self, authorize, execute};
use serde::Deserialize;

/// What the path of a single bucket begins with.
pub(super) const BUCKET: &str = "/api/v2/buckets/";

/// Which points are deleted.
#[derive(Deserialize)]
struct Asked {
    start: String,
    stop: String,
    #[serde(default)]
    predicate: String,
}

/// A bucket to be made.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewBucket {
    name: String,
    #[serde(default)]
    retention_rules: Vec<RetentionRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetentionRule {
    #[serde(default)]
    every_seconds: i64,
    #[serde(default)]
    shard_group_duration_seconds: i64,
}

/// `POST /api/v2/delete`
pub(super) async fn delete(
    context: &Context,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Failure> {
    let params = Params::parse(request.uri().query().unwrap_or(""));
    let rights = access::rights_of(context, &params, request.headers()).await?;
    let (database, policy) = bucket(params.get("bucket"))?;
    let (head, incoming) = request.into_parts();
    let body = body::read(context, incoming, &head.headers).await?.unpacked()?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|error| invalid(format!("delete: {error}")))?;
    let known = context.databases()?.catalog.existing_database(database).map_err(|error| failed(&error))?;
    let policy = known.existing_policy(policy).map_err(|error| failed(&error))?.name.clone();
    let deletion = deletion(&asked, policy).map_err(|error| failed(&error))?;
    perform(context, &rights, database, Statement::Delete(deletion)).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

fn deletion(asked: &Asked, policy: String) -> CoreResult<Deletion> {
    let time = |name: &str, text: &str| {
        parse_time(text, None).filter(|_| text.contains('T')).ok_or_else(|| {
            Error::invalid(format!(
                "invalid {name} time {text:?}: a time in RFC 3339 is needed, such as 2026-01-02T03:04:05Z"
            ))
        })
    };
    let bound = |operator, time: TimeLiteral| Expr::binary(operator, Expr::var("time"), Expr::Time(time));
    let mut condition = Expr::binary(
        BinaryOperator::And,
        bound(BinaryOperator::GreaterOrEqual, time("start", &asked.start)?),
        bound(BinaryOperator::LessOrEqual, time("stop", &asked.stop)?),
    );
    let mut measurement = None;
    if !asked.predicate.trim().is_empty() {
        let parsed = parse_expr(&asked.predicate);
        let parsed = parsed.map_err(|error| Error::invalid(format!("predicate: {error}")))?;
        let mut pairs = Vec::new();
        equalities(&parsed, &mut pairs)?;
        for (key, value) in pairs {
            if key != "_measurement" {
                let equal = Expr::binary(BinaryOperator::Equal, Expr::var(key), Expr::String(value));
                condition = Expr::binary(BinaryOperator::And, condition, equal);
            } else if measurement.replace(value).is_some() {
                return Err(Error::invalid("predicate: a point is in one _measurement only"));
            }
        }
    }
    let name = match measurement {
        Some(name) => MeasurementName::Name(name),
        None => MeasurementName::Regex(Regex::new("").map_err(Error::invalid)?),
    };
    let source = Measurement { database: None, retention_policy: Some(policy), name };
    Ok(Deletion { sources: vec![source], condition: Some(condition) })
}

/// `key="value"` joined by AND: all that a predicate may be.
fn equalities(expr: &Expr, pairs: &mut Vec<(String, String)>) -> CoreResult<()> {
    let refused =
        || Error::invalid(format!("predicate: {expr} is not supported: only key=\"value\" joined by AND is"));
    match expr {
        Expr::Paren(inner) => equalities(inner, pairs),
        Expr::Binary(binary) if binary.op == BinaryOperator::And => {
            equalities(&binary.lhs, pairs)?;
            equalities(&binary.rhs, pairs)
        }
        Expr::Binary(binary) if binary.op == BinaryOperator::Equal => {
            let Expr::VarRef(key) = &binary.lhs else { return Err(refused()) };
            let value = match &binary.rhs {
                // Values stand in double quotes here, which in InfluxQL are those of names.
                Expr::VarRef(value) => value.name.clone(),
                Expr::String(value) => value.clone(),
                _ => return Err(refused()),
            };
            if key.is_time() || key.name == "_field" {
                return Err(refused());
            }
            pairs.push((key.name.clone(), value));
            Ok(())
        }
        _ => Err(refused()),
    }
}

/// `GET` and `POST /api/v2/buckets`
pub(super) async fn buckets(
    context: &Context,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Failure> {
    let params = Params::parse(request.uri().query().unwrap_or(""));
    let rights = access::rights_of(context, &params, request.headers()).await?;
    if request.method() == Method::GET {
        let body = list(context, &rights, params.get("name"))?;
        return Ok(whole(StatusCode::OK, "application/json", body));
    }
    let (head, incoming) = request.into_parts();
    let body = body::read(context, incoming, &head.headers).await?.unpacked()?;
    let asked: NewBucket =
        serde_json::from_slice(&body).map_err(|error| invalid(format!("bucket: {error}")))?;
    let (database, policy) = bucket(&asked.name)?;
    let policy = if policy.is_empty() { DEFAULT_POLICY_NAME } else { policy };
    let known = context.databases()?.catalog.database(database);
    if known.as_ref().is_some_and(|known| known.policy(policy).is_some()) {
        let words = format!("bucket with name {} already exists", nyala_db::quoted(&asked.name));
        return Err(failure(StatusCode::UNPROCESSABLE_ENTITY, words));
    }
    let rule = asked.retention_rules.first();
    let seconds = |number: i64| number.checked_mul(1_000_000_000).filter(|length_ns| *length_ns >= 0);
    let lengths = rule.map_or(Some((0, 0)), |rule| {
        Some((seconds(rule.every_seconds)?, seconds(rule.shard_group_duration_seconds)?))
    });
    let (duration_ns, shard_duration_ns) =
        lengths.ok_or_else(|| invalid("bucket: no such duration".into()))?;
    let (limits, name) = (WriteLimits::default(), policy.to_owned());
    let create = match known {
        None => Statement::CreateDatabase(CreateDatabase {
            name: database.into(),
            retention_policy: Some(DatabaseRetentionPolicy {
                duration_ns: Some(duration_ns),
                replication: None,
                shard_duration_ns,
                limits,
                name: Some(name),
            }),
        }),
        Some(_) => Statement::CreateRetentionPolicy(CreateRetentionPolicy {
            name,
            database: database.into(),
            duration_ns,
            replication: 1,
            shard_duration_ns,
            limits,
            default: false,
        }),
    };
    perform(context, &rights, database, create).await?;
    let body = list(context, &rights, &format!("{database}/{policy}"))?;
    Ok(whole(StatusCode::CREATED, "application/json", body))
}

/// `DELETE /api/v2/buckets/{database}/{policy}`
pub(super) async fn drop_bucket(
    context: &Context,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Failure> {
    let params = Params::parse(request.uri().query().unwrap_or(""));
    let rights = access::rights_of(context, &params, request.headers()).await?;
    let name = Params::parse(&format!("name={}", &request.uri().path()[BUCKET.len()..]));
    let (database, policy) = bucket(name.get("name"))?;
    let known = context.databases()?.catalog.existing_database(database).map_err(|error| failed(&error))?;
    let name = known.existing_policy(policy).map_err(|error| failed(&error))?.name.clone();
    let drop = Statement::DropRetentionPolicy { name, database: database.into() };
    perform(context, &rights, database, drop).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The buckets that someone may see, or the one of a name.
fn list(context: &Context, rights: &Rights, name: &str) -> Result<Vec<u8>, Failure> {
    let mut body = b"{\"buckets\":[".to_vec();
    let databases = context.databases()?.catalog.databases();
    let may_see = |name: &str| rights.may(Privilege::Read, name) || rights.may(Privilege::Write, name);
    let mut first = true;
    for database in databases.iter().filter(|database| may_see(&database.name)) {
        for policy in &database.policies {
            let own = format!("{}/{}", database.name, policy.name);
            let is_default = policy.name == database.default_policy;
            if !(name.is_empty() || name == own || is_default && name == database.name) {
                continue;
            }
            body.extend_from_slice(if first { b"{\"id\":" } else { b",{\"id\":" });
            first = false;
            push_string(&mut body, &own);
            body.extend_from_slice(b",\"name\":");
            push_string(&mut body, &own);
            let rule = format!(
                ",\"retentionRules\":[{{\"type\":\"expire\",\"everySeconds\":{},\"shardGroupDurationSeconds\":{}}}]}}",
                policy.duration_ns / 1_000_000_000,
                policy.shard_duration_ns / 1_000_000_000
            );
            body.extend_from_slice(rule.as_bytes());
        }
    }
    body.extend_from_slice(b"]}\n");
    Ok(body)
}

/// Executes a statement that shows nothing.
async fn perform(
    context: &Context,
    rights: &Rights,
    database: &str,
    statement: Statement,
) -> Result<(), Failure> {
    let statements = [statement];
    authorize(&statements, rights, database)
        .map_err(|words| failure(StatusCode::FORBIDDEN, format!("error authorizing query: {words}")))?;
    let databases = context.databases()?;
    let query = context.query(databases, database.to_owned(), String::new(), rights.clone());
    let memory = QueryMemory::new(context.limits.query_bytes, &databases.memory);
    let executed = context.work.spawn(async move { execute(&statements[0], &query, memory).await });
    let broken = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the request was broken off");
    match executed.await.map_err(broken)? {
        Ok(statement::Answer::Refused(error)) | Err(error) => Err(failed(&error)),
        Ok(_) => Ok(()),
    }
}

fn failed(error: &Error) -> Failure {
    failure(status_of(error), error.to_string())
}

fn invalid(words: String) -> Failure {
    failure(StatusCode::BAD_REQUEST, words)
}
