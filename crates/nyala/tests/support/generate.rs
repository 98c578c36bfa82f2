//! Bulk data as formulas, and times near now.
//!
//! `{…}` in a template is a sum worked from left to right, without precedence: numbers, `i` (the
//! row) and `r1`…`r9` (nine hashes of the row) joined by `+ - * / %`. So `{1000+i/20*60}` is
//! `((1000+i)/20)*60`, and `{i/20*60+1000}` gives every 20 rows the same time, 60 apart. The same
//! template gives the same rows on every machine and for ever: expected answers depend on it.
//!
//! `${now}` is the full hour in which the script started, as nanoseconds, and `${now-90m}` a time
//! before it; the answers show the same words in place of the numbers.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOUR_NS: i64 = 3_600_000_000_000;
/// A script that names times near now ends before the hour does: an hour later, other points would be near now.
const SCRIPT_NS_MAX: i64 = 3 * 60_000_000_000;

/// Expands a template for row `i`.
pub(crate) fn expand(template: &str, i: u64) -> Result<String, String> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (formula, after) =
            after.split_once('}').ok_or_else(|| format!("no end of formula in {template:?}"))?;
        text.push_str(before);
        text.push_str(&evaluate(formula, i)?.to_string());
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn evaluate(formula: &str, i: u64) -> Result<i64, String> {
    let bad = |what: &str| format!("{what} in formula {{{formula}}}");
    let mut value: Option<i64> = None;
    let mut operator = '+';
    let mut rest = formula;
    loop {
        let end = rest.find(['+', '-', '*', '/', '%']).unwrap_or(rest.len());
        let operand = match rest[..end].trim() {
            "i" => i as i64,
            name if name.starts_with('r') => {
                let salt: u64 = name[1..].parse().map_err(|_| bad("no hash"))?;
                (hash(i.wrapping_mul(16).wrapping_add(salt)) >> 2) as i64
            }
            number => number.parse().map_err(|_| bad("no number"))?,
        };
        let so_far = value.unwrap_or(0);
        let next = match operator {
            '+' => so_far.checked_add(operand),
            '-' => so_far.checked_sub(operand),
            '*' => so_far.checked_mul(operand),
            '/' => so_far.checked_div(operand),
            _ => so_far.checked_rem(operand),
        };
        value = Some(next.ok_or_else(|| bad("overflow or division by zero"))?);
        match rest[end..].chars().next() {
            Some(next) => operator = next,
            None => return Ok(value.unwrap_or(0)),
        }
        rest = &rest[end + 1..];
    }
}

/// SplitMix64's finaliser: a fixed, well-spread function of the row.
fn hash(row: u64) -> u64 {
    let mut z = row.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Replaces `${a*70000}` by that many `a`.
pub(crate) fn repeat(text: &str) -> Result<String, String> {
    let mut repeated = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let end = after.find('}').ok_or("no end of ${…}")?;
        let Some((unit, count)) = after[..end].split_once('*') else {
            return Err(format!("not a repetition: {}", &after[..end]));
        };
        let count: usize = count.parse().map_err(|_| format!("not a count: {count}"))?;
        repeated.push_str(before);
        repeated.push_str(&unit.repeat(count));
        rest = &after[end + 1..];
    }
    repeated.push_str(rest);
    Ok(repeated)
}

/// The times near now that a run of a script used.
pub(crate) struct Clock {
    hour_ns: i64,
    /// Numbers in requests, and the words that replace them in answers.
    used: BTreeMap<String, String>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let now_ns = now_ns();
        Clock { hour_ns: now_ns - now_ns % HOUR_NS, used: BTreeMap::new() }
    }

    /// The same for a script that names times near now: waits if the next hour is too near.
    pub(crate) fn near_now() -> Clock {
        let left_ns = HOUR_NS - now_ns() % HOUR_NS;
        if left_ns < SCRIPT_NS_MAX {
            std::thread::sleep(Duration::from_nanos(left_ns as u64));
        }
        Clock::new()
    }

    /// Replaces `${now…}` by nanoseconds.
    pub(crate) fn fill(&mut self, text: &str) -> Result<String, String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${now") {
            let (offset, after) = after.split_once('}').ok_or("no end of ${now…}")?;
            let time = (self.hour_ns + offset_ns(offset)?).to_string();
            filled.push_str(before);
            filled.push_str(&time);
            self.used.insert(time, format!("${{now{offset}}}"));
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Replaces the numbers of `fill` by the words they came from.
    pub(crate) fn hide(&self, line: &str) -> String {
        let mut hidden = line.to_owned();
        for (number, word) in &self.used {
            hidden = hidden.replace(number, word);
        }
        hidden
    }
}

fn now_ns() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    since_epoch.as_nanos() as i64
}

fn offset_ns(offset: &str) -> Result<i64, String> {
    if offset.is_empty() {
        return Ok(0);
    }
    let bad = || format!("not an offset: {offset:?}");
    let unit_at = offset.len() - 1;
    let amount: i64 = offset[..unit_at].parse().map_err(|_| bad())?;
    let unit_ns = match &offset[unit_at..] {
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => HOUR_NS,
        "d" => 24 * HOUR_NS,
        _ => return Err(bad()),
    };
    Ok(amount * unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_computed_from_left_to_right() {
        assert_eq!(expand("h{i%20} {i/20*60+1000}", 45).unwrap(), "h5 1120");
        assert_eq!(expand("{r1%100}", 7), expand("{r1%100}", 7));
        assert_ne!(expand("{r1}", 7), expand("{r2}", 7));
        assert!(expand("{i/0}", 1).is_err() && expand("{", 1).is_err());
    }

    #[test]
    fn times_are_replaced_by_words() {
        let mut clock = Clock::new();
        let filled = clock.fill("m v=1 ${now-90m}").unwrap();
        assert!(!filled.contains('$'));
        assert_eq!(clock.hide(&filled), "m v=1 ${now-90m}");
    }
}
