//! Canonical text of the statements other than SELECT.

use std::fmt::{Display, Formatter, Result};

use super::ast::MeasurementName;
use super::display::{Comma, write_clause, write_count, write_list};
use super::duration::{format_duration, go_duration};
use super::quote::{Identifier, Quoted};
use super::statement::{
    Counted, CreateContinuousQuery, CreateDatabase, CreateSubscription, CreateToken, Deletion, Expiry,
    PolicyClauses, RetentionPolicy, Show, ShowCardinality, Statement, TagKeys, Update,
};
use super::time::TimeLiteral;

/// Passwords are never printed.
const REDACTED: &str = "[REDACTED]";

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Statement::AlterMeasurement(alter) => alter.fmt(f),
            Statement::AlterRetentionPolicy(policy) => write!(f, "ALTER {policy}"),
            Statement::CreateContinuousQuery(create) => create.fmt(f),
            Statement::CreateDatabase(create) => create.fmt(f),
            Statement::CreateRetentionPolicy(policy) => write!(f, "CREATE {policy}"),
            Statement::CreateSubscription(create) => create.fmt(f),
            Statement::CreateUser(create) => {
                write!(f, "CREATE USER {} WITH PASSWORD {REDACTED}", Identifier(&create.name))?;
                f.write_str(if create.admin { " WITH ALL PRIVILEGES" } else { "" })
            }
            Statement::CreateToken(create) => create.fmt(f),
            Statement::Delete(deletion) => write!(f, "DELETE{deletion}"),
            Statement::DryRun(statement) => write!(f, "DRY RUN {statement}"),
            Statement::DropContinuousQuery { name, database } => {
                write!(f, "DROP CONTINUOUS QUERY {} ON {}", Identifier(name), Identifier(database))
            }
            Statement::DropDatabase { name } => write!(f, "DROP DATABASE {}", Identifier(name)),
            Statement::DropMeasurement { name } => write!(f, "DROP MEASUREMENT {}", Identifier(name)),
            Statement::DropRetentionPolicy { name, database } => {
                write!(f, "DROP RETENTION POLICY {} ON {}", Identifier(name), Identifier(database))
            }
            Statement::DropSeries(deletion) => write!(f, "DROP SERIES{deletion}"),
            Statement::DropShard { id } => write!(f, "DROP SHARD {id}"),
            Statement::DropSubscription { name, database, retention_policy } => {
                let (name, database, policy) =
                    (Identifier(name), Identifier(database), Identifier(retention_policy));
                write!(f, "DROP SUBSCRIPTION {name} ON {database}.{policy}")
            }
            Statement::DropToken { name } => write!(f, "DROP TOKEN {}", Identifier(name)),
            Statement::DropUser { name } => write!(f, "DROP USER {}", Identifier(name)),
            Statement::Explain { analyze, select } => {
                write!(f, "EXPLAIN {}{select}", if *analyze { "ANALYZE " } else { "" })
            }
            Statement::Grant { privilege, database, user } => {
                let (database, user) = (Identifier(database), Identifier(user));
                write!(f, "GRANT {} ON {database} TO {user}", privilege.as_str())
            }
            Statement::GrantAdmin { user } => write!(f, "GRANT ALL PRIVILEGES TO {}", Identifier(user)),
            Statement::KillQuery { id, host } => {
                write!(f, "KILL QUERY {id}")?;
                write_clause(f, "ON", host.as_deref().map(Identifier))
            }
            Statement::Revoke { privilege, database, user } => {
                let (database, user) = (Identifier(database), Identifier(user));
                write!(f, "REVOKE {} ON {database} FROM {user}", privilege.as_str())
            }
            Statement::RevokeAdmin { user } => write!(f, "REVOKE ALL PRIVILEGES FROM {}", Identifier(user)),
            Statement::Select(select) => select.fmt(f),
            Statement::SetPassword { user, .. } => {
                write!(f, "SET PASSWORD FOR {} = {REDACTED}", Identifier(user))
            }
            Statement::SetQuota { user, limits } => {
                write!(f, "SET QUOTA FOR {}", Identifier(user))?;
                limits.iter().enumerate().try_for_each(|(number, (name, most))| {
                    write!(f, "{} {} = {most}", if number == 0 { "" } else { "," }, Identifier(name))
                })
            }
            Statement::ShowAliases { database } => {
                f.write_str("SHOW ALIASES")?;
                write_clause(f, "ON", database.as_deref().map(Identifier))
            }
            Statement::ShowChanges => f.write_str("SHOW CHANGES"),
            Statement::ShowCardinality(show) => show.fmt(f),
            Statement::ShowContinuousQueries => f.write_str("SHOW CONTINUOUS QUERIES"),
            Statement::ShowDatabases => f.write_str("SHOW DATABASES"),
            Statement::ShowDiagnostics { module } => write_module(f, "SHOW DIAGNOSTICS", module.as_deref()),
            Statement::ShowFieldKeys(show) => write_show(f, "SHOW FIELD KEYS", show, None),
            Statement::ShowGrants { user } => write!(f, "SHOW GRANTS FOR {}", Identifier(user)),
            Statement::ShowMaintenance => f.write_str("SHOW MAINTENANCE"),
            Statement::ShowMeasurements(show) => {
                f.write_str("SHOW MEASUREMENTS")?;
                write_clause(f, "ON", show.database.as_deref().map(Identifier))?;
                if let Some(source) = show.sources.first() {
                    let operator = if matches!(source.name, MeasurementName::Regex(_)) { "=~" } else { "=" };
                    write!(f, " WITH MEASUREMENT {operator} {source}")?;
                }
                write_conditions(f, show)
            }
            Statement::ShowQueries => f.write_str("SHOW QUERIES"),
            Statement::ShowSlowestQueries => f.write_str("SHOW SLOWEST QUERIES"),
            Statement::ShowQuotas => f.write_str("SHOW QUOTAS"),
            Statement::ShowRetentionPolicies { database } => {
                f.write_str("SHOW RETENTION POLICIES")?;
                write_clause(f, "ON", database.as_deref().map(Identifier))
            }
            Statement::ShowSeries(show) => write_show(f, "SHOW SERIES", show, None),
            Statement::ShowShardGroups => f.write_str("SHOW SHARD GROUPS"),
            Statement::ShowShards => f.write_str("SHOW SHARDS"),
            Statement::ShowStats { module } => write_module(f, "SHOW STATS", module.as_deref()),
            Statement::ShowStorage(show) => write_show(f, "SHOW STORAGE", show, None),
            Statement::ShowSubscriptions => f.write_str("SHOW SUBSCRIPTIONS"),
            Statement::ShowTagKeys(show) => write_show(f, "SHOW TAG KEYS", show, None),
            Statement::ShowTagValues { keys, show } => write_show(f, "SHOW TAG VALUES", show, Some(keys)),
            Statement::ShowTokens => f.write_str("SHOW TOKENS"),
            Statement::ShowUsers => f.write_str("SHOW USERS"),
            Statement::Undo { change } => write!(f, "UNDO {change}"),
            Statement::Update(update) => update.fmt(f),
        }
    }
}

