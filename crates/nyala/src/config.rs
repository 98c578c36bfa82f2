//! Settings: a TOML file, `NYALA_*` variables and flags, in rising precedence, under the same names.

use crate::server::http::access::SharedSecret;
use crate::server::http::site::Sites;
use crate::server::tls::Certificates;
use clap::{Args, ValueEnum};
use nyala_exec::running::QueryLimits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Settings as they are given: what is left out takes its default.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GivenConfig {
    /// Where data is kept [default: ./nyala-data]
    #[arg(long, env = "NYALA_DATA_DIR", value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// Address and port of the HTTP interface, such as localhost:8086, or :8086 for all addresses [default: 127.0.0.1:8086]
    #[arg(long, env = "NYALA_HTTP_BIND", value_name = "ADDRESS:PORT", value_parser = bind_address)]
    #[serde(deserialize_with = "read_bind_address", default)]
    pub http_bind: Option<SocketAddr>,
    /// Memory for everything: memtables, caches, indexes, queries [default: 512MiB]
    #[arg(long, env = "NYALA_MEMORY_LIMIT", value_name = "SIZE")]
    pub memory_limit: Option<ByteSize>,
    /// When the log is synced to disk: always (before a write is acknowledged), interval:1s, or never [default: always]
    #[arg(long, env = "NYALA_WAL_SYNC", value_name = "WHEN")]
    pub wal_sync: Option<WalSync>,
    /// Flush when the log has so much that is not flushed: bounds the time of a recovery [default: 512MiB]
    #[arg(long, env = "NYALA_WAL_LIMIT", value_name = "SIZE")]
    pub wal_limit: Option<ByteSize>,
    /// What encodings of settled data favour [default: balanced]
    #[arg(long, env = "NYALA_ENCODING", value_name = "PREFERENCE")]
    pub encoding: Option<Encoding>,
    /// Threads that flush and compact [default: 2]
    #[arg(long, env = "NYALA_MAINTENANCE_THREADS", value_name = "NUMBER")]
    pub maintenance_threads: Option<usize>,
    /// The largest request body, packed or unpacked [default: 25MB]
    #[arg(long, env = "NYALA_MAX_BODY_SIZE", value_name = "SIZE")]
    pub max_body_size: Option<ByteSize>,
    /// A socket in the file system to listen at too, for owner and group
    #[arg(long, env = "NYALA_BIND_SOCKET", value_name = "FILE")]
    pub bind_socket: Option<PathBuf>,
    /// A certificate in PEM: HTTPS instead of HTTP; read again at SIGHUP
    #[arg(long, env = "NYALA_HTTPS_CERTIFICATE", value_name = "FILE")]
    pub https_certificate: Option<PathBuf>,
    /// Its private key in PEM [default: in the file of the certificate]
    #[arg(long, env = "NYALA_HTTPS_PRIVATE_KEY", value_name = "FILE")]
    pub https_private_key: Option<PathBuf>,
    /// Names that requests may call this server by, beside addresses and localhost; `*`: any [default: any, but none
    /// without authentication on a loopback address, where only a page that tricks a browser calls it otherwise]
    #[arg(long, env = "NYALA_ALLOWED_HOSTS", value_name = "NAME,…", value_delimiter = ',')]
    pub allowed_hosts: Option<Vec<String>>,
    /// Origins of web pages that may use this server, such as http://grafana.example.com:3000; `*`: any [default: any
    /// with authentication, none without]
    #[arg(long, env = "NYALA_ALLOWED_ORIGINS", value_name = "ORIGIN,…", value_delimiter = ',')]
    pub allowed_origins: Option<Vec<String>>,
    /// How long a connection may stay open between two requests [default: 3m]
    #[arg(long, env = "NYALA_KEEP_ALIVE_TIMEOUT", value_name = "DURATION")]
    pub keep_alive_timeout: Option<Time>,
    /// How long a stop waits for clients to take their answers; a second signal waits for nothing [default: 8s]
    #[arg(long, env = "NYALA_SHUTDOWN_TIMEOUT", value_name = "DURATION")]
    pub shutdown_timeout: Option<Time>,
    /// Series that got no point for so long leave memory until somebody asks for their time, of measurements with many; 0s:
    /// all stay in memory [default: 2h]
    #[arg(long, env = "NYALA_SERIES_IDLE_AFTER", value_name = "DURATION")]
    pub series_idle_after: Option<Time>,
    /// The most rows of an answer that is not chunked; 0: any number [default: 0]
    #[arg(long, env = "NYALA_MAX_ROW_LIMIT", value_name = "NUMBER")]
    pub max_row_limit: Option<usize>,
    /// The most requests with queries that run at once; 0: any number [default: 0]
    #[arg(long, env = "NYALA_MAX_CONCURRENT_QUERIES", value_name = "NUMBER")]
    pub max_concurrent_queries: Option<usize>,
    /// How long a query may run; 0s: as long as it likes [default: 0s]
    #[arg(long, env = "NYALA_QUERY_TIMEOUT", value_name = "DURATION")]
    pub query_timeout: Option<Time>,
    /// The most series of a measurement in a SELECT; 0: any number [default: 0]
    #[arg(long, env = "NYALA_MAX_SELECT_SERIES", value_name = "NUMBER")]
    pub max_select_series: Option<usize>,
    /// The most windows of a SELECT; 0: any number [default: 0]
    #[arg(long, env = "NYALA_MAX_SELECT_BUCKETS", value_name = "NUMBER")]
    pub max_select_buckets: Option<usize>,
    /// The most points a SELECT may read; 0: any number [default: 0]
    #[arg(long, env = "NYALA_MAX_SELECT_POINT", value_name = "NUMBER")]
    pub max_select_point: Option<usize>,
    /// Whether clients must log in; the first to create is an administrator [default: false]
    #[arg(long, env = "NYALA_AUTH_ENABLED", num_args = 0..=1, default_missing_value = "true")]
    pub auth_enabled: Option<bool>,
    /// What bearer tokens (JWT, HS256) are signed with, 32 bytes or more; better in a file or variable than in a flag
    #[arg(long, env = "NYALA_SHARED_SECRET", value_name = "SECRET", hide_env_values = true)]
    #[serde(skip_serializing)]
    pub shared_secret: Option<SharedSecret>,
    /// Serve other machines although there is no authentication
    #[arg(long, env = "NYALA_ALLOW_UNAUTHENTICATED", num_args = 0..=1, default_missing_value = "true")]
    pub allow_unauthenticated: Option<bool>,
}

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "see the members of GivenConfig")]
pub struct Config {
    pub data_dir: PathBuf,
    pub http_bind: SocketAddr,
    pub memory_limit: ByteSize,
    pub wal_sync: WalSync,
    pub wal_limit: ByteSize,
    pub encoding: Encoding,
    pub maintenance_threads: usize,
    pub max_body_size: ByteSize,
    pub bind_socket: Option<PathBuf>,
    pub https_certificate: Option<PathBuf>,
    pub https_private_key: Option<PathBuf>,
    pub allowed_hosts: Option<Vec<String>>,
    pub allowed_origins: Option<Vec<String>>,
    pub keep_alive_timeout: Time,
    pub shutdown_timeout: Time,
    pub series_idle_after: Time,
    pub max_row_limit: usize,
    pub max_concurrent_queries: usize,
    pub query_timeout: Time,
    pub max_select_series: usize,
    pub max_select_buckets: usize,
    pub max_select_point: usize,
    pub auth_enabled: bool,
    /// Never printed.
    #[serde(skip_serializing)]
    pub shared_secret: Option<SharedSecret>,
    pub allow_unauthenticated: bool,
}

