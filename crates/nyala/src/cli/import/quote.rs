//! Names and texts in statements of InfluxQL.

/// A name in double quotes.
pub(in crate::cli) fn identifier(name: &str) -> String {
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// A text in single quotes.
pub(in crate::cli) fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    format!("'{escaped}'")
}
