//! How a table is stored: partitions, and what the encodings of its columns are optimised for.
//!
//! `PARTITION BY HASH (a, b)` with the storage parameter `partitions`, or `PARTITION BY RANGE (time)` with
//! `partition_width`; `encoding` for all columns, and `"column.encoding"` for one.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableOptions, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SqlOption, Value,
};
use nyala_core::schema::{Encoding, Partitioning, Ranges};
use nyala_core::{ColumnId, ColumnType};
use nyala_db::relations::ColumnDefinition;
use std::collections::BTreeMap;

/// How many partitions a table has by hash, unless it says so.
const PARTITIONS: u32 = 4;
const PARTITIONS_MAX: u32 = 1024;
/// The width of partitions by time, unless a table says so: a week, ns.
const WIDTH_NS: i64 = 7 * 86_400_000_000_000;
/// The least width, ns: an hour. Each partition has files of its own.
const WIDTH_MIN_NS: i64 = 3_600_000_000_000;

/// How a table is stored.
#[derive(Debug, Default)]
pub(super) struct Storage {
    encoding: Encoding,
    /// By column.
    encodings: BTreeMap<String, Encoding>,
    partitions: Option<u32>,
    width_ns: Option<i64>,
    by: Option<PartitionBy>,
}

#[derive(Debug)]
enum PartitionBy {
    Hash(Vec<String>),
    Range(Vec<String>),
}

impl Storage {
    pub(super) fn of(create: &CreateTable) -> SqlResult<Self> {
        let mut storage = Self::default();
        let options: &[SqlOption] = match &create.table_options {
            CreateTableOptions::None => &[],
            CreateTableOptions::With(options) => options,
            _ => return Err(SqlError::unsupported("options of a table but WITH (…)")),
        };
        for option in options {
            let SqlOption::KeyValue { key, value } = option else {
                return Err(unknown_parameter(&option.to_string()));
            };
            storage.set(&folded(key), &text_of(value)?)?;
        }
        if let Some(expression) = &create.partition_by {
            storage.by = Some(partition_by(expression)?);
        }
        Ok(storage)
    }

    fn set(&mut self, parameter: &str, value: &str) -> SqlResult<()> {
        let invalid = || {
            let message = format!("invalid value for parameter \"{parameter}\": \"{value}\"");
            SqlError::new(SqlState::INVALID_PARAMETER, message)
        };
        match parameter {
            "encoding" => self.encoding = encoding(value).ok_or_else(invalid)?,
            "partitions" => {
                let number = value.parse().ok().filter(|number| (2..=PARTITIONS_MAX).contains(number));
                self.partitions = Some(number.ok_or_else(invalid)?);
            }
            "partition_width" => {
                let width_ns = width_ns(value).filter(|width_ns| *width_ns >= WIDTH_MIN_NS);
                self.width_ns = Some(width_ns.ok_or_else(invalid)?);
            }
            // What PostgreSQL's dumps say of its own storage.
            "fillfactor" => {}
            _ => match parameter.strip_suffix(".encoding") {
                Some(column) => {
                    self.encodings.insert(column.to_owned(), encoding(value).ok_or_else(invalid)?);
                }
                None => return Err(unknown_parameter(parameter)),
            },
        }
        Ok(())
    }