/// What encodings of settled data favour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Fast queries.
    Speed,
    /// Something between.
    Balanced,
    /// Few bytes.
    Size,
}

/// When the log is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalSync {
    /// Before a write is acknowledged.
    Always,
    /// That often: a power cut may lose what was acknowledged since.
    Interval(Duration),
    /// When the operating system likes to.
    Never,
}

impl FromStr for WalSync {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "always" => return Ok(WalSync::Always),
            "never" => return Ok(WalSync::Never),
            _ => {}
        }
        let interval = text
            .strip_prefix("interval:")
            .and_then(|text| nyala_query::influxql::parse_duration(text).ok())
            .and_then(|interval_ns| u64::try_from(interval_ns).ok())
            .filter(|interval_ns| *interval_ns > 0);
        match interval {
            Some(interval_ns) => Ok(WalSync::Interval(Duration::from_nanos(interval_ns))),
            None => {
                Err(format!("{text:?} is not always, never or interval:DURATION (such as interval:500ms)"))
            }
        }
    }
}

impl fmt::Display for WalSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WalSync::Always => f.write_str("always"),
            WalSync::Interval(interval) => write!(f, "interval:{}ms", interval.as_millis()),
            WalSync::Never => f.write_str("never"),
        }
    }
}

/// A number of bytes, written as `512MiB`, `25MB` or `1073741824`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub usize);

