//! The log: what was written and deleted since the last snapshot to a TSM file.
//!
//! ```text
//! segment: type (1) · length (4) · compressed by Snappy │ …
//! 1 write:        type of values (1) · key length (2) · key · count (4) · [time (8) · value] … │ …
//! 2 delete:       keys, separated by newlines
//! 3 delete range: first time (8) · last time (8) │ key length (4) · key │ …
//! ```
//!
//! A deletion concerns what the log wrote before it: from TSM files it was deleted by tombstones at the same time. Next:
//! `entry` (decodes entries), `segment` (reads them), `run` (what the log holds, in order of
//! keys), `written` (the points of a key there, and what was deleted of them).

pub mod entry;
pub mod run;
pub mod segment;
mod written;
