//! What a caller chooses for one request: the unit of timestamps, the time for lines without one, and limits.

/// The longest accepted `measurement,tags` plus field name (with four bytes between them), as in InfluxDB.
pub const MAX_KEY_BYTES: usize = 65_535;

/// The earliest time that can be written. The two values below it are sentinels in InfluxDB.
pub const MIN_TIME_NS: i64 = i64::MIN + 2;

/// The latest time that can be written.
pub const MAX_TIME_NS: i64 = i64::MAX - 1;

/// Unit of the timestamps in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// `n`, `ns` or nothing.
    #[default]
    Nanosecond,
    /// `u`.
    Microsecond,
    /// `ms`.
    Millisecond,
    /// `s`.
    Second,
    /// `m`.
    Minute,
    /// `h`.
    Hour,
}

impl Precision {
    /// Reads the `precision` parameter of `/write`.
    pub fn from_parameter(text: &str) -> Option<Self> {
        Some(match text {
            "" | "n" | "ns" => Self::Nanosecond,
            "u" => Self::Microsecond,
            "ms" => Self::Millisecond,
            "s" => Self::Second,
            "m" => Self::Minute,
            "h" => Self::Hour,
            _ => return None,
        })
    }

    /// Length of the unit.
    pub const fn unit_ns(self) -> i64 {
        match self {
            Self::Nanosecond => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
            Self::Hour => 3_600_000_000_000,
        }
    }

    /// `time_ns` rounded down to the unit.
    pub const fn truncate(self, time_ns: i64) -> i64 {
        time_ns.saturating_sub(time_ns.rem_euclid(self.unit_ns()))
    }
}

/// Limits on what one request may make the parser hold.
#[derive(Clone, Copy, Debug)]
pub struct LineLimits {
    /// The longest line. Longer ones are rejected.
    pub max_line_bytes: usize,
    /// The most tags of a line. Lines with more are rejected.
    pub max_tags: usize,
    /// The most fields of a line. Lines with more are rejected.
    pub max_fields: usize,
    /// The most columns (of all groups) in one batch. The batch ends before a line that would exceed this, and the rest
    /// of the body goes into the next batch, so nothing is rejected.
    pub max_columns: usize,
    /// The most rows in one batch, in the same way.
    pub max_rows: usize,
    /// The most errors that are kept with their text. Further ones are only counted.
    pub max_errors: usize,
    /// The most bytes of error text that are kept.
    pub max_error_bytes: usize,
}

impl Default for LineLimits {
    /// `max_line_bytes` is InfluxDB's default limit of a body. `max_tags` is what its longest key can hold with four
    /// bytes per tag. Neither rejects a line that InfluxDB accepts. A column costs some 200 bytes and up to 512 bytes
    /// of padding, a row 16 bytes and its values, so hostile batches stay below some 150 MB.
    fn default() -> Self {
        Self {
            max_line_bytes: 25_000_000,
            max_tags: 16_384,
            max_fields: 65_536,
            max_columns: 131_072,
            max_rows: 500_000,
            max_errors: 256,
            max_error_bytes: 256 * 1024,
        }
    }
}

/// Settings of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions {
    /// Unit of its timestamps.
    pub precision: Precision,
    /// The time of arrival, for lines without a timestamp (truncated to the unit).
    pub now_ns: i64,
    /// Bounds.
    pub limits: LineLimits,
    /// No series is created once its database has so many: a quota of whoever writes.
    pub series_max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_rounded_down_also_before_1970() {
        assert_eq!(Precision::Second.truncate(1_999_999_999), 1_000_000_000);
        assert_eq!(Precision::Second.truncate(-1), -1_000_000_000);
        assert_eq!(Precision::Nanosecond.truncate(-1), -1);
    }

    #[test]
    fn only_the_names_of_influxdb_are_precisions() {
        for (text, unit_ns) in
            [("", 1), ("n", 1), ("ns", 1), ("u", 1_000), ("ms", 1_000_000), ("h", 3_600_000_000_000)]
        {
            assert_eq!(Precision::from_parameter(text).map(Precision::unit_ns), Some(unit_ns), "{text}");
        }
        assert_eq!(Precision::from_parameter("us"), None);
        assert_eq!(Precision::from_parameter("d"), None);
    }
}
