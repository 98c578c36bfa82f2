//! Reading arbitrary texts as values: the entry for fuzzers. [`Statement::parse`](crate::Statement::parse) reads them as statements.

use crate::interval_text::read_interval;
use crate::json_text;
use crate::jsonb_text::normal;
use crate::relation::time_text;
use serde_json::value::RawValue;

/// Values lie less deep in each other than this in texts that both readers of JSON must understand.
const DEPTH: usize = 500;

/// Reads a text as an interval, as a time and as JSON.
///
/// # Panics
/// Two readers of the same disagree, or what was written is read as something else.
pub fn read_arbitrary(text: &str) {
    let _ = read_interval(text);
    time_text::read_arbitrary(text);
    let (is_json, is_json_to_others) =
        (json_text::is_json(text), serde_json::from_str::<&RawValue>(text).is_ok());
    let is_flat = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() < DEPTH;
    assert!(is_json == is_json_to_others || !is_json && !is_flat, "{text}");
    if let (true, Ok(written)) = (is_json, normal(text)) {
        assert!(json_text::is_json(&written), "{written}");
        assert_eq!(normal(&written).ok().as_ref(), Some(&written));
    }
}
