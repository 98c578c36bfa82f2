//! `nyala shadow start` and `stop`: InfluxDB sends to nyala what is written to it, or does so no longer.

use super::schema::{databases, policies};
use super::servers::{Server, Servers, ServersArgs};
use super::subscription::{self, Subscription, leads_to, place_of};
use crate::cli::import::settings::durations;
use clap::Args;
use nyala_influxdb::meta::Policy;
use nyala_query::influxql::{identifier, literal, without_password};
use nyala_shell::CtrlC;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write as _;

pub(super) const START_EXAMPLES: &str = "\
Creates in nyala the databases and retention policies that it lacks, with the same durations, and in InfluxDB a subscription
of each policy that sends to nyala every point that is written. What is there already stays, so the command can be repeated: for
databases and policies that were created since. If nyala asks for a log-in, name with --writer a user of nyala who may
write, and nothing else: InfluxDB shows the password to its administrators, and writes it to its log.

A subscription does not carry everything: the command says what.

Exit code: 0 everything is sent, 1 not (what was created stays; repeat the command, or say `nyala shadow stop`).

Examples:
  nyala shadow start                                     every database, from 127.0.0.1:8086 to 127.0.0.1:8087
  nyala shadow start --database telegraf
  nyala shadow start --destination http://nyala:8086     the address of nyala as InfluxDB's machine sees it
  NYALA_PASSWORD=… NYALA_WRITER_PASSWORD=… nyala shadow start --nyala-username admin --writer mirror";

pub(super) const STOP_EXAMPLES: &str = "\
Exit code: 0 nothing is sent any more, 1 not done.

Examples:
  nyala shadow stop
  nyala shadow stop --database telegraf";

/// What the user must know.
const NOT_CARRIED: &str = "\
A subscription carries the points that are written from now on, results of continuous queries among them. It does not carry
  - points that are there already: import them (nyala import influxdb)
  - DELETE, DROP, new databases and policies (start again), changes of policies, users, and continuous queries themselves
  - points that are written while nyala does not answer: InfluxDB does not send them again and tells nobody. `nyala shadow
    compare` counts lost requests, and names the rows that lack
  - the order of two writes of one point within a moment: InfluxDB sends up to 40 requests at once. With write-concurrency = 1
    in the section [subscriber] of its settings it keeps the order
";

/// Which subscriptions.
#[derive(Debug, Args)]
pub(super) struct Scope {
    /// This database only; may be given several times [default: all but _internal]
    #[arg(long, value_name = "NAME")]
    database: Vec<String>,
    /// This retention policy only [default: all]
    #[arg(long, value_name = "NAME")]
    retention_policy: Option<String>,
    /// The name of the subscriptions in InfluxDB
    #[arg(long, value_name = "NAME", default_value = "nyala")]
    name: String,
}

/// What to send.
#[derive(Debug, Args)]
pub(in crate::cli) struct StartArgs {
    #[command(flatten)]
    scope: Scope,
    /// The address of nyala as InfluxDB's machine sees it [default: that of --nyala]
    #[arg(long, value_name = "URL")]
    destination: Option<String>,
    /// InfluxDB writes as this user of nyala; the password comes from NYALA_WRITER_PASSWORD or a prompt
    #[arg(long, value_name = "NAME")]
    writer: Option<String>,
    #[command(flatten)]
    servers: ServersArgs,
}

/// What to send no longer.
#[derive(Debug, Args)]
pub(in crate::cli) struct StopArgs {
    #[command(flatten)]
    scope: Scope,
    /// The address of nyala as InfluxDB's machine sees it, if `start` was told one [default: that of --nyala]
    #[arg(long, value_name = "URL")]
    destination: Option<String>,
    #[command(flatten)]
    servers: ServersArgs,
}

/// A user of nyala who writes what InfluxDB sends.
struct Writer {
    /// What stands before the host in a URL.
    in_url: String,
    /// nyala, asked by that user.
    nyala: Server,
}

