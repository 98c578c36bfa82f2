//! `GROUP BY time`: which window a time belongs to, daylight saving included.

use crate::influxql::{MAXIMUM_TIME_NS, MINIMUM_TIME_NS, Zone};
use nyala_core::store::Windows;
use nyala_core::{Error, Result};

/// The most windows one query may show or have the store compute.
pub const WINDOWS_MAX: usize = 1 << 24;

/// Clocks of all zones differ from UTC by whole quarters of an hour, from 1980 on.
const QUARTER_NS: i64 = 900 * 1_000_000_000;
const QUARTERS_FROM_NS: i64 = 315_532_800 * 1_000_000_000;

/// How time is divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowRule {
    /// The width, ns; positive.
    pub interval_ns: i64,
    /// What windows are shifted by, ns.
    pub offset_ns: i64,
    /// The zone whose clock windows follow; UTC when none.
    pub zone: Option<Zone>,
}

impl WindowRule {
    /// The window that holds a time: its start and the start of the next, ns.
    pub fn window_of(&self, time_ns: i64) -> (i64, i64) {
        let time_ns = time_ns.saturating_sub(self.offset_ns);
        let zone_ns = self.zone_offset_ns(time_ns);
        let since_start_ns =
            (i128::from(time_ns) + i128::from(zone_ns)).rem_euclid(self.interval_ns.into()) as i64;
        let mut start_ns = time_ns.saturating_sub(since_start_ns).max(MINIMUM_TIME_NS);
        start_ns = start_ns.saturating_add(self.offset_ns);
        // Clocks may have been changed between the start and `time_ns`; a change larger than the window
        // would move back in time and is left alone.
        let change_ns = zone_ns - self.zone_offset_ns(start_ns);
        if change_ns != 0 && change_ns.abs() < self.interval_ns {
            start_ns = start_ns.saturating_add(change_ns);
        }
        let mut end_ns = time_ns.saturating_add(self.interval_ns - since_start_ns).min(MAXIMUM_TIME_NS);
        let end_zone_ns = self.zone_offset_ns(end_ns);
        let change_ns = zone_ns - end_zone_ns;
        if change_ns != 0 && change_ns.abs() < self.interval_ns {
            // Added time goes into the window before the change, skipped time into the one after it.
            if change_ns > 0 || self.zone_offset_ns(end_ns.saturating_add(change_ns)) == end_zone_ns {
                end_ns = end_ns.saturating_add(change_ns);
            }
        }
        (start_ns, end_ns.saturating_add(self.offset_ns))
    }

    fn zone_offset_ns(&self, time_ns: i64) -> i64 {
        match self.zone {
            Some(zone) => i64::from(zone.offset_seconds(time_ns.div_euclid(1_000_000_000))) * 1_000_000_000,
            None => 0,
        }
    }

    /// Whether windows from a time on are those of UTC whatever the zone.
    fn is_same_everywhere(&self, start_ns: i64) -> bool {
        start_ns >= QUARTERS_FROM_NS && QUARTER_NS % self.interval_ns == 0
    }

    /// Why a query with too many windows is not executed.
    pub fn too_many() -> Error {
        Error::limit(format!("more than {WINDOWS_MAX} windows of time in one query: narrow its time range"))
    }

    /// All windows from the one that holds `first_ns` to the one that holds `last_ns`.
    pub fn windows(&self, first_ns: i64, last_ns: i64) -> Result<Windows> {
        let (start_ns, _) = self.window_of(first_ns);
        if self.zone.is_none() || self.is_same_everywhere(start_ns) {
            let (last_start_ns, _) = self.window_of(last_ns);
            let span = i128::from(last_start_ns) - i128::from(start_ns);
            let count = (span / i128::from(self.interval_ns)).max(-1) + 1;
            // Windows are numbered by 32 bits.
            let count = u32::try_from(count).map_err(|_| Self::too_many())? as usize;
            return Ok(Windows::Regular { start_ns, width_ns: self.interval_ns, count });
        }
        let mut bounds = vec![start_ns];
        let mut next_ns = start_ns;
        while next_ns <= last_ns && next_ns < MAXIMUM_TIME_NS {
            let (_, end_ns) = self.window_of(next_ns);
            next_ns = end_ns.max(next_ns + 1);
            bounds.push(next_ns);
            if bounds.len() > WINDOWS_MAX {
                return Err(Self::too_many());
            }
        }
        Ok(Windows::Bounds(bounds.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;

    #[test]
    fn windows_are_counted_from_1970_and_shifted() {
        let rule = WindowRule { interval_ns: 10, offset_ns: 3, zone: None };
        assert_eq!(rule.window_of(13), (13, 23));
        assert_eq!(rule.window_of(12), (3, 13));
        assert_eq!(rule.window_of(-1), (-7, 3));
        assert_eq!(rule.windows(12, 23).unwrap(), Windows::Regular { start_ns: 3, width_ns: 10, count: 3 });
    }

    #[test]
    fn windows_of_minutes_know_no_zone() {
        for zone in
            ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Monrovia", "America/St_Johns"]
        {
            for (minutes, offset_ns) in [(1, 0), (5, 77_000_000_000), (15, 0)] {
                let rule =
                    WindowRule { interval_ns: minutes * HOUR_NS / 60, offset_ns, zone: Zone::named(zone) };
                let first_ns = 1_616_880_000_000_000_000;
                let windows = rule.windows(first_ns, first_ns + 36 * HOUR_NS).unwrap();
                assert!(matches!(windows, Windows::Regular { .. }), "{zone}");
                for index in 0..windows.count() {
                    let range = windows.range(index);
                    assert_eq!(rule.window_of(range.start_ns), (range.start_ns, range.end_ns), "{zone}");
                }
            }
        }
        let early =
            WindowRule { interval_ns: HOUR_NS / 60, offset_ns: 0, zone: Zone::named("Africa/Monrovia") };
        assert!(matches!(early.windows(0, HOUR_NS).unwrap(), Windows::Bounds(_)));
    }

    #[test]
    fn a_day_with_changed_clocks_has_23_or_25_hours() {
        let berlin = Zone::named("Europe/Berlin");
        let rule = WindowRule { interval_ns: 24 * HOUR_NS, offset_ns: 0, zone: berlin };
        // 2021-03-28 in Berlin: from 2021-03-27T23:00Z to 2021-03-28T22:00Z.
        let noon_ns = 1_616_932_800_000_000_000;
        let (start_ns, end_ns) = rule.window_of(noon_ns);
        assert_eq!((end_ns - start_ns) / HOUR_NS, 23);
        // 2021-10-31 has 25.
        let (start_ns, end_ns) = rule.window_of(1_635_681_600_000_000_000);
        assert_eq!((end_ns - start_ns) / HOUR_NS, 25);
    }
}
