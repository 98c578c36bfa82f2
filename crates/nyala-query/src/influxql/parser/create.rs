//! CREATE and ALTER.

use crate::influxql::duration::{format_duration, parse_duration};
use crate::influxql::error::ParseError;
use crate::influxql::statement::{
    CreateContinuousQuery, CreateDatabase, CreateSubscription, CreateUser, PolicyClauses, RetentionPolicy,
    Statement,
};
use crate::influxql::token::Kind;
use crate::influxql::validate::group_by_interval;

use super::select::Into;
use super::{Parser, Result};

impl<'a> Parser<'a> {
    /// What follows `CREATE`.
    pub(super) fn create(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Continuous => {
                self.expect(Kind::Query)?;
                self.create_continuous_query()
            }
            Kind::Database => self.create_database(),
            Kind::User => self.create_user(),
            Kind::Retention => {
                self.expect(Kind::Policy)?;
                self.create_retention_policy()
            }
            Kind::Subscription => self.create_subscription(),
            _ if token.is_word("TOKEN") => self.create_token(),
            _ => {
                let expected = ["CONTINUOUS", "DATABASE", "USER", "RETENTION", "SUBSCRIPTION"];
                Err(self.unexpected(&token, &expected))
            }
        }
    }

    fn create_continuous_query(&mut self) -> Result<Statement> {
        let (name, database) = self.name_on_database()?;
        let (resample_every_ns, resample_for_ns) =
            if self.take(Kind::Resample) { self.resample()? } else { (0, 0) };
        self.expect(Kind::Begin)?;
        self.expect(Kind::Select)?;
        let select = self.select(Into::Required)?;
        let interval = group_by_interval(&select);
        if !select.is_raw() && !matches!(interval, Ok(1..)) {
            // InfluxDB goes back two tokens and complains of what stands there.
            self.unscan();
            self.unscan();
            let token = self.next();
            let mut expected = vec!["GROUP BY time(...)".to_string()];
            expected.extend(interval.err().map(|error| error.to_string()));
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            return Err(self.unexpected(&token, &expected));
        }
        self.expect(Kind::End)?;
        let interval_ns = interval.map_err(|error| ParseError::new(error.to_string()))?;
        let least_ns = interval_ns.max(resample_every_ns);
        if resample_for_ns != 0 && least_ns > resample_for_ns {
            return Err(ParseError::new(format!(
                "FOR duration must be >= GROUP BY time duration: must be a minimum of {}, got {}",
                format_duration(least_ns),
                format_duration(resample_for_ns)
            )));
        }
        Ok(Statement::CreateContinuousQuery(Box::new(CreateContinuousQuery {
            name,
            database,
            resample_every_ns,
            resample_for_ns,
            select,
        })))
    }

    /// `[EVERY duration] [FOR duration]`, one at least.
    fn resample(&mut self) -> Result<(i64, i64)> {
        let every_ns = if self.take(Kind::Every) { self.finite_duration()? } else { 0 };
        let for_ns = if self.take(Kind::For) { self.finite_duration()? } else { 0 };
        if every_ns == 0 && for_ns == 0 {
            let token = self.next();
            return Err(self.unexpected(&token, &["EVERY", "FOR"]));
        }
        Ok((every_ns, for_ns))
    }

    /// A duration that is not `INF`.
    fn finite_duration(&mut self) -> Result<i64> {
        let token = self.next();
        if token.kind != Kind::DurationValue {
            return Err(self.unexpected(&token, &["duration"]));
        }
        parse_duration(token.digits()).map_err(|message| self.error_at(&token, message))
    }

    fn create_database(&mut self) -> Result<Statement> {
        let mut create = CreateDatabase { name: self.identifier()?, retention_policy: None };
        if !self.take(Kind::With) {
            return Ok(Statement::CreateDatabase(create));
        }
        let token = self.next();
        self.unscan();
        let described = match token.kind {
            Kind::Duration | Kind::Name | Kind::Replication | Kind::Shard => true,
            Kind::Identifier => ["future", "past"].iter().any(|word| token.text().eq_ignore_ascii_case(word)),
            _ => false,
        };
        if !described {
            return Err(self.unexpected(&token, &["DURATION", "NAME", "REPLICATION", "SHARD"]));
        }
        let mut policy = PolicyClauses::default();
        if self.take(Kind::Duration) {
            policy.duration_ns = Some(self.duration()?);
        }
        if self.take(Kind::Replication) {
            policy.replication = Some(self.replication()?);
        }
        if self.take(Kind::Shard) {
            self.expect(Kind::Duration)?;
            policy.shard_duration_ns = Some(self.duration()?).filter(|width_ns| *width_ns != 0);
        }
        self.write_limits(&mut policy)?;
        let name = if self.take(Kind::Name) { Some(self.identifier()?) } else { None };
        create.retention_policy = Some((policy, name.filter(|name| !name.is_empty())));
        Ok(Statement::CreateDatabase(create))
    }

    /// `FUTURE LIMIT duration` and `PAST LIMIT duration`, in either order, each at most once.
    fn write_limits(&mut self, policy: &mut PolicyClauses) -> Result<()> {
        loop {
            if policy.future_limit_ns.is_none() && self.take_word("future") {
                policy.future_limit_ns = Some(self.limit_duration()?);
            } else if policy.past_limit_ns.is_none() && self.take_word("past") {
                policy.past_limit_ns = Some(self.limit_duration()?);
            } else {
                return Ok(());
            }
        }
    }

    fn limit_duration(&mut self) -> Result<i64> {
        self.expect(Kind::Limit)?;
        self.duration()
    }

    fn create_user(&mut self) -> Result<Statement> {
        let name = self.identifier()?;
        self.expect(Kind::With)?;
        self.expect(Kind::Password)?;
        let password = self.string()?;
        let admin = self.take(Kind::With);
        if admin {
            self.expect(Kind::All)?;
            self.expect(Kind::Privileges)?;
        }
        Ok(Statement::CreateUser(CreateUser { name, password, admin }))
    }

    fn create_retention_policy(&mut self) -> Result<Statement> {
        let (name, database) = self.name_on_database()?;
        self.expect(Kind::Duration)?;
        let mut clauses = PolicyClauses { duration_ns: Some(self.duration()?), ..PolicyClauses::default() };
        self.expect(Kind::Replication)?;
        clauses.replication = Some(self.replication()?);
        if self.take(Kind::Shard) {
            clauses.shard_duration_ns = Some(self.shard_duration()?).filter(|width_ns| *width_ns != 0);
        }
        self.write_limits(&mut clauses)?;
        clauses.default = self.take(Kind::Default);
        Ok(Statement::CreateRetentionPolicy(RetentionPolicy { name, database, clauses }))
    }

    /// What follows `SHARD`: it cannot be infinite.
    fn shard_duration(&mut self) -> Result<i64> {
        self.expect(Kind::Duration)?;
        let token = self.next();
        if token.kind == Kind::Inf {
            return Err(self.error_at(&token, "invalid duration INF for shard duration"));
        }
        self.unscan();
        self.duration()
    }

    fn create_subscription(&mut self) -> Result<Statement> {
        let name = self.identifier()?;
        self.expect(Kind::On)?;
        let (database, retention_policy) = self.policy_name()?;
        self.expect(Kind::Destinations)?;
        let token = self.next();
        let to_all = match token.kind {
            Kind::All => true,
            Kind::Any => false,
            _ => return Err(self.unexpected(&token, &["ALL", "ANY"])),
        };
        let destinations = self.list(Self::string)?;
        Ok(Statement::CreateSubscription(CreateSubscription {
            name,
            database,
            retention_policy,
            to_all,
            destinations,
        }))
    }

    /// `database.policy`, without space before the dot.
    pub(super) fn policy_name(&mut self) -> Result<(String, String)> {
        let database = self.identifier()?;
        let token = self.scan();
        if token.kind != Kind::Dot {
            return Err(self.unexpected(&token, &["."]));
        }
        Ok((database, self.identifier()?))
    }

    /// What follows `ALTER`.
    pub(super) fn alter(&mut self) -> Result<Statement> {
        if self.take(Kind::Measurement) {
            return self.alter_measurement();
        }
        self.expect(Kind::Retention)?;
        self.expect(Kind::Policy)?;
        let token = self.next();
        let name = match token.kind {
            Kind::Default => "default".to_string(),
            Kind::Identifier => token.text().into_owned(),
            _ => return Err(self.unexpected(&token, &["identifier"])),
        };
        self.expect(Kind::On)?;
        let database = self.identifier()?;
        let mut clauses = PolicyClauses::default();
        let mut changes = 0;
        loop {
            let token = self.next();
            let word = |text: &str| token.kind == Kind::Identifier && token.text().eq_ignore_ascii_case(text);
            let (clause, repeated) = match token.kind {
                Kind::Duration => ("DURATION", clauses.duration_ns.is_some()),
                Kind::Replication => ("REPLICATION", clauses.replication.is_some()),
                Kind::Shard => ("SHARD", clauses.shard_duration_ns.is_some()),
                Kind::Default => ("DEFAULT", clauses.default),
                _ if word("future") => ("FUTURE", clauses.future_limit_ns.is_some()),
                _ if word("past") => ("PAST", clauses.past_limit_ns.is_some()),
                _ if changes == 0 => {
                    return Err(self.unexpected(&token, &["DURATION", "REPLICATION", "SHARD", "DEFAULT"]));
                }
                _ => {
                    self.unscan();
                    return Ok(Statement::AlterRetentionPolicy(RetentionPolicy { name, database, clauses }));
                }
            };
            if repeated {
                return Err(self.error_at(&token, format!("found duplicate {clause} option")));
            }
            match clause {
                "DURATION" => clauses.duration_ns = Some(self.duration()?),
                "REPLICATION" => clauses.replication = Some(self.replication()?),
                "SHARD" => clauses.shard_duration_ns = Some(self.shard_duration()?),
                "FUTURE" => clauses.future_limit_ns = Some(self.limit_duration()?),
                "PAST" => clauses.past_limit_ns = Some(self.limit_duration()?),
                _ => clauses.default = true,
            }
            changes += 1;
        }
    }
}
