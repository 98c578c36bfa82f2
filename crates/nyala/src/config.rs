//! Settings: a TOML file, `NYALA_*` variables and flags, each overriding the one before, under the same names.
//!
//! The table below is the only place where a setting is written. Its key in the file, its variable, its flag, its help,
//! its default, `nyala config` and `docs/operations/settings.md` (`page`) all follow from its line.

mod inputs;
mod page;
mod unknown;
mod value;

use crate::server::http::access::SharedSecret;
use crate::server::http::host_origin::AllowedSites;
use crate::server::tls::Certificates;
use clap::Args;
use nyala_exec::running::QueryLimits;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

pub use page::markdown;
pub use unknown::unknown_keys;
pub use value::{
    AuditedLogIns, BindAddress, ByteSize, Encoding, LogFormat, LogLevel, OptionalBind, Ratio, StoreKind,
    Time, WalSync,
};

/// A setting, for its page.
struct Setting {
    group: &'static str,
    /// With underscores.
    name: &'static str,
    variable: &'static str,
    value_name: &'static str,
    /// A value, or a description of what happens without one.
    default: &'static str,
    help: &'static str,
}

/// Makes [`GivenConfig`], [`Config`], the resolution of one into the other and [`SETTINGS`] out of groups of lines
///
/// `name: Type = default, "VALUE_NAME", "help";`
///
/// The text of a default is read like any other value. A setting without a default has parentheses instead, with a
/// description of what happens without a value, or empty; it is an `Option` in [`Config`].
macro_rules! settings {
    ($($group:literal { $(
        $(#[arg($($arg:tt)*)])*
        $(#[serde($($serde:tt)*)])*
        $name:ident: $type:ty = $default:tt, $value_name:literal, $help:literal;
    )* })*) => {
        /// Settings as they are given: each may be left out.
        #[derive(Debug, Clone, Default, Args, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct GivenConfig { $($(
            #[arg(
                long,
                env = variable!($name),
                value_name = $value_name,
                help = concat!($help, " [default: ", described!($default), "]"),
                help_heading = $group
                $(, $($arg)*)*
            )]
            #[allow(missing_docs, reason = "the help says what it is")]
            pub $name: Option<$type>,
        )*)* }

        /// The settings in force.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "the help says what each is")]
        pub struct Config { $($(
            $(#[serde($($serde)*)])*
            pub $name: in_force!(type $type, $default),
        )*)* }

        impl GivenConfig {
            /// Fills in what is missing: from a file, then from the defaults.
            fn or(self, file: GivenConfig) -> Result<Config, String> {
                Ok(Config { $($(
                    $name: in_force!(value self.$name.or(file.$name), $type, $default),
                )*)* })
            }
        }

        /// All settings, in the order of their page.
        const SETTINGS: &[Setting] = &[$($( Setting {
            group: $group,
            name: stringify!($name),
            variable: variable!($name),
            value_name: $value_name,
            default: described!($default),
            help: $help,
        } ),*),*];
    };
}

/// Type or value of a setting in [`Config`].
macro_rules! in_force {
    (type $type:ty, ($($described:literal)?)) => { Option<$type> };
    (type $type:ty, $default:literal) => { $type };
    (value $given:expr, $type:ty, ($($described:literal)?)) => { $given };
    (value $given:expr, $type:ty, $default:literal) => {
        match $given {
            Some(given) => given,
            None => $default.parse::<$type>().map_err(|error| format!("{}: {error}", $default))?,
        }
    };
}

/// A default, or the description of what happens without a value.
macro_rules! described {
    (()) => {
        "none"
    };
    (($described:literal)) => {
        $described
    };
    ($default:literal) => {
        $default
    };
}

/// `data_dir` as `NYALA_DATA_DIR`.
macro_rules! variable {
    ($name:ident) => {{
        const NAME: &str = concat!("NYALA_", stringify!($name));
        const UPPER: [u8; NAME.len()] = {
            let mut upper = [0; NAME.len()];
            upper.copy_from_slice(NAME.as_bytes());
            upper.make_ascii_uppercase();
            upper
        };
        match std::str::from_utf8(&UPPER) {
            Ok(variable) => variable,
            Err(_) => unreachable!(),
        }
    }};
}

