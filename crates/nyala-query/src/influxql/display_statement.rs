//! Canonical text of the statements other than SELECT.

use std::fmt::{Display, Formatter, Result};

use super::ast::MeasurementName;
use super::display::{Comma, write_clause, write_count, write_list};
use super::duration::format_duration;
use super::quote::{Identifier, Quoted};
use super::statement::{
    AlterRetentionPolicy, CreateContinuousQuery, CreateDatabase, CreateRetentionPolicy, CreateSubscription,
    Deletion, ShowCardinality, ShowFieldKeys, ShowMeasurements, ShowSeries, ShowTagKeys, ShowTagValues,
    Statement, SubscriptionMode, TagKeys, WriteLimits,
};

/// Passwords are never printed.
const REDACTED: &str = "[REDACTED]";

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Statement::AlterRetentionPolicy(alter) => alter.fmt(f),
            Statement::CreateContinuousQuery(create) => create.fmt(f),
            Statement::CreateDatabase(create) => create.fmt(f),
            Statement::CreateRetentionPolicy(create) => create.fmt(f),
            Statement::CreateSubscription(create) => create.fmt(f),
            Statement::CreateUser(create) => {
                write!(f, "CREATE USER {} WITH PASSWORD {REDACTED}", Identifier(&create.name))?;
                f.write_str(if create.admin { " WITH ALL PRIVILEGES" } else { "" })
            }
            Statement::Delete(deletion) => write!(f, "DELETE{deletion}"),
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
            Statement::ShowContinuousQueries => f.write_str("SHOW CONTINUOUS QUERIES"),
            Statement::ShowDatabases => f.write_str("SHOW DATABASES"),
            Statement::ShowDiagnostics { module } => write_module(f, "SHOW DIAGNOSTICS", module.as_deref()),
            Statement::ShowFieldKeyCardinality(show) => write_cardinality(f, "SHOW FIELD KEY", show, None),
            Statement::ShowFieldKeys(show) => show.fmt(f),
            Statement::ShowGrants { user } => write!(f, "SHOW GRANTS FOR {}", Identifier(user)),
            Statement::ShowMeasurementCardinality(show) => {
                write_cardinality(f, "SHOW MEASUREMENT", show, None)
            }
            Statement::ShowMeasurements(show) => show.fmt(f),
            Statement::ShowQueries => f.write_str("SHOW QUERIES"),
            Statement::ShowRetentionPolicies { database } => {
                f.write_str("SHOW RETENTION POLICIES")?;
                write_clause(f, "ON", database.as_deref().map(Identifier))
            }
            Statement::ShowSeries(show) => show.fmt(f),
            Statement::ShowSeriesCardinality(show) => write_cardinality(f, "SHOW SERIES", show, None),
            Statement::ShowShardGroups => f.write_str("SHOW SHARD GROUPS"),
            Statement::ShowShards => f.write_str("SHOW SHARDS"),
            Statement::ShowStats { module } => write_module(f, "SHOW STATS", module.as_deref()),
            Statement::ShowSubscriptions => f.write_str("SHOW SUBSCRIPTIONS"),
            Statement::ShowTagKeyCardinality(show) => write_cardinality(f, "SHOW TAG KEY", show, None),
            Statement::ShowTagKeys(show) => show.fmt(f),
            Statement::ShowTagValues(show) => show.fmt(f),
            Statement::ShowTagValuesCardinality { cardinality, keys } => {
                write_cardinality(f, "SHOW TAG VALUES", cardinality, Some(keys))
            }
            Statement::ShowUsers => f.write_str("SHOW USERS"),
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

impl Display for WriteLimits {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_duration(f, "FUTURE LIMIT", self.future_ns)?;
        write_duration(f, "PAST LIMIT", self.past_ns)
    }
}

impl Display for AlterRetentionPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "ALTER RETENTION POLICY {} ON {}", Identifier(&self.name), Identifier(&self.database))?;
        write_duration(f, "DURATION", self.duration_ns)?;
        write_clause(f, "REPLICATION", self.replication)?;
        write_duration(f, "SHARD DURATION", self.shard_duration_ns)?;
        self.limits.fmt(f)?;
        f.write_str(if self.default { " DEFAULT" } else { "" })
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
        let Some(policy) = &self.retention_policy else { return Ok(()) };
        f.write_str(" WITH")?;
        write_clause(f, "DURATION", policy.duration_ns.map(clock_duration))?;
        write_clause(f, "REPLICATION", policy.replication)?;
        let shard_duration_ns = Some(policy.shard_duration_ns).filter(|duration| *duration > 0);
        write_clause(f, "SHARD DURATION", shard_duration_ns.map(clock_duration))?;
        policy.limits.fmt(f)?;
        write_clause(f, "NAME", policy.name.as_deref().map(Identifier))?;
        // The one clause that leaves nothing to write; without it the text would end in WITH.
        let nothing_written = policy.duration_ns.is_none()
            && policy.replication.is_none()
            && shard_duration_ns.is_none()
            && policy.limits == WriteLimits::default()
            && policy.name.is_none();
        f.write_str(if nothing_written { " SHARD DURATION INF" } else { "" })
    }
}

