//! From where, and where to: a data directory, a running server on this machine, or an Apache Kudu cluster.

use super::handover::MovedServer;
use crate::backup::names_in;
use crate::cli::backup::source::Source;
use crate::cli::server::Ended;
use crate::config::{ByteSize, GivenConfig, StoreKind};
use crate::descriptors;
use crate::storage::{self, Past, Storage};
use clap::Args;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{Freshness, StoreRef, emulate};
use nyala_db::moving::Position;
use nyala_shell::AccessArgs;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// What addresses of clusters begin with.
const KUDU: &str = "kudu://";

/// How long a command waits for the copy of one that was killed, which the server removes.
pub(super) const COPY_FREED_WITHIN: Duration = Duration::from_secs(12);

/// A place of everything that a nyala has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Directory(PathBuf),
    /// The address of a server that runs.
    Server(String),
    /// The masters of a cluster.
    Kudu(Vec<String>),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(masters) = text.strip_prefix(KUDU) {
            let masters: Vec<String> = masters.trim_end_matches('/').split(',').map(str::to_owned).collect();
            return match masters.iter().any(|master| master.is_empty() || master.contains('/')) {
                true => Err("a cluster is named by its masters: kudu://host:7051,host:7051".to_owned()),
                false => Ok(Self::Kudu(masters)),
            };
        }
        match text.split_once("://") {
            Some(("http" | "https", _)) => Ok(Self::Server(text.to_owned())),
            Some((scheme, _)) => Err(format!(
                "{scheme} is not known: say a data directory, the address of a server on this machine, or kudu://host:7051,…"
            )),
            None => Ok(Self::Directory(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Server(url) => f.write_str(url),
            Self::Kudu(masters) => write!(f, "{KUDU}{}", masters.join(",")),
        }
    }
}

/// How to log in to a server, and settings of the cluster as those of `nyala serve`.
#[derive(Debug, Args)]
pub(super) struct LogInArgs {
    #[command(flatten)]
    pub(super) access: AccessArgs,
    /// What names of tables in the cluster begin with
    #[arg(long, value_name = "NAME", env = "NYALA_KUDU_PREFIX", default_value = "nyala")]
    kudu_prefix: String,
    /// Copies of each tablet of new tables; odd [default: 3]
    #[arg(long, value_name = "NUMBER", env = "NYALA_KUDU_REPLICAS")]
    kudu_replicas: Option<i32>,
    /// Hash buckets of each range of measurements [default: 4]
    #[arg(long, value_name = "NUMBER", env = "NYALA_KUDU_BUCKETS")]
    kudu_buckets: Option<u32>,
    /// The user name of log-ins without Kerberos and tokens [default: that of the system]
    #[arg(long, value_name = "NAME", env = "NYALA_KUDU_USER")]
    kudu_user: Option<String>,
    /// Log in by Kerberos to servers of this service
    #[arg(long, value_name = "SERVICE", env = "NYALA_KUDU_KERBEROS")]
    kudu_kerberos: Option<String>,
    /// Log in with the JSON web token in this file
    #[arg(long, value_name = "FILE", env = "NYALA_KUDU_TOKEN_FILE")]
    kudu_token_file: Option<PathBuf>,
    /// PEM file with the certificate authority of the cluster
    #[arg(long, value_name = "FILE", env = "NYALA_KUDU_CERTIFICATE")]
    kudu_certificate: Option<PathBuf>,
    /// Refuse servers of the cluster that do not encrypt
    #[arg(
        long,
        value_name = "BOOLEAN",
        env = "NYALA_KUDU_REQUIRE_ENCRYPTION",
        num_args = 0..=1,
        default_missing_value = "true",
        default_value = "false",
        hide_default_value = true,
        action = clap::ArgAction::Set
    )]
    kudu_require_encryption: bool,
}

/// A place that is open.
pub(super) struct Opened {
    pub(super) store: StoreRef,
    storage: Arc<dyn Storage>,
    /// What it is called in the journal.
    pub(super) name: String,
    /// Of a running server, what is read.
    _copy: Option<HeldCopy>,
    is_running: bool,
    /// Its state when it was opened.
    pub(super) position: Position,
}

/// A copy that is removed at the end, whatever the end is.
struct HeldCopy(Source);

impl Drop for HeldCopy {
    fn drop(&mut self) {
        // If this fails, the server removes it before long.
        let _ = self.0.end(Ended::Read);
    }
}

impl Opened {
    /// Opens a place to read it. No server may write to it meanwhile, but one that runs may go on: a copy is read.
    pub(super) fn to_read(
        place: &Place,
        log_in: &LogInArgs,
        memory_limit: ByteSize,
        work: &Handle,
    ) -> Result<Self, String> {
        let dir = match place {
            Place::Directory(dir) => dir,
            Place::Server(url) => {
                let server = MovedServer::at(url, &log_in.access)?;
                return Self::of_server(&server, memory_limit, COPY_FREED_WITHIN);
            }
            Place::Kudu(_) => return Self::open(place, log_in, memory_limit, work),
        };
        if !is_data_directory(dir)? {
            return Err(format!("{} is no data directory of nyala", dir.display()));
        }
        descriptors::raise_limit();
        let storage =
            storage::open_to_read(dir, &MemoryBudget::new(memory_limit.0 as u64)).map_err(|error| {
                format!("opening {}: {error} (is nyala running? stop it first)", dir.display())
            })?;
        Self::of(place, log_in, storage, work)
    }

