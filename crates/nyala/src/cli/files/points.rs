//! Rows of Parquet files on their way into a measurement, as line protocol: it creates what is missing, and points that are
//! sent again are the same points.

use super::inputs::Input;
use super::pieces::ImportedPieces;
use super::query::columns_of;
use super::table::ParquetRows;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use nyala_db::ingest::{LineValue, TAG_SPECIALS, push_measurement_name, push_name, push_value};
use nyala_shell::Client;
use std::fmt::Write as _;

/// Lines are sent when they have about so many bytes.
const PIECE_BYTES: usize = 6 << 20;

/// Where points go.
pub(super) struct Target<'a> {
    /// Empty for the default one.
    pub(super) policy: &'a str,
    pub(super) measurement: &'a str,
    /// Its name, as it stands in SQL.
    pub(super) table: String,
    pub(super) database: &'a str,
    pub(super) tags: &'a [String],
    pub(super) time: &'a str,
}

/// The columns of a file.
struct Columns {
    time: usize,
    tags: Vec<(String, usize)>,
    fields: Vec<FieldColumn>,
}

struct FieldColumn {
    name: String,
    place: usize,
    /// Its type in the measurement, if its values are texts in names of folders.
    known: Option<DataType>,
}

/// Imports a Parquet file. Returns its rows.
pub(super) fn import(
    client: &Client,
    input: &Input,
    target: &Target<'_>,
    pieces: &mut ImportedPieces<'_>,
) -> Result<u64, String> {
    // It may be that the first points create it.
    let known = columns_of(client, &format!("SELECT * FROM {}", target.table), target.database).ok();
    let is_known = |name: &str| {
        let has = |schema: &SchemaRef| schema.field_with_name(name).is_ok();
        target.tags.iter().any(|tag| tag == name) || known.as_ref().is_some_and(has)
    };
    let mut file = ParquetRows::open(input, is_known)?;
    let columns =
        Columns::of(&file, target, known.as_deref()).map_err(|words| format!("{}: {words}", input.shown))?;
    let total = file.rows();
    let (done, bytes) = (pieces.done_rows(input), input.bytes);
    let write = |lines: &str| match client.write(lines.as_bytes(), target.database, target.policy, "ns")? {
        None => Ok(0),
        Some(refused) => Err(refused.message),
    };
    let mut lines = String::new();
    let (mut at, mut first) = (0, 0);
    let mut head = String::new();
    push_measurement_name(&mut head, target.measurement).map_err(|error| error.to_string())?;
    while let Some(rows) = file.next()? {
        let begin = at;
        at += rows.num_rows() as u64;
        if at > done {
            let skipped = done.saturating_sub(begin) as usize;
            let values = Values::of(&rows.slice(skipped, rows.num_rows() - skipped), &columns);
            let values = values.map_err(|words| format!("{}: {words}", input.shown))?;
            for row in 0..values.rows {
                values.line(&head, row, &mut lines).map_err(|words| {
                    format!("{}, row {}: {words}", input.shown, begin + (skipped + row) as u64 + 1)
                })?;
                if lines.len() >= PIECE_BYTES {
                    let until = begin + (skipped + row) as u64 + 1;
                    let count = until - first.max(done);
                    pieces.send(input, until, count, || write(&lines))?;
                    (first, lines) = (until, String::new());
                }
            }
        }
        pieces.watch((at as f64 / total.max(1) as f64 * bytes as f64) as u64);
    }
    if !lines.is_empty() {
        pieces.send(input, at, at - first.max(done), || write(&lines))?;
    }
    Ok(at)
}

impl Columns {
    fn of(file: &ParquetRows, target: &Target<'_>, known: Option<&Schema>) -> Result<Self, String> {
        let schema = &file.schema;
        let find = |name: &str| {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            schema
                .index_of(name)
                .map_err(|_| format!("there is no column {name}: it has {}", names.join(", ")))
        };
        let time = find(target.time)?;
        let escaped = |what: &str, name: &str| {
            let mut escaped = String::new();
            push_name(&mut escaped, what, name, TAG_SPECIALS).map_err(|error| error.to_string())?;
            Ok::<_, String>(escaped)
        };
        let tags = target.tags.iter().map(|name| Ok((escaped("tag", name)?, find(name)?)));
        let tags = tags.collect::<Result<Vec<_>, String>>()?;
        let is_field = |place: &usize| *place != time && !tags.iter().any(|(_, tag)| tag == place);
        let fields = (0..schema.fields().len()).filter(is_field);
        let fields = fields.map(|place| {
            let name = schema.field(place).name();
            let known = file.is_of_folders(place).then(|| known_type(name, target, known)).transpose()?;
            Ok(FieldColumn { name: escaped("field", name)?, place, known })
        });
        let fields = fields.collect::<Result<Vec<_>, String>>()?;
        match fields.is_empty() {
            true => Err("no column is left for fields".to_owned()),
            false => Ok(Self { time, tags, fields }),
        }
    }
}

