//! Templates of dates and times: `YYYY-MM-DD HH24:MI:SS.US`, as `to_char` writes and `to_timestamp` reads them.

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

/// What may be in a template. Those that begin with the same letters stand longest first.
const FIELDS: [&str; 34] = [
    "SSSSS", "SSSS", "IYYY", "YYYY", "Y,YYY", "HH24", "HH12", "IYY", "YYY", "IDDD", "A.M.", "P.M.", "A.D.",
    "B.C.", "MONTH", "DDD", "DAY", "MON", "FF6", "FF3", "HH", "MI", "SS", "MS", "US", "YY", "MM", "DD", "DY",
    "IW", "WW", "TZ", "OF", "ID",
];
/// The same with one or two letters.
const SHORT_FIELDS: [&str; 10] = ["AM", "PM", "AD", "BC", "CC", "D", "W", "Q", "J", "Y"];

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A field: its name in capitals, as it is written, whether blanks and zeros are left out, and whether it is an ordinal.
    Field {
        name: &'static str,
        written: String,
        is_short: bool,
        is_ordinal: bool,
    },
    Text(String),
}

/// Why a text does not fit a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplateError {
    /// It has another form.
    Syntax(String),
    /// A part of it is out of range.
    Range,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

impl Template {
    pub(super) fn of(pattern: &str) -> Self {
        let (mut parts, mut rest, mut text) = (Vec::new(), pattern, String::new());
        while let Some(letter) = rest.chars().next() {
            if letter == '"' {
                let inner = &rest[1..];
                let end = inner.find('"').unwrap_or(inner.len());
                text.push_str(&inner[..end]);
                rest = inner.get(end + 1..).unwrap_or_default();
                continue;
            }
            let begins = |own: &str, with: &str| {
                own.get(..with.len()).is_some_and(|own| own.eq_ignore_ascii_case(with))
            };
            let is_short = begins(rest, "FM");
            let after = if is_short { &rest[2..] } else { rest };
            let mut found = FIELDS.iter().chain(&SHORT_FIELDS).filter(|name| begins(after, name));
            let Some(name) = found.next() else {
                text.push(letter);
                rest = &rest[letter.len_utf8()..];
                continue;
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            let written = after[..name.len()].to_owned();
            rest = &after[name.len()..];
            let is_ordinal = begins(rest, "TH");
            if is_ordinal {
                rest = &rest[2..];
            }
            parts.push(Part::Field { name, written, is_short, is_ordinal });
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Self(parts)
    }

    /// A time as text. `offset_s` is how far it is ahead of UTC, `zone` how that is called.
    pub(super) fn write(&self, time: NaiveDateTime, offset_s: i32, zone: &str) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Field { name, written, is_short, is_ordinal } => {
                    let shown = field(name, written, *is_short, time, offset_s, zone);
                    out.push_str(&shown);
                    if *is_ordinal && shown.ends_with(|own: char| own.is_ascii_digit()) {
                        out.push_str(ordinal(&shown));
                    }
                }
            }
        }
        out
    }

    /// The time that a text means, and how far it is ahead of UTC if the text says so.
    pub(super) fn read(&self, text: &str) -> Result<(NaiveDateTime, Option<i32>), TemplateError> {
        let (mut found, mut rest) = (Found::default(), text);
        for (place, part) in self.0.iter().enumerate() {
            rest = rest.trim_start();
            match part {
                Part::Text(own) => {
                    for letter in own.chars().filter(|own| !own.is_whitespace()) {
                        rest = rest.trim_start();
                        // Separators need not be the same.
                        let next = rest.chars().next();
                        if next.is_some_and(|next| {
                            next == letter || !(next.is_alphanumeric() || next == '-' || next == '+')
                        }) || (next == Some('-') && !letter.is_alphanumeric())
                        {
                            rest = &rest[next.map_or(0, char::len_utf8)..];
                        }
                    }
                }
                Part::Field { name, .. } => {
                    if rest.is_empty() {
                        break;
                    }
                    let is_last_of_digits = !matches!(self.0.get(place + 1), Some(Part::Field { .. }));
                    rest = found.take(name, rest, is_last_of_digits)?;
                }
            }
        }
        found.time()
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// `st`, `nd`, `rd` or `th`.
fn ordinal(number: &str) -> &'static str {
    let tens = number.len() > 1 && number.as_bytes()[number.len() - 2] == b'1';
    match number.bytes().last() {
        Some(b'1') if !tens => "st",
        Some(b'2') if !tens => "nd",
        Some(b'3') if !tens => "rd",
        _ => "th",
    }
}

