//! The name of a table or a measurement as the user writes it: `cpu`, `policy.cpu`, or with quotes `policy."cpu.load"`.

use nyala_sql::quoted_name;
use std::str::FromStr;

/// The parts of a name, the innermost last. There is one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<String>);

impl Name {
    /// As it stands in SQL.
    pub(super) fn sql(&self) -> String {
        self.0.iter().map(|part| quoted_name(part)).collect::<Vec<_>>().join(".")
    }

    /// The policy, which is empty for the default one, and the measurement in it.
    pub(super) fn policy_and_measurement(&self) -> Result<(&str, &str), String> {
        match &self.0[..] {
            [measurement] => Ok(("", measurement.as_str())),
            [policy, measurement] => Ok((policy.as_str(), measurement.as_str())),
            _ => Err(format!(
                "{} has more parts than a policy and a measurement: names with dots need quotes",
                self.sql()
            )),
        }
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = Some(text);
        while let Some(own) = rest {
            let (part, behind) = match own.strip_prefix('"') {
                None => match own.split_once('.') {
                    Some((part, behind)) => (part.to_owned(), Some(behind)),
                    None => (own.to_owned(), None),
                },
                Some(inner) => {
                    let (part, behind) =
                        unquoted(inner).ok_or_else(|| format!("a quote of {text} has no end"))?;
                    match behind.strip_prefix('.') {
                        None if !behind.is_empty() => {
                            return Err(format!("behind a quote of {text} there is no dot"));
                        }
                        behind => (part, behind),
                    }
                }
            };
            if part.is_empty() {
                return Err("a part of the name is empty".to_owned());
            }
            parts.push(part);
            rest = behind;
        }
        Ok(Self(parts))
    }
}

/// What is in quotes, which began before, and what is behind them. Two quotes are one of the name.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once('"')?;
        name.push_str(before);
        match behind.strip_prefix('"') {
            None => return Some((name, behind)),
            Some(behind) => {
                name.push('"');
                rest = behind;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_once_for_sql_and_for_line_protocol() {
        for (text, sql, policy, measurement) in [
            ("cpu", r#""cpu""#, "", "cpu"),
            ("a.cpu load", r#""a"."cpu load""#, "a", "cpu load"),
            (r#""cpu.load""#, r#""cpu.load""#, "", "cpu.load"),
            (r#""a.b"."c""d""#, r#""a.b"."c""d""#, "a.b", r#"c"d"#),
            (r#"a."b""#, r#""a"."b""#, "a", "b"),
            (r#"a"b"#, r#""a""b""#, "", r#"a"b"#),
        ] {
            let name: Name = text.parse().unwrap();
            assert_eq!(name.sql(), sql);
            assert_eq!(name.policy_and_measurement(), Ok((policy, measurement)));
        }
        assert!("a.b.c".parse::<Name>().unwrap().policy_and_measurement().is_err());
        for text in ["", "a.", ".a", "a..b", "\"a", "\"a\"b", "\"\""] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
    }
}
