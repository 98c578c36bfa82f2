//! CREATE DATABASE, CREATE and ALTER RETENTION POLICY.

use super::Answer;
use crate::influxql::{AlterRetentionPolicy, CreateDatabase, CreateRetentionPolicy};
use crate::plan::QueryContext;
use nyala_core::Result;
use nyala_db::catalog::{DEFAULT_POLICY_NAME, PolicyChange, RetentionPolicy};

pub(super) async fn create_database(create: &CreateDatabase, context: &QueryContext) -> Result<Answer> {
    let policy = match &create.retention_policy {
        None => None,
        Some(asked) => {
            let settings = PolicyChange {
                duration_ns: asked.duration_ns,
                shard_duration_ns: Some(asked.shard_duration_ns).filter(|width_ns| *width_ns != 0),
                replication: asked.replication,
                future_limit_ns: asked.limits.future_ns,
                past_limit_ns: asked.limits.past_ns,
                make_default: true,
            };
            Some((asked.name.as_deref().unwrap_or(DEFAULT_POLICY_NAME), settings))
        }
    };
    context.catalog.create_database(&create.name, policy).await?;
    Ok(Answer::Done)
}

pub(super) async fn create_policy(create: &CreateRetentionPolicy, context: &QueryContext) -> Result<Answer> {
    let asked = PolicyChange {
        duration_ns: Some(create.duration_ns),
        shard_duration_ns: Some(create.shard_duration_ns).filter(|width_ns| *width_ns != 0),
        replication: Some(create.replication),
        future_limit_ns: create.limits.future_ns,
        past_limit_ns: create.limits.past_ns,
        make_default: create.default,
    };
    let policy = RetentionPolicy::new(&create.name, &asked)?;
    context.catalog.create_policy(&create.database, policy, create.default).await?;
    Ok(Answer::Done)
}

pub(super) async fn alter_policy(alter: &AlterRetentionPolicy, context: &QueryContext) -> Result<Answer> {
    let change = PolicyChange {
        duration_ns: alter.duration_ns,
        shard_duration_ns: alter.shard_duration_ns,
        replication: alter.replication,
        future_limit_ns: alter.limits.future_ns,
        past_limit_ns: alter.limits.past_ns,
        make_default: alter.default,
    };
    context.catalog.alter_policy(&alter.database, &alter.name, change).await?;
    Ok(Answer::Done)
}
