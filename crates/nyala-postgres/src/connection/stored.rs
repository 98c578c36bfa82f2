//! A prepared statement as a connection keeps it: with the types that its client knows.

use crate::error::Failure;
use crate::value::types::ColumnType;
use arrow_schema::{DataType, Schema};
use nyala_sql::{NamedStatement, Prepared};
use std::sync::Arc;

/// PostgreSQL's type of a literal without a type.
const UNKNOWN_OID: u32 = 705;
/// The most columns of an answer: the protocol counts them by a number of 16 bits with a sign.
const COLUMNS_MAX: usize = i16::MAX as usize;

/// A prepared statement.
pub(super) struct Stored {
    /// The statement, which the session keeps as well if it has a name.
    pub(super) of: Arc<NamedStatement>,
    /// The types in which its parameters are sent.
    pub(super) parameters: Vec<ColumnType>,
    /// The types of its columns; `None` if it gives no rows.
    pub(super) columns: Option<Vec<ColumnType>>,
}

impl Stored {
    /// A statement, and the types that the client declared.
    pub(super) fn of(of: Arc<NamedStatement>, declared: &[Option<ColumnType>]) -> Result<Self, Failure> {
        let prepared = of.prepared.as_ref();
        let wanted = prepared.map(|prepared| &*prepared.parameters).unwrap_or_default();
        let parameters =
            wanted.iter().enumerate().map(|(place, wanted)| match declared.get(place).copied().flatten() {
                Some(declared) => Ok(declared),
                None => ColumnType::of_values(wanted),
            });
        let parameters = parameters.collect::<Result<_, _>>()?;
        let columns = prepared.and_then(|prepared| prepared.columns.as_deref());
        let columns = columns.map(columns_of).transpose()?;
        Ok(Self { of, parameters, columns })
    }

    /// The statement; `None` for an empty text.
    pub(super) fn prepared(&self) -> Option<&Prepared> {
        self.of.prepared.as_ref()
    }

    /// The names of its columns.
    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        let schema = self.prepared().and_then(|prepared| prepared.columns.as_deref());
        let fields = schema.map(|schema| &schema.fields()[..]).unwrap_or_default();
        fields.iter().map(|field| field.name().as_str())
    }
}

/// Refuses an answer of more columns than the protocol can count.
pub(super) fn check_count_of_columns(schema: &Schema) -> Result<(), Failure> {
    match schema.fields().len() {
        0..=COLUMNS_MAX => Ok(()),
        count => {
            let words = format!("an answer of {count} columns: there can be at most {COLUMNS_MAX}");
            Err(Failure::new("54011", words).with_hint("Select fewer columns."))
        }
    }
}

/// The types of the columns of an answer.
pub(super) fn columns_of(schema: &Schema) -> Result<Vec<ColumnType>, Failure> {
    check_count_of_columns(schema)?;
    schema.fields().iter().map(|field| ColumnType::of_field(field)).collect()
}

/// The types that a client declared, by their numbers.
pub(super) fn declared(types: &[u32]) -> Result<Vec<Option<ColumnType>>, Failure> {
    let of = |oid: &u32| match *oid {
        0 | UNKNOWN_OID => Ok(None),
        oid => match ColumnType::of_oid(oid) {
            Some(found) => Ok(Some(found)),
            None => Err(Failure::new("42704", format!("type with OID {oid} does not exist"))),
        },
    };
    types.iter().map(of).collect()
}

/// What the planner is told of a declared type.
pub(super) fn known_to_planner(declared: &Option<ColumnType>) -> Option<DataType> {
    match declared {
        // How many digits it has is known with its value; what it is compared with says how many are wanted.
        Some(column) if column.of == crate::value::PgType::Numeric => None,
        Some(column) => Some(column.values()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;

    /// A measurement may have more fields than a message can count.
    #[test]
    fn an_answer_has_as_many_columns_as_can_be_counted() {
        let of = |count: usize| {
            let fields = (0..count).map(|number| Field::new(number.to_string(), DataType::Int64, true));
            columns_of(&Schema::new(fields.collect::<Vec<_>>()))
        };
        assert_eq!(of(32_767).map(|columns| columns.len()).ok(), Some(32_767));
        assert_eq!(of(32_768).err().map(|failure| failure.code), Some("54011"));
        assert_eq!(of(65_537).err().map(|failure| failure.code), Some("54011"), "which is 1 of 16 bits");
    }
}
