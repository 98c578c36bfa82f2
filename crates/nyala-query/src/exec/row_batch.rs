//! Batches of rows on their way from a source to the aggregates or the answer: one column per reference of the projection.

use crate::influxql::to_integer;
use crate::plan::{Reference, ReferenceKind, RowCondition};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use nyala_core::{Error, Result};
use nyala_exec::column::TEXTS_MAX_BYTES;
use nyala_exec::{Column, Frame, Scalar, ValueType};
use std::collections::HashMap;

/// Some rows of a group.
pub struct RowBatch {
    /// Their times, ns.
    pub times_ns: ScalarBuffer<i64>,
    /// One column per reference of the projection.
    pub columns: Vec<Column>,
}

/// The columns that are read of each row.
#[derive(Clone)]
pub struct Projection {
    /// The references, in the order of [`RowBatch::columns`].
    pub references: Vec<Reference>,
    /// How many of them, from the first, decide whether a row is shown: it must have a field among them.
    pub shown: usize,
    /// Whether tags are read as [`Column::Tag`]: only rows that are shown as they are use that.
    pub tags_by_series: bool,
}

/// A column as another type. Numbers are converted; columns of other types become NULL unless they have the type.
pub fn cast(column: Column, wanted: ValueType) -> Column {
    let rows = column.len();
    match (column, wanted) {
        (column @ Column::Float(_), ValueType::Float)
        | (column @ Column::Integer(_), ValueType::Integer)
        | (column @ Column::Unsigned(_), ValueType::Unsigned)
        | (column @ Column::String(_), ValueType::String)
        | (column @ Column::Boolean(_), ValueType::Boolean) => column,
        (column, ValueType::Float) if column.is_number() => Column::Float(column.to_floats()),
        (Column::Float(array), ValueType::Integer) => Column::Integer(array.unary(to_integer)),
        (Column::Unsigned(array), ValueType::Integer) => Column::Integer(array.unary(|value| value as i64)),
        (Column::Float(array), ValueType::Unsigned) => Column::Unsigned(array.unary(to_unsigned)),
        (Column::Integer(array), ValueType::Unsigned) => Column::Unsigned(array.unary(|value| value as u64)),
        _ => Column::Null(rows),
    }
}

/// A float as an unsigned integer, as the platform of InfluxDB converts it.
pub fn to_unsigned(value: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if value < HALF { to_integer(value) as u64 } else { (to_integer(value - HALF) as u64) ^ (1 << 63) }
}

/// For each row the first value among columns of one type.
pub fn coalesce(mut columns: Vec<Column>) -> Column {
    if columns.len() == 1 {
        return columns.remove(0);
    }
    let rows = columns.first().map_or(0, Column::len);
    let values: Vec<Option<Scalar>> =
        (0..rows).map(|row| columns.iter().find_map(|column| column.scalar(row))).collect();
    Column::from_scalars(&values)
}

impl RowBatch {
    /// The rows where `keep` is set.
    #[must_use]
    pub fn filter(&self, keep: &BooleanBuffer) -> Self {
        self.take(&keep.set_indices_u32().collect::<Vec<_>>())
    }

    /// The rows at these positions.
    #[must_use]
    pub fn take(&self, order: &[u32]) -> Self {
        let mut columns: Vec<Column> = Vec::with_capacity(self.columns.len());
        for (position, column) in self.columns.iter().enumerate() {
            // Tags share their rows, before and after.
            let before = position.checked_sub(1).map(|before| (&self.columns[before], &columns[before]));
            columns.push(match (column, before) {
                (Column::Tag(tags), Some((Column::Tag(other), Column::Tag(taken))))
                    if tags.has_rows_of(other) =>
                {
                    Column::Tag(tags.in_rows_of(taken))
                }
                _ => column.gather(order),
            });
        }
        Self { times_ns: order.iter().map(|row| self.times_ns[*row as usize]).collect(), columns }
    }

    /// Rows `[start, start + length)` without a copy.
    #[must_use]
    pub fn slice(&self, start: usize, length: usize) -> Self {
        let columns = self.columns.iter().map(|column| column.slice(start, length)).collect();
        Self { times_ns: self.times_ns.slice(start, length), columns }
    }

    /// The rows of all parts, one after the other; there must be one.
    #[must_use]
    pub fn concatenate(parts: &[Self]) -> Self {
        let times_ns = parts.iter().flat_map(|part| part.times_ns.iter().copied()).collect();
        let mut columns: Vec<Column> = Vec::with_capacity(parts[0].columns.len());
        for index in 0..parts[0].columns.len() {
            let column: Vec<Column> = parts.iter().map(|part| part.columns[index].clone()).collect();
            let shares = |part: &Self| match &part.columns[index.saturating_sub(1)..=index] {
                [Column::Tag(other), Column::Tag(tags)] => tags.has_rows_of(other),
                _ => false,
            };
            columns.push(match (Column::concatenate(&column), columns.last()) {
                (Column::Tag(tags), Some(Column::Tag(before))) if parts.iter().all(shares) => {
                    Column::Tag(tags.in_rows_of(before))
                }
                (column, _) => column,
            });
        }
        Self { times_ns, columns }
    }