/// Beside PostgreSQL's own port, which may be taken.
const DEFAULT_POSTGRES_BIND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5433);
/// Beside that of HTTP.
const DEFAULT_FLIGHT_BIND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8087);

settings! {
    "Storage" {
        data_dir: PathBuf = "./nyala-data", "DIRECTORY", "Directory that holds all data; created if missing";
        wal_sync: WalSync = "always", "WHEN",
            "When the write-ahead log is synced to disk: always (before a write is acknowledged), interval:DURATION such as \
             interval:500ms, or never";
        wal_limit: ByteSize = "512MiB", "SIZE",
            "Flush when the write-ahead log holds this much unflushed data, which bounds the time of a recovery; at least 1MiB";
        history: Time = "0s", "DURATION",
            "How long the past can be read (`as_of` of a query), and changes be undone (`UNDO`), such as 15m; deleted and \
             overwritten data takes space until then; 0s: not at all";
        encoding: Encoding = "balanced", "PREFERENCE",
            "What the encoder favours when rowsets are merged: fast queries (speed), small files (size) or a compromise";
        maintenance_threads: usize = "2", "NUMBER",
            "Threads that flush and compact, 1 to 64; if memory-limit is 256MiB or more, one more thread only flushes";
    }
    "Kudu" {
        store: StoreKind = "embedded", "KIND",
            "Where rows are kept: embedded (in the data directory) or kudu (in an Apache Kudu cluster; experimental)";
        #[arg(value_delimiter = ',')]
        kudu_masters: Vec<String> = (), "HOST:PORT,…", "The masters of the cluster; the port is 7051 unless given";
        kudu_prefix: String = "nyala", "NAME", "What names of tables in the cluster begin with";
        kudu_replicas: i32 = "3", "NUMBER", "Copies of each tablet of new tables; odd";
        kudu_buckets: u32 = "4", "NUMBER", "Hash buckets of each range of new measurements";
        kudu_user: String = ("that of the system"), "NAME", "The user name of log-ins without Kerberos and tokens";
        kudu_kerberos: String = (), "SERVICE",
            "Log in by Kerberos, with the ticket of the server's user (kinit, or KRB5_CLIENT_KTNAME), to servers of this service; \
             Kudu's is called kudu";
        kudu_token_file: PathBuf = (), "FILE",
            "Log in with the JSON web token in this file; needs kudu-certificate";
        kudu_certificate: PathBuf = (), "FILE",
            "PEM file with the certificate authority of the cluster, as at a master's /ipki-ca-cert";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        kudu_require_encryption: bool = "false", "BOOLEAN", "Refuse servers of the cluster that do not encrypt";
    }
    "Memory" {
        memory_limit: ByteSize = "512MiB", "SIZE",
            "Memory for the whole process: memtables, caches, indexes, queries, connections; at least 64MiB";
        series_idle_after: Time = "2h", "DURATION",
            "Series without new points for this long leave memory (only in measurements with many series) and are read back \
             when a query needs them; 0s: all stay in memory";
    }
    "HTTP" {
        http_bind: BindAddress = "127.0.0.1:8086", "ADDRESS:PORT",
            "Address and port to listen on; :8086 means all interfaces, and needs auth-enabled or allow-unauthenticated";
        bind_socket: PathBuf = (), "FILE", "Unix domain socket to listen on as well; mode 0660, without TLS";
        https_certificate: PathBuf = (), "FILE",
            "PEM file with the certificate chain: serve HTTPS instead of HTTP; read again at SIGHUP";
        https_private_key: PathBuf = ("in the file of the certificate"), "FILE", "PEM file with the private key";
        max_body_size: ByteSize = "25MB", "SIZE", "The largest request body, compressed or decompressed";
        keep_alive_timeout: Time = "3m", "DURATION", "How long an idle connection is kept open";
        shutdown_timeout: Time = "8s", "DURATION",
            "How long a shutdown waits for running requests; a second SIGTERM or Ctrl-C ends the server at once";
    }
    "PostgreSQL" {
        postgres_bind: OptionalBind = ("127.0.0.1:5433, unless something else listens there"), "ADDRESS:PORT",
            "Address and port to listen on for clients of PostgreSQL, with the certificate of HTTPS if there is one; none: not at \
             all; other than loopback addresses need auth-enabled or allow-unauthenticated";
        scram_iterations: u32 = "0", "NUMBER",
            "Store a SCRAM-SHA-256 verifier with so many iterations when a password is set, from 4096 to 100000, so that its \
             user can log in to postgres-bind without TLS; a stolen verifier is easier to crack than the Argon2id hash; 0: none";
    }
    "Arrow Flight SQL" {
        flight_bind: OptionalBind = ("127.0.0.1:8087, unless something else listens there"), "ADDRESS:PORT",
            "Address and port to listen on for clients of Arrow Flight SQL, with the certificate of HTTPS if there is one; none: \
             not at all; other than loopback addresses need auth-enabled or allow-unauthenticated";
    }
    "Inputs" {
        udp_bind: BindAddress = ("none"), "ADDRESS:PORT",
            "Address and port to receive line protocol on by UDP, usually port 8089; other than loopback addresses need \
             allow-unauthenticated, as for all inputs whose protocol has no authentication";
        udp_database: String = "udp", "DATABASE[/POLICY]", "Where it is written; the database is created if missing";
        udp_precision: String = "n", "UNIT", "Unit of its times: n, u, ms, s, m or h";
        graphite_bind: BindAddress = ("none"), "ADDRESS:PORT",
            "Address and port to receive Graphite's lines on by TCP and UDP, usually port 2003";
        graphite_database: String = "graphite", "DATABASE[/POLICY]",
            "Where they are written; the database is created if missing";
        #[arg(value_delimiter = ';')]
        graphite_templates: Vec<String> = ("measurement*: the path is the measurement"), "TEMPLATE;…",
            "What the parts of a path are: templates as InfluxDB's, each `[filter] template [tag=value,…]`";
        graphite_separator: String = ".", "TEXT", "Separator between parts of a path that a template joins";
        opentsdb_bind: BindAddress = ("none"), "ADDRESS:PORT",
            "Address and port to receive OpenTSDB's lines and JSON on, usually port 4242";
        opentsdb_database: String = "opentsdb", "DATABASE[/POLICY]",
            "Where they are written; the database is created if missing";
        collectd_bind: BindAddress = ("none"), "ADDRESS:PORT",
            "Address and port to receive collectd's packets on by UDP, usually port 25826; other than loopback addresses need \
             allow-unauthenticated, or a collectd-security-level";
        collectd_database: String = "collectd", "DATABASE[/POLICY]",
            "Where they are written; the database is created if missing";
        collectd_types_db: PathBuf = "/usr/share/collectd/types.db", "FILE",
            "Which values each of collectd's types has; a file, or a directory of such files";
        collectd_security_level: String = "none", "LEVEL",
            "Least protection of what is stored: none, sign (signed or encrypted) or encrypt";
        collectd_auth_file: PathBuf = (), "FILE", "Users and passwords of collectd's senders, `user: password` in each line";
        collectd_values: String = "split", "FORM",
            "How a type with several values is stored: split (a measurement of each) or join (fields of one measurement)";
        otlp_database: String = ("none: they are not taken"), "DATABASE[/POLICY]",
            "Where metrics of OpenTelemetry are written, which are posted to /v1/metrics; the database is created if missing";
    }
    "Queries" {
        max_row_limit: usize = "0", "NUMBER", "Most rows of an answer that is not chunked; 0: no limit";
        max_concurrent_queries: usize = "0", "NUMBER",
            "Most requests with queries that run at once; 0: no limit";
        spill_limit: ByteSize = "10GiB", "SIZE",
            "Most disk space for rows that statements of SQL sort or group and have no memory for, in the folder .spill \
             of data-dir; half of what is free on the disk stays free; 0: such statements fail";
        query_timeout: Time = "0s", "DURATION", "How long a query may run; 0s: no limit";
        max_select_series: usize = "0", "NUMBER", "Most series of one measurement in a SELECT; 0: no limit";
        max_select_buckets: usize = "0", "NUMBER", "Most GROUP BY time() windows of a SELECT; 0: no limit";
        max_select_point: usize = "0", "NUMBER", "Most points that a SELECT may read; 0: no limit";
    }
    "Log" {
        log_level: LogLevel = "info", "LEVEL",
            "What is logged: error, warn, info, debug, trace, off, or levels of parts such as nyala=debug,info; read again at \
             SIGHUP; the variable NYALA_LOG overrides it";
        log_format: LogFormat = "text", "FORM",
            "The form of the log: text (for people), logfmt (name=value) or json (an object per line)";
        slow_query_threshold: Time = "0s", "DURATION",
            "Log statements that take at least this long, with their text, without passwords; 0s: none";
    }
    "Traces" {
        traces_endpoint: String = ("none: no traces are made"), "URL",
            "Where traces are sent by OTLP over HTTP in protocol buffers: a collector of OpenTelemetry, such as \
             http://127.0.0.1:4318/v1/traces";
        traces_ratio: Ratio = "1", "NUMBER",
            "The share of requests, flushes and merges whose traces are recorded, from 0 to 1; a client that sends traceparent \
             decides for its own requests";
    }
    "Access" {
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        auth_enabled: bool = "false", "BOOLEAN",
            "Require authentication; the first user to be created must be an administrator";
        #[arg(hide_env_values = true)]
        #[serde(skip_serializing)]
        shared_secret: SharedSecret = (), "SECRET",
            "The secret that bearer tokens (JWT with HS256, HS384 or HS512) are signed with, 32 bytes or more; needs \
             auth-enabled; better in a file or variable than in a flag";
        log_in_failures: u32 = "5", "NUMBER",
            "How many log-ins of a user may fail from an address before the next has to wait, each time twice as long, up to 5 \
             minutes; 0: no limit";
        audit_log: PathBuf = ("no file"), "FILE",
            "Write log-ins, changes of users and tokens, dropped and corrected data, and refused requests to this file, as JSON \
             lines; it is opened again at SIGHUP";
        audit_log_ins: AuditedLogIns = "all", "all|failed",
            "Which log-ins are written to audit-log";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        allow_unauthenticated: bool = "false", "BOOLEAN",
            "Listen on other than loopback addresses although authentication is off, or the protocol of an input has none";
        files_dir: PathBuf = ("no files"), "DIRECTORY",
            "Directory in which administrators may write and read files by COPY of SQL; nothing outside it can be named";
        #[arg(value_delimiter = ',')]
        files_s3: Vec<String> = (), "URL,…",
            "Buckets, or prefixes in them, in which administrators may write and read objects by COPY of SQL: s3://bucket/prefix; \
             the server and the credentials are those of the environment variables AWS_…";
        #[arg(value_delimiter = ',')]
        allowed_hosts: Vec<String> =
            ("any with authentication, or if http-bind is not a loopback address; otherwise none, as a protection against \
              DNS rebinding"),
            "NAME,…", "Host names that requests may use for this server, besides addresses and localhost; `*`: any";
        #[arg(value_delimiter = ',')]
        allowed_origins: Vec<String> = ("any with authentication, none without"), "ORIGIN,…",
            "Origins of web pages that may use this server, such as http://grafana.example.com:3000; `*`: any";
    }
}