fn write_module(f: &mut Formatter<'_>, statement: &str, module: Option<&str>) -> Result {
    f.write_str(statement)?;
    write_clause(f, "FOR", module.filter(|module| !module.is_empty()).map(Quoted))
}

fn write_duration(f: &mut Formatter<'_>, keyword: &str, nanoseconds: Option<i64>) -> Result {
    write_clause(f, keyword, nanoseconds.map(format_duration))
}

impl Display for CreateToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE TOKEN {} FOR {}", Identifier(&self.name), Identifier(&self.user))?;
        for (number, (database, privilege)) in self.scope.iter().enumerate() {
            let separator = if number == 0 { " ON" } else { "," };
            write!(f, "{separator} {} {}", Identifier(database), privilege.as_str())?;
        }
        match self.expires {
            None => Ok(()),
            Some(Expiry::At(unix_ns)) => write!(f, " EXPIRES '{}'", TimeLiteral::utc(unix_ns.into())),
            Some(Expiry::In(duration_ns)) => write!(f, " EXPIRES IN {}", format_duration(duration_ns)),
        }
    }
}

impl Display for CreateContinuousQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE CONTINUOUS QUERY {} ON {}", Identifier(&self.name), Identifier(&self.database))?;
        let written = |nanoseconds: i64| Some(nanoseconds).filter(|nanoseconds| *nanoseconds > 0);
        if self.resample_every_ns > 0 || self.resample_for_ns > 0 {
            f.write_str(" RESAMPLE")?;
            write_duration(f, "EVERY", written(self.resample_every_ns))?;
            write_duration(f, "FOR", written(self.resample_for_ns))?;
        }
        write!(f, " BEGIN {} END", self.select)
    }
}

impl Display for CreateDatabase {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE DATABASE {}", Identifier(&self.name))?;
        let Some((policy, name)) = &self.retention_policy else { return Ok(()) };
        f.write_str(" WITH")?;
        write_policy(f, policy, clock_duration)?;
        write_clause(f, "NAME", name.as_deref().map(Identifier))?;
        // The one clause that leaves nothing to write; without it the text would end in WITH.
        let nothing_written = *policy == PolicyClauses::default() && name.is_none();
        f.write_str(if nothing_written { " SHARD DURATION INF" } else { "" })
    }
}

/// A duration in hours, minutes and seconds, which InfluxDB writes in this one statement; as everywhere else where
/// there is a fraction of a second.
fn clock_duration(nanoseconds: i64) -> String {
    if nanoseconds % 1_000_000_000 == 0 { go_duration(nanoseconds) } else { format_duration(nanoseconds) }
}

impl Display for RetentionPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "RETENTION POLICY {} ON {}", Identifier(&self.name), Identifier(&self.database))?;
        write_policy(f, &self.clauses, format_duration)?;
        f.write_str(if self.clauses.default { " DEFAULT" } else { "" })
    }
}

