//! SHOW statements.

use crate::influxql::statement::{Counted, Show, ShowCardinality, Statement, TagKeys};
use crate::influxql::token::Kind;

use super::{Parser, Result};

impl<'a> Parser<'a> {
    /// What follows `SHOW`.
    pub(super) fn show(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Continuous => {
                self.expect(Kind::Queries)?;
                Ok(Statement::ShowContinuousQueries)
            }
            Kind::Databases => Ok(Statement::ShowDatabases),
            Kind::Diagnostics => Ok(Statement::ShowDiagnostics { module: self.module()? }),
            Kind::Field => self.show_field(),
            Kind::Grants => {
                self.expect(Kind::For)?;
                Ok(Statement::ShowGrants { user: self.identifier()? })
            }
            Kind::Measurement => self.show_measurement(),
            Kind::Measurements => self.show_measurements(),
            Kind::Queries => Ok(Statement::ShowQueries),
            Kind::Retention => {
                self.expect(Kind::Policies)?;
                Ok(Statement::ShowRetentionPolicies { database: self.on_database()? })
            }
            Kind::Series => self.show_series(),
            Kind::Shard => {
                self.expect(Kind::Groups)?;
                Ok(Statement::ShowShardGroups)
            }
            Kind::Shards => Ok(Statement::ShowShards),
            Kind::Stats => Ok(Statement::ShowStats { module: self.module()? }),
            Kind::Subscriptions => Ok(Statement::ShowSubscriptions),
            Kind::Tag => self.show_tag(),
            Kind::Users => Ok(Statement::ShowUsers),
            _ if token.is_word("ALIASES") => Ok(Statement::ShowAliases { database: self.on_database()? }),
            _ if token.is_word("CHANGES") => Ok(Statement::ShowChanges),
            _ if token.is_word("MAINTENANCE") => Ok(Statement::ShowMaintenance),
            _ if token.is_word("STORAGE") => {
                let show = self.from()?;
                Ok(Statement::ShowStorage(Show { limit: self.optional_count(Kind::Limit)?, ..show }))
            }
            _ if token.is_word("SLOWEST") => {
                self.expect(Kind::Queries)?;
                Ok(Statement::ShowSlowestQueries)
            }
            _ if token.is_word("QUOTAS") => Ok(Statement::ShowQuotas),
            _ if token.is_word("TOKENS") => Ok(Statement::ShowTokens),
            // InfluxDB's words: it does not know those that nyala has besides.
            _ => Err(self.unexpected(
                &token,
                &[
                    "CONTINUOUS",
                    "DATABASES",
                    "DIAGNOSTICS",
                    "FIELD",
                    "GRANTS",
                    "MEASUREMENT",
                    "MEASUREMENTS",
                    "QUERIES",
                    "RETENTION",
                    "SERIES",
                    "SHARD",
                    "SHARDS",
                    "STATS",
                    "SUBSCRIPTIONS",
                    "TAG",
                    "USERS",
                ],
            )),
        }
    }

    fn module(&mut self) -> Result<Option<String>> {
        if self.take(Kind::For) { self.string().map(Some) } else { Ok(None) }
    }

    fn on_database(&mut self) -> Result<Option<String>> {
        if !self.take(Kind::On) {
            return Ok(None);
        }
        let database = self.identifier()?;
        Ok(Some(database).filter(|database| !database.is_empty()))
    }

    fn show_field(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Key => self.key_cardinality(Counted::FieldKeys),
            Kind::Keys => {
                let show = self.from()?;
                self.order_and_limit(show).map(Statement::ShowFieldKeys)
            }
            _ => Err(self.unexpected(&token, &["KEY", "KEYS"])),
        }
    }

    fn show_measurement(&mut self) -> Result<Statement> {
        let token = self.next();
        let exact = match token.kind {
            Kind::Exact => {
                self.expect(Kind::Cardinality)?;
                true
            }
            Kind::Cardinality => false,
            _ => return Err(self.unexpected(&token, &["EXACT", "CARDINALITY"])),
        };
        self.cardinality(Counted::Measurements, exact)
    }

    fn show_measurements(&mut self) -> Result<Statement> {
        let mut show = Show { database: self.on_database()?, ..Show::default() };
        if self.take(Kind::With) {
            self.expect(Kind::Measurement)?;
            let token = self.next();
            if !matches!(token.kind, Kind::Equal | Kind::EqualRegex) {
                return Err(self.unexpected(&token, &["=", "=~"]));
            }
            show.sources.push(self.measurement()?);
        }
        show.condition = self.condition()?;
        self.order_and_limit(show).map(Statement::ShowMeasurements)
    }

    fn show_series(&mut self) -> Result<Statement> {
        // `EXACT` is taken even where no `CARDINALITY` follows, as InfluxDB does.
        let exact = self.take(Kind::Exact);
        if self.take(Kind::Cardinality) {
            return self.cardinality(Counted::Series, exact);
        }
        let mut show = self.from()?;
        show.condition = self.condition()?;
        self.order_and_limit(show).map(Statement::ShowSeries)
    }

    fn show_tag(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Key => self.key_cardinality(Counted::TagKeys),
            Kind::Keys => {
                let mut show = self.from()?;
                show.condition = self.condition()?;
                show = self.order_and_limit(show)?;
                show.slimit = self.optional_count(Kind::Slimit)?;
                show.soffset = self.optional_count(Kind::Soffset)?;
                Ok(Statement::ShowTagKeys(show))
            }
            Kind::Values => self.show_tag_values(),
            _ => Err(self.unexpected(&token, &["KEY", "KEYS", "VALUES"])),
        }
    }

    fn show_tag_values(&mut self) -> Result<Statement> {
        let exact = self.take(Kind::Exact);
        if exact {
            self.expect(Kind::Cardinality)?;
        }
        if exact || self.take(Kind::Cardinality) {
            let show = self.from()?;
            let counted = Counted::TagValues(self.with_key()?);
            return self.cardinality_of(counted, exact, show);
        }
        let mut show = self.from()?;
        let keys = self.with_key()?;
        show.condition = self.condition()?;
        Ok(Statement::ShowTagValues { keys, show: self.order_and_limit(show)? })
    }

    /// `[EXACT] CARDINALITY` and what follows it.
    fn key_cardinality(&mut self, counted: Counted) -> Result<Statement> {
        let exact = self.take(Kind::Exact);
        let expected = ["EXACT", "CARDINALITY"];
        self.expect_or(Kind::Cardinality, if exact { &expected[1..] } else { &expected })?;
        self.cardinality(counted, exact)
    }

    /// What follows `CARDINALITY`.
    fn cardinality(&mut self, counted: Counted, exact: bool) -> Result<Statement> {
        let show = self.from()?;
        self.cardinality_of(counted, exact, show)
    }

    /// What follows the sources, and the keys where there are any.
    fn cardinality_of(&mut self, counted: Counted, exact: bool, mut show: Show) -> Result<Statement> {
        show.condition = self.condition()?;
        show.dimensions = self.dimensions()?;
        show.limit = self.optional_count(Kind::Limit)?;
        show.offset = self.optional_count(Kind::Offset)?;
        Ok(Statement::ShowCardinality(ShowCardinality { counted, exact, show }))
    }

    /// `[ON …] [FROM …]`
    fn from(&mut self) -> Result<Show> {
        Ok(Show { database: self.on_database()?, sources: self.optional_from()?, ..Show::default() })
    }

    /// `[ORDER BY …] [LIMIT …] [OFFSET …]`
    fn order_and_limit(&mut self, show: Show) -> Result<Show> {
        Ok(Show {
            order: self.order_by()?,
            limit: self.optional_count(Kind::Limit)?,
            offset: self.optional_count(Kind::Offset)?,
            ..show
        })
    }

    fn with_key(&mut self) -> Result<TagKeys> {
        self.expect(Kind::With)?;
        self.expect(Kind::Key)?;
        let token = self.next();
        match token.kind {
            Kind::In => {
                self.expect(Kind::LeftParenthesis)?;
                let keys = self.list(Self::identifier)?;
                self.expect(Kind::RightParenthesis)?;
                Ok(TagKeys::In(keys))
            }
            Kind::Equal => Ok(TagKeys::Equal(self.identifier()?)),
            Kind::NotEqual => Ok(TagKeys::NotEqual(self.identifier()?)),
            Kind::EqualRegex => Ok(TagKeys::Matches(self.required_regex()?)),
            Kind::NotEqualRegex => Ok(TagKeys::NotMatches(self.required_regex()?)),
            _ => Err(self.unexpected(&token, &["IN", "=", "=~"])),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::influxql::{Params, parse_query};

    #[test]
    fn what_influxdb_does_not_have_is_printed_as_it_is_read() {
        for text in [
            "SHOW ALIASES ON d",
            "SHOW CHANGES",
            "SHOW MAINTENANCE",
            "SHOW STORAGE FROM cpu",
            "SHOW STORAGE ON d LIMIT 10",
            "SHOW STORAGE ON \"a b\" FROM autogen.cpu, \"select\"",
            "SELECT storage, maintenance FROM storage",
        ] {
            let parsed = parse_query(text, &Params::default()).unwrap();
            assert_eq!(parsed[0].to_string(), text);
        }
    }
}
