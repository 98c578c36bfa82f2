//! `GROUP BY time`: which window a time belongs to, daylight saving included.
//!
//! Windows follow the clock even if the first begins before the least time or the last ends after the greatest: such a
//! window is cut, and its neighbours stay where they are.

use crate::zone::Zone;
use nyala_core::store::{WindowRuns, Windows};
use nyala_core::time::MIN_TIME_NS;
use nyala_core::{Error, Result};

/// The most windows one query may show or have the store compute.
pub const WINDOWS_MAX: usize = 1 << 24;

const SECOND_NS: i64 = 1_000_000_000;

/// How time is divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowRule {
    /// The width, ns; positive.
    pub interval_ns: i64,
    /// By how much windows are shifted, ns; less than the width.
    pub offset_ns: i64,
    /// The zone whose clock windows follow; `None` means UTC.
    pub zone: Option<Zone>,
}

impl WindowRule {
    /// The window that holds a time: its start and the start of the next, ns.
    pub fn window_of(&self, time_ns: i64) -> (i64, i64) {
        let (start_ns, end_ns) = self.uncut_window_of(time_ns);
        (clamped(start_ns).max(MIN_TIME_NS), clamped(end_ns))
    }

    /// The window that holds a time; it may begin before the least time and end after the greatest.
    fn uncut_window_of(&self, time_ns: i64) -> (i128, i128) {
        let (interval_ns, offset_ns) = (i128::from(self.interval_ns), i128::from(self.offset_ns));
        let time_ns = i128::from(time_ns) - offset_ns;
        let zone_ns = self.zone_offset_ns(time_ns);
        let clock_ns = time_ns + zone_ns;
        let since_start_ns = match i64::try_from(clock_ns) {
            Ok(clock_ns) => i128::from(clock_ns.rem_euclid(self.interval_ns)),
            Err(_) => clock_ns.rem_euclid(interval_ns),
        };
        let mut start_ns = time_ns - since_start_ns + offset_ns;
        let mut end_ns = time_ns - since_start_ns + interval_ns;
        if self.zone.is_some() {
            // Clocks may have been changed between the start and `time_ns`; a change larger than the window
            // would move back in time and is left alone.
            let change_ns = zone_ns - self.zone_offset_ns(start_ns);
            if change_ns.abs() < interval_ns {
                start_ns += change_ns;
            }
            let end_zone_ns = self.zone_offset_ns(end_ns);
            let change_ns = zone_ns - end_zone_ns;
            // Added time goes into the window before the change, skipped time into the one after it.
            if change_ns.abs() < interval_ns
                && (change_ns > 0 || self.zone_offset_ns(end_ns + change_ns) == end_zone_ns)
            {
                end_ns += change_ns;
            }
        }
        (start_ns, end_ns + offset_ns)
    }

    /// How far the clock that windows follow is ahead of UTC, ns.
    pub fn clock_offset_ns(&self, time_ns: i64) -> i64 {
        self.zone_offset_ns(time_ns.into()) as i64
    }

    fn zone_offset_ns(&self, time_ns: i128) -> i128 {
        let offset_seconds = |zone: Zone| zone.offset_seconds(clamped(time_ns).div_euclid(SECOND_NS));
        self.zone.map_or(0, |zone| i128::from(offset_seconds(zone)) * i128::from(SECOND_NS))
    }

    /// The error of a query with too many windows.
    pub fn too_many() -> Error {
        Error::limit(format!("more than {WINDOWS_MAX} windows of time in one query: narrow its time range"))
    }

    /// All windows from the one that holds `first_ns` to the one that holds `last_ns`.
    pub fn windows(&self, first_ns: i64, last_ns: i64) -> Result<Windows> {
        if let Some(zone) = self.zone {
            return self.windows_in(zone, first_ns, last_ns);
        }
        let (start_ns, end_ns) = self.uncut_window_of(first_ns);
        let span_ns = i128::from(last_ns) - start_ns;
        let count = windows_numbered(span_ns.div_euclid(self.interval_ns.into()) + 1)?;
        if start_ns >= i128::from(MIN_TIME_NS) || count == 0 {
            return Ok(Windows::Regular { start_ns: clamped(start_ns), width_ns: self.interval_ns, count });
        }
        let mut runs = WindowRuns::starting_at(MIN_TIME_NS);
        runs.push_to(clamped(end_ns));
        if count > 1 {
            runs.push(self.interval_ns as u64, count - 1);
        }
        Ok(runs.into())
    }

    /// Windows by the clock of a zone: one by one near a change of the clock, all at once between changes.
    fn windows_in(&self, zone: Zone, first_ns: i64, last_ns: i64) -> Result<Windows> {
        let interval_ns = self.interval_ns;
        let mut next_ns = self.window_of(first_ns).0;
        let mut runs = WindowRuns::starting_at(next_ns);
        // The next change of clocks, and the time after which it was looked for.
        let mut change: Option<(i64, i64)> = None;
        while next_ns <= last_ns && next_ns < i64::MAX {
            let (start_ns, end_ns) = self.window_of(next_ns);
            // A window depends on clocks up to its width before its start and after its end.
            let before_ns = next_ns.saturating_sub(interval_ns);
            let change_ns = match change {
                Some((after_ns, change_ns)) if after_ns <= before_ns && before_ns < change_ns => change_ns,
                _ => change_after(zone, before_ns, last_ns.saturating_add(interval_ns.saturating_mul(2))),
            };
            change = Some((before_ns, change_ns));
            let unchanged_ns = i128::from(change_ns) - i128::from(next_ns) - 2 * i128::from(interval_ns);
            let is_plain = start_ns == next_ns && end_ns.checked_sub(start_ns) == Some(interval_ns);
            let mut count = 1;
            if is_plain && unchanged_ns > 0 {
                let wanted_ns = i128::from(last_ns) - i128::from(next_ns);
                count = (unchanged_ns.min(wanted_ns) / i128::from(interval_ns)).max(1);
            }
            let count = windows_numbered(count)?;
            match count {
                1 => runs.push_to(end_ns.max(next_ns.saturating_add(1))),
                _ => runs.push(interval_ns as u64, count),
            }
            windows_numbered(runs.count() as i128)?;
            next_ns = runs.end_ns();
        }
        Ok(runs.into())
    }
}

