//! Times in answers: in RFC 3339, or as a number of units since 1970.

use super::number::push_integer;
use nyala_core::time::civil_date;
use nyala_exec::Zone;

/// The unit of times as numbers; `None` below means RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    unit_ns: i64,
}

impl Epoch {
    pub(super) const NANOSECONDS: Self = Self { unit_ns: 1 };

    /// The unit of an `epoch` parameter; an unknown one means nanoseconds.
    pub fn of_parameter(text: &str) -> Option<Self> {
        let unit_ns = match text {
            "" => return None,
            "u" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => 1,
        };
        Some(Self { unit_ns })
    }

    pub(super) fn of(self, time_ns: i64) -> i64 {
        time_ns / self.unit_ns
    }

    pub(super) fn push(self, out: &mut Vec<u8>, time_ns: i64) {
        push_integer(out, self.of(time_ns));
    }
}

/// A cache of recent times: rows of several series have the same time, or the windows of each series repeat.
#[derive(Default)]
pub(super) struct CachedTimes {
    /// Times, with the length of their text and the text, by the hash of the time. Empty in short answers, which rarely
    /// repeat a time.
    entries: Vec<(i64, u8, TimeText)>,
    /// How many times were written before there was a table.
    uncached: usize,
    date: CachedDate,
}

const CACHED_TIMES: usize = 64;
/// The length of the longest time, in quotes.
const TIME_BYTES: usize = 40;

/// A time in quotes; the bytes after it have no meaning.
type TimeText = [u8; TIME_BYTES];

impl CachedTimes {
    /// Appends a time as [`push_rfc3339`] does, in quotes. All times must be of one zone.
    #[inline]
    pub(super) fn push(&mut self, out: &mut Vec<u8>, time_ns: i64, zone: Option<Zone>) {
        if self.entries.is_empty() {
            if self.uncached < CACHED_TIMES {
                self.uncached += 1;
                let mut text = [0; TIME_BYTES];
                let length = self.date.write(time_ns, zone, &mut text);
                return push_text(out, &text, length);
            }
            self.entries.resize(CACHED_TIMES, (0, 0, [0; TIME_BYTES]));
        }
        let hash = (time_ns as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let (cached_ns, length, text) = &mut self.entries[hash as usize % CACHED_TIMES];
        if *cached_ns != time_ns || *length == 0 {
            *length = self.date.write(time_ns, zone, text) as u8;
            *cached_ns = time_ns;
        }
        push_text(out, text, usize::from(*length));
    }
}

fn push_text(out: &mut Vec<u8>, text: &TimeText, length: usize) {
    // A fixed length is copied by a few stores; a variable length would need a function call.
    out.extend_from_slice(text);
    out.truncate(out.len() - TIME_BYTES + length);
}

/// Appends a time in RFC 3339 in a zone, with as many fractional digits as it needs.
pub fn push_rfc3339(out: &mut Vec<u8>, time_ns: i64, zone: Option<Zone>) {
    let mut text = [0; TIME_BYTES];
    let length = CachedDate::default().write(time_ns, zone, &mut text);
    out.extend_from_slice(&text[1..length - 1]);
}

const DAY_NS: u64 = 86_400_000_000_000;

/// The last date: consecutive times rarely have different dates.
struct CachedDate {
    days: i64,
    text: [u8; 10],
}

impl Default for CachedDate {
    fn default() -> Self {
        Self { days: 0, text: *b"1970-01-01" }
    }
}

impl CachedDate {
    /// Writes a time as [`push_rfc3339`] does, in quotes, and returns its length.
    fn write(&mut self, time_ns: i64, zone: Option<Zone>, text: &mut TimeText) -> usize {
        // The start of the first day cannot be expressed as a time; it wraps around, and so does the difference.
        let of_day_ns = (time_ns as u64).wrapping_sub((self.days as u64).wrapping_mul(DAY_NS));
        let (second, fraction_ns, offset_seconds) = if of_day_ns < DAY_NS && zone.is_none() {
            ((of_day_ns / 1_000_000_000) as u32, (of_day_ns % 1_000_000_000) as u32, 0)
        } else {
            let seconds = time_ns.div_euclid(1_000_000_000);
            let offset_seconds = zone.map_or(0, |zone| i64::from(zone.offset_seconds(seconds)));
            let local = seconds + offset_seconds;
            let days = local.div_euclid(86_400);
            if days != self.days {
                self.go_to(days);
            }
            (local.rem_euclid(86_400) as u32, time_ns.rem_euclid(1_000_000_000) as u32, offset_seconds)
        };
        // A text of fixed length is copied by a few stores.
        *text = *b"\"0000-00-00T00:00:00Z\"..................";
        text[1..11].copy_from_slice(&self.text);
        set_pair(text, 12, second / 3_600);
        set_pair(text, 15, second / 60 % 60);
        set_pair(text, 18, second % 60);
        if fraction_ns == 0 && offset_seconds == 0 {
            return 22;
        }
        let mut end = 20;
        if fraction_ns != 0 {
            text[end] = b'.';
            let mut rest = fraction_ns;
            for place in (end + 1..end + 10).rev() {
                text[place] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            end += 10;
            while text[end - 1] == b'0' {
                end -= 1;
            }
        }
        if offset_seconds == 0 {
            text[end] = b'Z';
            end += 1;
        } else {
            let minutes = offset_seconds.unsigned_abs() as u32 / 60;
            text[end] = if offset_seconds < 0 { b'-' } else { b'+' };
            set_pair(text, end + 1, minutes / 60);
            text[end + 3] = b':';
            set_pair(text, end + 4, minutes % 60);
            end += 6;
        }
        text[end] = b'"';
        end + 1
    }

    fn go_to(&mut self, days: i64) {
        // Years of times in nanoseconds have four digits.
        let (year, month, day) = civil_date(days);
        let (year, month, day) = (year as u32, month as u32, day as u32);
        self.days = days;
        for (place, value) in [(0, year / 100), (2, year % 100), (5, month), (8, day)] {
            set_pair(&mut self.text, place, value);
        }
    }
}

/// All pairs of digits as text.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Writes two digits.
#[inline(always)]
fn set_pair(text: &mut [u8], place: usize, value: u32) {
    text[place..place + 2].copy_from_slice(&PAIRS[value as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_and_in_zones() {
        let text = |time_ns, zone| {
            let mut out = Vec::new();
            push_rfc3339(&mut out, time_ns, zone);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0, None), "1970-01-01T00:00:00Z");
        assert_eq!(text(1_451_606_400_123_000_000, None), "2016-01-01T00:00:00.123Z");
        assert_eq!(text(-1, None), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(
            text(1_551_398_400_000_000_000, Zone::named("America/New_York")),
            "2019-02-28T19:00:00-05:00"
        );
        assert_eq!(text(i64::MIN, None), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(text(i64::MAX, None), "2262-04-11T23:47:16.854775807Z");
        let mut date = CachedDate::default();
        for time_ns in [i64::MIN, i64::MIN + 1, -1, 0, 86_399_999_999_999, 86_400_000_000_000, i64::MAX] {
            let mut written = [0; TIME_BYTES];
            let length = date.write(time_ns, None, &mut written);
            assert_eq!(written[1..length - 1], *text(time_ns, None).as_bytes(), "after another");
        }
    }
}