    /// Opens a copy that a server makes of its store, with what was changed since earlier copies.
    pub(super) fn of_server(
        server: &MovedServer,
        memory_limit: ByteSize,
        wait_max: Duration,
    ) -> Result<Self, String> {
        descriptors::raise_limit();
        // In this order: what the copy lacks is told after the mark, and what it has before it is read.
        let mark = server.mark()?;
        let copy = HeldCopy(Source::of_server(server.server.clone(), wait_max)?);
        let position = Position::of_copy(mark, server.changed(mark)?);
        let dir = &copy.0.place.dir;
        let memory = MemoryBudget::new(memory_limit.0 as u64);
        let opened = storage::open_copy(dir, &memory, copy.0.copy.time_ns, Duration::ZERO);
        let storage = opened.map_err(|error| format!("opening the copy of the server: {error}"))?;
        if let Some(loss) = storage.losses().first() {
            return Err(format!("the data of the server are damaged: {loss}"));
        }
        // Its directory has the same name in the journal, when it is moved from later.
        let name = name_of(dir.ancestors().nth(2).unwrap_or(dir));
        let store = emulate::complete(storage.store());
        Ok(Self { store, storage, name, _copy: Some(copy), is_running: true, position })
    }

    /// Whether the source goes on while it is read.
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Opens a place to write to it; a directory is made if it is missing.
    pub(super) fn open(
        place: &Place,
        log_in: &LogInArgs,
        memory_limit: ByteSize,
        work: &Handle,
    ) -> Result<Self, String> {
        descriptors::raise_limit();
        let given = match place {
            Place::Directory(dir) => GivenConfig {
                data_dir: Some(dir.clone()),
                memory_limit: Some(memory_limit),
                ..Default::default()
            },
            Place::Server(url) => {
                return Err(format!(
                    "{url}: a running server is no target: say a new directory or a cluster"
                ));
            }
            Place::Kudu(masters) => log_in.given(masters),
        };
        let config = given.resolve(None)?;
        let memory = MemoryBudget::new(memory_limit.0 as u64);
        let opened = storage::open(&config, Past::Left, &memory, work, &mut |_| {});
        let storage = opened.map_err(|error| format!("opening {place}: {error}"))?;
        Self::of(place, log_in, storage, work)
    }

    fn of(
        place: &Place,
        log_in: &LogInArgs,
        storage: Arc<dyn Storage>,
        work: &Handle,
    ) -> Result<Self, String> {
        if let Some(loss) = storage.losses().first() {
            return Err(format!("{place} is damaged: {loss}; `nyala check` says more"));
        }
        let name = match place {
            Place::Directory(dir) => name_of(dir),
            Place::Server(_) => format!("{place}, prefix {}", log_in.kudu_prefix),
            // In whatever order its masters were given.
            Place::Kudu(masters) => {
                let mut masters = masters.clone();
                masters.sort_unstable();
                format!("{}, prefix {}", Place::Kudu(masters), log_in.kudu_prefix)
            }
        };
        let store = emulate::complete(storage.store());
        let snapshot = work.block_on(store.snapshot(Freshness::Latest)).map_err(|error| error.to_string())?;
        let position = Position::still(snapshot.sequence());
        Ok(Self { store, storage, name, _copy: None, is_running: false, position })
    }

    /// Makes everything durable.
    pub(super) fn close(self) -> Result<(), String> {
        let Self { store, storage, name, _copy: copy, .. } = self;
        drop(store);
        let stopped = storage.stop().map_err(|error| format!("closing {name}: {error}"));
        drop((storage, copy));
        stopped
    }
}

/// What a directory is called in the journal.
fn name_of(dir: &Path) -> String {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned()).display().to_string()
}

impl LogInArgs {
    fn given(&self, masters: &[String]) -> GivenConfig {
        GivenConfig {
            store: Some(StoreKind::Kudu),
            kudu_masters: Some(masters.to_vec()),
            kudu_prefix: Some(self.kudu_prefix.clone()),
            kudu_replicas: self.kudu_replicas,
            kudu_buckets: self.kudu_buckets,
            kudu_user: self.kudu_user.clone(),
            kudu_kerberos: self.kudu_kerberos.clone(),
            kudu_token_file: self.kudu_token_file.clone(),
            kudu_certificate: self.kudu_certificate.clone(),
            kudu_require_encryption: Some(self.kudu_require_encryption),
            ..GivenConfig::default()
        }
    }
}

/// Whether a directory has a manifest. Nothing must be made where a name was misspelt.
fn is_data_directory(dir: &Path) -> Result<bool, String> {
    Ok(dir.is_dir() && names_in(dir)?.iter().any(|name| name.starts_with("manifest-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_shown() {
        let kudu = Place::Kudu(vec!["a:7051".into(), "b".into()]);
        for (text, place) in
            [("kudu://a:7051,b", kudu.clone()), ("/var/lib/nyala", Place::Directory("/var/lib/nyala".into()))]
        {
            assert_eq!(text.parse(), Ok(place.clone()));
            assert_eq!(place.to_string(), text);
        }
        assert_eq!("kudu://a:7051,b/".parse(), Ok(kudu));
        for wrong in ["kudu://", "kudu://a,,b", "kudu://a/b", "ftp://a"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