fn write_policy(f: &mut Formatter<'_>, policy: &PolicyClauses, shown: fn(i64) -> String) -> Result {
    write_clause(f, "DURATION", policy.duration_ns.map(shown))?;
    write_clause(f, "REPLICATION", policy.replication)?;
    write_clause(f, "SHARD DURATION", policy.shard_duration_ns.map(shown))?;
    write_duration(f, "FUTURE LIMIT", policy.future_limit_ns)?;
    write_duration(f, "PAST LIMIT", policy.past_limit_ns)
}

impl Display for CreateSubscription {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (name, database, policy) =
            (Identifier(&self.name), Identifier(&self.database), Identifier(&self.retention_policy));
        let mode = if self.to_all { "ALL" } else { "ANY" };
        let shown = |destination: &String| Quoted(&without_password(destination)).to_string();
        let destinations = self.destinations.iter().map(shown).collect::<Vec<_>>().join(", ");
        write!(f, "CREATE SUBSCRIPTION {name} ON {database}.{policy} DESTINATIONS {mode} {destinations}")
    }
}

/// A URL whose password, before its host or among its parameters, is not shown.
pub fn without_password(url: &str) -> String {
    let start = url.find("://").map_or(0, |scheme| scheme + 3);
    let (scheme, rest) = url.split_at(start);
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = &place[..place.find('/').unwrap_or(place.len())];
    let login = authority.rfind('@').and_then(|at| Some((authority[..at].find(':')?, at)));
    let mut shown = match login {
        Some((colon, at)) => format!("{scheme}{}:{REDACTED}{}", &place[..colon], &place[at..]),
        None => format!("{scheme}{place}"),
    };
    for (number, parameter) in parameters.split('&').filter(|_| rest.contains('?')).enumerate() {
        shown.push(if number == 0 { '?' } else { '&' });
        match parameter.strip_prefix("p=") {
            Some(_) => shown.push_str(&format!("p={REDACTED}")),
            None => shown.push_str(parameter),
        }
    }
    shown
}

impl Display for Deletion {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_list(f, "FROM", &self.sources)?;
        write_clause(f, "WHERE", self.condition.as_ref())
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "UPDATE {} SET ", self.measurement)?;
        for (position, (name, value)) in self.fields.iter().enumerate() {
            f.write_str(if position > 0 { ", " } else { "" })?;
            match value {
                Some(value) => write!(f, "{} = {value}", Identifier(name))?,
                None => write!(f, "{} = NULL", Identifier(name))?,
            }
        }
        write_clause(f, "WHERE", self.condition.as_ref())
    }
}

impl Display for ShowCardinality {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (counted, keys) = match &self.counted {
            Counted::Series => ("SERIES", None),
            Counted::Measurements => ("MEASUREMENT", None),
            Counted::TagKeys => ("TAG KEY", None),
            Counted::TagValues(keys) => ("TAG VALUES", Some(keys)),
            Counted::FieldKeys => ("FIELD KEY", None),
        };
        let exact = if self.exact { " EXACT" } else { "" };
        write_show(f, &format!("SHOW {counted}{exact} CARDINALITY"), &self.show, keys)
    }
}

fn write_show(f: &mut Formatter<'_>, statement: &str, show: &Show, keys: Option<&TagKeys>) -> Result {
    f.write_str(statement)?;
    write_clause(f, "ON", show.database.as_deref().map(Identifier))?;
    write_list(f, "FROM", &show.sources)?;
    write_clause(f, "WITH KEY", keys)?;
    write_conditions(f, show)
}

/// What follows the sources and keys.
fn write_conditions(f: &mut Formatter<'_>, show: &Show) -> Result {
    write_clause(f, "WHERE", show.condition.as_ref())?;
    write_list(f, "GROUP BY", &show.dimensions)?;
    write_clause(f, "ORDER BY", show.order.as_ref())?;
    write_count(f, "LIMIT", show.limit)?;
    write_count(f, "OFFSET", show.offset)?;
    write_count(f, "SLIMIT", show.slimit)?;
    write_count(f, "SOFFSET", show.soffset)
}

impl Display for TagKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TagKeys::In(keys) => {
                let keys: Vec<Identifier<'_>> = keys.iter().map(|key| Identifier(key)).collect();
                write!(f, "IN ({})", Comma(&keys))
            }
            TagKeys::Equal(key) => write!(f, "= {}", Identifier(key)),
            TagKeys::NotEqual(key) => write!(f, "!= {}", Identifier(key)),
            TagKeys::Matches(regex) => write!(f, "=~ {regex}"),
            TagKeys::NotMatches(regex) => write!(f, "!~ {regex}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_their_passwords() {
        for (url, shown) in [
            ("udp://h:1", "udp://h:1"),
            ("http://u@h:1/a?", "http://u@h:1/a?"),
            ("http://u:canary@h:1/a:b@c", "http://u:[REDACTED]@h:1/a:b@c"),
            ("http://u:can@ary@h:1", "http://u:[REDACTED]@h:1"),
            ("http://h:1/?u=x&p=canary&q=y", "http://h:1/?u=x&p=[REDACTED]&q=y"),
            ("x:canary@", "x:[REDACTED]@"),
            ("", ""),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