/// Returns what was done.
pub(super) fn start(args: &StartArgs) -> Result<String, String> {
    let servers = args.servers.open(&CtrlC::default())?;
    check_kinds(&servers)?;
    let writer = args.writer(&servers.nyala)?;
    let destination = destination(args.destination.as_deref(), &servers.nyala, &writer)?;
    let scope = &args.scope;
    let (there, back) = (subscription::list(&servers.influxdb)?, subscription::list(&servers.nyala)?);
    let mut done = String::new();
    for database in databases(&servers.influxdb, &scope.database)? {
        let mut wanted = policies(&servers.influxdb, &database)?.unwrap_or_default();
        wanted.retain(|(policy, _)| scope.has_policy(&policy.name));
        for (policy, _) in &wanted {
            check_circle(&back, &database, &policy.name, &servers)?;
        }
        let notes = create_policies(&servers.nyala, &database, &wanted)?;
        notes.iter().for_each(|note| line(&mut done, note));
        for (policy, _) in &wanted {
            let place = format!("{database}.{}", policy.name);
            writer
                .nyala
                .try_write(&database, &policy.name)
                .map_err(|error| format!("{place}: {error}{}", args.hint()))?;
            let own = Subscription {
                database: database.clone(),
                policy: policy.name.clone(),
                name: scope.name.clone(),
                destinations: vec![destination.clone()],
            };
            let words = create(&servers.influxdb, &there, &own)?;
            line(&mut done, &format!("{place}: {words} to {}", without_password(&destination)));
        }
    }
    if done.is_empty() {
        return Err("there is no such policy".to_owned());
    }
    done.push_str(NOT_CARRIED);
    Ok(done)
}

/// Returns what was done.
pub(super) fn stop(args: &StopArgs) -> Result<String, String> {
    if args.destination.as_ref().is_some_and(|named| place_of(named).is_none()) {
        return Err("--destination must begin with http:// or https://".to_owned());
    }
    let servers = args.servers.open(&CtrlC::default())?;
    let scope = &args.scope;
    let mut done = String::new();
    for sent in subscription::sent(&servers) {
        line(&mut done, &sent.line());
    }
    let all = subscription::list(&servers.influxdb)?;
    let is_meant = |own: &&Subscription| {
        own.name == scope.name
            && (scope.database.is_empty() || scope.database.contains(&own.database))
            && scope.has_policy(&own.policy)
    };
    // InfluxDB may send to another nyala, too.
    let leads_here = |url: &String| {
        let named = args.destination.as_deref();
        leads_to(url, &servers.nyala.target) || named.is_some_and(|named| place_of(named) == place_of(url))
    };
    let (meant, others): (Vec<&Subscription>, Vec<&Subscription>) =
        all.iter().filter(is_meant).partition(|own| own.destinations.iter().all(leads_here));
    for Subscription { database, policy, name, destinations } in others {
        let to: Vec<String> = destinations.iter().map(|url| without_password(url)).collect();
        let words = format!(
            "{database}.{policy}: subscription {name:?} sends to {}, which is not this nyala: say --destination if it is",
            to.join(", ")
        );
        if meant.is_empty() {
            return Err(words);
        }
        line(&mut done, &words);
    }
    for own in &meant {
        let Subscription { database, policy, name, destinations } = own;
        let place = format!("{}.{}", identifier(database), identifier(policy));
        servers.influxdb.execute("", &format!("DROP SUBSCRIPTION {} ON {place}", identifier(name)))?;
        let to: Vec<String> = destinations.iter().map(|url| without_password(url)).collect();
        line(&mut done, &format!("{database}.{policy}: no longer sent to {}", to.join(", ")));
    }
    if meant.is_empty() {
        line(&mut done, &format!("InfluxDB has no subscription {:?} there: nothing is sent", scope.name));
    }
    Ok(done)
}

impl Scope {
    fn has_policy(&self, name: &str) -> bool {
        self.retention_policy.as_ref().is_none_or(|own| own == name)
    }
}

impl StartArgs {
    fn writer(&self, nyala: &Server) -> Result<Writer, String> {
        const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
        const VARIABLE: &str = "NYALA_WRITER_PASSWORD";
        let Some(name) = &self.writer else {
            return Ok(Writer { in_url: String::new(), nyala: nyala.with_credentials(String::new()) });
        };
        let password = nyala_shell::password_of(name, VARIABLE)?;
        let encoded = |text: &str| utf8_percent_encode(text, UNRESERVED).to_string();
        let credentials = nyala_shell::basic(name, &password)?;
        Ok(Writer {
            in_url: format!("{}:{}@", encoded(name), encoded(&password)),
            nyala: nyala.with_credentials(credentials),
        })
    }

    fn hint(&self) -> &'static str {
        match self.writer {
            Some(_) => {
                ". So answered nyala to the user that --writer names, with the password in NYALA_WRITER_PASSWORD"
            }
            None => ". So answered nyala to somebody without a name: name with --writer a user who may write",
        }
    }
}

/// The addresses could be mixed up.
fn check_kinds(servers: &Servers) -> Result<(), String> {
    let Servers { influxdb, nyala } = servers;
    if influxdb.is_nyala()? {
        return Err(format!("{} is no InfluxDB 1.x: are --influxdb and --nyala mixed up?", influxdb.named()));
    }
    match nyala.is_nyala()? {
        true => Ok(()),
        false => Err(format!("{} is no nyala: are --influxdb and --nyala mixed up?", nyala.named())),
    }
}

