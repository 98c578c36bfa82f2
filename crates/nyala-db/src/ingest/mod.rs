//! Line protocol of InfluxDB 1.8 into columns.
//!
//! One request body becomes a few [`RowGroup`]s: per measurement the series, the times and one column per
//! (field, type), ready to be handed on without looking at rows again. What costs nothing per row is what
//! makes it fast:
//!
//! * **Series** ([`SeriesCache`]): the bytes of `measurement,tags` are compared with the key that followed the
//!   previous one last time; only on a miss they are hashed. Tags are parsed once per series, not per row.
//! * **Fields** (`matcher`): the names of the known columns are compared word by word, in the order of the
//!   previous row; only a new name is looked up.
//! * **Numbers** (`number`): eight digits at a time.
//!
//! A line that is not plain, or not yet known, takes the careful way (`careful`), which decides every quirk of
//! 1.8.10 and words its errors; the quick way (`request`) accepts only lines which the careful way would read
//! identically, and gives up without a trace otherwise. Invariant: the two agree on every input
//! (`tests/line_protocol/`).
//!
//! Next stop: `write.rs` resolves the pending series, checks field types and hands the columns to the store.
//! Not here: rules that need the catalogue (fields and tags named `time`, type conflicts, retention).

mod batch;
mod careful;
mod column;
mod error;
mod escape;
mod key;
mod matcher;
mod nanoseconds;
mod number;
mod options;
mod request;
mod series_cache;

pub use batch::{ParsedBatch, RowGroup};
pub use column::{Bitmap, FieldColumn, FieldKind, FieldValues, Strings};
pub use error::{LineError, LineErrorKind, ParseErrors};
pub use escape::{MEASUREMENT_SPECIALS, STRING_SPECIALS, TAG_SPECIALS, push_escaped, push_tag};
pub use key::{TagSet, measurement_of};
pub use nanoseconds::Lines;
pub use options::{LineLimits, MAX_KEY_BYTES, MAX_TIME_NS, MIN_TIME_NS, ParseOptions, Precision};
pub use request::{LineRequest, MAX_BODY_BYTES, RequestMark};
pub use series_cache::{Generation, SeriesCache, SeriesCacheLimits, SeriesHandle, UNRESOLVED_SERIES};
