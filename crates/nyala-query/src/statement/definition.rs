//! CREATE DATABASE, CREATE and ALTER RETENTION POLICY.

use crate::influxql::{CreateDatabase, PolicyClauses, RetentionPolicy};
use crate::plan::QueryContext;
use nyala_core::Result;
use nyala_db::catalog::{self, DEFAULT_POLICY_NAME, PolicyChange};

pub(super) async fn create_database(create: &CreateDatabase, context: &QueryContext) -> Result<()> {
    let policy = create.retention_policy.as_ref().map(|(clauses, name)| {
        let settings = PolicyChange { make_default: true, ..change(clauses) };
        (name.as_deref().unwrap_or(DEFAULT_POLICY_NAME), settings)
    });
    context.catalog.create_database(&create.name, policy).await
}

pub(super) async fn create_policy(create: &RetentionPolicy, context: &QueryContext) -> Result<()> {
    let policy = catalog::RetentionPolicy::new(&create.name, &change(&create.clauses))?;
    context.catalog.create_policy(&create.database, policy, create.clauses.default).await
}

pub(super) async fn alter_policy(alter: &RetentionPolicy, context: &QueryContext) -> Result<()> {
    context.catalog.alter_policy(&alter.database, &alter.name, change(&alter.clauses)).await
}

fn change(clauses: &PolicyClauses) -> PolicyChange {
    PolicyChange {
        duration_ns: clauses.duration_ns,
        shard_duration_ns: clauses.shard_duration_ns,
        replication: clauses.replication,
        future_limit_ns: clauses.future_limit_ns,
        past_limit_ns: clauses.past_limit_ns,
        make_default: clauses.default,
    }
}
