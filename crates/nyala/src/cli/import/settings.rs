//! Creates databases, retention policies, continuous queries, subscriptions and users, by statements of InfluxQL. What
//! exists already stays as it is.

use super::destination::Destination;
use super::report::Outcome;
use super::source::Source;
use nyala_db::users::Privilege;
use nyala_influxdb::meta::{Database, Meta, Policy, User};
use nyala_query::influxql::{identifier, literal, without_password};
use ring::rand::{SecureRandom, SystemRandom};

/// A statement, and the database that it is executed in.
struct Step {
    database: String,
    text: String,
    thing: Thing,
}

/// What a statement creates.
enum Thing {
    Database,
    Policy(Policy),
    Query(String),
    Subscription { policy: String, name: String, destinations: Vec<String> },
}

/// Whether something is there already.
enum Presence {
    Absent,
    Same,
    Different,
}

/// Creates what the source has.
pub(super) fn apply(source: &Source, subscriptions: bool, destination: &Destination, outcome: &mut Outcome) {
    outcome.notes.extend(source.notes.iter().cloned());
    for step in statements(&source.meta, subscriptions) {
        match step.presence(destination) {
            Presence::Absent => {
                if let Err(error) = destination.execute(&step.database, &step.text) {
                    let error = step.thing.without_passwords(error);
                    outcome.refused.push(format!("{} was not created: {error}", step.name()));
                }
            }
            Presence::Same => {}
            Presence::Different => {
                outcome
                    .notes
                    .push(format!("{} exists with other settings, and was not changed", step.name()));
            }
        }
    }
    for user in &source.meta.users {
        match destination.has_user(&user.name) {
            true => outcome.notes.push(format!("user {:?} exists, and was not changed", user.name)),
            false => create_user(user, destination, outcome),
        }
    }
}

impl Thing {
    /// An error about it, as a report may show it: URLs of subscriptions have passwords.
    fn without_passwords(&self, error: String) -> String {
        let Thing::Subscription { destinations, .. } = self else { return error };
        destinations.iter().fold(error, |error, url| error.replace(url, &without_password(url)))
    }
}

impl Step {
    fn name(&self) -> String {
        let database = &self.database;
        match &self.thing {
            Thing::Database => format!("database {database:?}"),
            Thing::Policy(policy) => format!("retention policy {:?} of {database:?}", policy.name),
            Thing::Query(name) => format!("continuous query {name:?} of {database:?}"),
            Thing::Subscription { policy, name, .. } => {
                format!("subscription {name:?} of {database:?}, policy {policy:?}")
            }
        }
    }

    fn presence(&self, destination: &Destination) -> Presence {
        let Some(known) = destination.database(&self.database) else { return Presence::Absent };
        match &self.thing {
            Thing::Database => Presence::Same,
            Thing::Policy(policy) => match known.policies.iter().find(|own| own.name == policy.name) {
                None => Presence::Absent,
                Some(own) if own.duration_ns == policy.duration_ns => Presence::Same,
                Some(_) => Presence::Different,
            },
            // One with the same text may be created again.
            Thing::Query(_) => Presence::Absent,
            Thing::Subscription { policy, name, .. } => {
                match known.subscriptions.iter().any(|own| own.policy == *policy && own.name == *name) {
                    true => Presence::Same,
                    false => Presence::Absent,
                }
            }
        }
    }
}

