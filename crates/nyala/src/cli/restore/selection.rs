//! Which part of a backup is restored, under which names.

use crate::cli::import::source::time_ns;
use clap::Args;
use nyala_core::TimeRange;

/// A part of a backup.
#[derive(Debug, Clone, Args)]
pub(super) struct Selection {
    /// Restore this database only; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) database: Vec<String>,
    /// Restore points of this retention policy only
    #[arg(long, value_name = "NAME")]
    retention_policy: Option<String>,
    /// Restore this measurement only; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) measurement: Vec<String>,
    /// Restore points from this time on: 2026-01-31T00:00:00Z, 2026-01-31, or nanoseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = time_ns, allow_hyphen_values = true)]
    from: Option<i64>,
    /// Restore points before this time only
    #[arg(long, value_name = "TIME", value_parser = time_ns, allow_hyphen_values = true)]
    to: Option<i64>,
    /// Restore what there was at this time, if the backup has the history of it
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    pub(super) at: Option<i64>,
    /// The name that the database gets
    #[arg(long, value_name = "NAME")]
    as_database: Option<String>,
    /// The name that the measurement gets
    #[arg(long, value_name = "NAME")]
    as_measurement: Option<String>,
    /// Grant again what was granted on the databases, as far as the users are there
    #[arg(long, conflicts_with = "at")]
    pub(super) grants: bool,
}

impl Selection {
    /// Whether nothing is left out, or called otherwise.
    pub(super) fn is_everything(&self) -> bool {
        let Self {
            database, retention_policy, measurement, from, to, at, as_database, as_measurement, ..
        } = self;
        let names = [retention_policy, as_database, as_measurement];
        database.is_empty()
            && measurement.is_empty()
            && names.iter().all(|name| name.is_none())
            && [from, to, at].iter().all(|time| time.is_none())
            && !self.grants
    }

    /// Refuses what means nothing.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.as_database.is_some() && self.database.len() != 1 {
            return Err("--as-database needs one --database".to_owned());
        }
        if self.as_measurement.is_some() && (self.measurement.len() != 1 || self.database.len() != 1) {
            return Err("--as-measurement needs one --database and one --measurement".to_owned());
        }
        if self.grants && (self.database.is_empty() || !self.has_whole_databases()) {
            return Err("--grants needs a whole --database: grants are on databases".to_owned());
        }
        match self.time().is_empty() {
            true => Err("--from is not before --to".to_owned()),
            false => Ok(()),
        }
    }

    pub(super) fn time(&self) -> TimeRange {
        TimeRange::new(self.from.unwrap_or(i64::MIN), self.to.unwrap_or(i64::MAX))
    }

    pub(super) fn has_database(&self, name: &str) -> bool {
        self.database.is_empty() || self.database.iter().any(|own| own == name)
    }

    pub(super) fn has_policy(&self, name: &str) -> bool {
        self.retention_policy.as_ref().is_none_or(|own| own == name)
    }

    pub(super) fn has_measurement(&self, name: &str) -> bool {
        self.measurement.is_empty() || self.measurement.iter().any(|own| own == name)
    }

    /// Whether whole databases are restored, with what they have beside points.
    pub(super) fn has_whole_databases(&self) -> bool {
        self.retention_policy.is_none() && self.measurement.is_empty() && self.time() == TimeRange::ALL
    }

    /// The new name of a database.
    pub(super) fn database_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.as_database.as_deref().unwrap_or(name)
    }

    /// The new name of a measurement.
    pub(super) fn measurement_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.as_measurement.as_deref().unwrap_or(name)
    }
}
