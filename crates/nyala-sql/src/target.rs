//! The table that a statement names: to change its rows, or its definition.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::{PUBLIC, TEMPORARY_SCHEMA, folded};
use crate::names::SEARCHED;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use nyala_db::catalog::Catalog;
use nyala_db::relations::{NAME_MAX_BYTES, Relation, SeenRelations, TEMPORARY};
use nyala_db::users::{Principal, Privilege};
use std::sync::Arc;

/// Where a name of a table belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) database: String,
    /// `None`: it is searched for.
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

/// What a name means.
pub(crate) enum Target {
    /// A table that somebody declared, or a view.
    Relation(Arc<Relation>),
    /// A measurement.
    Measurement {
        /// The name of its policy.
        policy: String,
    },
}

/// The last part of a name as names are compared, where only that matters, as that of a column.
pub(crate) fn last_part(name: &ObjectName) -> SqlResult<String> {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(identifier)) => Ok(folded(identifier)),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} is no name"))),
    }
}

impl Place {
    /// The place of a name. `database` is that of names without one.
    pub(crate) fn of(name: &ObjectName, database: &str) -> SqlResult<Self> {
        let parts: Option<Vec<String>> = name
            .0
            .iter()
            .map(|part| match part {
                ObjectNamePart::Identifier(identifier) => Some(folded(identifier)),
                ObjectNamePart::Function(_) => None,
            })
            .collect();
        let (database, schema, name) = match parts.as_deref() {
            Some([name]) => (database, None, name),
            Some([schema, name]) => (database, Some(schema), name),
            Some([database, schema, name]) => (database.as_str(), Some(schema), name),
            _ => {
                let message = format!("improper qualified name (too many dotted names): {name}");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        Ok(Self { database: database.to_owned(), schema: schema.cloned(), name: name.clone() })
    }

    /// Fails unless somebody may change what is in its database, which must exist. It is not that of temporary relations.
    pub(crate) fn check_writable(&self, catalog: &Catalog, principal: &Principal) -> SqlResult<()> {
        if !principal.may(Privilege::Write, &self.database) {
            let message = format!("permission denied for database \"{}\"", self.database);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .with_hint("It needs the privilege WRITE."));
        }
        if catalog.database(&self.database).is_none() {
            return Err(self.unknown_database());
        }
        Ok(())
    }

    /// Fails if a relation cannot be created here.
    pub(crate) fn check_new(&self) -> SqlResult<()> {
        match self.schema.as_deref() {
            _ if self.database == TEMPORARY => {}
            None | Some(PUBLIC) => {}
            Some(schema) => {
                let message = format!("tables cannot be created in schema \"{schema}\"");
                return Err(SqlError::new(SqlState::UNSUPPORTED, message)
                    .with_hint("Retention policies hold measurements; tables are in schema \"public\"."));
            }
        }
        check_name(&self.name)
    }

    /// What it names.
    pub(crate) fn target(&self, catalog: &Catalog, relations: SeenRelations<'_>) -> SqlResult<Target> {
        if let Some(relation) = self.relation(relations) {
            return Ok(Target::Relation(relation));
        }
        if self.database == TEMPORARY {
            return Err(self.unknown());
        }
        let database = catalog.database(&self.database).ok_or_else(|| self.unknown_database())?;
        let policy = match self.schema.as_deref() {
            None => database.policy(""),
            Some(schema) => database.policies.iter().find(|policy| policy.name == schema),
        };
        if policy.is_none()
            && let Some(schema) = self.schema.as_deref().filter(|schema| *schema != PUBLIC)
        {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(SqlError::new(SqlState::UNKNOWN_SCHEMA, message));
        }
        let policy = policy
            .map(|policy| policy.name.clone())
            .filter(|policy| catalog.has_measurement(&self.database, policy, &self.name));
        policy.map(|policy| Target::Measurement { policy }).ok_or_else(|| self.unknown())
    }

    /// The relation that it names.
    pub(crate) fn relation(&self, relations: SeenRelations<'_>) -> Option<Arc<Relation>> {
        match self.schema.as_deref() {
            _ if self.database == TEMPORARY => relations.find(TEMPORARY, &self.name),
            None | Some(PUBLIC) => relations.find(&self.database, &self.name),
            Some(_) => None,
        }
    }

    /// The error if nothing has the name.
    pub(crate) fn unknown(&self) -> SqlError {
        SqlError::new(SqlState::UNKNOWN_TABLE, format!("relation \"{}\" does not exist", self.shown()))
    }

    fn unknown_database(&self) -> SqlError {
        if self.database.is_empty() {
            let words = "no database is selected";
            return SqlError::new(SqlState::UNKNOWN_DATABASE, words)
                .with_hint("Name it in the request (`db`), or in front of the table: database.public.name.");
        }
        SqlError::new(SqlState::UNKNOWN_DATABASE, format!("database \"{}\" does not exist", self.database))
    }

    /// It with its schema, in a statement.
    pub(crate) fn object_name(&self) -> ObjectName {
        let parts = match &*self.database {
            TEMPORARY => vec![TEMPORARY_SCHEMA, &self.name],
            database => vec![database, self.schema.as_deref().unwrap_or(PUBLIC), &self.name],
        };
        let part = |own: &str| ObjectNamePart::Identifier(Ident::with_quote('"', own));
        ObjectName(parts.into_iter().map(part).collect())
    }

    /// It with its schema, as it is written in SQL.
    pub(crate) fn written(&self) -> String {
        self.object_name().to_string()
    }

    /// It as the user wrote it, without the database.
    pub(crate) fn shown(&self) -> String {
        match self.schema.as_deref().filter(|schema| *schema != SEARCHED) {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The error if a table has no column of a name.
pub(crate) fn unknown_column(column: &str, table: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNKNOWN_COLUMN, message)
}

/// Fails if a table or a column cannot have a name.
pub(crate) fn check_name(name: &str) -> SqlResult<()> {
    if name.is_empty() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "zero-length delimited identifier"));
    }
    if name.len() > NAME_MAX_BYTES {
        let message = format!("the name \"{name}\" is longer than {NAME_MAX_BYTES} bytes");
        return Err(SqlError::new(SqlState::NAME_TOO_LONG, message));
    }
    match name.contains('\0') {
        true => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a name cannot contain a zero byte")),
        false => Ok(()),
    }
}
