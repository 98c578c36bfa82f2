//! Rows for programs that show them to people: a line `{"columns":["a"],"types":["bigint"]}`, and an array per row.
//!
//! Unlike in objects, each column keeps its name, also if two have the same one, and an answer without rows has columns,
//! too. A number is a number of JSON unless JSON cannot say it (`NaN`); everything else is a string as in CSV. The row of a
//! statement that gives no rows has the member `"command":true` in its first line.

use crate::rows::COMMAND_KEY;
use crate::system_catalog::shown_type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::Write as _;

/// The first line.
pub(super) fn heading(schema: &Schema) -> Vec<u8> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let types: Vec<String> = schema.fields().iter().map(|field| shown_type(field)).collect();
    let mut heading = serde_json::json!({ "columns": names, "types": types });
    if schema.metadata().contains_key(COMMAND_KEY) {
        heading["command"] = true.into();
    }
    format!("{heading}\n").into_bytes()
}

/// Appends a line per row.
pub(super) fn write(rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let columns = rows.columns();
    let formatters: Vec<ArrayFormatter<'_>> =
        columns.iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
    // Also those of columns that have nothing but NULL, and of dictionaries.
    let nulls: Vec<_> = columns.iter().map(|column| column.logical_nulls()).collect();
    let mut text = String::new();
    for row in 0..rows.num_rows() {
        for (number, (column, formatter)) in columns.iter().zip(&formatters).enumerate() {
            let is_null = nulls[number].as_ref().is_some_and(|nulls| nulls.is_null(row));
            out.push(if number == 0 { b'[' } else { b',' });
            if is_null {
                out.extend_from_slice(b"null");
                continue;
            }
            text.clear();
            write!(text, "{}", formatter.value(row)).map_err(|_| {
                ArrowError::CastError(format!("the value of column {} has no text", number + 1))
            })?;
            match is_number(column.data_type())
                && text.bytes().all(|byte| !byte.is_ascii_alphabetic() || byte == b'e')
            {
                true => out.extend_from_slice(text.as_bytes()),
                false => serde_json::to_writer(&mut *out, &text).expect("memory takes any text"),
            }
        }
        out.extend_from_slice(if columns.is_empty() { b"[]\n" } else { b"]\n" });
    }
    Ok(())
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || data_type.is_decimal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, Float64Array, NullArray, StringArray, TimestampNanosecondArray};
    use std::sync::Arc;

    #[test]
    fn columns_keep_their_names_and_values_their_digits() {
        let floats = Float64Array::from(vec![Some(0.1), Some(f64::NAN), Some(1e300), None]);
        let texts = StringArray::from(vec![Some("NULL"), Some(""), None, Some("\u{1b}[31m\"")]);
        let decimals = Decimal128Array::from(vec![150, -5, 0, 1]).with_precision_and_scale(8, 2).unwrap();
        let times = TimestampNanosecondArray::from(vec![1, 0, -1, 0]).with_timezone("+00:00");
        let rows = RecordBatch::try_from_iter_with_nullable([
            ("a", Arc::new(floats) as arrow_array::ArrayRef, true),
            ("a", Arc::new(texts), true),
            ("d", Arc::new(decimals), true),
            ("t", Arc::new(times), true),
            ("n", Arc::new(NullArray::new(4)), true),
        ])
        .unwrap();
        let mut out = heading(&rows.schema());
        write(&rows, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"columns\":[\"a\",\"a\",\"d\",\"t\",\"n\"],\"types\":[\"double precision\",\"text\",\"numeric(8,2)\",\
             \"timestamp with time zone\",\"text\"]}\n\
             [0.1,\"NULL\",1.50,\"1970-01-01T00:00:00.000000001Z\",null]\n\
             [\"NaN\",\"\",-0.05,\"1970-01-01T00:00:00Z\",null]\n\
             [1e300,null,0.00,\"1969-12-31T23:59:59.999999999Z\",null]\n\
             [null,\"\\u001b[31m\\\"\",0.01,\"1970-01-01T00:00:00Z\",null]\n"
        );
    }
}
