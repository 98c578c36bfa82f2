//! What a relation is: a table of rows under a primary key, a view, or a sequence of numbers.
//!
//! The store knows the columns and the key of a table. A definition adds what the store does not know: the names, the types
//! as they were declared, defaults, checks and comments. A column of the store that the definition does not list is not
//! shown: a column is created in the store first, and then published by the change of the record. Expressions are texts of
//! SQL, which this crate does not read.

use super::ids::{column_id, column_ids, table_id};
use super::index::Index;
use nyala_core::{ColumnId, ColumnType, TableId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use tokio::sync::RwLock;

/// A relation of a database.
#[derive(Debug, Clone)]
pub struct Relation {
    /// The database that it belongs to.
    pub database: String,
    /// Its name, unique among the relations of the database.
    pub name: String,
    /// Its place in the order of creation.
    pub created: u64,
    /// What it is.
    pub definition: Definition,
    /// Whoever changes rows shares this lock. Whoever changes the definition in a way that must not happen between the
    /// check of a row and its write holds it alone.
    pub lock: Arc<RwLock<()>>,
}

/// What a relation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// What somebody wrote about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// A table, a view or a sequence.
    #[serde(flatten)]
    pub body: Body,
}

impl Definition {
    /// The names of its key and its indexes.
    pub(crate) fn inner_names(&self) -> impl Iterator<Item = &str> {
        let table = self.table();
        let key = table.and_then(|table| match &table.key {
            Key::Declared { name, .. } => Some(&**name),
            Key::Hidden { .. } => None,
        });
        key.into_iter().chain(table.into_iter().flat_map(|own| &own.indexes).map(|index| &*index.name))
    }

    /// It as a table.
    pub fn table(&self) -> Option<&TableDefinition> {
        match &self.body {
            Body::Table(table) => Some(table),
            Body::View(_) | Body::Sequence(_) => None,
        }
    }

    /// The same of a table in other, new tables of the store; see [`TableDefinition::with_stores`].
    #[must_use]
    pub fn with_stores(&self, stores: &[TableId]) -> Self {
        let mut definition = self.clone();
        if let Body::Table(own) = &mut definition.body {
            *own = own.with_stores(stores);
        }
        definition
    }
}

/// A table, a view or a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// A table.
    Table(TableDefinition),
    /// A view.
    View(ViewDefinition),
    /// A sequence of numbers.
    Sequence(SequenceDefinition),
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDefinition {
    /// The table of the store that holds its rows.
    #[serde(with = "table_id")]
    pub table: TableId,
    /// Its columns, in the order in which they are shown.
    pub columns: Vec<ColumnDefinition>,
    /// Its primary key.
    pub key: Key,
    /// Its CHECK constraints, in order of their names.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Its indexes beside the primary key, in order of creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// Columns that were dropped, which the store keeps as long as the time before can be asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedColumn>,
    /// What a commit does to it if it is temporary. Such a table has no record.
    #[serde(skip)]
    pub on_commit: OnCommit,
}

/// What a commit does to a temporary table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnCommit {
    /// Nothing: it is there until its session ends.
    #[default]
    PreserveRows,
    /// It has no rows afterwards.
    DeleteRows,
    /// It is dropped.
    Drop,
}

/// A column of the store that belongs to a table of the past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedColumn {
    /// The column.
    #[serde(with = "column_id")]
    pub id: ColumnId,
    /// When it was dropped, ns since 1970.
    pub at_ns: i64,
}

/// A primary key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// Columns that were declared as the key.
    Declared {
        /// The name of the constraint.
        name: String,
        /// The columns, in order.
        #[serde(with = "column_ids")]
        columns: Vec<ColumnId>,
    },
    /// No key was declared: every row gets a number in a column that is not shown.
    Hidden {
        /// The column, an [`ColumnType::Int64`].
        #[serde(with = "column_id")]
        column: ColumnId,
    },
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDefinition {
    /// The column of the store.
    #[serde(with = "column_id")]
    pub id: ColumnId,
    /// Its name, unique in the table.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub declared_type: DeclaredType,
    /// Whether a row may have NULL there.
    pub nullable: bool,
    /// What a new row gets if it names no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// What somebody wrote about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The sequence that belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<OwnedSequence>,
}

