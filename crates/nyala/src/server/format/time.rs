//! Times in answers: RFC 3339, or whole units since 1970.

use super::number::push_integer;
use nyala_query::influxql::Zone;

/// The unit in which an answer counts time; `None` anywhere below means RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    unit_ns: i64,
}

impl Epoch {
    pub(super) const NANOSECONDS: Self = Self { unit_ns: 1 };

    /// The unit of an `epoch` parameter; unknown ones mean nanoseconds.
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

/// Times written lately: rows of several series at one time follow each other, or windows come again in each series.
pub(super) struct WrittenTimes {
    /// By the time's hash.
    places: Box<[(i64, u8, [u8; TIME_BYTES]); WRITTEN_TIMES]>,
}

const WRITTEN_TIMES: usize = 64;
/// The longest time, in quotes.
const TIME_BYTES: usize = 40;

impl Default for WrittenTimes {
    fn default() -> Self {
        Self { places: Box::new([(0, 0, [0; TIME_BYTES]); WRITTEN_TIMES]) }
    }
}

impl WrittenTimes {
    /// Appends a time as [`push_rfc3339`] does, in quotes. All are of one zone.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, time_ns: i64, zone: Option<Zone>) {
        let hash = (time_ns as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let (written_ns, length, text) = &mut self.places[hash as usize % WRITTEN_TIMES];
        if *written_ns != time_ns || *length == 0 {
            let start = out.len();
            out.push(b'"');
            push_rfc3339(out, time_ns, zone);
            out.push(b'"');
            let written = &out[start..];
            if let Some(place) = text.get_mut(..written.len()) {
                place.copy_from_slice(written);
                (*written_ns, *length) = (time_ns, written.len() as u8);
            }
            return;
        }
        // A fixed length is a few stores; as many bytes as there are would be a call.
        out.extend_from_slice(text);
        out.truncate(out.len() - TIME_BYTES + usize::from(*length));
    }
}

/// Appends a time in RFC 3339, with as many fractional digits as it has, in a zone.
pub fn push_rfc3339(out: &mut Vec<u8>, time_ns: i64, zone: Option<Zone>) {
    let (seconds, fraction_ns) = (time_ns.div_euclid(1_000_000_000), time_ns.rem_euclid(1_000_000_000));
    let offset_seconds = zone.map_or(0, |zone| i64::from(zone.offset_seconds(seconds)));
    let local = seconds + offset_seconds;
    // Times in nanoseconds have years of four digits.
    let (year, month, day) = civil(local.div_euclid(86_400));
    let second = local.rem_euclid(86_400);
    // A text of fixed length is a few stores.
    let mut text = *b"0000-00-00T00:00:00";
    let pairs = [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, second / 3600),
        (14, second / 60 % 60),
        (17, second % 60),
    ];
    for (place, value) in pairs {
        text[place] = b'0' + (value / 10) as u8;
        text[place + 1] = b'0' + (value % 10) as u8;
    }
    out.extend_from_slice(&text);
    if fraction_ns != 0 {
        out.push(b'.');
        push_digits(out, fraction_ns.unsigned_abs(), 9);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    if offset_seconds == 0 {
        out.push(b'Z');
        return;
    }
    out.push(if offset_seconds < 0 { b'-' } else { b'+' });
    let minutes = offset_seconds.unsigned_abs() / 60;
    push_digits(out, minutes / 60, 2);
    out.push(b':');
    push_digits(out, minutes % 60, 2);
}

fn push_digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    for place in out[start..].iter_mut().rev() {
        *place = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Year, month and day of a number of days since 1970 (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
    }
}
