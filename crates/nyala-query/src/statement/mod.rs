//! Executes statements of InfluxQL, one at a time.

mod alter_measurement;
mod cardinality;
mod changes;
mod continuous;
mod correction;
mod definition;
mod deletion;
mod explain;
mod first_rows;
mod full_names;
mod index_condition;
mod into;
mod past;
mod privilege;
mod queries;
mod select_table;
mod server_reports;
mod shards;
mod show;
mod storage;
mod subscriptions;
mod tokens;
mod users;

pub use privilege::{Need, authorize, needs};

pub use full_names::{select_with_full_names, with_full_names};
pub use into::select_into;
pub use past::moment_of;
pub use queries::SubmittedQuery;
pub use select_table::SelectTable;
pub use server_reports::statistics;

use crate::exec::SelectStream;
use crate::influxql::{self, CreateUser, MeasurementName, Select, Source, Statement, compile};
use crate::plan::rewrite::rewrite;
use crate::plan::rewritten::Rewritten;
use crate::plan::{Plan, QueryContext};
use nyala_core::span::Instrument;
use nyala_core::{Error, Result, span};
use nyala_db::changes::ChangeId;
use nyala_db::users::{Principal, Privilege};
use nyala_exec::{Chunks, ExecutionContext, Frame, QueryMemory};
use std::pin::pin;
use std::sync::Arc;

/// The answer to a statement.
pub enum Answer {
    /// The statement is done and shows nothing.
    Done,
    /// The statement failed; the statements after it are still executed.
    Refused(Error),
    /// Points were changed. The change has a number if it can be undone.
    Changed(Vec<Frame>, Option<ChangeId>),
    /// Rows, all at once.
    Rows(Vec<Frame>, Chunks),
    /// Rows while they are computed, cut as [`Chunks::BySize`].
    Stream(Box<SelectStream>),
}

/// Whether a statement changes nothing, so that it can be cancelled at any point.
pub fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => select.target.is_none(),
        Statement::DryRun(_)
        | Statement::Explain { .. }
        | Statement::ShowAliases { .. }
        | Statement::ShowCardinality(_)
        | Statement::ShowChanges
        | Statement::ShowContinuousQueries
        | Statement::ShowDatabases
        | Statement::ShowDiagnostics { .. }
        | Statement::ShowFieldKeys(_)
        | Statement::ShowGrants { .. }
        | Statement::ShowMaintenance
        | Statement::ShowMeasurements(_)
        | Statement::ShowQueries
        | Statement::ShowSlowestQueries
        | Statement::ShowQuotas
        | Statement::ShowRetentionPolicies { .. }
        | Statement::ShowSeries(_)
        | Statement::ShowShardGroups
        | Statement::ShowShards
        | Statement::ShowStats { .. }
        | Statement::ShowStorage(_)
        | Statement::ShowSubscriptions
        | Statement::ShowTagKeys(_)
        | Statement::ShowTagValues { .. }
        | Statement::ShowTokens
        | Statement::ShowUsers => true,
        _ => false,
    }
}

/// Refuses names that InfluxDB keeps for its own use.
fn refuse_system_sources(select: &Select) -> Result<()> {
    for source in &select.sources {
        let Source::Measurement(measurement) = source else { continue };
        let MeasurementName::Name(name) = &measurement.name else { continue };
        let command = match name.as_str() {
            "_fieldKeys" => "SHOW FIELD KEYS",
            "_measurements" => "SHOW MEASUREMENTS",
            "_series" => "SHOW SERIES",
            "_tagKeys" => "SHOW TAG KEYS",
            "_tags" => "SHOW TAG VALUES",
            "_name" | "_tagKey" => "the appropriate meta command",
            _ => continue,
        };
        return Err(Error::invalid(format!("unable to use system source '{name}': use {command} instead")));
    }
    Ok(())
}