/// A sequence that belongs to a column: it is dropped with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedSequence {
    /// Its name, in the database of the table.
    pub name: String,
    /// If it is the identity of the column: whether rows may name a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// Whether rows may name a value for a column that gets its numbers from a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// They may not, unless they say that they override it.
    Always,
    /// They may.
    ByDefault,
}

/// A condition that every row satisfies: it is not false.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, unique in the table.
    pub name: String,
    /// The condition.
    pub expression: String,
}

/// A view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewDefinition {
    /// The query.
    pub query: String,
    /// The names of its first columns, where they differ from those of the query.
    #[serde(default)]
    pub columns: Vec<String>,
    /// The database that names in the query belong to.
    pub database: String,
}

/// A sequence of numbers, each of which is given once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDefinition {
    /// The number of its counter: another one when it is restarted, so that a restart is a change of the definition.
    pub id: u64,
    /// Where that counter begins.
    pub beginning: SequenceState,
    /// The type of its numbers: one of whole numbers.
    #[serde(rename = "type")]
    pub declared_type: DeclaredType,
    /// Where it begins, and begins again when it is restarted.
    pub start: i64,
    /// From one number to the next; not zero.
    pub increment: i64,
    /// The least number.
    pub minimum: i64,
    /// The greatest number.
    pub maximum: i64,
    /// How many numbers a session is said to take together.
    pub cache: i64,
    /// Whether it begins again at the other bound when it has come to one.
    pub cycles: bool,
}

/// Where a sequence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceState {
    /// The last number that was given, or the first one that will be.
    pub last: i64,
    /// Whether it was given.
    pub is_called: bool,
}

/// A type as it is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeclaredType {
    /// Boolean.
    Bool,
    /// Integer of 16 bits.
    Int2,
    /// Integer of 32 bits.
    Int4,
    /// Integer of 64 bits.
    Int8,
    /// Float of 32 bits.
    Float4,
    /// Float of 64 bits.
    Float8,
    /// Decimal number.
    Numeric {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits behind the point, at most as many.
        scale: u8,
    },
    /// Text.
    Text,
    /// Text with at most so many characters.
    Varchar(u32),
    /// Text with so many characters, blanks at its end not being shown.
    Char(u32),
    /// Bytes.
    Bytea,
    /// Date.
    Date,
    /// Date and time of day.
    Timestamp,
    /// Date and time of day, rounded to so many digits behind the seconds: 0 to 9.
    #[serde(rename = "timestamp_digits")]
    TimestampDigits(u8),
    /// Moment.
    Timestamptz,
    /// Moment, rounded to so many digits behind the seconds: 0 to 9.
    #[serde(rename = "timestamptz_digits")]
    TimestamptzDigits(u8),
    /// UUID, stored as its text.
    Uuid,
    /// JSON, stored as it was written.
    Json,
    /// JSON, stored as PostgreSQL writes its parts.
    Jsonb,
}

impl Relation {
    /// It as a table.
    pub fn table(&self) -> Option<&TableDefinition> {
        self.definition.table()
    }

    /// Whether it, its key or one of its indexes has a name.
    pub fn has_name(&self, name: &str) -> bool {
        self.name == name || self.definition.inner_names().any(|own| own == name)
    }

    /// It as a view.
    pub fn view(&self) -> Option<&ViewDefinition> {
        match &self.definition.body {
            Body::View(view) => Some(view),
            Body::Table(_) | Body::Sequence(_) => None,
        }
    }

    /// It as a sequence.
    pub fn sequence(&self) -> Option<&SequenceDefinition> {
        match &self.definition.body {
            Body::Sequence(sequence) => Some(sequence),
            Body::Table(_) | Body::View(_) => None,
        }
    }
}

