//! Settings that the program does not know any more.

use crate::cli::findings::Finding;
use crate::cli::serve::ServeArgs;
use crate::config::{StoreKind, unknown_keys};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Variables that no argument of the command line has.
const OTHER_VARIABLES: [&str; 5] =
    ["NYALA_LOG", "NYALA_PASSWORD", "NYALA_TOKEN", "NYALA_USERNAME", "NYALA_WRITER_PASSWORD"];
const ADVICE: &str =
    "see the changelog for their new names, and `nyala config --markdown` for all that there are";

/// Where the rows are.
pub(super) enum Place {
    Directory(PathBuf),
    Cluster,
}

/// Whether the settings are valid, and where they say that the rows are.
pub(super) fn look(serve: ServeArgs) -> (Vec<Finding>, Option<Place>) {
    let text = serve.file().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    // With settings that are refused, too, as far as they say it.
    let in_file: toml::Table = toml::from_str(&text).unwrap_or_default();
    let in_file = in_file.get("data-dir").and_then(toml::Value::as_str).map(PathBuf::from);
    let said = serve.data_dir().map(PathBuf::from).or(in_file);
    let unknown = unknown_keys(&text);
    if let (Some(file), false) = (serve.file(), unknown.is_empty()) {
        let found = format!("{} has settings that do not exist: {}", file.display(), unknown.join(", "));
        let why = "the server does not start with them; they were renamed or removed, or are misspelt";
        return (vec![Finding::problem("settings", found, why, ADVICE)], said.map(Place::Directory));
    }
    let file = serve.file().map(PathBuf::from);
    match serve.resolve() {
        Ok(config) => {
            let place = match config.store {
                StoreKind::Embedded => Place::Directory(config.data_dir),
                StoreKind::Kudu => Place::Cluster,
            };
            (vec![Finding::ok("settings", "they are valid")], Some(place))
        }
        Err(message) => {
            (vec![Finding::refused_settings(file.as_deref(), message)], said.map(Place::Directory))
        }
    }
}

/// Variables that look like settings, and that nothing reads.
pub(super) fn look_at_environment(program: &clap::Command) -> Option<Finding> {
    let mut known: BTreeSet<String> = OTHER_VARIABLES.map(str::to_owned).into();
    add_variables(program, &mut known);
    let given = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown: BTreeSet<String> =
        given.filter(|name| name.starts_with("NYALA_") && !known.contains(name)).collect();
    let found = || {
        let names: Vec<&str> = unknown.iter().map(String::as_str).collect();
        format!("variables that nothing reads: {}", names.join(", "))
    };
    let why = "they have no effect; they were renamed or removed, or are misspelt";
    (!unknown.is_empty()).then(|| Finding::warning("environment", found(), why, ADVICE))
}

fn add_variables(command: &clap::Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(variables.map(str::to_owned));
    command.get_subcommands().for_each(|command| add_variables(command, known));
}
