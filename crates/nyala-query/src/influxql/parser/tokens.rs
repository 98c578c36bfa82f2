//! CREATE TOKEN and SET QUOTA, which InfluxDB 1.x does not have. Their words are no keywords, so that they stay usable as names.

use crate::influxql::error::ParseError;
use crate::influxql::statement::{CreateToken, Expiry, Statement};
use crate::influxql::time::parse_time;
use crate::influxql::token::Kind;

use super::{Parser, Result};

impl Parser<'_> {
    /// What follows `CREATE TOKEN`.
    pub(super) fn create_token(&mut self) -> Result<Statement> {
        let name = self.identifier()?;
        self.expect(Kind::For)?;
        let user = self.identifier()?;
        let scope = match self.take(Kind::On) {
            true => self.list(|parser| Ok((parser.identifier()?, parser.privilege()?)))?,
            false => Vec::new(),
        };
        let expires = if self.take_word("EXPIRES") { Some(self.expiry()?) } else { None };
        Ok(Statement::CreateToken(CreateToken { name, user, scope, expires }))
    }

    /// `'time'` or `IN duration`
    fn expiry(&mut self) -> Result<Expiry> {
        if self.take(Kind::In) {
            return match self.duration()? {
                // This is also what INF is.
                0 => Err(ParseError::at(
                    "a token that never expires is created without EXPIRES",
                    self.lexer.position(0),
                )),
                duration_ns => Ok(Expiry::In(duration_ns)),
            };
        }
        let text = self.string()?;
        let unix_ns = parse_time(&text, None).and_then(|time| i64::try_from(time.unix_ns).ok());
        let words =
            || ParseError::at(format!("{text:?} is no time, such as '2027-01-31'"), self.lexer.position(0));
        unix_ns.map(Expiry::At).ok_or_else(words)
    }

    /// What follows `SET QUOTA`.
    pub(super) fn set_quota(&mut self) -> Result<Statement> {
        self.expect(Kind::For)?;
        let user = self.identifier()?;
        let limits = self.list(|parser| {
            let name = parser.identifier()?;
            parser.expect(Kind::Equal)?;
            Ok((name, parser.unsigned()?))
        })?;
        Ok(Statement::SetQuota { user, limits })
    }
}

#[cfg(test)]
mod tests {
    use crate::influxql::{Params, parse_query};

    #[test]
    fn what_is_printed_is_read_again() {
        for text in [
            "CREATE TOKEN ci FOR ann",
            "CREATE TOKEN \"a b\" FOR \"user\" ON home READ, \"on\" ALL PRIVILEGES EXPIRES IN 30d",
            "CREATE TOKEN token FOR expires ON quota WRITE EXPIRES '2027-01-31T00:00:00Z'",
            "DROP TOKEN ci",
            "SHOW TOKENS",
            "SET QUOTA FOR ann queries_per_minute = 10, points_per_second = 0",
            "SHOW QUOTAS",
            "SELECT token, tokens, quota, quotas, expires FROM token",
        ] {
            let parsed = parse_query(text, &Params::default()).unwrap();
            assert_eq!(parsed[0].to_string(), text);
        }
        let read = |text: &str| parse_query(text, &Params::default()).map(|parsed| parsed[0].to_string());
        assert_eq!(
            read("create token t for u expires '2027-01-31'").unwrap(),
            "CREATE TOKEN t FOR u EXPIRES '2027-01-31T00:00:00Z'"
        );
        for (text, words) in [
            ("CREATE TOKEN t", "expected FOR"),
            ("CREATE TOKEN t FOR u ON d", "expected READ, WRITE, ALL"),
            ("CREATE TOKEN t FOR u EXPIRES 'soon'", "is no time"),
            ("CREATE TOKEN t FOR u EXPIRES IN INF", "without EXPIRES"),
            ("CREATE TOKEN t FOR u EXPIRES IN -3d", "expected duration"),
            ("SET QUOTA FOR u x", "expected ="),
            ("SET QUOTA FOR u x = -1", "expected integer"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