/// A duration in hours, minutes and seconds, which InfluxDB writes in this one statement; as everywhere else where
/// there is a fraction of a second.
fn clock_duration(nanoseconds: i64) -> String {
    const SECOND_NS: i64 = 1_000_000_000;
    let seconds = nanoseconds / SECOND_NS;
    match (seconds / 3_600, seconds / 60 % 60) {
        _ if nanoseconds % SECOND_NS != 0 => format_duration(nanoseconds),
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{}s", seconds % 60),
        (hours, minutes) => format!("{hours}h{minutes}m{}s", seconds % 60),
    }
}

impl Display for CreateRetentionPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE RETENTION POLICY {} ON {}", Identifier(&self.name), Identifier(&self.database))?;
        write!(f, " DURATION {} REPLICATION {}", format_duration(self.duration_ns), self.replication)?;
        write_duration(f, "SHARD DURATION", Some(self.shard_duration_ns).filter(|duration| *duration > 0))?;
        self.limits.fmt(f)?;
        f.write_str(if self.default { " DEFAULT" } else { "" })
    }
}

impl Display for CreateSubscription {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (name, database, policy) =
            (Identifier(&self.name), Identifier(&self.database), Identifier(&self.retention_policy));
        let mode = match self.mode {
            SubscriptionMode::All => "ALL",
            SubscriptionMode::Any => "ANY",
        };
        let destinations: Vec<String> =
            self.destinations.iter().map(|destination| without_password(destination)).collect();
        let destinations: Vec<Quoted<'_>> =
            destinations.iter().map(|destination| Quoted(destination)).collect();
        write!(
            f,
            "CREATE SUBSCRIPTION {name} ON {database}.{policy} DESTINATIONS {mode} {}",
            Comma(&destinations)
        )
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

fn write_cardinality(
    f: &mut Formatter<'_>,
    statement: &str,
    show: &ShowCardinality,
    keys: Option<&TagKeys>,
) -> Result {
    write!(f, "{statement}{} CARDINALITY", if show.exact { " EXACT" } else { "" })?;
    write_clause(f, "ON", show.database.as_deref().map(Identifier))?;
    write_list(f, "FROM", &show.sources)?;
    write_clause(f, "WITH KEY", keys)?;
    write_clause(f, "WHERE", show.condition.as_ref())?;
    write_list(f, "GROUP BY", &show.dimensions)?;
    write_count(f, "LIMIT", show.limit)?;
    write_count(f, "OFFSET", show.offset)
}

impl Display for ShowFieldKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SHOW FIELD KEYS")?;
        write_clause(f, "ON", self.database.as_deref().map(Identifier))?;
        write_list(f, "FROM", &self.sources)?;
        write_clause(f, "ORDER BY", self.order.as_ref())?;
        write_count(f, "LIMIT", self.limit)?;
        write_count(f, "OFFSET", self.offset)
    }
}

impl Display for ShowMeasurements {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SHOW MEASUREMENTS")?;
        write_clause(f, "ON", self.database.as_deref().map(Identifier))?;
        if let Some(source) = &self.source {
            let operator = if matches!(source.name, MeasurementName::Regex(_)) { "=~" } else { "=" };
            write!(f, " WITH MEASUREMENT {operator} {source}")?;
        }
        write_clause(f, "WHERE", self.condition.as_ref())?;
        write_clause(f, "ORDER BY", self.order.as_ref())?;
        write_count(f, "LIMIT", self.limit)?;
        write_count(f, "OFFSET", self.offset)
    }
}

impl Display for ShowSeries {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SHOW SERIES")?;
        write_clause(f, "ON", self.database.as_deref().map(Identifier))?;
        write_list(f, "FROM", &self.sources)?;
        write_clause(f, "WHERE", self.condition.as_ref())?;
        write_clause(f, "ORDER BY", self.order.as_ref())?;
        write_count(f, "LIMIT", self.limit)?;
        write_count(f, "OFFSET", self.offset)
    }
}

impl Display for ShowTagKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SHOW TAG KEYS")?;
        write_clause(f, "ON", self.database.as_deref().map(Identifier))?;
        write_list(f, "FROM", &self.sources)?;
        write_clause(f, "WHERE", self.condition.as_ref())?;
        write_clause(f, "ORDER BY", self.order.as_ref())?;
        write_count(f, "LIMIT", self.limit)?;
        write_count(f, "OFFSET", self.offset)?;
        write_count(f, "SLIMIT", self.slimit)?;
        write_count(f, "SOFFSET", self.soffset)
    }
}

impl Display for ShowTagValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SHOW TAG VALUES")?;
        write_clause(f, "ON", self.database.as_deref().map(Identifier))?;
        write_list(f, "FROM", &self.sources)?;
        write_clause(f, "WITH KEY", Some(&self.keys))?;
        write_clause(f, "WHERE", self.condition.as_ref())?;
        write_clause(f, "ORDER BY", self.order.as_ref())?;
        write_count(f, "LIMIT", self.limit)?;
        write_count(f, "OFFSET", self.offset)
    }
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