fn statements(meta: &Meta, subscriptions: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for database in &meta.databases {
        let name = &database.name;
        let mut step = |thing: Thing, text: String| steps.push(Step { database: name.clone(), text, thing });
        step(Thing::Database, create_database(database));
        for policy in &database.policies {
            let (own, of) = (identifier(&policy.name), identifier(name));
            let is_default = if policy.name == database.default_policy { " DEFAULT" } else { "" };
            let text = format!("CREATE RETENTION POLICY {own} ON {of} {}{is_default}", durations(policy));
            step(Thing::Policy(policy.clone()), text);
        }
        for query in &database.continuous_queries {
            step(Thing::Query(query.name.clone()), query.text.clone());
        }
        let of_policies = database
            .policies
            .iter()
            .flat_map(|policy| policy.subscriptions.iter().map(move |subscription| (policy, subscription)));
        for (policy, subscription) in of_policies.filter(|_| subscriptions) {
            let destinations: Vec<String> =
                subscription.destinations.iter().map(|url| literal(url)).collect();
            let text = format!(
                "CREATE SUBSCRIPTION {} ON {}.{} DESTINATIONS {} {}",
                identifier(&subscription.name),
                identifier(name),
                identifier(&policy.name),
                if subscription.mode.eq_ignore_ascii_case("ANY") { "ANY" } else { "ALL" },
                destinations.join(", ")
            );
            let (policy, name) = (policy.name.clone(), subscription.name.clone());
            let destinations = subscription.destinations.clone();
            step(Thing::Subscription { policy, name, destinations }, text);
        }
    }
    steps
}

/// Creates a database with its first policy: a policy that is the default is created after it, so that policies keep
/// their order.
fn create_database(database: &Database) -> String {
    let name = identifier(&database.name);
    match database.policies.first() {
        Some(policy) => {
            format!("CREATE DATABASE {name} WITH {} NAME {}", durations(policy), identifier(&policy.name))
        }
        None => format!("CREATE DATABASE {name}"),
    }
}

/// The clauses of a policy that say how long points are kept.
pub(in crate::cli) fn durations(policy: &Policy) -> String {
    policy_clauses(policy.duration_ns, policy.replication, policy.shard_duration_ns)
}

/// The same of durations, of which 0 is none.
pub(in crate::cli) fn policy_clauses(duration_ns: i64, replication: u32, shard_duration_ns: i64) -> String {
    let duration = match duration_ns {
        0 => "INF".to_owned(),
        duration_ns => format!("{duration_ns}ns"),
    };
    let mut text = format!("DURATION {duration} REPLICATION {}", replication.max(1));
    if shard_duration_ns > 0 {
        text += &format!(" SHARD DURATION {shard_duration_ns}ns");
    }
    text
}

/// Creates a user with a password that nobody knows: InfluxDB's hashes cannot be verified. Its privileges come with it, because a
/// user who is there stays as it is when an interrupted import is repeated.
fn create_user(user: &User, destination: &Destination, outcome: &mut Outcome) {
    let mut secret = [0_u8; 32];
    if SystemRandom::new().fill(&mut secret).is_err() {
        let words = "the operating system gives no random numbers";
        return outcome.refused.push(format!("user {:?} was not created: {words}", user.name));
    }
    let password: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let grants = user.privileges.iter().filter_map(|grant| {
        let privilege = match grant.privilege {
            1 => Privilege::Read,
            2 => Privilege::Write,
            3 => Privilege::All,
            _ => return None,
        };
        // A database that was not created is reported.
        destination.database(&grant.database)?;
        Some((grant.database.clone(), privilege))
    });
    match destination.create_user(&user.name, &password, user.admin, &grants.collect()) {
        Ok(()) => outcome.users_without_password.push(user.name.clone()),
        Err(error) => outcome.refused.push(format!("user {:?} was not created: {error}", user.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_that_is_refused_is_reported_without_its_password() {
        let urls = ["http://ann:pa\\ss@h:8086", "http://h:9092"].map(str::to_owned);
        let error = format!("invalid subscription URL: {}", urls[0]);
        let thing = Thing::Subscription { policy: "p".into(), name: "s".into(), destinations: urls.to_vec() };
        let shown = thing.without_passwords(error);
        assert!(shown.starts_with("invalid subscription URL: http://ann:") && shown.ends_with("@h:8086"));
        assert!(!shown.contains("pa\\ss"), "{shown}");
    }
}
