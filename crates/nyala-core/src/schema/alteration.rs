//! Changes of a table's schema.

use super::{ColumnSchema, ColumnType, Encoding, KeySpan, Ranges, TableSchema};
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::value::Value;

/// A change of a table's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alteration {
    /// Adds a column. The store chooses its id ([`TableSchema::next_column`]) and ignores the given one. Existing rows
    /// get its default. A column that is not nullable needs a default.
    AddColumn(ColumnSchema),
    /// Adds a nullable column without a default, unless there is a column of this name and type. So several servers that
    /// add the same column at once add one.
    EnsureColumn(String, ColumnType),
    /// Drops a column with its values.
    DropColumn(ColumnId),
    /// Renames a column.
    RenameColumn(ColumnId, String),
    /// Sets the default for new rows.
    SetDefault(ColumnId, Option<Value>),
    /// Sets whether a column is nullable. Conflict if a row has NULL in a column that is no longer nullable.
    SetNullable(ColumnId, bool),
    /// Sets the encoding of values that are written from now on.
    SetEncoding(ColumnId, Encoding),
    /// Sets whether users see a column.
    SetHidden(ColumnId, bool),
    /// Gives a column a wider type, which holds every value of the old one ([`ColumnType::widens_to`]).
    Widen(ColumnId, ColumnType),
    /// Renames the table.
    Rename(String),
    /// Sets the width, ns, of range partitions of time that are created from now on: [`TableSchema::partition_of`], cut
    /// where they would overlap an existing one. Invalid for tables that are not partitioned by time.
    SetPartitionWidth(i64),
    /// Adds a range partition of keys. Conflict if it overlaps another.
    AddRange(KeySpan),
    /// Drops the range partition of keys with exactly these bounds, with its rows.
    DropRange(KeySpan),
}

impl Alteration {
    /// Whether rows that were staged before this alteration are valid after it; see stages in the store contract.
    pub fn suits_staged_rows(&self) -> bool {
        match self {
            Alteration::AddColumn(column) => column.nullable && column.default.is_none(),
            Alteration::EnsureColumn(..) => true,
            _ => false,
        }
    }

    /// Adds a nullable column without a default.
    pub fn add_column(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self::AddColumn(ColumnSchema::new(ColumnId::default(), name, column_type))
    }
}

impl TableSchema {
    /// Applies alterations in order. `is_taken` says whether a table of the store has a name. The time is proportional
    /// to the number of columns plus the number of alterations. After an error the schema must not be used.
    pub fn alter(
        &mut self,
        alterations: impl IntoIterator<Item = Alteration>,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<()> {
        alterations.into_iter().try_for_each(|alteration| self.apply(alteration, &is_taken))?;
        self.validate()
    }

    /// Applies one alteration without validating the resulting schema.
    pub fn apply(&mut self, alteration: Alteration, is_taken: &dyn Fn(&str) -> bool) -> Result<()> {
        let table = self.shown_name();
        match alteration {
            Alteration::AddColumn(column) => {
                if !column.nullable && column.default.is_none() {
                    return Err(Error::invalid(format!(
                        "table {table}: the new column {:?} needs a default for the rows there are, or may be NULL",
                        column.name
                    )));
                }
                let id = self.next_column;
                self.next_column = ColumnId(id.0 + 1);
                // No column has a larger id.
                self.columns.push(ColumnSchema { id, ..column });
            }
            Alteration::EnsureColumn(name, column_type) => {
                let is_it = |column: &ColumnSchema| column.name == name && column.column_type == column_type;
                if !self.columns.iter().any(is_it) {
                    return self.apply(Alteration::add_column(name, column_type), is_taken);
                }
            }
            Alteration::DropColumn(id) if self.is_key(id) => {
                return Err(Error::invalid(format!("table {table}: column {id} is part of the key")));
            }
            Alteration::DropColumn(id) => {
                let place = self.place_of(id)?;
                self.columns.remove(place);
            }
            Alteration::RenameColumn(id, name) => self.column_mut(id)?.name = name,
            Alteration::SetDefault(id, default) => self.column_mut(id)?.default = default,
            Alteration::SetNullable(id, nullable) => self.column_mut(id)?.nullable = nullable,
            Alteration::SetEncoding(id, encoding) => self.column_mut(id)?.encoding = encoding,
            Alteration::SetHidden(id, hidden) => self.column_mut(id)?.hidden = hidden,
            Alteration::Widen(id, wider) => {
                let column = self.column_mut(id)?;
                if !column.column_type.widens_to(wider) {
                    return Err(Error::invalid(format!(
                        "table {table}, column {:?}: {:?} does not hold every {:?}",
                        column.name, wider, column.column_type
                    )));
                }
                column.column_type = wider;
            }
            Alteration::Rename(name) if is_taken(&name) => {
                return Err(Error::conflict(format!("table {name:?} exists")));
            }
            Alteration::Rename(name) => self.name = name,
            Alteration::SetPartitionWidth(width_ns) if self.partitioning.time_width_ns().is_some() => {
                self.partitioning.ranges = Ranges::Time { width_ns };
            }
            Alteration::SetPartitionWidth(_) => {
                return Err(Error::invalid(format!("table {table} is not divided by ranges of time")));
            }
            Alteration::AddRange(span) => {
                let spans = self.spans_mut()?;
                let place = spans.partition_point(|other| other.is_before(&span));
                if spans.get(place).is_some_and(|next| !span.is_before(next)) {
                    return Err(Error::conflict(format!("table {table}: the range {span:?} meets another")));
                }
                spans.insert(place, span);
            }
            Alteration::DropRange(span) => {
                let spans = self.spans_mut()?;
                let place = spans.iter().position(|other| *other == span);
                spans.remove(
                    place.ok_or_else(|| Error::missing(format!("table {table} has no range {span:?}")))?,
                );
            }
        }
        Ok(())
    }

    fn place_of(&self, id: ColumnId) -> Result<usize> {
        let found = self.columns.binary_search_by_key(&id, |column| column.id);
        found.map_err(|_| Error::missing(format!("table {} has no column {id}", self.shown_name())))
    }

    fn column_mut(&mut self, id: ColumnId) -> Result<&mut ColumnSchema> {
        let place = self.place_of(id)?;
        Ok(&mut self.columns[place])
    }

    fn spans_mut(&mut self) -> Result<&mut Vec<KeySpan>> {
        let table = self.shown_name();
        match &mut self.partitioning.ranges {
            Ranges::Keys { spans, .. } => Ok(spans),
            _ => Err(Error::invalid(format!("table {table} is not divided by ranges of keys"))),
        }
    }
}
