//! Lines of Graphite: `path value [time]`.
//!
//! A path is split at its dots, and a template says what each part is (`template`); which template, filters say
//! (`matcher`). All as InfluxDB 1.8 does it, quirks included.

mod matcher;
mod template;

use crate::{Point, Refused, Value};
use matcher::Matcher;
use template::Template;

/// The earliest time that is accepted, 1901-12-13, and the latest, 2038-01-19: as in InfluxDB.
const FIRST_TIME_NS: i128 = -2_147_558_400 * NS_PER_S;
const LAST_TIME_NS: i128 = 2_147_472_000 * NS_PER_S;
const NS_PER_S: i128 = 1_000_000_000;

/// Reads lines by templates.
#[derive(Debug, Clone)]
pub struct Parser {
    matcher: Matcher,
}

impl Parser {
    /// A parser with templates of the form `[filter] template [tag=value,…]`. Parts of a measurement, field or tag that
    /// stand apart are joined with `separator`, but with a dot where no template fits.
    ///
    /// # Errors
    /// Words about the first template that is wrong.
    pub fn new<T: AsRef<str>>(templates: &[T], separator: &str) -> Result<Self, String> {
        let mut matcher = Matcher::new(Template::parse("measurement*", "", ".")?);
        let mut filters = Vec::new();
        for text in templates {
            let text = text.as_ref();
            let parts: Vec<&str> = text.split_whitespace().collect();
            let (filter, template, tags) = match parts[..] {
                [template] => ("", template, ""),
                [template, tags] if tags.contains('=') => ("", template, tags),
                [filter, template] => (filter, template, ""),
                [filter, template, tags] => (filter, template, tags),
                _ => return Err(format!("{text:?} is not of the form [filter] template [tag=value,…]")),
            };
            if filters.contains(&filter) {
                return Err(format!("two templates have the filter {filter:?}"));
            }
            filters.push(filter);
            matcher.add(filter, Template::parse(template, tags, separator)?)?;
        }
        Ok(Self { matcher })
    }

    /// Reads a line, without its line break.
    ///
    /// # Errors
    /// Why it is no point.
    pub fn parse<'a>(&'a self, line: &'a str) -> Result<Point<'a>, Refused> {
        let mut words = line.split_whitespace();
        let (Some(path), Some(value), time, None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Refused::Invalid("a line is: path value [time]"));
        };
        let value: f64 = value.parse().map_err(|_| Refused::Invalid("the value is no number"))?;
        let value = Value::finite(value)?;
        let time_ns = time.map_or(Ok(None), time_of)?;
        self.matcher.template_of(path).apply(path, value, time_ns)
    }
}

/// A time in seconds; -1 is now.
fn time_of(text: &str) -> Result<Option<i64>, Refused> {
    let seconds: f64 = text.parse().map_err(|_| Refused::Invalid("the time is no number"))?;
    if seconds == -1.0 {
        return Ok(None);
    }
    // The whole seconds are rounded to zero, the others are counted from below. So InfluxDB does it.
    let fraction_ns = ((seconds - seconds.floor()) * NS_PER_S as f64) as i128;
    let time_ns = (seconds as i64 as i128) * NS_PER_S + fraction_ns;
    if !seconds.is_finite() || !(FIRST_TIME_NS..=LAST_TIME_NS).contains(&time_ns) {
        return Err(Refused::Invalid("the time is out of range"));
    }
    // In range.
    Ok(i64::try_from(time_ns).ok())
}
