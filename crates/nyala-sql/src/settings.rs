//! Settings of a session: those of PostgreSQL that clients set or ask for.
//!
//! A setting either has an effect, or accepts only the value that describes what nyala does anyway. Any other name is
//! refused.

use crate::clocks::known_zone;
use crate::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The version that clients are told: the one whose behaviour they get.
pub const SERVER_VERSION: &str = "15.18";

/// Which values a setting accepts.
enum Accepts {
    /// Any text.
    Any,
    /// One of these, in any case. The first is the only one with an effect, the others mean the same.
    One(&'static [&'static str]),
    /// On or off.
    Switch,
    /// One of these, in any case.
    OneOf(&'static [&'static str]),
    /// A duration in milliseconds, or with a unit.
    Duration,
    /// A number in a range.
    Number(i64, i64),
    /// The name of a time zone.
    Zone,
}

/// Whether transactions may not write unless they say so.
pub(crate) const READ_ONLY: &str = "default_transaction_read_only";

/// The settings, their values at first, and what they accept.
const KNOWN: [(&str, &str, Accepts); 31] = [
    ("application_name", "", Accepts::Any),
    ("bytea_output", "hex", Accepts::One(&["hex"])),
    // There are no functions to check.
    ("check_function_bodies", "on", Accepts::Switch),
    ("client_encoding", "UTF8", Accepts::One(&["UTF8", "UTF-8", "UNICODE"])),
    ("client_min_messages", "notice", Accepts::Any),
    ("DateStyle", "ISO, MDY", Accepts::One(&["ISO, MDY", "ISO", "ISO, YMD", "ISO,MDY"])),
    ("default_table_access_method", "heap", Accepts::One(&["heap"])),
    ("default_tablespace", "", Accepts::One(&[""])),
    (
        "default_transaction_isolation",
        "repeatable read",
        Accepts::One(&["repeatable read", "read committed"]),
    ),
    (READ_ONLY, "off", Accepts::Switch),
    ("extra_float_digits", "1", Accepts::Number(1, 3)),
    ("idle_in_transaction_session_timeout", "0", Accepts::One(&["0"])),
    ("idle_session_timeout", "0", Accepts::One(&["0"])),
    ("integer_datetimes", "on", Accepts::One(&["on"])),
    ("IntervalStyle", "postgres", Accepts::One(&["postgres"])),
    ("is_superuser", "off", Accepts::One(&[])),
    ("lock_timeout", "0", Accepts::Duration),
    ("max_identifier_length", "63", Accepts::One(&[])),
    ("max_index_keys", "32", Accepts::One(&[])),
    ("nyala.push_down", "on", Accepts::OneOf(&["on", "off"])),
    // There are no policies that could hide rows.
    ("row_security", "on", Accepts::Switch),
    ("search_path", "\"$user\", public", Accepts::Any),
    ("server_encoding", "UTF8", Accepts::One(&[])),
    ("server_version", SERVER_VERSION, Accepts::One(&[])),
    ("server_version_num", "150018", Accepts::One(&[])),
    ("standard_conforming_strings", "on", Accepts::One(&["on", "true", "1"])),
    ("statement_timeout", "0", Accepts::Duration),
    ("synchronize_seqscans", "off", Accepts::One(&["off"])),
    ("TimeZone", "UTC", Accepts::Zone),
    ("transaction_isolation", "repeatable read", Accepts::One(&["repeatable read", "read committed"])),
    ("xmloption", "content", Accepts::One(&["content"])),
];

/// The settings of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Those that were changed, by their position among the known ones.
    changed: Arc<BTreeMap<usize, String>>,
    /// Whether the user may do everything.
    is_superuser: bool,
}