fn field(
    name: &str,
    written: &str,
    is_short: bool,
    time: NaiveDateTime,
    offset_s: i32,
    zone: &str,
) -> String {
    let number =
        |value: i64, digits: usize| if is_short { value.to_string() } else { format!("{value:0digits$}") };
    let word = |word: &str, width: usize| {
        let is_all_upper = written.chars().all(|own| !own.is_lowercase());
        let word = match written.chars().next().is_some_and(char::is_lowercase) {
            true => word.to_lowercase(),
            false if is_all_upper => word.to_uppercase(),
            false => word.to_owned(),
        };
        if is_short { word } else { format!("{word:width$}") }
    };
    let is_lower = written.starts_with(|own: char| own.is_lowercase());
    let cased = |text: &str| if is_lower { text.to_lowercase() } else { text.to_owned() };
    let (year, hour) = (i64::from(time.year()), i64::from(time.hour()));
    let week = time.iso_week();
    let nanoseconds = i64::from(time.nanosecond() % 1_000_000_000);
    let weekday = i64::from(time.weekday().num_days_from_sunday());
    let sign = if offset_s < 0 { '-' } else { '+' };
    let minutes = offset_s.abs() / 60;
    match name {
        "YYYY" => number(year, 4),
        "YYY" => number(year % 1000, 3),
        "YY" => number(year % 100, 2),
        "Y" => number(year % 10, 1),
        "Y,YYY" => format!("{},{:03}", year / 1000, year % 1000),
        "IYYY" => number(week.year().into(), 4),
        "IYY" => number(i64::from(week.year()) % 1000, 3),
        "MONTH" => word(MONTHS[time.month0() as usize], 9),
        "MON" => word(&MONTHS[time.month0() as usize][..3], 0),
        "MM" => number(time.month().into(), 2),
        "DAY" => word(DAYS[weekday as usize], 9),
        "DY" => word(&DAYS[weekday as usize][..3], 0),
        "DDD" => number(time.ordinal().into(), 3),
        "IDDD" => {
            number((i64::from(week.week()) - 1) * 7 + i64::from(time.weekday().number_from_monday()), 3)
        }
        "DD" => number(time.day().into(), 2),
        "D" => (weekday + 1).to_string(),
        "ID" => time.weekday().number_from_monday().to_string(),
        "W" => ((time.day() - 1) / 7 + 1).to_string(),
        "WW" => number(i64::from(time.ordinal0()) / 7 + 1, 2),
        "IW" => number(week.week().into(), 2),
        "Q" => (time.month0() / 3 + 1).to_string(),
        "CC" => number((year + 99) / 100, 2),
        "J" => (i64::from(time.date().num_days_from_ce()) + 1_721_425).to_string(),
        "HH24" => number(hour, 2),
        "HH12" | "HH" => number(if hour % 12 == 0 { 12 } else { hour % 12 }, 2),
        "MI" => number(time.minute().into(), 2),
        "SS" => number(time.second().into(), 2),
        "MS" | "FF3" => number(nanoseconds / 1_000_000, 3),
        "US" | "FF6" => number(nanoseconds / 1_000, 6),
        "SSSS" | "SSSSS" => time.num_seconds_from_midnight().to_string(),
        "AM" | "PM" => cased(if hour < 12 { "AM" } else { "PM" }),
        "A.M." | "P.M." => cased(if hour < 12 { "A.M." } else { "P.M." }),
        "AD" | "BC" => cased(if year > 0 { "AD" } else { "BC" }),
        "A.D." | "B.C." => cased(if year > 0 { "A.D." } else { "B.C." }),
        "TZ" => cased(zone),
        "OF" if minutes % 60 == 0 => format!("{sign}{:02}", minutes / 60),
        "OF" => format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        other => other.to_owned(),
    }
}

