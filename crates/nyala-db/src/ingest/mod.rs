//! Line protocol of InfluxDB 1.8 into columns.
//!
//! A request body becomes a few [`RowGroup`]s. Each has the series, the times, and one column per (field, type) of one
//! measurement, and is passed on without looking at rows again. It is fast because rows cause little work:
//!
//! * **Series** ([`SeriesCache`]): the bytes of `measurement,tags` are compared with the key that followed the previous
//!   one last time. Only if they differ are they hashed. Tags are parsed once per series, not per row.
//! * **Fields** (`matcher`): the names of the known columns are compared word by word, in the order of the previous
//!   row. Only new names are looked up.
//! * **Numbers** (`number`): eight digits are parsed at a time.
//!
//! There are two paths. The fast path (`request`) accepts only lines that the slow path would parse identically, and
//! otherwise gives up without changing anything. The slow path (`slow_path`) handles every quirk of InfluxDB 1.8.10 and
//! makes its error messages. Invariant: both agree on every input (`tests/line_protocol/`).
//!
//! Next: `write.rs` resolves the pending series, checks field types and passes the columns to the store. Rules that
//! need the catalog (fields and tags named `time`, type conflicts, retention) are not here.

mod batch;
mod body_lines;
mod column;
mod column_batch;
mod column_slice;
mod error;
mod escape;
mod key;
mod known_fields;
mod nanoseconds;
mod number;
mod options;
mod series_cache;
mod series_keys;
mod slow_path;

pub use batch::{ParsedBatch, RowGroup};
pub use body_lines::{LineRequest, MAX_BODY_BYTES, RequestMark};
pub use column::{Bitmap, FieldColumn, FieldKind, FieldValues, Strings};
pub use column_batch::ColumnBatch;
pub use column_slice::{FieldSlice, ValueSlice};
pub use error::{LineError, LineErrorKind, ParseErrors};
pub use escape::{
    LineValue, MEASUREMENT_SPECIALS, TAG_SPECIALS, begins_otherwise, push_checked_tag, push_escaped,
    push_measurement, push_measurement_name, push_name, push_tag, push_text, push_value, unwritable,
};
pub use key::{TagSet, measurement_of};
pub use nanoseconds::{Lines, end_without_time};
pub use options::{LineLimits, MAX_KEY_BYTES, MAX_TIME_NS, MIN_TIME_NS, ParseOptions, Precision};
pub use series_cache::{Generation, SeriesCache, SeriesCacheLimits, SeriesHandle, UNRESOLVED_SERIES};
pub use series_keys::{SeriesKeys, TagName};
pub use slow_path::line_end;