fn known(name: &str) -> SqlResult<usize> {
    let place = KNOWN.iter().position(|(known, ..)| known.eq_ignore_ascii_case(name));
    place.ok_or_else(|| {
        SqlError::new(SqlState::UNKNOWN_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
    })
}

impl Settings {
    /// Those of a session at first.
    pub(crate) fn of(is_superuser: bool) -> Self {
        Self { is_superuser, ..Self::default() }
    }

    /// The value of a setting, and its name as PostgreSQL writes it.
    pub(crate) fn get(&self, name: &str) -> SqlResult<(&'static str, &str)> {
        let place = known(name)?;
        Ok((KNOWN[place].0, self.value(place)))
    }

    fn value(&self, place: usize) -> &str {
        match KNOWN[place] {
            ("is_superuser", ..) if self.is_superuser => "on",
            (_, first, _) => self.changed.get(&place).map_or(first, String::as_str),
        }
    }

    /// Changes a setting; `None` gives it the value that it had at first. Returns its name as PostgreSQL writes it.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> SqlResult<&'static str> {
        let place = known(name)?;
        let (name, _, accepts) = &KNOWN[place];
        let Some(value) = value else {
            Arc::make_mut(&mut self.changed).remove(&place);
            return Ok(name);
        };
        let refused = |words: String| Err(SqlError::new(SqlState::INVALID_PARAMETER, words));
        let value = match accepts {
            Accepts::Any => value.to_owned(),
            Accepts::One([]) => return refused(format!("parameter \"{name}\" cannot be changed")),
            Accepts::One(values) => match values.iter().any(|own| own.eq_ignore_ascii_case(value)) {
                true => values[0].to_owned(),
                false => {
                    return refused(format!(
                        "parameter \"{name}\" can only be \"{}\", not \"{value}\"",
                        values[0]
                    ));
                }
            },
            Accepts::Switch => match &*value.to_ascii_lowercase() {
                "on" | "true" | "yes" | "1" => "on".to_owned(),
                "off" | "false" | "no" | "0" => "off".to_owned(),
                _ => return refused(format!("parameter \"{name}\" requires a Boolean value")),
            },
            Accepts::OneOf(values) => match values.iter().find(|own| own.eq_ignore_ascii_case(value)) {
                Some(value) => (*value).to_owned(),
                None => {
                    let words = values.join(" or ");
                    return refused(format!("parameter \"{name}\" can only be {words}, not \"{value}\""));
                }
            },
            Accepts::Duration => match milliseconds(value) {
                Some(milliseconds) => milliseconds.to_string(),
                None => return refused(format!("invalid value for parameter \"{name}\": \"{value}\"")),
            },
            Accepts::Zone => match known_zone(value) {
                Some(zone) => zone.name().to_owned(),
                None => return refused(format!("invalid value for parameter \"{name}\": \"{value}\"")),
            },
            Accepts::Number(least, most) => match value.parse::<i64>() {
                // Older clients ask for 0 or 2; digits are always as many as are needed.
                Ok(number) if number <= *most => number.max(*least).to_string(),
                _ => return refused(format!("invalid value for parameter \"{name}\": \"{value}\"")),
            },
        };
        Arc::make_mut(&mut self.changed).insert(place, value);
        Ok(name)
    }

    /// Whether rules of ours may change plans.
    pub(crate) fn pushes_down(&self) -> bool {
        self.get("nyala.push_down").is_ok_and(|(_, value)| value == "on")
    }

    /// Whether transactions, and statements outside of one, may not write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.get(READ_ONLY).is_ok_and(|(_, value)| value == "on")
    }

    /// How long a statement may run; zero means no limit.
    pub(crate) fn statement_timeout(&self) -> Duration {
        self.duration("statement_timeout")
    }

    /// How long a statement waits for a lock; zero means no limit.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.duration("lock_timeout")
    }

    fn duration(&self, name: &str) -> Duration {
        let milliseconds = self.get(name).ok().and_then(|(_, value)| value.parse().ok());
        Duration::from_millis(milliseconds.unwrap_or(0))
    }

    /// Gives all settings the values that they had at first.
    pub(crate) fn reset(&mut self) {
        self.changed = Arc::default();
    }

    /// All settings and their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        KNOWN.iter().enumerate().map(|(place, (name, ..))| (*name, self.value(place)))
    }
}

/// A duration as PostgreSQL reads it: a number with a unit, milliseconds without one.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_an_effect_or_are_refused() {
        let mut settings = Settings::default();
        assert_eq!(settings.set("timezone", Some("Europe/Berlin")), Ok("TimeZone"));
        assert_eq!(settings.get("TIMEZONE"), Ok(("TimeZone", "Europe/Berlin")));
        assert_eq!(
            settings.set("TimeZone", Some("Mars")).map_err(|e| e.code),
            Err(SqlState::INVALID_PARAMETER)
        );
        assert_eq!(settings.set("statement_timeout", Some("2 min")), Ok("statement_timeout"));
        assert_eq!(settings.get("statement_timeout"), Ok(("statement_timeout", "120000")));
        assert!(settings.set("statement_timeout", Some("soon")).is_err());
        assert!(settings.set("server_version", Some("9")).is_err());
        assert!(settings.get("work_mem").is_err());
        settings.set("statement_timeout", None).unwrap();
        assert_eq!(settings.get("statement_timeout").unwrap().1, "0");
    }
}