/// What was found in a text.
#[derive(Debug, Default)]
struct Found {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    hour: u32,
    is_of_twelve: bool,
    is_afternoon: Option<bool>,
    minute: u32,
    second: u32,
    nanosecond: u32,
    of_day: Option<u32>,
    offset_s: Option<i32>,
}

impl Found {
    /// Takes a field from the beginning of a text, and gives what is left. `is_open`: nothing but a separator follows, so that
    /// a year may have more digits.
    fn take<'a>(&mut self, name: &str, text: &'a str, is_open: bool) -> Result<&'a str, TemplateError> {
        let syntax = || {
            let shown: String = text.chars().take(name.len()).collect();
            TemplateError::Syntax(format!("invalid value \"{shown}\" for \"{name}\""))
        };
        let names = |all: &[&str], least: usize| {
            all.iter().position(|own| {
                text.get(..least.min(own.len()))
                    .is_some_and(|begin| own[..begin.len()].eq_ignore_ascii_case(begin))
            })
        };
        if let "MONTH" | "MON" = name {
            let place = names(&MONTHS, 3).ok_or_else(syntax)?;
            self.month = Some(place as u32 + 1);
            let full = MONTHS[place];
            let is_full =
                name == "MONTH" && text.get(..full.len()).is_some_and(|own| own.eq_ignore_ascii_case(full));
            return Ok(&text[if is_full { full.len() } else { 3 }..]);
        }
        if let "DAY" | "DY" = name {
            names(&DAYS, 3).ok_or_else(syntax)?;
            return Ok(text.trim_start_matches(char::is_alphabetic));
        }
        if let "AM" | "PM" | "A.M." | "P.M." = name {
            let is_afternoon = match text.chars().next() {
                Some('a' | 'A') => false,
                Some('p' | 'P') => true,
                _ => return Err(syntax()),
            };
            self.is_afternoon = Some(is_afternoon);
            return text.get(name.len()..).ok_or_else(syntax);
        }
        if let "TZ" | "OF" = name {
            let (is_behind, digits) = match text.as_bytes().first() {
                Some(b'+') => (false, &text[1..]),
                Some(b'-') => (true, &text[1..]),
                Some(b'Z' | b'z') => {
                    self.offset_s = Some(0);
                    return Ok(&text[1..]);
                }
                _ => return Err(syntax()),
            };
            let (hours, rest) = number(digits, 2).ok_or_else(syntax)?;
            let (minutes, rest) = match rest.strip_prefix(':').or(Some(rest)).and_then(|own| number(own, 2)) {
                Some((minutes, rest)) => (minutes, rest),
                None => (0, rest),
            };
            let seconds = (hours * 3600 + minutes * 60) as i32;
            self.offset_s = Some(if is_behind { -seconds } else { seconds });
            return Ok(rest);
        }
        let most = match name {
            "YYYY" if is_open => 9,
            "YYYY" | "SSSS" => 4 + usize::from(name == "SSSS"),
            "SSSSS" => 5,
            "YYY" | "DDD" | "MS" | "FF3" => 3,
            "US" | "FF6" => 6,
            "Y" | "D" | "Q" | "W" | "ID" => 1,
            "J" => 9,
            _ => 2,
        };
        let (value, rest) = number(text, most).ok_or_else(syntax)?;
        let digits = text.len() - rest.len();
        let fraction = |of: u32| value * 10_u32.pow(of.saturating_sub(digits as u32)) * 10_u32.pow(9 - of);
        match name {
            "YYYY" if digits == 2 => self.year = Some(of_two_digits(value)),
            "YYYY" => self.year = Some(i32::try_from(value).map_err(|_| TemplateError::Range)?),
            "YYY" => self.year = Some(2000 + value as i32),
            "YY" => self.year = Some(of_two_digits(value)),
            "Y" => self.year = Some(2020 + value as i32),
            "MM" => self.month = Some(value),
            "DD" => self.day = Some(value),
            "DDD" => self.day_of_year = Some(value),
            "HH24" => self.hour = value,
            "HH12" | "HH" => {
                if !(1..=12).contains(&value) {
                    return Err(TemplateError::Syntax(format!(
                        "hour \"{value}\" is invalid for the 12-hour clock"
                    )));
                }
                (self.hour, self.is_of_twelve) = (value, true);
            }
            "MI" => self.minute = value,
            "SS" => self.second = value,
            "MS" | "FF3" => self.nanosecond = fraction(3),
            "US" | "FF6" => self.nanosecond = fraction(6),
            "SSSS" | "SSSSS" => self.of_day = Some(value),
            // Which day of the week or quarter it is follows from the date.
            _ => {}
        }
        Ok(rest)
    }

    fn time(self) -> Result<(NaiveDateTime, Option<i32>), TemplateError> {
        let year = self.year.unwrap_or(1);
        let date = match self.day_of_year {
            Some(day) => NaiveDate::from_yo_opt(year, day),
            None => NaiveDate::from_ymd_opt(year, self.month.unwrap_or(1), self.day.unwrap_or(1)),
        };
        let hour = match self.is_afternoon {
            Some(is_afternoon) if self.is_of_twelve => self.hour % 12 + if is_afternoon { 12 } else { 0 },
            _ if self.is_of_twelve && self.hour == 12 => 0,
            _ => self.hour,
        };
        let time = match self.of_day {
            Some(seconds) => NaiveTime::from_num_seconds_from_midnight_opt(seconds, self.nanosecond),
            None => NaiveTime::from_hms_nano_opt(hour, self.minute, self.second, self.nanosecond),
        };
        match (date, time) {
            (Some(date), Some(time)) => Ok((date.and_time(time), self.offset_s)),
            _ => Err(TemplateError::Range),
        }
    }
}