/// A time, clamped to the range of times.
fn clamped(time_ns: i128) -> i64 {
    time_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Checks a number of windows: they are numbered by 32 bits.
fn windows_numbered(count: i128) -> Result<usize> {
    u32::try_from(count.max(0)).map(|count| count as usize).map_err(|_| WindowRule::too_many())
}

/// The first time after `after_ns` at which clocks of a zone change; the greatest time if that is not before
/// `until_ns`.
fn change_after(zone: Zone, after_ns: i64, until_ns: i64) -> i64 {
    let seconds = |time_ns: i64| time_ns.div_euclid(SECOND_NS);
    let change = zone.next_change(seconds(after_ns), seconds(until_ns));
    change.and_then(|seconds| seconds.checked_mul(SECOND_NS)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::time::MAX_TIME_NS;

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
    fn windows_keep_their_alignment_at_the_ends_of_time() {
        const DAY_NS: i64 = 24 * HOUR_NS;
        for zone in [None, Zone::named("UTC"), Zone::named("Europe/Berlin"), Zone::named("America/New_York")]
        {
            for offset_ns in [0, 6 * HOUR_NS, -6 * HOUR_NS] {
                let rule = WindowRule { interval_ns: DAY_NS, offset_ns, zone };
                let windows = rule.windows(MIN_TIME_NS, MAX_TIME_NS).unwrap();
                assert_eq!(windows.index_of(MIN_TIME_NS), Some(0));
                assert_eq!(windows.range(0).start_ns, MIN_TIME_NS, "the first is cut");
                assert_eq!(windows.index_of(MAX_TIME_NS), Some(windows.count() - 1));
                for time_ns in [MIN_TIME_NS, -1, 0, 80_000 * SECOND_NS, 86_400 * SECOND_NS, MAX_TIME_NS] {
                    let range = windows.range(windows.index_of(time_ns).unwrap());
                    assert_eq!(rule.window_of(time_ns), (range.start_ns, range.end_ns), "{rule:?} {time_ns}");
                }
            }
        }
        let rule = WindowRule { interval_ns: DAY_NS, offset_ns: 0, zone: None };
        assert_eq!(rule.window_of(MIN_TIME_NS), (MIN_TIME_NS, -106_751 * DAY_NS));
        assert_eq!(rule.window_of(MAX_TIME_NS), (106_751 * DAY_NS, i64::MAX));
    }

    /// The bounds of windows, one after the other.
    fn bounds_one_by_one(rule: &WindowRule, first_ns: i64, last_ns: i64) -> Vec<i64> {
        let mut bounds = vec![rule.window_of(first_ns).0];
        while *bounds.last().unwrap() <= last_ns {
            let start_ns = *bounds.last().unwrap();
            bounds.push(rule.window_of(start_ns).1.max(start_ns + 1));
        }
        bounds
    }

    #[test]
    fn windows_in_runs_equal_windows_one_by_one() {
        const DAY_NS: i64 = 24 * HOUR_NS;
        let zones = [
            "Europe/Berlin",
            "Australia/Lord_Howe",
            "Asia/Kathmandu",
            "Africa/Monrovia",
            "America/Recife",
            "Pacific/Apia",
        ];
        let widths =
            [90 * SECOND_NS, 7 * HOUR_NS / 60, HOUR_NS, 5 * HOUR_NS, DAY_NS, 7 * DAY_NS, 100 * DAY_NS];
        for zone in zones {
            for interval_ns in widths {
                for offset_ns in [0, 77 * SECOND_NS, -13 * SECOND_NS] {
                    let rule = WindowRule { interval_ns, offset_ns, zone: Zone::named(zone) };
                    // Over changes that are only a week apart in Recife, and a day that Apia left out.
                    for first_ns in
                        [63_500_000 * SECOND_NS, 971_400_000 * SECOND_NS, 1_325_100_000 * SECOND_NS]
                    {
                        let last_ns = first_ns + 3_000.min(1_000 * DAY_NS / interval_ns) * interval_ns;
                        let windows = rule.windows(first_ns, last_ns).unwrap();
                        let bounds = bounds_one_by_one(&rule, first_ns, last_ns);
                        assert_eq!(windows.count(), bounds.len() - 1, "{rule:?} {first_ns}");
                        for (index, pair) in bounds.windows(2).enumerate() {
                            let range = windows.range(index);
                            assert_eq!(
                                (range.start_ns, range.end_ns),
                                (pair[0], pair[1]),
                                "{rule:?} {index}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn many_windows_of_a_zone_take_little_memory() {
        for (seconds, zone) in
            [(90, "Europe/Berlin"), (420, "Australia/Lord_Howe"), (7_000, "Africa/Casablanca")]
        {
            let rule = WindowRule { interval_ns: seconds * SECOND_NS, offset_ns: 0, zone: Zone::named(zone) };
            let windows = rule.windows(315_532_800 * SECOND_NS, 1_790_000_000 * SECOND_NS).unwrap();
            let Windows::Runs(runs) = &windows else { panic!("{windows:?}") };
            assert!(runs.memory_bytes() < 16 << 10, "{zone}: {} bytes", runs.memory_bytes());
            assert!(windows.count() as i64 > 1_400_000_000 / seconds);
        }
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
