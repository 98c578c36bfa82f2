//! Databases and retention policies: made and changed.

use super::Answer;
use crate::influxql::{AlterRetentionPolicy, CreateDatabase, CreateRetentionPolicy, WriteLimits};
use crate::plan::QueryContext;
use nyala_core::{Error, Result};
use nyala_db::catalog::{DEFAULT_POLICY_NAME, PolicyChange, RetentionPolicy};

pub(super) async fn create_database(create: &CreateDatabase, context: &QueryContext) -> Result<Answer> {
    let policy = match &create.retention_policy {
        None => None,
        Some(asked) => {
            refuse_limits(&asked.limits)?;
            let settings = PolicyChange {
                duration_ns: asked.duration_ns,
                shard_duration_ns: Some(asked.shard_duration_ns).filter(|width_ns| *width_ns != 0),
                replication: asked.replication,
                make_default: true,
            };
            Some((asked.name.as_deref().unwrap_or(DEFAULT_POLICY_NAME), settings))
        }
    };
    context.catalog.create_database(&create.name, policy).await?;
    Ok(Answer::Done)
}

pub(super) async fn create_policy(create: &CreateRetentionPolicy, context: &QueryContext) -> Result<Answer> {
    refuse_limits(&create.limits)?;
    let width_ns = Some(create.shard_duration_ns).filter(|width_ns| *width_ns != 0);
    let policy =
        RetentionPolicy::new(&create.name, Some(create.duration_ns), Some(create.replication), width_ns)?;
    context.catalog.create_policy(&create.database, policy, create.default).await?;
    Ok(Answer::Done)
}

pub(super) async fn alter_policy(alter: &AlterRetentionPolicy, context: &QueryContext) -> Result<Answer> {
    refuse_limits(&alter.limits)?;
    let change = PolicyChange {
        duration_ns: alter.duration_ns,
        shard_duration_ns: alter.shard_duration_ns,
        replication: alter.replication,
        make_default: alter.default,
    };
    context.catalog.alter_policy(&alter.database, &alter.name, change).await?;
    Ok(Answer::Done)
}

fn refuse_limits(limits: &WriteLimits) -> Result<()> {
    match limits {
        WriteLimits { future_ns: None, past_ns: None } => Ok(()),
        _ => {
            Err(Error::unsupported("FUTURE LIMIT and PAST LIMIT are not supported by this version of nyala"))
        }
    }
}
