//! Values of settings as people write them: sizes, durations, addresses, policies.
//!
//! Each type is read from the same text in files, variables and flags, and is printed so that it can be read again.

use clap::ValueEnum;
use nyala_query::influxql::{format_duration, parse_duration};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// What the encoder favours when it chooses how to store a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Fast queries.
    Speed,
    /// A compromise.
    Balanced,
    /// Small files.
    Size,
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
    }
}

/// Where rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// In the data directory.
    Embedded,
    /// In an Apache Kudu cluster.
    Kudu,
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
    }
}

/// The form of the server's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// `name=value`.
    Logfmt,
    /// An object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
    }
}

/// Which log-ins are written to the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditedLogIns {
    /// All.
    All,
    /// Those that failed.
    Failed,
}

impl FromStr for AuditedLogIns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
    }
}

/// What is logged: a level, or levels of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevel(pub String);

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        crate::log_filter::parse(text).map(|_| LogLevel(text.to_owned()))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A share, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Ratio(pub f64);

impl TryFrom<f64> for Ratio {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&share) {
            true => Ok(Ratio(share)),
            false => Err(format!("{share} is no share: give a number from 0 to 1, such as 0.1")),
        }
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share: f64 = text.parse().map_err(|_| format!("{text:?} is no number from 0 to 1"))?;
        share.try_into()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When the log is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalSync {
    /// Before a write is acknowledged.
    Always,
    /// At this interval: a power cut may lose what was acknowledged since the last sync.
    Interval(Duration),
    /// Whenever the operating system writes its buffers.
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
            .and_then(|text| parse_duration(text).ok())
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
            WalSync::Interval(interval) => write!(f, "interval:{}", Time(*interval)),
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
        let parsed = parse_duration(text).ok();
        let length_ns = parsed.and_then(|length_ns| u64::try_from(length_ns).ok());
        let length_ns = length_ns.ok_or_else(|| format!("{text:?} is not a duration such as 10s"))?;
        Ok(Time(Duration::from_nanos(length_ns)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        f.write_str(&format_duration(nanoseconds))
    }
}

/// An address to listen on. `localhost` is 127.0.0.1; no host before the port means all addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindAddress(pub SocketAddr);

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = match text.rsplit_once(':') {
            Some(("", port)) => format!("0.0.0.0:{port}"),
            Some(("localhost", port)) => format!("127.0.0.1:{port}"),
            _ => text.to_owned(),
        };
        numbers.parse().map(BindAddress).map_err(|_| {
            format!(
                "{text:?} is no address and port such as 127.0.0.1:8086, localhost:8086 or :8086 (all addresses)"
            )
        })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where to listen for a protocol that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionalBind {
    /// Nowhere.
    None,
    /// At an address.
    At(BindAddress),
}

impl FromStr for OptionalBind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(OptionalBind::None),
            _ => text.parse().map(OptionalBind::At).map_err(|error: String| format!("{error}, or none")),
        }
    }
}

impl fmt::Display for OptionalBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionalBind::None => f.write_str("none"),
            OptionalBind::At(address) => address.fmt(f),
        }
    }
}

macro_rules! serialize_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

macro_rules! serde_as_text {
    ($type:ty) => {
        serialize_as_text!($type);

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

serialize_as_text!(ByteSize);
serde_as_text!(LogLevel);
serde_as_text!(WalSync);
serde_as_text!(Time);
serde_as_text!(BindAddress);
serde_as_text!(OptionalBind);

/// A number of bytes needs no quotes in a file.
impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBytes)
    }
}

struct TextOrBytes;

impl Visitor<'_> for TextOrBytes {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"512MiB\", or a number of bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
        let size = usize::try_from(bytes).map(ByteSize);
        size.map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))
    }

    fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
        let size = usize::try_from(bytes).map(ByteSize);
        size.map_err(|_| E::invalid_value(Unexpected::Unsigned(bytes), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_files_are_texts_or_numbers() {
        #[derive(Deserialize)]
        struct File {
            size: ByteSize,
        }
        let read = |text: &str| toml::from_str::<File>(text).map(|file| file.size).ok();
        assert_eq!(read("size = 25000000"), Some(ByteSize(25_000_000)));
        assert_eq!(read("size = \"1KiB\""), Some(ByteSize(1024)));
        for wrong in ["size = -1", "size = 1.5", "size = \"much\"", "size = true"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_and_sync_policies_read_as_they_are_written() {
        for text in ["512MiB", "3GiB", "1000", "7KiB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        assert_eq!("25MB".parse::<ByteSize>(), Ok(ByteSize(25_000_000)));
        assert!("-1MB".parse::<ByteSize>().is_err());
        for text in ["interval:1s", "interval:90m", "interval:500u"] {
            assert_eq!(text.parse::<WalSync>().unwrap().to_string(), text);
        }
        assert!("interval:0s".parse::<WalSync>().is_err());
    }
}
