//! Where an input writes, and how.

use super::{InputCounts, Reason};
use nyala_core::Result;
use nyala_db::ingest::{LineLimits, ParseOptions, Precision};
use nyala_db::write::{LineWriter, WriteReport};
use std::sync::Arc;

/// Where an input writes, from `database` or `database/policy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The database, which is created when its first points come.
    pub database: String,
    /// The retention policy; empty: the default one.
    pub policy: String,
}

impl Destination {
    /// Reads a setting.
    pub fn parse(setting: &str, text: &str) -> std::result::Result<Self, String> {
        let (database, policy) = text.split_once('/').unwrap_or((text, ""));
        if database.is_empty() || (text.contains('/') && policy.is_empty()) {
            return Err(format!("{setting} {text:?} is not DATABASE or DATABASE/POLICY"));
        }
        Ok(Self { database: database.to_owned(), policy: policy.to_owned() })
    }
}

/// Writes to the database of an input.
#[derive(Debug, Clone)]
pub struct Writer {
    pub(in crate::server) counts: Arc<InputCounts>,
    pub(in crate::server) destination: Destination,
}

impl Writer {
    /// Writes lines in nanoseconds, which are `points` points. Creates the database if there is none, but no series once it has
    /// `series_max`.
    pub(in crate::server) async fn write(
        &self,
        writer: &LineWriter,
        now_ns: i64,
        lines: &[u8],
        points: u64,
        series_max: Option<u64>,
    ) -> Result<WriteReport> {
        let Destination { database, policy } = &self.destination;
        if writer.catalog().database(database).is_none() {
            // Another server may just have created it.
            writer.catalog().follow().await?;
        }
        if writer.catalog().database(database).is_none() {
            writer.catalog().create_database(database, None).await?;
        }
        let (precision, limits) = (Precision::Nanosecond, LineLimits::default());
        let options = ParseOptions { precision, now_ns, limits, series_max };
        let report = writer.write(database, policy, options, lines).await?;
        self.counts.write(report.written);
        self.counts.reject(Reason::Refused, points.saturating_sub(report.written));
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_database_and_perhaps_a_policy() {
        let parsed = |text| Destination::parse("udp-database", text);
        let wanted =
            |database: &str, policy: &str| Destination { database: database.into(), policy: policy.into() };
        assert_eq!(parsed("udp"), Ok(wanted("udp", "")));
        assert_eq!(parsed("a/b/c"), Ok(wanted("a", "b/c")));
        for wrong in ["", "/", "/b", "a/"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