impl TableDefinition {
    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&ColumnDefinition> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The tables of the store that belong to it: that of its rows, and those of its indexes.
    pub fn stores(&self) -> impl Iterator<Item = TableId> + '_ {
        std::iter::once(self.table).chain(self.indexes.iter().map(|index| index.table))
    }

    /// The same table in other tables of the store: `stores` are those of the rows and of the indexes, in order.
    #[must_use]
    pub fn with_stores(&self, stores: &[TableId]) -> Self {
        let mut table = self.clone();
        let mut stores = stores.iter();
        if let Some(rows) = stores.next() {
            table.table = *rows;
        }
        for (index, entries) in table.indexes.iter_mut().zip(stores) {
            index.table = *entries;
        }
        table.dropped.clear();
        table
    }

    /// An index by name.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// Whether a column of the store is one of its columns now.
    pub fn has(&self, id: ColumnId) -> bool {
        self.is_key(id) || self.columns.iter().any(|column| column.id == id)
    }

    /// Whether rows are stored or found by a column: it is part of the primary key, or of an index.
    pub fn is_found_by(&self, id: ColumnId) -> bool {
        self.is_key(id) || self.indexes.iter().any(|index| index.columns.contains(&id))
    }

    /// Whether a column is part of the primary key.
    pub fn is_key(&self, id: ColumnId) -> bool {
        self.key.columns().contains(&id)
    }
}

impl Key {
    /// Its columns, in order.
    pub fn columns(&self) -> &[ColumnId] {
        match self {
            Key::Declared { columns, .. } => columns,
            Key::Hidden { column } => std::slice::from_ref(column),
        }
    }
}

impl DeclaredType {
    /// The type of its values in the store.
    pub fn column_type(self) -> ColumnType {
        match self {
            Self::Bool => ColumnType::Bool,
            Self::Int2 => ColumnType::Int16,
            Self::Int4 => ColumnType::Int32,
            Self::Int8 => ColumnType::Int64,
            Self::Float4 => ColumnType::Float32,
            Self::Float8 => ColumnType::Float64,
            Self::Numeric { precision, scale } => ColumnType::Decimal { precision, scale: scale as i8 },
            Self::Text | Self::Varchar(_) | Self::Char(_) => ColumnType::String,
            Self::Uuid | Self::Json | Self::Jsonb => ColumnType::String,
            Self::Bytea => ColumnType::Binary,
            Self::Date => ColumnType::Date,
            Self::Timestamp | Self::TimestampDigits(_) => ColumnType::Timestamp,
            Self::Timestamptz | Self::TimestamptzDigits(_) => ColumnType::Timestamp,
        }
    }

    /// If it is a type of times that are rounded: the type of those that are not, and how many digits behind the seconds
    /// are kept.
    pub fn rounded(self) -> Option<(Self, u8)> {
        match self {
            Self::TimestampDigits(digits) => Some((Self::Timestamp, digits)),
            Self::TimestamptzDigits(digits) => Some((Self::Timestamptz, digits)),
            _ => None,
        }
    }

    /// It, or the type whose values it rounds.
    #[must_use]
    pub fn unrounded(self) -> Self {
        self.rounded().map_or(self, |(unrounded, _)| unrounded)
    }

    /// Its name without its parameters, as PostgreSQL shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric { .. } => "numeric",
            Self::Text => "text",
            Self::Varchar(_) => "character varying",
            Self::Char(_) => "character",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Timestamp | Self::TimestampDigits(_) => "timestamp without time zone",
            Self::Timestamptz | Self::TimestamptzDigits(_) => "timestamp with time zone",
            Self::Uuid => "uuid",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
        }
    }
}

impl fmt::Display for DeclaredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::TimestampDigits(digits) => write!(f, "timestamp({digits}) without time zone"),
            Self::TimestamptzDigits(digits) => write!(f, "timestamp({digits}) with time zone"),
            Self::Numeric { precision, scale } => write!(f, "{name}({precision},{scale})"),
            Self::Varchar(length) | Self::Char(length) => write!(f, "{name}({length})"),
            _ => f.write_str(name),
        }
    }
}