/// The year next to 2020 that ends so.
fn of_two_digits(value: u32) -> i32 {
    if value < 70 { 2000 + value as i32 } else { 1900 + value as i32 }
}

/// The number at the beginning of a text, and what is left of it.
fn number(text: &str, most: usize) -> Option<(u32, &str)> {
    let end = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let value = text[..end].parse().ok()?;
    Some((value, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_template_says() {
        let time =
            NaiveDate::from_ymd_opt(2024, 3, 5).unwrap().and_hms_nano_opt(13, 5, 9, 123_456_789).unwrap();
        let cases = [
            ("YYYY-MM-DD HH24:MI:SS.US", "2024-03-05 13:05:09.123456"),
            ("FMMonth FMDDth, YY \"at\" HH12 am", "March 5th, 24 at 01 pm"),
            ("Day|DY|mon|Q|IYYY-IW-ID|DDD", "Tuesday  |TUE|mar|1|2024-10-2|065"),
            ("OF TZ ää", "+01 CET ää"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(Template::of(pattern).write(time, 3600, "CET"), expected, "{pattern}");
        }
    }

    #[test]
    fn times_are_read_as_the_template_says() {
        let read = |pattern: &str, text: &str| {
            Template::of(pattern).read(text).map(|(time, offset)| (time.to_string(), offset))
        };
        let time = |text: &str| Ok((text.to_owned(), None));
        assert_eq!(
            read("YYYY-MM-DD HH24:MI:SS.US", "2024-03-05 13:05:09.5"),
            time("2024-03-05 13:05:09.500")
        );
        assert_eq!(read("DD.MM.YYYY", "5.3.2024"), time("2024-03-05 00:00:00"));
        assert_eq!(read("YYYYMMDD", "20240305"), time("2024-03-05 00:00:00"));
        assert_eq!(read("Mon DD YYYY HH12:MI PM", "mar 5 2024 01:30 pm"), time("2024-03-05 13:30:00"));
        assert_eq!(
            read("YYYY-MM-DD OF", "2024-03-05 +01:30"),
            Ok(("2024-03-05 00:00:00".to_owned(), Some(5400)))
        );
        assert_eq!(read("YYYY-MM-DD", "2024-02-30"), Err(TemplateError::Range));
        assert!(matches!(read("YYYY-MM-DD", "nothing"), Err(TemplateError::Syntax(_))));
    }
}
