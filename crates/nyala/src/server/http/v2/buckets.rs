//! `/api/v2/buckets`: lists, creates and drops retention policies as buckets.

use super::super::body::RequestBody;
use super::super::params::{Params, percent_decoded};
use super::super::response::{Answer, Failure, empty, failure, with_body};
use super::super::write::bucket;
use super::super::{Context, access};
use super::{document, failed, invalid, perform};
use crate::server::format::push_string;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use nyala_db::catalog::DEFAULT_POLICY_NAME;
use nyala_db::quoted;
use nyala_db::users::{Principal, Privilege};
use nyala_query::influxql::{CreateDatabase, PolicyClauses, RetentionPolicy, Statement};
use serde::Deserialize;
use std::net::IpAddr;

/// The path of a bucket begins with this.
pub(in super::super) const BUCKET: &str = "/api/v2/buckets/";

/// A bucket to be created.
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

/// `GET` and `POST /api/v2/buckets`
pub(in super::super) async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let params = Params::parse(head.uri.query().unwrap_or(""));
    let principal = access::authenticate(context, &params, head).await?;
    if head.method == Method::GET {
        let body = list(context, &principal, params.get("name"))?;
        return Ok(with_body(StatusCode::OK, "application/json", body));
    }
    access::require_admin(&principal)?;
    let requested: NewBucket = document(context, incoming, &head.headers, "bucket").await?;
    let (database, policy) = bucket(&requested.name)?;
    let policy = if policy.is_empty() { DEFAULT_POLICY_NAME } else { policy };
    let known = context.databases()?.catalog.database(database);
    if known.as_ref().is_some_and(|known| known.policy(policy).is_some()) {
        let words = format!("bucket with name {} already exists", quoted(&requested.name));
        return Err(failure(StatusCode::UNPROCESSABLE_ENTITY, words));
    }
    let create = creation(&requested, database, policy, known.is_some())?;
    perform(context, (&principal, client), database, create).await?;
    let body = list(context, &principal, &format!("{database}/{policy}"))?;
    Ok(with_body(StatusCode::CREATED, "application/json", body))
}

/// The statement that creates a bucket, and its database if that does not exist.
fn creation(
    requested: &NewBucket,
    database: &str,
    policy: &str,
    database_exists: bool,
) -> Result<Statement, Failure> {
    let rule = requested.retention_rules.first();
    let seconds = |number: i64| number.checked_mul(1_000_000_000).filter(|length_ns| *length_ns >= 0);
    let lengths = rule.map_or(Some((0, 0)), |rule| {
        Some((seconds(rule.every_seconds)?, seconds(rule.shard_group_duration_seconds)?))
    });
    let (duration_ns, shard_duration_ns) =
        lengths.ok_or_else(|| invalid("bucket: no such duration".into()))?;
    let mut clauses = PolicyClauses {
        duration_ns: Some(duration_ns),
        shard_duration_ns: Some(shard_duration_ns).filter(|width_ns| *width_ns != 0),
        ..PolicyClauses::default()
    };
    let (database, name) = (database.to_owned(), policy.to_owned());
    Ok(match database_exists {
        false => Statement::CreateDatabase(CreateDatabase {
            name: database,
            retention_policy: Some((clauses, Some(name))),
        }),
        true => {
            clauses.replication = Some(1);
            Statement::CreateRetentionPolicy(RetentionPolicy { name, database, clauses })
        }
    })
}

/// `DELETE /api/v2/buckets/{database}/{policy}`: both must be named, because all points of the bucket are dropped.
pub(in super::super) async fn drop(
    context: &Context,
    head: &Parts,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let params = Params::parse(head.uri.query().unwrap_or(""));
    let principal = access::authenticate(context, &params, head).await?;
    let escaped = &head.uri.path()[BUCKET.len()..];
    let name = percent_decoded(escaped)
        .ok_or_else(|| invalid(format!("bucket: a % in {} begins no escape", quoted(escaped))))?;
    let (database, policy) = bucket(&name)?;
    if policy.is_empty() {
        let words = format!("bucket: {} names no retention policy: name database/policy", quoted(&name));
        return Err(invalid(words));
    }
    access::check_write(&principal, database)?;
    let known = context.databases()?.catalog.existing_database(database).map_err(|error| failed(&error))?;
    known.existing_policy(policy).map_err(|error| failed(&error))?;
    let drop = Statement::DropRetentionPolicy { name: policy.into(), database: database.into() };
    perform(context, (&principal, client), database, drop).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The buckets that a user may see, or the one with a name.
fn list(context: &Context, principal: &Principal, name: &str) -> Result<Vec<u8>, Failure> {
    let mut body = b"{\"buckets\":[".to_vec();
    let databases = context.databases()?.catalog.databases();
    let may_see = |name: &str| principal.may(Privilege::Read, name) || principal.may(Privilege::Write, name);
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