impl GivenConfig {
    /// Reads a file. An error names the line but does not quote it, because the line may hold a secret.
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
        let config = self.or(in_file)?;
        config.check()?;
        Ok(config)
    }
}

impl Config {
    /// The limits of queries.
    pub fn query_limits(&self) -> QueryLimits {
        QueryLimits {
            concurrent_queries_max: self.max_concurrent_queries,
            timeout: self.query_timeout.0,
            series_max: self.max_select_series,
            buckets_max: self.max_select_buckets,
            points_max: self.max_select_point,
        }
    }

    /// The certificate for HTTPS, if there is one.
    pub fn certificates(&self) -> Result<Option<Certificates>, String> {
        let Some(certificate) = &self.https_certificate else { return Ok(None) };
        let key = self.https_private_key.as_ref().unwrap_or(certificate);
        Certificates::read(certificate, key).map(Some)
    }

    /// The host names and web pages that requests may use.
    pub fn allowed_sites(&self) -> Result<AllowedSites, String> {
        let is_local = self.http_bind.0.ip().to_canonical().is_loopback();
        let hosts = self.allowed_hosts.clone().or((is_local && !self.auth_enabled).then(Vec::new));
        let origins = self.allowed_origins.clone().or((!self.auth_enabled).then(Vec::new));
        AllowedSites::new(hosts, origins)
    }

