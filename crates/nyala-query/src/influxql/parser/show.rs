//! SHOW statements.

use crate::influxql::statement::{
    ShowCardinality, ShowFieldKeys, ShowMeasurements, ShowSeries, ShowTagKeys, ShowTagValues, Statement,
    TagKeys,
};
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
            Kind::Key => {
                let exact = self.key_cardinality()?;
                Ok(Statement::ShowFieldKeyCardinality(self.cardinality(exact)?))
            }
            Kind::Keys => Ok(Statement::ShowFieldKeys(ShowFieldKeys {
                database: self.on_database()?,
                sources: self.optional_from()?,
                order: self.order_by()?,
                limit: self.optional_count(Kind::Limit)?,
                offset: self.optional_count(Kind::Offset)?,
            })),
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
        Ok(Statement::ShowMeasurementCardinality(self.cardinality(exact)?))
    }

    fn show_measurements(&mut self) -> Result<Statement> {
        let database = self.on_database()?;
        let mut source = None;
        if self.take(Kind::With) {
            self.expect(Kind::Measurement)?;
            let token = self.next();
            if !matches!(token.kind, Kind::Equal | Kind::EqualRegex) {
                return Err(self.unexpected(&token, &["=", "=~"]));
            }
            source = Some(self.measurement()?);
        }
        Ok(Statement::ShowMeasurements(ShowMeasurements {
            database,
            source,
            condition: self.condition()?,
            order: self.order_by()?,
            limit: self.optional_count(Kind::Limit)?,
            offset: self.optional_count(Kind::Offset)?,
        }))
    }

    fn show_series(&mut self) -> Result<Statement> {
        // `EXACT` is taken even where no `CARDINALITY` follows, as InfluxDB does.
        let exact = self.take(Kind::Exact);
        if self.take(Kind::Cardinality) {
            return Ok(Statement::ShowSeriesCardinality(self.cardinality(exact)?));
        }
        Ok(Statement::ShowSeries(ShowSeries {
            database: self.on_database()?,
            sources: self.optional_from()?,
            condition: self.condition()?,
            order: self.order_by()?,
            limit: self.optional_count(Kind::Limit)?,
            offset: self.optional_count(Kind::Offset)?,
        }))
    }

    fn show_tag(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Key => {
                let exact = self.key_cardinality()?;
                Ok(Statement::ShowTagKeyCardinality(self.cardinality(exact)?))
            }
            Kind::Keys => Ok(Statement::ShowTagKeys(ShowTagKeys {
                database: self.on_database()?,
                sources: self.optional_from()?,
                condition: self.condition()?,
                order: self.order_by()?,
                limit: self.optional_count(Kind::Limit)?,
                offset: self.optional_count(Kind::Offset)?,
                slimit: self.optional_count(Kind::Slimit)?,
                soffset: self.optional_count(Kind::Soffset)?,
            })),
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
            let mut cardinality = ShowCardinality {
                exact,
                database: self.on_database()?,
                sources: self.optional_from()?,
                ..ShowCardinality::default()
            };
            let keys = self.with_key()?;
            self.cardinality_tail(&mut cardinality)?;
            return Ok(Statement::ShowTagValuesCardinality { cardinality, keys });
        }
        Ok(Statement::ShowTagValues(ShowTagValues {
            database: self.on_database()?,
            sources: self.optional_from()?,
            keys: self.with_key()?,
            condition: self.condition()?,
            order: self.order_by()?,
            limit: self.optional_count(Kind::Limit)?,
            offset: self.optional_count(Kind::Offset)?,
        }))
    }

    /// `[EXACT] CARDINALITY` behind `KEY`: whether it is exact.
    fn key_cardinality(&mut self) -> Result<bool> {
        let exact = self.take(Kind::Exact);
        let expected = ["EXACT", "CARDINALITY"];
        self.expect_or(Kind::Cardinality, if exact { &expected[1..] } else { &expected })?;
        Ok(exact)
    }

    fn cardinality(&mut self, exact: bool) -> Result<ShowCardinality> {
        let mut cardinality = ShowCardinality {
            exact,
            database: self.on_database()?,
            sources: self.optional_from()?,
            ..ShowCardinality::default()
        };
        self.cardinality_tail(&mut cardinality)?;
        Ok(cardinality)
    }

    fn cardinality_tail(&mut self, cardinality: &mut ShowCardinality) -> Result<()> {
        cardinality.condition = self.condition()?;
        cardinality.dimensions = self.dimensions()?;
        cardinality.limit = self.optional_count(Kind::Limit)?;
        cardinality.offset = self.optional_count(Kind::Offset)?;
        Ok(())
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
