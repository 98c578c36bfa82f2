//! Answers as text, written straight from columns.

pub mod json;
mod number;
mod text;
mod time;

pub use json::{JsonAnswer, JsonOptions};
pub use text::push_string;
pub use time::Epoch;