    /// Where to listen for clients of PostgreSQL, and whether that was asked for.
    pub fn postgres_address(&self) -> Option<(BindAddress, bool)> {
        self.address_of(self.postgres_bind, DEFAULT_POSTGRES_BIND)
    }

    /// The same for clients of Arrow Flight SQL.
    pub fn flight_address(&self) -> Option<(BindAddress, bool)> {
        self.address_of(self.flight_bind, DEFAULT_FLIGHT_BIND)
    }

    /// An address that is usual, and that nobody asked for, must not keep HTTP from the port that was asked for.
    fn address_of(&self, bind: Option<OptionalBind>, usual: SocketAddr) -> Option<(BindAddress, bool)> {
        let http = self.http_bind.0;
        let is_taken = http.port() == usual.port() && (http.ip() == usual.ip() || http.ip().is_unspecified());
        match bind {
            None if is_taken => None,
            None => Some((BindAddress(usual), false)),
            Some(OptionalBind::None) => None,
            Some(OptionalBind::At(address)) => Some((address, true)),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.allowed_sites()?;
        self.inputs()?;
        self.traces_endpoint.iter().try_for_each(|endpoint| crate::traces::check_endpoint(endpoint))?;
        let is_bucket = |url: &&String| {
            url.strip_prefix("s3://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        };
        if let Some(url) = self.files_s3.iter().flatten().find(|url| !is_bucket(url)) {
            return Err(format!("files-s3: {url:?} is no bucket such as s3://bucket or s3://bucket/prefix"));
        }
        let is_public = !self.http_bind.0.ip().is_loopback();
        let open_to_all = format!(
            "http-bind {} is reachable from other machines, and authentication is off: say --auth-enabled, bind to 127.0.0.1, or say --allow-unauthenticated if the network is trusted",
            self.http_bind
        );
        let others = [("postgres-bind", self.postgres_address()), ("flight-bind", self.flight_address())];
        let other_public = others.into_iter().find_map(|(name, listening)| {
            let (address, _) = listening.filter(|(address, _)| !address.0.ip().is_loopback())?;
            Some(format!(
                "{name} {address} is reachable from other machines, and authentication is off: say --auth-enabled, bind to 127.0.0.1, or say --allow-unauthenticated if the network is trusted"
            ))
        });
        let weak_secret = self.shared_secret.as_ref().and_then(|secret| secret.check().err());
        let little_memory = format!("memory-limit {} is less than 64MiB", self.memory_limit);
        let short_log = format!("wal-limit {} is less than 1MiB", self.wal_limit);
        let has_masters = self.kudu_masters.as_ref().is_some_and(|masters| !masters.is_empty());
        let has_token = self.kudu_token_file.is_some();
        let wrong = [
            (is_public && !self.auth_enabled && !self.allow_unauthenticated, &*open_to_all),
            (
                other_public.is_some() && !self.auth_enabled && !self.allow_unauthenticated,
                other_public.as_deref().unwrap_or_default(),
            ),
            (
                self.scram_iterations != 0 && !(4096..=100_000).contains(&self.scram_iterations),
                "scram-iterations must be 0, or from 4096 to 100000, beyond which clients refuse",
            ),
            (
                self.https_private_key.is_some() && self.https_certificate.is_none(),
                "https-private-key without https-certificate would secure nothing",
            ),
            (weak_secret.is_some(), weak_secret.as_deref().unwrap_or_default()),
            (
                self.shared_secret.is_some() && !self.auth_enabled,
                "shared-secret without auth-enabled would protect nothing: set both or neither",
            ),
            (self.memory_limit.0 < 64 << 20, &little_memory),
            (
                self.store == StoreKind::Kudu && !has_masters,
                "store = kudu needs its masters: say --kudu-masters host:7051",
            ),
            (
                self.store == StoreKind::Embedded && has_masters,
                "kudu-masters would not be used: say --store kudu, too",
            ),
            (
                self.store == StoreKind::Kudu && !self.history.0.is_zero(),
                "history is not kept over Kudu: leave it out",
            ),
            (
                has_token && self.kudu_certificate.is_none(),
                "kudu-token-file needs kudu-certificate: the token is sent to nobody else",
            ),
            (
                has_token && self.kudu_kerberos.is_some(),
                "kudu-token-file and kudu-kerberos: a log-in is by one of them",
            ),
            (self.kudu_replicas < 1 || self.kudu_replicas % 2 == 0, "kudu-replicas must be odd"),
            (!(1..=256).contains(&self.kudu_buckets), "kudu-buckets must be from 1 to 256"),
            (self.keep_alive_timeout.0.is_zero(), "keep-alive-timeout must be longer than 0s"),
            (self.wal_limit.0 < 1 << 20, &short_log),
            (!(1..=64).contains(&self.maintenance_threads), "maintenance-threads must be from 1 to 64"),
            (
                !(1..1 << 31).contains(&self.max_body_size.0),
                "max-body-size must be at least 1 byte and below 2GiB; it cannot be without limit",
            ),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, words)) => Err(words.to_owned()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_has_the_port_that_it_asks_for() {
        let flight = |text: &str| {
            let config = toml::from_str::<GivenConfig>(text).unwrap().resolve(None).unwrap();
            config.flight_address().map(|(address, is_asked_for)| (address.to_string(), is_asked_for))
        };
        assert_eq!(flight(""), Some(("127.0.0.1:8087".to_owned(), false)));
        assert_eq!(flight("http-bind = \"127.0.0.1:8087\""), None);
        let both = "http-bind = \"127.0.0.1:8087\"\nflight-bind = \"127.0.0.1:8087\"";
        assert_eq!(flight(both), Some(("127.0.0.1:8087".to_owned(), true)));
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
        let open = GivenConfig { http_bind: Some(":8086".parse().unwrap()), ..GivenConfig::default() };
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
                http_bind: Some(address.parse().unwrap()),
                auth_enabled: Some(auth),
                allow_unauthenticated: Some(true),
                allowed_hosts: listed.clone(),
                ..GivenConfig::default()
            };
            given.resolve(None).unwrap().allowed_sites().unwrap()
        };
        let new = |hosts: Option<&[&str]>, origins: Option<&[&str]>| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            AllowedSites::new(hosts.map(owned), origins.map(owned)).unwrap()
        };
        for local in ["localhost:1", "127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(sites(local, false, None), new(Some(&[]), Some(&[])), "{local}");
            assert_eq!(sites(local, true, None), new(None, None), "{local}");
        }
        // Between containers the server may have any host name.
        assert_eq!(sites(":1", false, None), new(None, Some(&[])));
        assert_eq!(sites(":1", false, Some("influxdb")), new(Some(&["influxdb"]), Some(&[])));
        assert_eq!(sites("localhost:1", false, Some("*")), new(None, Some(&[])));
        assert_eq!(sites("localhost:1", true, Some("influxdb")), new(Some(&["influxdb"]), None));
    }
}
