//! DELETE, DROP, EXPLAIN, GRANT, REVOKE, SET PASSWORD and KILL QUERY.

use crate::influxql::error::ParseError;
use crate::influxql::statement::{Deletion, Privilege, Statement};
use crate::influxql::token::Kind;

use super::select::Into;
use super::{Parser, Result};

impl<'a> Parser<'a> {
    /// What follows `DELETE`.
    pub(super) fn delete(&mut self) -> Result<Statement> {
        match self.take(Kind::Field) {
            true => self.delete_field(),
            false => self.deletion().map(Statement::Delete),
        }
    }

    fn deletion(&mut self) -> Result<Deletion> {
        let token = self.next();
        self.unscan();
        let sources = self.optional_from()?;
        // InfluxDB deletes from all retention policies of the database that the request names.
        let mut refused = None;
        for source in &sources {
            if source.database.is_some() {
                refused = Some("database not supported");
            }
            if source.retention_policy.is_some() {
                refused = Some("retention policy not supported");
            }
        }
        if let Some(message) = refused {
            return Err(ParseError::at(message, self.lexer.position(0)));
        }
        let condition = self.condition()?;
        if sources.is_empty() && condition.is_none() {
            return Err(self.unexpected(&token, &["FROM", "WHERE"]));
        }
        Ok(Deletion { sources, condition })
    }

    /// What follows `DROP`.
    pub(super) fn drop(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Continuous => {
                self.expect(Kind::Query)?;
                let (name, database) = self.name_on_database()?;
                Ok(Statement::DropContinuousQuery { name, database })
            }
            Kind::Database => Ok(Statement::DropDatabase { name: self.identifier()? }),
            Kind::Measurement => Ok(Statement::DropMeasurement { name: self.identifier()? }),
            Kind::Retention => {
                self.expect(Kind::Policy)?;
                let (name, database) = self.name_on_database()?;
                Ok(Statement::DropRetentionPolicy { name, database })
            }
            Kind::Series => self.deletion().map(Statement::DropSeries),
            Kind::Shard => Ok(Statement::DropShard { id: self.unsigned()? }),
            Kind::Subscription => {
                let name = self.identifier()?;
                self.expect(Kind::On)?;
                let (database, retention_policy) = self.policy_name()?;
                Ok(Statement::DropSubscription { name, database, retention_policy })
            }
            Kind::User => Ok(Statement::DropUser { name: self.identifier()? }),
            _ if token.is_word("TOKEN") => Ok(Statement::DropToken { name: self.identifier()? }),
            _ => {
                let expected = [
                    "CONTINUOUS",
                    "DATABASE",
                    "MEASUREMENT",
                    "RETENTION",
                    "SERIES",
                    "SHARD",
                    "SUBSCRIPTION",
                    "USER",
                ];
                Err(self.unexpected(&token, &expected))
            }
        }
    }

    pub(super) fn name_on_database(&mut self) -> Result<(String, String)> {
        let name = self.identifier()?;
        self.expect(Kind::On)?;
        Ok((name, self.identifier()?))
    }

    /// What follows `EXPLAIN`.
    pub(super) fn explain(&mut self) -> Result<Statement> {
        let analyze = self.take(Kind::Analyze);
        self.expect(Kind::Select)?;
        let select = Box::new(self.select(Into::Optional)?);
        Ok(Statement::Explain { analyze, select })
    }

    pub(super) fn privilege(&mut self) -> Result<Privilege> {
        let token = self.next();
        match token.kind {
            Kind::Read => Ok(Privilege::Read),
            Kind::Write => Ok(Privilege::Write),
            Kind::All => {
                self.take(Kind::Privileges);
                Ok(Privilege::All)
            }
            _ => Err(self.unexpected(&token, &["READ", "WRITE", "ALL [PRIVILEGES]"])),
        }
    }

    /// What follows `GRANT`.
    pub(super) fn grant(&mut self) -> Result<Statement> {
        let privilege = self.privilege()?;
        match self.on_or(privilege, Kind::To)? {
            Some(database) => Ok(Statement::Grant { privilege, database, user: self.user_after(Kind::To)? }),
            None => Ok(Statement::GrantAdmin { user: self.identifier()? }),
        }
    }

    /// What follows `REVOKE`.
    pub(super) fn revoke(&mut self) -> Result<Statement> {
        let privilege = self.privilege()?;
        match self.on_or(privilege, Kind::From)? {
            Some(database) => {
                Ok(Statement::Revoke { privilege, database, user: self.user_after(Kind::From)? })
            }
            None => Ok(Statement::RevokeAdmin { user: self.identifier()? }),
        }
    }

    /// `ON database`; or, for all privileges, the word after which a user follows at once.
    fn on_or(&mut self, privilege: Privilege, word: Kind) -> Result<Option<String>> {
        let token = self.next();
        if token.kind == Kind::On {
            return self.identifier().map(Some);
        }
        if privilege != Privilege::All {
            return Err(self.unexpected(&token, &["ON"]));
        }
        if token.kind == word {
            return Ok(None);
        }
        Err(self.unexpected(&token, &["ON", word.text()]))
    }

    fn user_after(&mut self, word: Kind) -> Result<String> {
        self.expect(word)?;
        self.identifier()
    }

    /// What follows `SET`.
    pub(super) fn set_password(&mut self) -> Result<Statement> {
        self.expect(Kind::Password)?;
        self.expect(Kind::For)?;
        let user = self.identifier()?;
        self.expect(Kind::Equal)?;
        Ok(Statement::SetPassword { user, password: self.string()? })
    }

    /// What follows `KILL`.
    pub(super) fn kill_query(&mut self) -> Result<Statement> {
        self.expect(Kind::Query)?;
        let id = self.unsigned()?;
        let host = if self.take(Kind::On) { Some(self.identifier()?) } else { None };
        Ok(Statement::KillQuery { id, host: host.filter(|host| !host.is_empty()) })
    }
}
