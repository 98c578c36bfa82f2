//! `ALTER MEASUREMENT`: other names for measurements and their parts, other types for fields. InfluxDB does not have it.

use super::ast::Measurement;
use super::expr::DataType;
use super::quote::Identifier;
use std::fmt::{Display, Formatter, Result};

/// `ALTER MEASUREMENT measurement …`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterMeasurement {
    /// The measurement; without a retention policy that of each policy.
    pub measurement: Measurement,
    /// What happens to it.
    pub alteration: MeasurementAlteration,
}

/// What happens to a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasurementAlteration {
    /// `RENAME TO name [KEEP ALIAS]`
    Rename {
        /// The new name.
        to: String,
        /// Whether the old name goes on working.
        keeps_alias: bool,
    },
    /// `RENAME FIELD old TO new`
    RenameField {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// `RENAME TAG old TO new`
    RenameTag {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// `ALTER FIELD field TYPE type`
    FieldType {
        /// The field.
        field: String,
        /// A type that fields can have.
        data_type: DataType,
    },
    /// `ADD ALIAS name`
    AddAlias(String),
    /// `DROP ALIAS name`
    DropAlias(String),
}

impl Display for AlterMeasurement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "ALTER MEASUREMENT {} {}", self.measurement, self.alteration)
    }
}

impl Display for MeasurementAlteration {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            MeasurementAlteration::Rename { to, keeps_alias } => {
                let alias = if *keeps_alias { " KEEP ALIAS" } else { "" };
                write!(f, "RENAME TO {}{alias}", Identifier(to))
            }
            MeasurementAlteration::RenameField { from, to } => {
                write!(f, "RENAME FIELD {} TO {}", Identifier(from), Identifier(to))
            }
            MeasurementAlteration::RenameTag { from, to } => {
                write!(f, "RENAME TAG {} TO {}", Identifier(from), Identifier(to))
            }
            MeasurementAlteration::FieldType { field, data_type } => {
                write!(f, "ALTER FIELD {} TYPE {}", Identifier(field), data_type.as_str())
            }
            MeasurementAlteration::AddAlias(alias) => write!(f, "ADD ALIAS {}", Identifier(alias)),
            MeasurementAlteration::DropAlias(alias) => write!(f, "DROP ALIAS {}", Identifier(alias)),
        }
    }
}
