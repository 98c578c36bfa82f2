//! Restores a part of a backup: databases and policies first, then points, measurement by measurement, then tables of SQL.

use super::RestoreArgs;
use super::line_requests::LineRequests;
use super::points;
use super::selection::Selection;
use super::source::Source;
use super::tables::{self, Copied};
use super::target::Target;
use super::written::Written;
use crate::backup::destination::Destination;
use crate::backup::manifest::Manifest;
use crate::cli::import::destination::Destination as DataDirectory;
use crate::cli::import::settings::policy_clauses;
use crate::cli::server::Server;
use nyala_bench::report::progress::Progress;
use nyala_db::catalog::{Database, RetentionPolicy, TableName};
use nyala_db::users::Privilege;
use nyala_query::influxql::identifier;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// What came of a restore.
#[derive(Default)]
struct Outcome {
    text: String,
    /// Whether something that was asked for is not there.
    is_incomplete: bool,
}

/// Restores, and returns whether everything was restored. Says when it has begun to change the target.
pub(super) fn restore(
    args: &RestoreArgs,
    destination: &Destination,
    manifest: &Manifest,
    has_begun: &mut bool,
) -> Result<bool, String> {
    let begun = Instant::now();
    let selection = &args.selection;
    let source = Source::open(destination, manifest, selection.at, args.memory_limit.0 as u64)?;
    let databases = selected(&source, selection)?;
    let target = match &args.data_dir {
        Some(data_dir) => Target::Directory(DataDirectory::open(data_dir, args.memory_limit)?),
        None => Target::Server(LineRequests::to(Server::of(&args.server)?)),
    };
    let (mut outcome, mut points) = (Outcome::default(), 0);
    let mut progress = Progress::start("restoring");
    let all = databases.iter().map(|database| points_of(&source, database, selection)).sum::<u64>().max(1);
    for database in &databases {
        let created = create(database, selection, &target, &mut outcome)?;
        *has_begun = true;
        points += restore_points(&source, database, selection, &target, &mut outcome, &mut |written| {
            progress.update((points + written) as f64 / all as f64, || {
                let rate = (points + written) as f64 / begun.elapsed().as_secs_f64();
                format!("{} points, {rate:.0}/s, in {}", points + written, database.name)
            });
        })?;
        let name = selection.database_name(&database.name);
        for policy in created {
            let limits = (policy.future_limit_ns, policy.past_limit_ns);
            if let Err(words) = limit_writes(policy, name, limits, &target)? {
                outcome.missing(format_args!("the limits of policy {name}.{}: {words}", policy.name));
            }
        }
        if selection.grants {
            grant(&source, database, selection, &target, &mut outcome);
        }
        if selection.has_whole_databases() {
            restore_others(&source, database, selection, &target, &mut outcome);
        }
    }
    progress.clear();
    target.close()?;
    outcome.line(format_args!(
        "{points} points were restored from {} in {:.1} s",
        manifest.name,
        begun.elapsed().as_secs_f64()
    ));
    if selection.at.is_some() {
        outcome.line(format_args!(
            "what was dropped as a whole after that moment (DROP MEASUREMENT, DROP DATABASE, DROP TABLE …) is not in it: \
             an earlier backup has it"
        ));
    }
    if selection.has_whole_databases() {
        let grants = if selection.grants { "" } else { ", and grants with --grants" };
        outcome.line(format_args!(
            "users, tokens and subscriptions are not restored this way: they come with a restore of everything{grants}"
        ));
    }
    let written = std::io::stdout().write_all(outcome.text.as_bytes());
    written.map_err(|error| format!("writing the report: {error}"))?;
    Ok(!outcome.is_incomplete)
}

/// The databases that are restored. What is named must be there.
fn selected(source: &Source, selection: &Selection) -> Result<Vec<Arc<Database>>, String> {
    let mut databases = source.catalog.databases();
    if let Some(name) = selection.database.iter().find(|name| source.catalog.database(name).is_none()) {
        return Err(format!("the backup has no database {name:?}"));
    }
    databases.retain(|database| selection.has_database(&database.name));
    let policies =
        || databases.iter().flat_map(|database| database.policies.iter().map(move |own| (database, own)));
    if !policies().any(|(_, policy)| selection.has_policy(&policy.name)) {
        return Err("the backup has no such retention policy in these databases".to_owned());
    }
    for name in &selection.measurement {
        let has = |(database, policy): (&Arc<Database>, &RetentionPolicy)| {
            selection.has_policy(&policy.name)
                && source.catalog.has_measurement(&database.name, &policy.name, name)
        };
        if !policies().any(has) {
            return Err(format!("the backup has no measurement {name:?} there"));
        }
    }
    Ok(databases)
}