/// Executes a statement that [`authorize`] let through. Rows of a SELECT are computed when the caller takes them.
pub async fn execute(statement: Statement, context: &QueryContext, memory: QueryMemory) -> Result<Answer> {
    if let Statement::Select(select) = &statement {
        refuse_system_sources(select)?;
    }
    match statement {
        Statement::Select(select) if select.target.is_none() => {
            let plan = pin!(plan_of(*select, context)).instrument(span!("plan")).await?;
            let snapshot = context.snapshot().await?;
            SelectStream::open(Arc::new(plan), snapshot, memory)
                .await
                .map(|stream| Answer::Stream(Box::new(stream)))
        }
        // Boxed, so that the future of a SELECT is not as large as that of the largest statement.
        other => Box::pin(execute_other(&other, context, memory)).await,
    }
}

/// Executes all but a SELECT that only shows rows.
async fn execute_other(statement: &Statement, context: &QueryContext, memory: QueryMemory) -> Result<Answer> {
    let ExecutionContext { catalog, running, principal, .. } = &**context;
    let users = catalog.users();
    // The last administrator must stay, because authentication is on.
    let keep_admin = !matches!(principal, Principal::Open);
    match statement {
        Statement::CreateDatabase(create) => definition::create_database(create, context).await?,
        Statement::DropDatabase { name } => catalog.drop_database(name).await?,
        Statement::CreateRetentionPolicy(create) => definition::create_policy(create, context).await?,
        Statement::AlterMeasurement(alter) => return alter_measurement::alter(alter, context).await,
        Statement::AlterRetentionPolicy(alter) => definition::alter_policy(alter, context).await?,
        Statement::DropRetentionPolicy { name, database } => catalog.drop_policy(database, name).await?,
        Statement::DropMeasurement { name } => drop(catalog.drop_measurement(&context.database, name).await?),
        // As in InfluxDB, a shard that does not exist is no error.
        Statement::DropShard { id } => catalog.drop_shard(*id).await?,
        Statement::CreateUser(CreateUser { name, password, admin }) => {
            users.create(name, password, *admin, matches!(principal, Principal::FirstAdmin)).await?;
        }
        Statement::CreateToken(create) => return tokens::create(create, context).await,
        Statement::DropToken { name } => users.drop_token(name).await?,
        Statement::SetQuota { user, limits } => tokens::set_quota(user, limits, context).await?,
        Statement::ShowQuotas => return Ok(tokens::show_quotas(context)),
        Statement::ShowTokens => return Ok(tokens::show(context)),
        Statement::DropUser { name } => users.drop_user(name, keep_admin).await?,
        Statement::SetPassword { user, password } => users.set_password(user, password).await?,
        Statement::Grant { privilege, database, user } => {
            catalog.change_grant(user, database, |_| granted(*privilege)).await?;
        }
        Statement::Revoke { privilege, database, user } => {
            catalog.change_grant(user, database, |held| held.without(granted(*privilege))).await?;
        }
        Statement::GrantAdmin { user } => users.set_admin(user, true, keep_admin).await?,
        Statement::RevokeAdmin { user } => users.set_admin(user, false, keep_admin).await?,
        Statement::CreateContinuousQuery(create) => continuous::create(create, context).await?,
        Statement::DropContinuousQuery { name, database } => {
            catalog.drop_continuous_query(database, name).await?;
        }
        Statement::CreateSubscription(create) => subscriptions::create(create, context).await?,
        Statement::DropSubscription { name, database, retention_policy } => {
            catalog.drop_subscription(database, retention_policy, name).await?;
        }
        Statement::KillQuery { id, .. } => running.kill(*id)?,
        Statement::Delete(deletion) => return deletion::remove((statement, deletion), context, true).await,
        Statement::DropSeries(deletion) => {
            return deletion::remove((statement, deletion), context, false).await;
        }
        Statement::Undo { change } => return changes::undo((statement, *change), context).await,
        Statement::Update(update) => return correction::update((statement, update), context).await,
        Statement::ShowChanges => return changes::show(context).await,
        Statement::DryRun(statement) => return correction::dry_run(statement, context).await,
        Statement::Select(select) => return into::execute(select, context, memory).await,
        Statement::Explain { analyze: false, select } => return explain::explain(select, context).await,
        Statement::Explain { analyze: true, select } => {
            return explain::analyze(select, context, memory).await;
        }
        Statement::ShowAliases { database } => {
            return alter_measurement::show_aliases(database.as_deref(), context);
        }
        Statement::ShowCardinality(show) => return cardinality::show(show, context, &memory).await,
        Statement::ShowContinuousQueries => return Ok(continuous::show(context)),
        Statement::ShowDatabases => return Ok(show::databases(context)),
        Statement::ShowDiagnostics { module } => {
            return Ok(server_reports::show_diagnostics(module.as_deref(), context));
        }
        Statement::ShowFieldKeys(show) => return show::field_keys(show, context).await,
        Statement::ShowGrants { user } => return users::show_grants(user, context),
        Statement::ShowMaintenance => return storage::show_maintenance(context),
        Statement::ShowMeasurements(show) => return show::measurements(show, context).await,
        Statement::ShowQueries => return Ok(queries::show(context)),
        Statement::ShowSlowestQueries => return Ok(queries::show_slowest(context)),
        Statement::ShowRetentionPolicies { database } => {
            return show::retention_policies(database.as_deref(), context);
        }
        Statement::ShowSeries(show) => return show::series(show, context, &memory).await,
        Statement::ShowShardGroups => return shards::show_groups(context).await,
        Statement::ShowShards => return shards::show(context).await,
        Statement::ShowStats { module } => {
            return Ok(server_reports::show_stats(module.as_deref(), context).await);
        }
        Statement::ShowStorage(show) => return storage::show(show, context).await,
        Statement::ShowSubscriptions => return Ok(subscriptions::show(context)),
        Statement::ShowTagKeys(show) => return show::tag_keys(show, context).await,
        Statement::ShowTagValues { keys, show } => {
            return show::tag_values(keys, show, context, &memory).await;
        }
        Statement::ShowUsers => return Ok(users::show(context)),
    }
    Ok(Answer::Done)
}

