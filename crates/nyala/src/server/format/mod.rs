//! Answers as text, written straight from columns.

mod indent;
pub mod json;
mod number;
mod text;
mod time;

pub use indent::Indenter;
pub use json::{JsonAnswer, JsonOptions};
pub use text::push_string;
pub use time::Epoch;
