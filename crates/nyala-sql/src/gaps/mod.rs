//! Gap filling: `time_bucket_gapfill` of TimescaleDB and `date_bin_gapfill` of InfluxDB 3.
//!
//! A query that groups by one of them has a row for every bucket of a range of times, also where there are no points.
//! [`functions`] are what users write. [`rule`] finds them in plans: the aggregate groups by ordinary buckets, and a node
//! above it ([`node`], executed by [`exec`]) fills the gaps. [`bounds`] finds the range in the conditions of the query, and
//! [`range`] computes it when the query is executed. [`filling`] makes the rows.

mod bounds;
mod exec;
mod filling;
mod functions;
mod interpolation;
mod node;
mod range;
mod rule;

pub(crate) use exec::GapFillExec;
pub(crate) use functions::{positional, register};
pub(crate) use node::GapFill;
pub(crate) use rule::FillGaps;

/// The most buckets of a range. A group has as many rows, or a few more.
const BUCKETS_MAX: u64 = 10_000_000;

/// What becomes of a column in a row that fills a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
enum Fill {
    /// It tells groups apart, so it is that of the group.
    Key,
    /// It is the start of the bucket.
    Bucket,
    /// NULL.
    Null,
    /// The last value before.
    Carry {
        /// Whether a NULL is replaced, too, and not carried.
        nulls_are_missing: bool,
    },
    /// A value on the straight line from the row before to the row after.
    Interpolate,
}
