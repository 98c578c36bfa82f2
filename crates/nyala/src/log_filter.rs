//! What is logged: the filter of the process's log, which can be changed while it runs.
//!
//! A process has one log, so this is the one part that is not handed around: `cli::log` installs it, SIGHUP and
//! `/debug/log` change it.

use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Changes the filter of the log that was installed.
type Change = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

struct Filter {
    change: Change,
    /// As it was given.
    text: Mutex<String>,
}

static FILTER: OnceLock<Filter> = OnceLock::new();

/// Reads a level (`warn`) or levels of parts (`nyala=debug,info`).
pub(crate) fn parse(text: &str) -> Result<EnvFilter, String> {
    // Values of fields cannot be asked for: a pattern would be compared with every event.
    let builder = EnvFilter::builder().with_regex(false);
    let is_empty = text.split(',').all(|part| part.trim().is_empty());
    // A name alone would be a part of the program with all that it says, and all others silent: it is a misspelt level.
    let is_level = |part: &str| part.is_empty() || part.parse::<LevelFilter>().is_ok();
    let mut names = text.split(',').map(str::trim).filter(|part| !part.contains(['=', '[']));
    if let Some(part) = names.find(|&part| !is_level(part)) {
        return Err(format!(
            "{part:?} is no level: error, warn, info, debug, trace, off, or such as nyala=debug,info"
        ));
    }
    match builder.parse(text) {
        Ok(filter) if !is_empty => Ok(filter),
        Ok(_) => {
            Err("a level is missing: error, warn, info, debug, trace, or such as nyala=debug,info".to_owned())
        }
        Err(error) => {
            Err(format!("{text:?} is no level such as info, and no list such as nyala=debug,info: {error}"))
        }
    }
}

/// From now on this changes the filter, which is `text` now.
pub(crate) fn install(text: &str, change: Change) {
    let filter = Filter { change, text: Mutex::new(text.to_owned()) };
    // A second log of the same process would be refused before.
    let _ = FILTER.set(filter);
}

/// What is logged now; empty if nothing is.
pub(crate) fn current() -> String {
    let text = |filter: &Filter| filter.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
    FILTER.get().map(text).unwrap_or_default()
}

/// Logs something else from now on.
pub(crate) fn set(text: &str) -> Result<(), String> {
    let filter = FILTER.get().ok_or("this process has no log")?;
    (filter.change)(parse(text)?)?;
    text.clone_into(&mut filter.text.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_or_refused() {
        for text in ["info", "WARN", "off", "nyala=debug,info", "nyala::server=trace"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in ["", " ", ",", "nyala=loud", "info,nyala==debug", "warning", "nyala", "info,nyala"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(set("info").is_err(), "nothing is installed in tests");
    }
}