    /// An error if the rows of all parts do not fit into one batch: rows are numbered by 32 bits, and so are
    /// the bytes of a column of texts.
    pub fn check_sizes(parts: &[Self]) -> Result<()> {
        let rows: usize = parts.iter().map(|part| part.times_ns.len()).sum();
        let columns = parts.first().map_or(0, |part| part.columns.len());
        let texts = |index: usize| parts.iter().map(|part| part.columns[index].text_bytes()).sum::<usize>();
        if rows <= u32::MAX as usize && (0..columns).all(|index| texts(index) <= TEXTS_MAX_BYTES) {
            return Ok(());
        }
        Err(too_much_text())
    }

    /// About how many bytes of memory a copy of its rows takes, of which nothing is shared.
    pub fn copied_bytes(&self) -> usize {
        let rows = self.times_ns.len();
        let of_column = |column: &Column| match column {
            Column::Float(_) | Column::Integer(_) | Column::Unsigned(_) => 8 * rows + rows / 8,
            Column::Boolean(_) => rows / 4,
            Column::String(_) | Column::Tag(_) => column.text_bytes() + 4 * rows + rows / 8,
            Column::Texts(_) => column.memory_bytes(),
            Column::Null(_) => 0,
        };
        8 * rows + self.columns.iter().map(of_column).sum::<usize>()
    }

    /// About how many bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        8 * self.times_ns.len() + self.columns.iter().map(Column::memory_bytes).sum::<usize>()
    }
}

fn too_much_text() -> Error {
    Error::limit(format!(
        "the rows of an inner query have more than {} GiB of text in a column of one group: narrow the time range, or group by more tags",
        (TEXTS_MAX_BYTES + 1) >> 30
    ))
}

/// The rows of a frame of an inner query, as the outer query reads them. The frame is alone in its sheet.
pub fn rows_of_frame(
    frame: &Frame,
    projection: &Projection,
    condition: Option<&RowCondition>,
) -> Result<Option<RowBatch>> {
    debug_assert_eq!(frame.span, 0..frame.all_rows());
    let rows = frame.times_ns.len();
    // Thousands of columns are not compared with each other. The first one of a name is meant.
    let names = frame.reference_names.iter().enumerate().rev();
    let positions: HashMap<&str, usize> = names.map(|(position, name)| (&**name, position)).collect();
    let column = |reference: &Reference| {
        if reference.kind == ReferenceKind::Nothing {
            return Column::Null(rows);
        }
        if let Some(position) = positions.get(&*reference.name) {
            let column = frame.columns[*position].clone();
            return match reference.kind {
                ReferenceKind::Field(wanted) => cast(column, wanted),
                _ => column,
            };
        }
        match (frame.tags.get(&reference.name), reference.kind) {
            (Some(value), _) => Column::repeat_text(value, rows),
            (None, ReferenceKind::GroupTag) => Column::repeat_text("", rows),
            (None, _) => Column::Null(rows),
        }
    };
    // A tag is repeated in every row.
    let is_too_long = |reference: &Reference| {
        let value = frame.tags.get(&reference.name).filter(|_| !positions.contains_key(&*reference.name));
        value.is_some_and(|value| value.len().saturating_mul(rows) > TEXTS_MAX_BYTES)
    };
    let of_condition = condition.map_or(&[][..], |condition| &condition.references);
    if projection.references.iter().chain(of_condition).any(is_too_long) {
        return Err(too_much_text());
    }
    let columns = projection.references.iter().map(column).collect();
    let all = RowBatch { times_ns: frame.times_ns.clone(), columns };
    let rows = match condition {
        Some(condition) => {
            let columns: Vec<Column> = condition.references.iter().map(column).collect();
            all.filter(&condition.expression.filter(&columns, rows)?)
        }
        None => all,
    };
    Ok((!rows.times_ns.is_empty()).then_some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_do_not_fit_into_a_column_are_refused() {
        let text = "x".repeat(64 << 20);
        let part = || RowBatch { times_ns: vec![1].into(), columns: vec![Column::repeat_text(&text, 1)] };
        let one = part();
        // They share the text.
        let copies = |count: usize| (0..count).map(|_| one.slice(0, 1)).collect::<Vec<_>>();
        assert!(RowBatch::check_sizes(&copies(31)).is_ok());
        let refused = RowBatch::check_sizes(&copies(32)).expect_err("2 GiB");
        assert!(refused.to_string().contains("more than 2 GiB of text"), "{refused}");
    }
}