/// Creates a database with its policies, as far as it lacks them. Returns those that are as in the backup, but for how far from
/// now points may lie: that would refuse older points of the backup.
fn create<'a>(
    database: &'a Database,
    selection: &Selection,
    target: &Target,
    outcome: &mut Outcome,
) -> Result<Vec<&'a RetentionPolicy>, String> {
    let name = selection.database_name(&database.name);
    let mut created = Vec::new();
    let mut policies: Vec<&RetentionPolicy> =
        database.policies.iter().filter(|policy| selection.has_policy(&policy.name)).collect();
    // The first one is that which a database is created with.
    policies.sort_by_key(|policy| policy.name != database.default_policy);
    for (number, policy) in policies.into_iter().enumerate() {
        let (of, own) = (identifier(name), identifier(&policy.name));
        let text = match number {
            0 => format!("CREATE DATABASE {of} WITH {} NAME {own}", durations(policy)),
            _ => format!("CREATE RETENTION POLICY {own} ON {of} {}", durations(policy)),
        };
        let mut done = target.execute("", &text)?;
        // The database may have other policies, and this one among them: as it is created here, as it becomes when all is
        // restored, or with other settings.
        for limits in std::iter::once(String::new()).chain(limits_of(policy)) {
            if done.is_err() {
                let text = format!("CREATE RETENTION POLICY {own} ON {of} {}{limits}", durations(policy));
                done = target.execute("", &text)?;
            }
        }
        if done.is_ok() {
            done = limit_writes(policy, name, (0, 0), target)?;
        }
        match done {
            Ok(()) => created.push(policy),
            Err(words) => {
                outcome.line(format_args!("note: policy {name}.{} stays as it is: {words}", policy.name));
            }
        }
    }
    Ok(created)
}

/// Sets how far after and before now points may lie, ns, if the policy of the backup has such limits.
fn limit_writes(
    policy: &RetentionPolicy,
    database: &str,
    (future_ns, past_ns): (i64, i64),
    target: &Target,
) -> Result<Result<(), String>, String> {
    if policy.future_limit_ns == 0 && policy.past_limit_ns == 0 {
        return Ok(Ok(()));
    }
    let (of, own) = (identifier(database), identifier(&policy.name));
    let limits = format!("FUTURE LIMIT {future_ns}ns PAST LIMIT {past_ns}ns");
    target.execute("", &format!("ALTER RETENTION POLICY {own} ON {of} {limits}"))
}

/// The clauses of the limits that a policy has.
fn limits_of(policy: &RetentionPolicy) -> Option<String> {
    let clause = |(name, limit_ns): (&str, i64)| match limit_ns {
        0 => String::new(),
        _ => format!(" {name} LIMIT {limit_ns}ns"),
    };
    let clauses = [("FUTURE", policy.future_limit_ns), ("PAST", policy.past_limit_ns)].map(clause).concat();
    (!clauses.is_empty()).then_some(clauses)
}

fn durations(policy: &RetentionPolicy) -> String {
    policy_clauses(policy.duration_ns, policy.replication, policy.shard_duration_ns)
}

/// How many points of a database there are to restore, at most: of all times, and as far as they are counted.
fn points_of(source: &Source, database: &Database, selection: &Selection) -> u64 {
    let sizes = source.block_on(source.catalog.table_sizes(&database.name)).unwrap_or_default();
    let is_selected = |own: &TableName| {
        own.policy.as_ref().is_some_and(|policy| selection.has_policy(policy))
            && selection.has_measurement(&own.name)
    };
    sizes.iter().filter(|own| is_selected(&own.table)).filter_map(|own| own.rows).sum()
}

