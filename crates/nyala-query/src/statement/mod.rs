//! Executes statements of InfluxQL, one at a time.

mod cardinality;
mod continuous;
mod definition;
mod deletion;
mod explain;
mod first_rows;
mod full_names;
mod index_condition;
mod into;
mod privilege;
mod queries;
mod server_reports;
mod shards;
mod show;
mod subscriptions;
mod users;

pub use privilege::{Need, authorize, needs};

pub use full_names::{select_with_full_names, with_full_names};
pub use into::select_into;
pub use queries::SubmittedQuery;
pub use server_reports::statistics;

use cardinality::Counted;

use crate::exec::SelectStream;
use crate::influxql::{MeasurementName, Select, Source, Statement, compile};
use crate::plan::rewrite::rewrite;
use crate::plan::{Plan, QueryContext};
use nyala_core::{Error, Result};
use nyala_exec::{Chunks, Frame, QueryMemory};
use std::sync::Arc;

/// The answer to a statement.
pub enum Answer {
    /// The statement is done and shows nothing.
    Done,
    /// The statement failed; the statements after it are still executed.
    Refused(Error),
    /// Rows, all at once.
    Rows(Vec<Frame>, Chunks),
    /// Rows while they are computed, cut as [`Chunks::BySize`].
    Stream(Box<SelectStream>),
}

/// Whether a statement changes nothing, so that it can be cancelled at any point.
pub fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => select.target.is_none(),
        Statement::Explain { .. }
        | Statement::ShowContinuousQueries
        | Statement::ShowDatabases
        | Statement::ShowDiagnostics { .. }
        | Statement::ShowFieldKeyCardinality(_)
        | Statement::ShowFieldKeys(_)
        | Statement::ShowGrants { .. }
        | Statement::ShowMeasurementCardinality(_)
        | Statement::ShowMeasurements(_)
        | Statement::ShowQueries
        | Statement::ShowRetentionPolicies { .. }
        | Statement::ShowSeries(_)
        | Statement::ShowSeriesCardinality(_)
        | Statement::ShowShardGroups
        | Statement::ShowShards
        | Statement::ShowStats { .. }
        | Statement::ShowSubscriptions
        | Statement::ShowTagKeyCardinality(_)
        | Statement::ShowTagKeys(_)
        | Statement::ShowTagValues(_)
        | Statement::ShowTagValuesCardinality { .. }
        | Statement::ShowUsers => true,
        _ => false,
    }
}

/// Executes a statement that [`authorize`] let through. Rows of a SELECT are computed when the caller takes them.
pub async fn execute(statement: Statement, context: &QueryContext, memory: QueryMemory) -> Result<Answer> {
    match statement {
        Statement::Select(select) if select.target.is_none() => {
            let plan = plan_of(*select, context).await?;
            let snapshot = context.catalog.snapshot().await?;
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
    match statement {
        Statement::Select(select) => into::execute(select, context, memory).await,
        Statement::Explain { analyze: false, select } => explain::explain(select, context).await,
        Statement::Explain { analyze: true, select } => explain::analyze(select, context, memory).await,
        Statement::CreateDatabase(create) => definition::create_database(create, context).await,
        Statement::DropDatabase { name } => {
            context.catalog.drop_database(name).await?;
            Ok(Answer::Done)
        }
        Statement::CreateRetentionPolicy(create) => definition::create_policy(create, context).await,
        Statement::AlterRetentionPolicy(alter) => definition::alter_policy(alter, context).await,
        Statement::DropRetentionPolicy { name, database } => {
            context.catalog.drop_policy(database, name).await?;
            Ok(Answer::Done)
        }
        Statement::DropMeasurement { name } => deletion::drop_measurement(name, context).await,
        Statement::Delete(deletion) => deletion::delete(deletion, context).await,
        Statement::DropSeries(deletion) => deletion::drop_series(deletion, context).await,
        Statement::ShowDatabases => Ok(Answer::Rows(vec![show::databases(context)], Chunks::Whole)),
        Statement::ShowRetentionPolicies { database } => {
            show::retention_policies(database.as_deref(), context)
        }
        Statement::ShowMeasurements(statement) => show::measurements(statement, context).await,
        Statement::ShowSeries(statement) => show::series(statement, context, &memory).await,
        Statement::ShowTagKeys(statement) => show::tag_keys(statement, context).await,
        Statement::ShowTagValues(statement) => show::tag_values(statement, context, &memory).await,
        Statement::ShowFieldKeys(statement) => show::field_keys(statement, context).await,
        Statement::ShowSeriesCardinality(statement) => {
            cardinality::show(Counted::Series, statement, context, &memory).await
        }
        Statement::ShowMeasurementCardinality(statement) => {
            cardinality::show(Counted::Measurements, statement, context, &memory).await
        }
        Statement::ShowTagKeyCardinality(statement) => {
            cardinality::show(Counted::TagKeys, statement, context, &memory).await
        }
        Statement::ShowTagValuesCardinality { cardinality, keys } => {
            cardinality::show(Counted::TagValues(keys), cardinality, context, &memory).await
        }
        Statement::ShowFieldKeyCardinality(statement) => {
            cardinality::show(Counted::FieldKeys, statement, context, &memory).await
        }
        Statement::CreateUser(create) => users::create(create, context).await,
        Statement::DropUser { name } => users::drop_user(name, context).await,
        Statement::SetPassword { user, password } => users::set_password(user, password, context).await,
        Statement::Grant { privilege, database, user } => {
            users::grant(*privilege, database, user, context).await
        }
        Statement::Revoke { privilege, database, user } => {
            users::revoke(*privilege, database, user, context).await
        }
        Statement::GrantAdmin { user } => users::set_admin(user, true, context).await,
        Statement::RevokeAdmin { user } => users::set_admin(user, false, context).await,
        Statement::CreateContinuousQuery(create) => continuous::create(create, context).await,
        Statement::DropContinuousQuery { name, database } => {
            context.catalog.drop_continuous_query(database, name).await?;
            Ok(Answer::Done)
        }
        Statement::ShowContinuousQueries => Ok(continuous::show(context)),
        Statement::ShowQueries => Ok(queries::show(context)),
        Statement::KillQuery { id, .. } => queries::kill(*id, context),
        Statement::ShowShards => Ok(shards::show(context).await),
        Statement::ShowShardGroups => Ok(shards::show_groups(context).await),
        Statement::DropShard { id } => shards::drop_shard(*id, context).await,
        Statement::ShowStats { module } => Ok(server_reports::show_stats(module.as_deref(), context).await),
        Statement::ShowDiagnostics { module } => {
            Ok(server_reports::show_diagnostics(module.as_deref(), context))
        }
        Statement::CreateSubscription(create) => subscriptions::create(create, context).await,
        Statement::DropSubscription { name, database, retention_policy } => {
            subscriptions::drop_subscription(database, retention_policy, name, context).await
        }
        Statement::ShowSubscriptions => Ok(subscriptions::show(context)),
        Statement::ShowUsers => Ok(users::show(context)),
        Statement::ShowGrants { user } => users::show_grants(user, context),
    }
}

/// The plan of a SELECT.
async fn plan_of(select: Select, context: &QueryContext) -> Result<Plan> {
    check_names(&select)?;
    let compiled = compile(select, context.now_ns).map_err(|error| Error::invalid(error.to_string()))?;
    let mut rewritten = rewrite(compiled.select, context).await?;
    if rewritten.time_column == "time" {
        rewritten.time_column = compiled.time_column;
    }
    let mut plan = Plan::build(rewritten, compiled.extra_windows, context)?;
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
