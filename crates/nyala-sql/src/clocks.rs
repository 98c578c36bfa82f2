//! What clocks show.

use crate::error::{SqlError, SqlResult, SqlState};
use chrono::{NaiveDateTime, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use std::collections::HashMap;
use std::sync::LazyLock;

/// All zones by their names in small letters.
static ZONES: LazyLock<HashMap<String, Tz>> =
    LazyLock::new(|| TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), *zone)).collect());

/// The zone with a name, in letters of any case, if there is one.
pub(crate) fn known_zone(name: &str) -> Option<Tz> {
    name.parse().ok().or_else(|| ZONES.get(&name.to_ascii_lowercase()).copied())
}

/// The same; an error says that there is none.
pub(crate) fn zone_named(name: &str) -> SqlResult<Tz> {
    known_zone(name).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER, format!("time zone \"{name}\" not recognized"))
    })
}

/// The moment at which clocks of a zone, or of a place that is so far ahead of UTC, show a time.
pub(crate) fn utc_ns(local: NaiveDateTime, offset_s: Option<i32>, zone: Tz) -> Option<i64> {
    let utc = match offset_s {
        Some(offset_s) => local.checked_sub_signed(chrono::TimeDelta::seconds(offset_s.into()))?,
        // A time that clocks skip is the one after.
        None => match zone.from_local_datetime(&local) {
            chrono::LocalResult::Single(own) | chrono::LocalResult::Ambiguous(_, own) => own.naive_utc(),
            chrono::LocalResult::None => {
                let before = local.checked_sub_signed(chrono::TimeDelta::hours(1))?;
                let before = zone.from_local_datetime(&before).latest()?;
                before.naive_utc().checked_add_signed(chrono::TimeDelta::hours(1))?
            }
        },
    };
    utc.and_utc().timestamp_nanos_opt()
}