const UNITS: [(&str, usize); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, bytes) = unit.unwrap_or((text.strip_suffix('B').unwrap_or(text), 1));
        let size = number.trim().parse::<usize>().ok().and_then(|number| number.checked_mul(bytes));
        size.map(ByteSize).ok_or_else(|| format!("{text:?} is not a size such as 512MiB"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole =
            UNITS[..3].iter().rev().find(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes));
        match whole {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A length of time, written as `10s` or `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = nyala_query::influxql::parse_duration(text).ok();
        let length_ns = parsed.and_then(|length_ns| u64::try_from(length_ns).ok());
        let length_ns = length_ns.ok_or_else(|| format!("{text:?} is not a duration such as 10s"))?;
        Ok(Time(Duration::from_nanos(length_ns)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            nanoseconds if nanoseconds % 1_000_000 != 0 => write!(f, "{}u", nanoseconds / 1_000),
            nanoseconds => write!(f, "{}ms", nanoseconds / 1_000_000),
        }
    }
}

macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(ByteSize);
serde_as_text!(WalSync);
serde_as_text!(Time);

/// An address to listen at: `localhost` is what it is everywhere, and nothing in front of the port means all addresses.
pub fn bind_address(text: &str) -> Result<SocketAddr, String> {
    let numbers = match text.rsplit_once(':') {
        Some(("", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    numbers.parse().map_err(|_| {
        format!(
            "{text:?} is no address and port such as 127.0.0.1:8086, localhost:8086 or :8086 (all addresses)"
        )
    })
}

fn read_bind_address<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| bind_address(&text)).transpose().map_err(serde::de::Error::custom)
}

impl GivenConfig {
    /// Those of a file. What is wrong is told without the line it is in, since that may hold a secret.
    fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
            let line = 1 + before.matches('\n').count();
            format!("{}, line {line}: {}", path.display(), error.message())
        })
    }

    /// The settings of flags and variables, then those of a file, then defaults.
    pub fn resolve(self, file: Option<&Path>) -> Result<Config, String> {
        let in_file = match file {
            None => GivenConfig::default(),
            Some(path) => GivenConfig::read(path)?,
        };
        let config = Config {
            data_dir: self.data_dir.or(in_file.data_dir).unwrap_or_else(|| "./nyala-data".into()),
            http_bind: self.http_bind.or(in_file.http_bind).unwrap_or(([127, 0, 0, 1], 8086).into()),
            memory_limit: self.memory_limit.or(in_file.memory_limit).unwrap_or(ByteSize(512 << 20)),
            wal_sync: self.wal_sync.or(in_file.wal_sync).unwrap_or(WalSync::Always),
            wal_limit: self.wal_limit.or(in_file.wal_limit).unwrap_or(ByteSize(512 << 20)),
            encoding: self.encoding.or(in_file.encoding).unwrap_or(Encoding::Balanced),
            maintenance_threads: self.maintenance_threads.or(in_file.maintenance_threads).unwrap_or(2),
            max_body_size: self.max_body_size.or(in_file.max_body_size).unwrap_or(ByteSize(25_000_000)),
            bind_socket: self.bind_socket.or(in_file.bind_socket),
            https_certificate: self.https_certificate.or(in_file.https_certificate),
            https_private_key: self.https_private_key.or(in_file.https_private_key),
            allowed_hosts: self.allowed_hosts.or(in_file.allowed_hosts),
            allowed_origins: self.allowed_origins.or(in_file.allowed_origins),
            keep_alive_timeout: self
                .keep_alive_timeout
                .or(in_file.keep_alive_timeout)
                .unwrap_or(Time(Duration::from_secs(180))),
            series_idle_after: self
                .series_idle_after
                .or(in_file.series_idle_after)
                .unwrap_or(Time(Duration::from_secs(7200))),
            shutdown_timeout: self
                .shutdown_timeout
                .or(in_file.shutdown_timeout)
                .unwrap_or(Time(Duration::from_secs(8))),
            max_row_limit: self.max_row_limit.or(in_file.max_row_limit).unwrap_or(0),
            max_concurrent_queries: self
                .max_concurrent_queries
                .or(in_file.max_concurrent_queries)
                .unwrap_or(0),
            query_timeout: self.query_timeout.or(in_file.query_timeout).unwrap_or(Time(Duration::ZERO)),
            max_select_series: self.max_select_series.or(in_file.max_select_series).unwrap_or(0),
            max_select_buckets: self.max_select_buckets.or(in_file.max_select_buckets).unwrap_or(0),
            max_select_point: self.max_select_point.or(in_file.max_select_point).unwrap_or(0),
            auth_enabled: self.auth_enabled.or(in_file.auth_enabled).unwrap_or(false),
            shared_secret: self.shared_secret.or(in_file.shared_secret),
            allow_unauthenticated: self
                .allow_unauthenticated
                .or(in_file.allow_unauthenticated)
                .unwrap_or(false),
        };
        config.check()?;
        Ok(config)
    }
}

impl Config {
    /// The bounds on queries.
    pub fn query_limits(&self) -> QueryLimits {
        QueryLimits {
            concurrent_queries_max: self.max_concurrent_queries,
            timeout: self.query_timeout.0,
            series_max: self.max_select_series,
            buckets_max: self.max_select_buckets,
            points_max: self.max_select_point,
        }
    }

    /// The certificate to greet clients with, if there is to be one.
    pub fn certificates(&self) -> Result<Option<Certificates>, String> {
        let Some(certificate) = &self.https_certificate else { return Ok(None) };
        let key = self.https_private_key.as_ref().unwrap_or(certificate);
        Certificates::read(certificate, key).map(Some)
    }

    /// Which names requests may call the server by, and which web pages may use it.
    pub fn sites(&self) -> Result<Sites, String> {
        let is_local = self.http_bind.ip().to_canonical().is_loopback();
        let hosts = self.allowed_hosts.clone().or((is_local && !self.auth_enabled).then(Vec::new));
        let origins = self.allowed_origins.clone().or((!self.auth_enabled).then(Vec::new));
        Sites::new(hosts, origins)
    }

    fn check(&self) -> Result<(), String> {
        self.sites()?;
        if !self.http_bind.ip().is_loopback() && !self.auth_enabled && !self.allow_unauthenticated {
            return Err(format!(
                "http-bind {} is reachable from other machines, and authentication is off: say --auth-enabled, bind to 127.0.0.1, or say --allow-unauthenticated if the network is trusted",
                self.http_bind
            ));
        }
        if self.https_private_key.is_some() && self.https_certificate.is_none() {
            return Err("https-private-key without https-certificate would secure nothing".into());
        }
        if let Some(secret) = &self.shared_secret {
            secret.check()?;
        }
        if self.shared_secret.is_some() && !self.auth_enabled {
            return Err(
                "shared-secret without auth-enabled would protect nothing: set both or neither".into()
            );
        }
        if self.memory_limit.0 < 64 << 20 {
            return Err(format!("memory-limit {} is less than 64MiB", self.memory_limit));
        }
        if self.keep_alive_timeout.0.is_zero() {
            return Err("keep-alive-timeout must be longer than 0s".into());
        }
        if self.wal_limit.0 < 1 << 20 {
            return Err(format!("wal-limit {} is less than 1MiB", self.wal_limit));
        }
        if !(1..=64).contains(&self.maintenance_threads) {
            return Err("maintenance-threads must be from 1 to 64".into());
        }
        if !(1..1 << 31).contains(&self.max_body_size.0) {
            return Err("max-body-size must be below 2GiB".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_sync_policies_read_as_they_are_written() {
        for text in ["512MiB", "3GiB", "1000", "7KiB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        assert_eq!("25MB".parse::<ByteSize>(), Ok(ByteSize(25_000_000)));
        assert!("-1MB".parse::<ByteSize>().is_err());
        assert_eq!("interval:1s".parse::<WalSync>().unwrap().to_string(), "interval:1000ms");
        assert!("interval:0s".parse::<WalSync>().is_err());
    }

    #[test]
    fn a_weak_or_useless_secret_is_refused_and_no_secret_is_printed() {
        let text = "auth-enabled = true\nshared-secret = \"0123456789abcdef0123456789abcdef\"\n";
        let given: GivenConfig = toml::from_str(text).unwrap();
        let config = given.clone().resolve(None).unwrap();
        assert!(!format!("{config:?} {}", toml::to_string(&config).unwrap()).contains("0123"));
        for weak in ["", "short"] {
            let weak: GivenConfig = toml::from_str(&text.replace("0123456789abcdef", weak)).unwrap();
            assert!(weak.resolve(None).is_err());
        }
        assert!(GivenConfig { auth_enabled: None, ..given }.resolve(None).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        for broken in [
            text.replace("\"\n", "\n"),
            text.replace('"', ""),
            text.replace("shared-secret", "shared_secret"),
            text.replace("\"0123456789abcdef0123456789abcdef\"", "1230123"),
            text.replace("\"0123456789abcdef0123456789abcdef\"", "[\"0123\"]"),
        ] {
            std::fs::write(file.path(), &broken).unwrap();
            let words = GivenConfig::default().resolve(Some(file.path())).unwrap_err();
            assert!(words.contains("line 2: ") && !words.contains("0123"), "{words}");
        }
    }

    #[test]
    fn the_world_is_not_served_by_accident() {
        let open = GivenConfig { http_bind: Some(([0, 0, 0, 0], 8086).into()), ..GivenConfig::default() };
        assert!(open.clone().resolve(None).is_err());
        let meant = GivenConfig { allow_unauthenticated: Some(true), ..open.clone() };
        assert!(meant.resolve(None).is_ok());
        let closed = GivenConfig { auth_enabled: Some(true), ..open };
        assert!(closed.resolve(None).is_ok());
    }

    #[test]
    fn names_and_pages_are_judged_by_who_can_reach_the_server() {
        let sites = |address: &str, auth: bool, listed: Option<&str>| {
            let listed = listed.map(|name| vec![name.to_owned()]);
            let given = GivenConfig {
                http_bind: Some(bind_address(address).unwrap()),
                auth_enabled: Some(auth),
                allow_unauthenticated: Some(true),
                allowed_hosts: listed.clone(),
                ..GivenConfig::default()
            };
            given.resolve(None).unwrap().sites().unwrap()
        };
        let new = |hosts: Option<&[&str]>, origins: Option<&[&str]>| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Sites::new(hosts.map(owned), origins.map(owned)).unwrap()
        };
        for local in ["localhost:1", "127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(sites(local, false, None), new(Some(&[]), Some(&[])), "{local}");
            assert_eq!(sites(local, true, None), new(None, None), "{local}");
        }
        // Between containers it is called by any name.
        assert_eq!(sites(":1", false, None), new(None, Some(&[])));
        assert_eq!(sites(":1", false, Some("influxdb")), new(Some(&["influxdb"]), Some(&[])));
        assert_eq!(sites("localhost:1", false, Some("*")), new(None, Some(&[])));
        assert_eq!(sites("localhost:1", true, Some("influxdb")), new(Some(&["influxdb"]), None));
    }
}
