//! Keys of settings files that no setting has: they were renamed or removed since the file was written, or are misspelt.

use super::SETTINGS;

/// Such keys of a file; none if it is not TOML, which reading its settings finds.
pub fn unknown_keys(text: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    let is_known = |key: &String| SETTINGS.iter().any(|setting| setting.name.replace('_', "-") == *key);
    table.into_iter().map(|(key, _)| key).filter(|key| !is_known(key)).collect()
}