/// Restores the points of a database, and returns their number.
fn restore_points(
    source: &Source,
    database: &Database,
    selection: &Selection,
    target: &Target,
    outcome: &mut Outcome,
    watch: &mut dyn FnMut(u64),
) -> Result<u64, String> {
    let mut total = 0;
    let new_name = selection.database_name(&database.name);
    for policy in database.policies.iter().filter(|policy| selection.has_policy(&policy.name)) {
        let names = source.catalog.measurement_names(&database.name, &policy.name);
        for name in names.iter().filter(|name| selection.has_measurement(name)) {
            let found = source.block_on(source.catalog.measurement(&database.name, &policy.name, name));
            let Some(measurement) = found.map_err(|error| format!("{name}: {error}"))? else { continue };
            let mut writing = target.write_to(new_name, &policy.name);
            let new_measurement = selection.measurement_name(name);
            let mut add = |points: super::target::Points<'_>| {
                writing.add(points)?;
                watch(total + writing.written.points);
                Ok(())
            };
            let read = points::read(source, &measurement, new_measurement, selection.time(), &mut add);
            let place = format!("{new_name}.{}.{new_measurement}", policy.name);
            let left_out = read.and_then(|left_out| writing.flush().map(|()| left_out));
            let left_out = left_out.map_err(|words| format!("{place}: {words}"))?;
            total += writing.written.points;
            outcome.measurement(&place, &writing.written, left_out);
        }
    }
    Ok(total)
}

/// Grants what was granted on a database to those users who are there. Who is not would have to be made, with the password of
/// then.
fn grant(
    source: &Source,
    database: &Database,
    selection: &Selection,
    target: &Target,
    outcome: &mut Outcome,
) {
    let name = selection.database_name(&database.name);
    for user in source.catalog.users().all() {
        let privilege = user.grants().get(&database.name).copied().unwrap_or(Privilege::None);
        if privilege == Privilege::None {
            continue;
        }
        let (own, privilege) = (user.name(), privilege.name());
        let text = format!("GRANT {privilege} ON {} TO {}", identifier(name), identifier(own));
        match target.execute("", &text).and_then(|done| done) {
            Ok(()) => outcome.line(format_args!("granted: {privilege} ON {name} TO {own}")),
            Err(words) => outcome.missing(format_args!("{privilege} on {name} to {own}: {words}")),
        }
    }
}

/// Restores what a database has beside points.
fn restore_others(
    source: &Source,
    database: &Database,
    selection: &Selection,
    target: &Target,
    outcome: &mut Outcome,
) {
    let name = selection.database_name(&database.name);
    for query in &database.continuous_queries {
        // Its text names the database.
        let words = match name == database.name {
            true => target.execute(name, &query.text).and_then(|done| done),
            false => Err("its text names the database as it was".to_owned()),
        };
        if let Err(words) = words {
            outcome.missing(format_args!("continuous query {:?}: {words}", query.name));
        }
    }
    let relations = source.catalog.relations().of(&database.name);
    match target {
        _ if relations.is_empty() => {}
        Target::Server(_) => outcome.missing(format_args!(
            "{} tables and views of SQL in {}: they are restored to a data directory only (--data-dir)",
            relations.len(),
            database.name
        )),
        Target::Directory(directory) => {
            let mut copied = Copied::default();
            tables::copy(source, directory, &database.name, name, &mut copied);
            let Copied { tables, rows, views, sequences, refused } = copied;
            let beside = format!("{views} views, {sequences} sequences");
            outcome.line(format_args!("{name}: {tables} tables of SQL with {rows} rows, {beside}"));
            refused.iter().for_each(|words| outcome.missing(format_args!("{words}")));
        }
    }
}

impl Outcome {
    fn line(&mut self, words: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{words}").expect("writing to memory does not fail");
    }

    /// Reports what is not restored.
    fn missing(&mut self, words: std::fmt::Arguments<'_>) {
        self.is_incomplete = true;
        self.line(format_args!("not restored: {words}"));
    }

    fn measurement(&mut self, place: &str, written: &Written, left_out: u64) {
        let Written { points, expired, refused } = written;
        self.line(format_args!("{place}: {points} points"));
        if *expired > 0 {
            self.missing(format_args!(
                "{expired} points of {place}: they are older than their policy keeps them"
            ));
        }
        if left_out > 0 {
            self.missing(format_args!("{left_out} values of {place}: they are no finite numbers"));
        }
        refused.iter().for_each(|words| self.missing(format_args!("points of {place}: {words}")));
    }
}
