//! The privileges that each statement needs. Nothing else decides that.
//!
//! A statement needs privileges on every database that it reads or writes, including those of subqueries, INTO and the
//! sources of SHOW. A database is resolved as in the executor: the one that is named, or else the request's.

use crate::influxql::{CreateContinuousQuery, Measurement, Select, ShowCardinality, Source, Statement};
use nyala_db::users::{Principal, Privilege};

/// A right that a statement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'a> {
    /// Those of an administrator.
    Admin,
    /// A privilege on a database; the empty name is the request's database.
    On(Privilege, &'a str),
}

/// All privileges that a statement needs.
pub fn needs(statement: &Statement) -> Vec<Need<'_>> {
    let mut needs = Vec::new();
    match statement {
        // What they show depends on the user.
        Statement::ShowChanges | Statement::ShowDatabases => {}
        // The database is known when the change is found: see `correction`.
        Statement::Undo { .. } => {}
        Statement::Select(select) | Statement::Explain { select, .. } => of_select(select, "", &mut needs),
        Statement::Delete(deletion) | Statement::DropSeries(deletion) => {
            needs.push(Need::On(Privilege::Write, ""));
            let named = deletion.sources.iter().filter_map(database_of);
            needs.extend(named.map(|database| Need::On(Privilege::Write, database)));
        }
        Statement::AlterMeasurement(alter) => {
            needs.push(Need::On(Privilege::Write, database_of(&alter.measurement).unwrap_or("")));
        }
        Statement::DryRun(statement) => return self::needs(statement),
        Statement::Update(update) => {
            needs.push(Need::On(Privilege::Write, database_of(&update.measurement).unwrap_or("")));
        }
        Statement::CreateContinuousQuery(create) => of_continuous_query(create, &mut needs),
        Statement::DropContinuousQuery { database, .. } | Statement::DropRetentionPolicy { database, .. } => {
            needs.push(Need::On(Privilege::Write, database));
        }
        Statement::ShowContinuousQueries | Statement::ShowQueries | Statement::ShowSlowestQueries => {
            needs.push(Need::On(Privilege::Read, ""));
        }
        Statement::ShowAliases { database } | Statement::ShowRetentionPolicies { database } => {
            of_show(database.as_deref(), &[], &mut needs)
        }
        Statement::ShowFieldKeys(show)
        | Statement::ShowMeasurements(show)
        | Statement::ShowSeries(show)
        | Statement::ShowStorage(show)
        | Statement::ShowTagKeys(show)
        | Statement::ShowTagValues { show, .. }
        | Statement::ShowCardinality(ShowCardinality { show, .. }) => {
            of_show(show.database.as_deref(), &show.sources, &mut needs);
        }
        Statement::AlterRetentionPolicy(_)
        | Statement::CreateDatabase(_)
        | Statement::CreateRetentionPolicy(_)
        | Statement::CreateSubscription(_)
        | Statement::CreateToken(_)
        | Statement::CreateUser(_)
        | Statement::DropDatabase { .. }
        | Statement::DropMeasurement { .. }
        | Statement::DropShard { .. }
        | Statement::DropSubscription { .. }
        | Statement::DropToken { .. }
        | Statement::DropUser { .. }
        | Statement::Grant { .. }
        | Statement::GrantAdmin { .. }
        | Statement::KillQuery { .. }
        | Statement::Revoke { .. }
        | Statement::RevokeAdmin { .. }
        | Statement::SetPassword { .. }
        | Statement::SetQuota { .. }
        | Statement::ShowDiagnostics { .. }
        | Statement::ShowGrants { .. }
        | Statement::ShowMaintenance
        | Statement::ShowQuotas
        | Statement::ShowShardGroups
        | Statement::ShowShards
        | Statement::ShowStats { .. }
        | Statement::ShowSubscriptions
        | Statement::ShowTokens
        | Statement::ShowUsers => needs.push(Need::Admin),
    }
    needs
}

fn database_of(measurement: &Measurement) -> Option<&str> {
    measurement.database.as_deref().filter(|database| !database.is_empty())
}

/// The needs of a SELECT. Sources and targets without a database are in `database`.
fn of_select<'a>(select: &'a Select, database: &'a str, needs: &mut Vec<Need<'a>>) {
    for source in &select.sources {
        match source {
            Source::Measurement(measurement) => {
                needs.push(Need::On(Privilege::Read, database_of(measurement).unwrap_or(database)));
            }
            Source::Subquery(inner) => of_select(inner, database, needs),
        }
    }
    if let Some(target) = &select.target {
        needs.push(Need::On(Privilege::Write, database_of(&target.measurement).unwrap_or(database)));
    }
}

/// A continuous query runs with all privileges, so its creator must have those that the query needs.
fn of_continuous_query<'a>(create: &'a CreateContinuousQuery, needs: &mut Vec<Need<'a>>) {
    needs.push(Need::On(Privilege::Read, &create.database));
    of_select(&create.select, &create.database, needs);
}

fn of_show<'a>(database: Option<&'a str>, sources: &'a [Measurement], needs: &mut Vec<Need<'a>>) {
    needs.push(Need::On(Privilege::Read, database.unwrap_or("")));
    needs.extend(sources.iter().filter_map(database_of).map(|database| Need::On(Privilege::Read, database)));
}

/// Checks that a user may execute all statements of a request whose database is `database`. The error is in InfluxDB's
/// words.
pub fn authorize(statements: &[Statement], principal: &Principal, database: &str) -> Result<(), String> {
    let user = match principal {
        Principal::Open => return Ok(()),
        Principal::FirstAdmin => {
            return match statements {
                [Statement::CreateUser(create)] if create.admin => Ok(()),
                _ => Err("create admin user first or disable authentication".into()),
            };
        }
        Principal::User(user) => user,
    };
    for statement in statements {
        for need in needs(statement) {
            let wanted = match need {
                Need::Admin if principal.is_admin() => continue,
                Need::Admin => "admin privilege".to_owned(),
                Need::On(privilege, named) => {
                    let database = if named.is_empty() { database } else { named };
                    if principal.may(privilege, database) {
                        continue;
                    }
                    format!("{} on {database}", privilege.name())
                }
            };
            let name = user.name();
            return Err(format!(
                "{name} not authorized to execute statement '{statement}', requires {wanted}"
            ));
        }
    }
    Ok(())
}
