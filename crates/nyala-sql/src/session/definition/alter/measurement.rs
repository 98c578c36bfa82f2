//! `ALTER TABLE` of a measurement: other names for it, its tags and its fields. The rest of `ALTER TABLE` is about columns that
//! are declared, and a measurement declares none.

use super::actions::{duplicate_column, name_of};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::relation::declared_type::declared_type;
use crate::session::Session;
use crate::session::definition::taken;
use crate::statement::Statement;
use crate::target::{Place, unknown_column};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, DataType, Ident, RenameTableNameKind,
};
use nyala_core::ErrorKind;
use nyala_db::catalog::{AlteredMeasurement, FieldType, MeasurementChange};
use nyala_db::relations::DeclaredType;
use std::sync::Arc;

impl Session {
    pub(super) async fn alter_measurement(
        &mut self,
        statement: &Statement,
        place: &Place,
        policy: &str,
        operations: &[AlterTableOperation],
    ) -> SqlResult<()> {
        let catalog = self.server.catalog.clone();
        let change = match operations {
            [AlterTableOperation::RenameTable { table_name }] => {
                MeasurementChange::Rename { to: new_name(table_name)?, keeps_alias: false }
            }
            [AlterTableOperation::RenameColumn { old_column_name, new_column_name }] => {
                self.renamed_column(place, policy, old_column_name, new_column_name).await?
            }
            [
                AlterTableOperation::AlterColumn {
                    column_name,
                    op: AlterColumnOperation::SetDataType { data_type, using: None, .. },
                },
            ] => MeasurementChange::FieldType { field: folded(column_name), to: field_type(data_type)? },
            [_, _, ..] => {
                return Err(SqlError::unsupported("several actions of one ALTER TABLE of a measurement")
                    .with_hint("Each stands alone in a statement."));
            }
            others => {
                let action = others.first().map_or("", name_of);
                let name = &place.name;
                let message = format!("ALTER action {action} cannot be performed on measurement \"{name}\"");
                return Err(SqlError::new(SqlState::WRONG_OBJECT, message)
                    .with_hint("RENAME TO, RENAME COLUMN and ALTER COLUMN … TYPE can."));
            }
        };
        let altered =
            AlteredMeasurement { database: &place.database, policy: Some(policy), name: &place.name };
        let run = self.run(statement, catalog.follow().await?, Arc::default(), Arc::default())?;
        let query = run.running.guard.query();
        let done = catalog.alter_measurement(altered, &change, &|| query.check()).await;
        done.map_err(|error| {
            use MeasurementChange as C;
            match (&change, error.kind()) {
                (C::Rename { to, .. }, ErrorKind::Conflict) => taken(to).with_detail(error.message()),
                (C::RenameField { to, .. } | C::RenameTag { to, .. }, ErrorKind::Conflict) => {
                    duplicate_column(to, &place.name).with_detail(error.message())
                }
                (C::FieldType { .. }, ErrorKind::Conflict) => {
                    SqlError::new(SqlState::TYPE_MISMATCH, error.message())
                }
                (
                    C::RenameField { from: column, .. } | C::FieldType { field: column, .. },
                    ErrorKind::Missing,
                ) => unknown_column(column, &place.name),
                _ => error.into(),
            }
        })
        .map(drop)
    }

    /// Another name for a tag or a field.
    async fn renamed_column(
        &self,
        place: &Place,
        policy: &str,
        old: &Ident,
        new: &Ident,
    ) -> SqlResult<MeasurementChange> {
        let (from, to) = (folded(old), folded(new));
        if matches!(&*from, "time" | "time_ns") {
            let message = format!("column \"{from}\" of a measurement cannot have another name");
            return Err(SqlError::new(SqlState::WRONG_OBJECT, message));
        }
        let found = self.server.catalog.measurement(&place.database, policy, &place.name).await?;
        Ok(match found.ok_or_else(|| place.unknown())?.has_tag_key(&from) {
            true => MeasurementChange::RenameTag { from, to },
            false => MeasurementChange::RenameField { from, to },
        })
    }
}

/// The type of a field that is stored as a type of SQL, or has a name of InfluxQL.
fn field_type(written: &DataType) -> SqlResult<FieldType> {
    let known = match &*written.to_string().to_ascii_lowercase() {
        "unsigned" | "bigint unsigned" => Some(FieldType::Unsigned),
        "string" => Some(FieldType::String),
        "integer" => Some(FieldType::Integer),
        "float" => Some(FieldType::Float),
        _ => match declared_type(written)? {
            DeclaredType::Int8 => Some(FieldType::Integer),
            DeclaredType::Float8 => Some(FieldType::Float),
            DeclaredType::Text => Some(FieldType::String),
            DeclaredType::Bool => Some(FieldType::Boolean),
            _ => None,
        },
    };
    known.ok_or_else(|| {
        let message = format!("a field of a measurement cannot have the type {written}");
        SqlError::new(SqlState::TYPE_MISMATCH, message)
            .with_hint("It can be double precision, bigint, text, boolean or unsigned.")
    })
}

/// The new name of a table, which stays in its schema.
pub(super) fn new_name(written: &RenameTableNameKind) -> SqlResult<String> {
    let RenameTableNameKind::To(name) = written else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "RENAME needs TO"));
    };
    if name.0.len() != 1 {
        let message = format!("the new name {name} must not have a schema");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    crate::target::last_part(name)
}