    /// Checks it against the columns of the table.
    pub(super) fn check(&self, columns: &[ColumnDefinition]) -> SqlResult<()> {
        for name in self.encodings.keys() {
            column_id(columns, name)?;
        }
        let is_wrong = match &self.by {
            None => self.partitions.is_some() || self.width_ns.is_some(),
            Some(PartitionBy::Hash(_)) => self.width_ns.is_some(),
            Some(PartitionBy::Range(_)) => self.partitions.is_some(),
        };
        if is_wrong {
            let words = "partitions needs PARTITION BY HASH, and partition_width PARTITION BY RANGE";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER, words));
        }
        self.partitioning(columns).map(drop)
    }

    pub(super) fn encoding(&self, column: &str) -> Encoding {
        self.encodings.get(column).copied().unwrap_or(self.encoding)
    }

    pub(super) fn partitioning(&self, columns: &[ColumnDefinition]) -> SqlResult<Partitioning> {
        match &self.by {
            None => Ok(Partitioning::default()),
            Some(PartitionBy::Hash(names)) => {
                let ids = names.iter().map(|name| column_id(columns, name)).collect::<SqlResult<_>>()?;
                let hash = vec![(ids, self.partitions.unwrap_or(PARTITIONS))];
                Ok(Partitioning { hash, ranges: Ranges::One })
            }
            Some(PartitionBy::Range(names)) => {
                let is_time = |name: &String| {
                    let column = columns.iter().find(|column| column.name == *name);
                    column.is_none_or(|own| own.declared_type.column_type() == ColumnType::Timestamp)
                };
                names.iter().try_for_each(|name| column_id(columns, name).map(drop))?;
                if names.len() != 1 || !is_time(&names[0]) {
                    return Err(SqlError::unsupported("PARTITION BY RANGE of anything but one time")
                        .with_hint(
                            "Ranges of other keys are not needed: rows are stored in the order of the key.",
                        ));
                }
                Ok(Partitioning::by_time(self.width_ns.unwrap_or(WIDTH_NS)))
            }
        }
    }
}

fn column_id(columns: &[ColumnDefinition], name: &str) -> SqlResult<ColumnId> {
    columns
        .iter()
        .find(|column| column.name == name)
        .map(|column| column.id)
        .ok_or_else(|| SqlError::new(SqlState::UNKNOWN_COLUMN, format!("column \"{name}\" does not exist")))
}

fn unknown_parameter(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER, format!("unrecognized parameter \"{name}\"")).with_hint(
        "There are encoding, \"column.encoding\", partitions and partition_width. Compression and sizes of blocks are \
         chosen by the store.",
    )
}

fn text_of(value: &Expr) -> SqlResult<String> {
    match value {
        Expr::Value(value) => Ok(match &value.value {
            Value::SingleQuotedString(text) | Value::Number(text, _) => text.clone(),
            other => other.to_string(),
        }),
        Expr::Identifier(word) => Ok(folded(word)),
        other => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER, format!("{other} is no value of a parameter")))
        }
    }
}

fn encoding(value: &str) -> Option<Encoding> {
    match value {
        "automatic" | "balanced" => Some(Encoding::Automatic),
        "speed" => Some(Encoding::Speed),
        "size" => Some(Encoding::Size),
        _ => None,
    }
}

/// A number and a unit: `12 hours`, `7d`.
fn width_ns(value: &str) -> Option<i64> {
    let value = value.trim();
    let (number, unit) = value.split_at(value.find(|letter: char| !letter.is_ascii_digit())?);
    let hours = match unit.trim().trim_end_matches('s') {
        "h" | "hour" => 1,
        "d" | "day" => 24,
        "w" | "week" => 7 * 24,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(hours * 3_600_000_000_000)
}

/// `HASH (a, b)` or `RANGE (a)`, which the parser takes for calls of functions.
fn partition_by(expression: &Expr) -> SqlResult<PartitionBy> {
    let other = || SqlError::unsupported(format!("PARTITION BY {expression}"));
    let Expr::Function(function) = expression else { return Err(other()) };
    let FunctionArguments::List(arguments) = &function.args else { return Err(other()) };
    let name = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => Ok(folded(name)),
        _ => Err(other()),
    };
    let names = arguments.args.iter().map(name).collect::<SqlResult<Vec<_>>>()?;
    match &*function.name.to_string().to_lowercase() {
        "hash" => Ok(PartitionBy::Hash(names)),
        "range" => Ok(PartitionBy::Range(names)),
        _ => Err(other()),
    }
}
