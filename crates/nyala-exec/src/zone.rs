//! Time zones of the IANA database.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

/// No zone ever changed its clocks twice within this many seconds; the shortest time between two changes is a week less
/// an hour.
const SECONDS_BETWEEN_CHANGES: i64 = 4 * 86_400;

/// A time zone of the IANA database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone(Tz);

impl Zone {
    /// Universal time.
    pub const UTC: Self = Zone(Tz::UTC);

    /// The zone with that name, written exactly as in the database. `Local` and the empty name mean UTC.
    pub fn named(name: &str) -> Option<Zone> {
        match name {
            "" | "Local" => Some(Zone(Tz::UTC)),
            _ => name.parse().ok().map(Zone),
        }
    }

    /// The zone's name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// What to add to UTC to get the local time at `unix_seconds`; 0 beyond the end of the calendar.
    pub fn offset_seconds(self, unix_seconds: i64) -> i32 {
        if self.0 == Tz::UTC {
            return 0;
        }
        DateTime::from_timestamp(unix_seconds, 0)
            .map_or(0, |at| self.0.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc())
    }

    /// The first second after `after_seconds`, up to `until_seconds`, at which the offset changes; `None`: it does not.
    pub fn next_change(self, after_seconds: i64, until_seconds: i64) -> Option<i64> {
        let offset = self.offset_seconds(after_seconds);
        let mut same = after_seconds;
        while same < until_seconds {
            let mut changed = same.saturating_add(SECONDS_BETWEEN_CHANGES);
            if self.offset_seconds(changed) == offset {
                same = changed;
                continue;
            }
            while changed - same > 1 {
                let between = same + (changed - same) / 2;
                match self.offset_seconds(between) == offset {
                    true => same = between,
                    false => changed = between,
                }
            }
            return (changed <= until_seconds).then_some(changed);
        }
        None
    }

    /// The offset in force when clocks show `local_seconds`, as PostgreSQL decides: of two that fit the later moment counts,
    /// and if none fits, because clocks leapt, the offset before the leap.
    pub fn offset_at_local_of_postgresql(self, local_seconds: i64) -> i32 {
        const DAY: i64 = 86_400;
        let before = self.offset_seconds(local_seconds.saturating_sub(DAY));
        let after = self.offset_seconds(local_seconds.saturating_add(DAY));
        let fits = |offset: i32| self.offset_seconds(local_seconds - i64::from(offset)) == offset;
        if fits(after) { after } else { before }
    }

    /// The offset in force when clocks show `local_seconds`. If two offsets fit, or none, because clocks were changed, the
    /// choice is that of Go's `time.Date`, so that the same text means the same instant as in InfluxDB.
    pub fn offset_at_local(self, local_seconds: i64) -> i32 {
        match self.offset_seconds(local_seconds) {
            0 => 0,
            guess => self.offset_seconds(local_seconds - i64::from(guess)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_clocks_are_all_found() {
        for name in
            ["Europe/Berlin", "America/Recife", "Asia/Gaza", "Africa/Casablanca", "Pacific/Apia", "UTC"]
        {
            let zone = Zone::named(name).unwrap();
            let (first, until) = (-3_200_000_000, 4_200_000_000);
            let is_change = |day: &i64| zone.offset_seconds(*day) != zone.offset_seconds(day + 86_400);
            let days: Vec<i64> = (first..until).step_by(86_400).filter(is_change).collect();
            let mut found = Vec::new();
            let mut at = first;
            while let Some(next) = zone.next_change(at, until) {
                assert_ne!(zone.offset_seconds(next), zone.offset_seconds(next - 1), "{name} {next}");
                found.push(next);
                at = next;
            }
            let on_day = |(change, day): (&i64, &i64)| (day + 1..=day + 86_400).contains(change);
            assert!(found.len() == days.len() && found.iter().zip(&days).all(on_day), "{name}");
        }
    }

    #[test]
    fn zones_are_named_exactly() {
        assert_eq!(Zone::named("Europe/berlin"), None);
        assert_eq!(Zone::named("").map(Zone::name), Some("UTC"));
    }
}
