//! Functions of PostgreSQL that programs ask for, and that there are not: they are refused by name, where any other function does not
//! exist.

const NAMES: [&str; 15] = [
    "array_fill",
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "json_object_keys",
    "json_populate_record",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_each",
    "jsonb_object_keys",
    "jsonb_set",
    "row_to_json",
    "sha224",
    "trim_array",
];

/// The one of them that words of the planner say that it does not know.
pub(crate) fn named_in(words: &str) -> Option<&'static str> {
    let name = words.split('\'').nth(1)?;
    NAMES.into_iter().find(|own| *own == name)
}