/// The plan of a SELECT.
async fn plan_of(select: Select, context: &QueryContext) -> Result<Plan> {
    let (rewritten, extra_windows) = rewritten_of(select, context).await?;
    built(rewritten, extra_windows, context).await
}

/// A SELECT after the first phase of planning, and how many windows beyond those shown may be read.
async fn rewritten_of(select: Select, context: &QueryContext) -> Result<(Rewritten, i64)> {
    check_names(&select)?;
    let compiled = compile(select, context.now_ns)?;
    let mut rewritten = rewrite(compiled.select, context).await?;
    if rewritten.time_column == "time" {
        rewritten.time_column = compiled.time_column;
    }
    Ok((rewritten, compiled.extra_windows))
}

/// The plan of a SELECT after the first phase of planning.
async fn built(rewritten: Rewritten, extra_windows: i64, context: &QueryContext) -> Result<Plan> {
    let mut plan = Plan::build(rewritten, extra_windows, context)?;
    if !plan.pin(&context.catalog) {
        for (source, time) in plan.measurements_mut() {
            source.pin = Some(context.catalog.reload_series(&source.measurement, time, &source.tags).await?);
        }
    }
    queries::bound(&mut plan, context)?;
    Ok(plan)
}

/// Refuses sources without a name, before anything else is checked.
fn check_names(select: &Select) -> Result<()> {
    select.sources.iter().try_for_each(|source| match source {
        Source::Subquery(inner) => check_names(inner),
        Source::Measurement(measurement) => match &measurement.name {
            MeasurementName::Name(name) if name.is_empty() => Err(Error::invalid("invalid measurement")),
            _ => Ok(()),
        },
    })
}

/// The database that a statement names, or else the request's.
fn database_of<'a>(named: Option<&'a str>, context: &'a QueryContext) -> Result<&'a str> {
    match named.filter(|name| !name.is_empty()).unwrap_or(&context.database) {
        "" => Err(Error::invalid("database name required")),
        name => Ok(name),
    }
}

pub(super) fn granted(privilege: influxql::Privilege) -> Privilege {
    match privilege {
        influxql::Privilege::Read => Privilege::Read,
        influxql::Privilege::Write => Privilege::Write,
        influxql::Privilege::All => Privilege::All,
    }
}
