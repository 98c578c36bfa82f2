//! `insert [into POLICY] LINE`: writes a point in line protocol, as in influx.

use crate::command::Name;
use crate::error::{Result, ShellError};
use crate::language::Language;
use crate::server::{Place, Server};

/// Writes the line to the database, with times in the unit that the shell shows them in.
pub(crate) fn insert(server: &Server, line: &str, place: &Place, precision: &str) -> Result<()> {
    let (policy, line) = target(line)?;
    let mut place = place.clone();
    if let Some(Name { before, name }) = policy {
        place.policy = name;
        place.database = before.unwrap_or(place.database);
    }
    if place.database.is_empty() {
        return Err(ShellError::Command("insert needs a database: use NAME".to_owned()));
    }
    // A point's time is a number in any case.
    let unit = if precision == "rfc3339" { "ns" } else { precision };
    server.write(line.as_bytes(), &place, unit)
}

/// Splits off `into POLICY`, unless that is how the name of a measurement begins.
fn target(line: &str) -> Result<(Option<Name>, &str)> {
    let Some((into, rest)) = line.split_once(char::is_whitespace) else { return Ok((None, line)) };
    if !into.eq_ignore_ascii_case("into") {
        return Ok((None, line));
    }
    let rest = rest.trim_start();
    let mut is_quoted = false;
    let end = rest.find(|letter: char| {
        is_quoted ^= letter == '"';
        letter.is_whitespace() && !is_quoted
    });
    let Some(end) = end else {
        return Err(ShellError::Command(
            "insert into needs a policy and a point: insert into week m v=1".to_owned(),
        ));
    };
    Ok((Some(Name::read(&rest[..end], Language::Influxql)?), rest[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_may_stand_before_the_point() {
        let name = |before: Option<&str>, name: &str| {
            Some(Name { before: before.map(str::to_owned), name: name.to_owned() })
        };
        assert_eq!(target("m,h=a v=1 1").unwrap(), (None, "m,h=a v=1 1"));
        assert_eq!(target("into week m v=1").unwrap(), (name(None, "week"), "m v=1"));
        assert_eq!(target("INTO \"d b\".\"a week\" m v=1").unwrap(), (name(Some("d b"), "a week"), "m v=1"));
        assert_eq!(target("into,h=a v=1").unwrap(), (None, "into,h=a v=1"));
        assert!(target("into week").is_err());
    }
}