/// The type of a field that stands in names of folders. These are texts, so only the measurement knows it.
fn known_type(name: &str, target: &Target<'_>, known: Option<&Schema>) -> Result<DataType, String> {
    match known.and_then(|known| known.field_with_name(name).ok()).map(|field| field.data_type()) {
        Some(DataType::Dictionary(..)) => {
            Err(format!("column {name} is a tag of {}: name it in --tags", target.table))
        }
        Some(own) => Ok(own.clone()),
        None => Err(format!(
            "column {name} stands in the names of folders, which have no types: name it in --tags if it is a tag; a field \
             {name} has to be in {} before",
            target.table
        )),
    }
}

/// Values of rows, in the types that line protocol has.
struct Values {
    rows: usize,
    times: ArrayRef,
    tags: Vec<(String, ArrayRef)>,
    fields: Vec<(String, ArrayRef)>,
}

impl Values {
    fn of(rows: &RecordBatch, columns: &Columns) -> Result<Self, String> {
        let schema = rows.schema();
        let convert = |place: usize, wanted: &DataType| {
            let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
            arrow_cast::cast_with_options(rows.column(place), wanted, &options)
                .map_err(|error| format!("column {}: {error}", schema.field(place).name()))
        };
        let of_time = match rows.column(columns.time).data_type() {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Nanosecond, None),
            other if other.is_integer() => DataType::Timestamp(TimeUnit::Nanosecond, None),
            other => {
                let name = schema.field(columns.time).name();
                return Err(format!("column {name} is {other}, and no time"));
            }
        };
        let times = match rows.column(columns.time).data_type().is_integer() {
            // Numbers are nanoseconds.
            true => arrow_cast::cast(&convert(columns.time, &DataType::Int64)?, &of_time)
                .map_err(|error| error.to_string())?,
            false => convert(columns.time, &of_time)?,
        };
        let tags =
            columns.tags.iter().map(|(name, place)| Ok((name.clone(), convert(*place, &DataType::Utf8)?)));
        let fields = columns.fields.iter().map(|FieldColumn { name, place, known }| {
            let own = known.as_ref().unwrap_or_else(|| rows.column(*place).data_type());
            let wanted = field_type(own).ok_or_else(|| {
                format!(
                    "column {} is {own}, which fields of measurements cannot be",
                    schema.field(*place).name()
                )
            })?;
            Ok((name.clone(), convert(*place, &wanted)?))
        });
        let tags = tags.collect::<Result<Vec<_>, String>>()?;
        let fields = fields.collect::<Result<Vec<_>, String>>()?;
        Ok(Self { rows: rows.num_rows(), times, tags, fields })
    }

    /// Appends a row. One whose fields are all NULL is no point, and appends nothing.
    fn line(&self, head: &str, row: usize, out: &mut String) -> Result<(), String> {
        let begin = out.len();
        out.push_str(head);
        for (name, values) in &self.tags {
            let values = values.as_string::<i32>();
            // A tag without a text is no tag.
            if values.is_valid(row) && !values.value(row).is_empty() {
                out.push(',');
                out.push_str(name);
                out.push('=');
                push_name(out, "tag value", values.value(row), TAG_SPECIALS)
                    .map_err(|error| error.to_string())?;
            }
        }
        let mut separator = ' ';
        for (name, values) in self.fields.iter().filter(|(_, values)| values.is_valid(row)) {
            out.push(separator);
            separator = ',';
            out.push_str(name);
            out.push('=');
            push_field(values, row, out)?;
        }
        if separator == ' ' {
            out.truncate(begin);
            return Ok(());
        }
        let times = self.times.as_primitive::<TimestampNanosecondType>();
        if times.is_null(row) {
            return Err("it has no time".to_owned());
        }
        writeln!(out, " {}", times.value(row)).map_err(|error| error.to_string())
    }
}

/// The type that a field gets; `None` if there is none.
fn field_type(own: &DataType) -> Option<DataType> {
    match own {
        DataType::Dictionary(_, inner) => field_type(inner),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(DataType::Utf8),
        DataType::Boolean => Some(DataType::Boolean),
        DataType::UInt64 => Some(DataType::UInt64),
        // The number that it is, as COPY takes it: the shortest text of 32 bits is another one of 64.
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Some(DataType::Float64),
        other if other.is_integer() => Some(DataType::Int64),
        _ => None,
    }
}

fn push_field(values: &ArrayRef, row: usize, out: &mut String) -> Result<(), String> {
    let value = match values.data_type() {
        DataType::Boolean => LineValue::Boolean(values.as_boolean().value(row)),
        DataType::Int64 => LineValue::Integer(values.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => LineValue::Unsigned(values.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => match values.as_primitive::<Float64Type>().value(row) {
            number if number.is_finite() => LineValue::Float(number),
            number => {
                let words = "is no value of a field: measurements have no NaN and no infinity";
                return Err(format!("{number} {words}"));
            }
        },
        _ => LineValue::String(values.as_string::<i32>().value(row)),
    };
    push_value(out, value);
    Ok(())
}