/// Points would go round for ever if both sent each other what they get.
fn check_circle(
    back: &[Subscription],
    database: &str,
    policy: &str,
    servers: &Servers,
) -> Result<(), String> {
    let of_place = back.iter().filter(|own| own.database == database && own.policy == policy);
    let leads_back =
        |own: &&Subscription| own.destinations.iter().any(|url| leads_to(url, &servers.influxdb.target));
    match of_place.into_iter().find(leads_back) {
        None => Ok(()),
        Some(own) => Err(format!(
            "nyala sends {database}.{policy} to this InfluxDB (subscription {:?}): points would go round for ever. Drop it \
             in nyala first: DROP SUBSCRIPTION {} ON {}.{}",
            own.name,
            identifier(&own.name),
            identifier(database),
            identifier(policy)
        )),
    }
}

/// The URL that InfluxDB sends to.
fn destination(named: Option<&str>, nyala: &Server, writer: &Writer) -> Result<String, String> {
    let url = named.map_or_else(|| nyala.target.url(), str::to_owned);
    let parts = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
    let (scheme, place) = parts.ok_or("--destination must begin with http:// or https://")?;
    let place = place.trim_end_matches('/');
    if place.is_empty() || place.contains(['@', '/', '?', '#', ' ']) {
        return Err("--destination is http://host:port: a user of nyala is named by --writer".to_owned());
    }
    Ok(format!("{scheme}://{}{place}", writer.in_url))
}

/// Creates in nyala the policies that it lacks, and returns what there is to say.
fn create_policies(nyala: &Server, database: &str, wanted: &[(Policy, bool)]) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let Some((first, _)) = wanted.first() else { return Ok(notes) };
    let of = identifier(database);
    let known = match policies(nyala, database)? {
        Some(known) => known,
        None => {
            let name = identifier(&first.name);
            nyala.execute("", &format!("CREATE DATABASE {of} WITH {} NAME {name}", durations(first)))?;
            notes.push(format!("{database}: created in nyala"));
            vec![(first.clone(), false)]
        }
    };
    for (policy, is_default) in wanted {
        let name = &policy.name;
        match known.iter().find(|(own, _)| own.name == *name) {
            None => {
                let default = if *is_default { " DEFAULT" } else { "" };
                let clauses = durations(policy);
                let text = format!("CREATE RETENTION POLICY {} ON {of} {clauses}{default}", identifier(name));
                nyala.execute("", &text)?;
                notes.push(format!("{database}.{name}: created in nyala"));
            }
            Some((own, _)) if own.duration_ns != policy.duration_ns => notes.push(format!(
                "{database}.{name}: note: InfluxDB keeps points for {}, nyala for {}; it was not changed",
                kept(policy),
                kept(own)
            )),
            Some((_, known_default)) if *is_default && !known_default && known.len() > 1 => {
                notes.push(format!("{database}.{name}: note: it is the default policy in InfluxDB only"));
            }
            Some(_) => {}
        }
    }
    Ok(notes)
}

fn kept(policy: &Policy) -> String {
    match policy.duration_ns {
        0 => "ever".to_owned(),
        duration_ns => nyala_query::influxql::format_duration(duration_ns),
    }
}

/// Creates a subscription unless it is there, and says so.
fn create(influxdb: &Server, there: &[Subscription], own: &Subscription) -> Result<String, String> {
    let Subscription { database, policy, name, destinations } = own;
    let is_same =
        |known: &&Subscription| known.database == *database && known.policy == *policy && known.name == *name;
    match there.iter().find(is_same) {
        Some(known) if known == own => {
            return Ok(format!("subscription {name:?} is there already, and sends"));
        }
        Some(known) => {
            let to: Vec<String> = known.destinations.iter().map(|url| without_password(url)).collect();
            return Err(format!(
                "{database}.{policy}: subscription {name:?} sends to {} already, perhaps with another password: say \
                 `nyala shadow stop` first, or choose another --name",
                to.join(", ")
            ));
        }
        None => {}
    }
    let text = format!(
        "CREATE SUBSCRIPTION {} ON {}.{} DESTINATIONS ALL {}",
        identifier(name),
        identifier(database),
        identifier(policy),
        literal(&destinations[0])
    );
    let hidden = without_password(&destinations[0]);
    influxdb.execute("", &text).map_err(|error| error.replace(&destinations[0], &hidden))?;
    Ok(format!("subscription {name:?} sends"))
}

fn line(text: &mut String, words: &str) {
    writeln!(text, "{}", nyala_shell::escaped(words)).expect("writing to memory does not fail");
}
