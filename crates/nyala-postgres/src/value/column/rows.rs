//! The rows of a batch, written one after the other.
//!
//! Consecutive rows often repeat values. So the text of a timestamp is reused, and within a day only the clock in it is
//! rewritten. Cells of adjacent dictionary columns are cached ([`combinations`](super::combinations)).

use super::combinations::{Combinations, Combined};
use super::integers::Integers;
use super::{Cells, Column, Format};
use crate::error::Failure;
use crate::value::time::clock_digits;
use crate::value::types::PgType;
use crate::value::units;
use arrow_array::ArrayRef;
use nyala_exec::QueryMemory;

const DAY_S: i64 = 86_400;
/// The bytes of the length in front of a cell.
const LENGTH_BYTES: usize = 4;
/// The bytes of `HH:MM:SS`.
const CLOCK_BYTES: usize = 8;

/// What is known of the rows of an answer before the next batch.
#[derive(Default)]
pub struct WrittenRows(Vec<Combinations>);

/// Writes rows of a batch.
pub struct RowWriter<'a> {
    parts: Vec<Part>,
    columns: usize,
    written: &'a mut WrittenRows,
}

/// Neighbouring columns that are written in the same way.
enum Part {
    One(Column),
    Integers(Integers),
    Time(Repeated),
    Dictionaries(Combined, usize),
}

/// A column whose cells are long to write, and often the same.
struct Repeated {
    column: Column,
    /// The value that was written last, and its cell.
    last: Option<i64>,
    cell: Vec<u8>,
    /// The local date in `cell`; none unless its time has whole seconds.
    day: Option<LocalDay>,
}

/// A day of a zone in which a text of a time lies.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LocalDay {
    /// Days since 1970.
    number: i64,
    /// The seconds that the zone is ahead of UTC.
    offset_s: i32,
}

impl<'a> RowWriter<'a> {
    /// A writer for one batch. `arrays` are the cells of `columns`; cells that are cached are charged to `memory`.
    pub fn of(
        columns: Vec<Column>,
        arrays: &[ArrayRef],
        written: &'a mut WrittenRows,
        memory: Option<&QueryMemory>,
    ) -> Self {
        let count = columns.len();
        let mut parts: Vec<Part> = Vec::with_capacity(count);
        let (mut dictionaries, mut integers) = (Vec::new(), Vec::new());
        let mut numbered = 0;
        let mut end = |dictionaries: &mut Vec<Column>, place: usize, parts: &mut Vec<Part>| {
            let found = std::mem::take(dictionaries);
            // A single column gains nothing from the cache.
            let combined = match found.len() {
                0 | 1 => Err(found),
                width => Combined::of(found, &arrays[place - width..place]),
            };
            match combined {
                Ok(combined) => {
                    parts.push(Part::Dictionaries(combined, numbered));
                    numbered += 1;
                }
                Err(columns) => parts.extend(columns.into_iter().map(Part::One)),
            }
        };
        for (place, column) in columns.into_iter().enumerate() {
            if !Integers::is_one(&column) {
                end_integers(&mut integers, &mut parts);
            }
            if matches!(column.cells, Cells::Dictionary(..)) {
                dictionaries.push(column);
                continue;
            }
            end(&mut dictionaries, place, &mut parts);
            if Integers::is_one(&column) {
                integers.push(column);
                continue;
            }
            parts.push(match &column.cells {
                Cells::Timestamp(..) => {
                    Part::Time(Repeated { column, last: None, cell: Vec::new(), day: None })
                }
                _ => Part::One(column),
            });
        }
        end_integers(&mut integers, &mut parts);
        end(&mut dictionaries, count, &mut parts);
        while written.0.len() < numbered {
            written.0.push(Combinations::of(memory));
        }
        Self { parts, columns: count, written }
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Appends the cells of a row, each with its length.
    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        let written = &mut self.written.0;
        self.parts.iter_mut().try_for_each(|part| match part {
            Part::One(column) => column.write(row, out),
            Part::Integers(integers) => {
                integers.write(row, out);
                Ok(())
            }
            Part::Time(repeated) => repeated.write(row, out),
            Part::Dictionaries(combined, number) => combined.write(row, &mut written[*number], out),
        })
    }
}

/// Ends a run of columns of integers.
fn end_integers(columns: &mut Vec<Column>, parts: &mut Vec<Part>) {
    if !columns.is_empty() {
        parts.push(Part::Integers(Integers::of(std::mem::take(columns))));
    }
}

impl Repeated {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        let value = match &self.column.cells {
            Cells::Timestamp(values, _) if !self.column.is_null(row) => Some(values[row]),
            _ => None,
        };
        if value.is_none() || value != self.last {
            let moment = value.and_then(|value| self.local(value));
            match (moment, self.clock_place()) {
                (Some((day, of_day_s)), Some(place)) if self.day == Some(day) => {
                    self.cell[place..place + CLOCK_BYTES].copy_from_slice(&clock_digits(of_day_s));
                }
                _ => {
                    self.cell.clear();
                    self.column.write(row, &mut self.cell)?;
                    self.day = moment.map(|(day, _)| day);
                }
            }
            self.last = value;
        }
        out.extend_from_slice(&self.cell);
        Ok(())
    }

    /// The day of a time and the second of the day, as the text shows them; `None` if it shows anything else.
    fn local(&self, value: i64) -> Option<(LocalDay, u32)> {
        let (Cells::Timestamp(_, unit), Format::Text) = (&self.column.cells, self.column.format) else {
            return None;
        };
        let unix_us = units::microseconds(value, *unit).ok()?;
        // Infinity is none of these either.
        if unix_us % 1_000_000 != 0 {
            return None;
        }
        let unix_s = unix_us / 1_000_000;
        let has_zone = self.column.of == PgType::Timestamptz;
        let offset_s = if has_zone { self.column.zone.offset_seconds(unix_s) } else { 0 };
        let local_s = unix_s + i64::from(offset_s);
        let day = LocalDay { number: local_s.div_euclid(DAY_S), offset_s };
        Some((day, local_s.rem_euclid(DAY_S) as u32))
    }

    /// Where the clock stands in the cell: behind the length, the date and a blank.
    fn clock_place(&self) -> Option<usize> {
        let text = self.cell.get(LENGTH_BYTES..)?;
        Some(LENGTH_BYTES + text.iter().position(|byte| *byte == b' ')? + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Format;
    use crate::value::types::ColumnType;
    use arrow_array::types::Int32Type;
    use arrow_array::{
        Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray, TimestampNanosecondArray,
    };
    use arrow_schema::Field;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    fn dictionary(random: &mut SmallRng, rows: usize) -> ArrayRef {
        let mut key = 0;
        let keys = (0..rows).map(|_| {
            if random.random_bool(0.1) {
                key = random.random_range(0..4);
            }
            random.random_bool(0.95).then_some(key)
        });
        let keys: Int32Array = keys.collect();
        let values = StringArray::from(vec![Some("one"), None, Some(""), Some("four")]);
        Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(values)).expect("keys are in range"))
    }

    #[test]
    fn rows_are_what_their_cells_are() {
        for seed in 0..50 {
            let random = &mut SmallRng::seed_from_u64(seed);
            let rows = 40;
            let numbers: Int64Array =
                (0..rows).map(|_| random.random_bool(0.9).then(|| random.random_range(-200..1200))).collect();
            // Of a few seconds, of a few days, before 1970, and some with a fraction.
            let (step_ns, span) =
                [(1500, 3), (1_000_000_000, 90_000), (3_600_000_000_000, 100)][seed as usize % 3];
            let times: TimestampNanosecondArray = (0..rows)
                .map(|_| random.random_bool(0.8).then(|| random.random_range(-span..span) * step_ns))
                .collect();
            let times = times.with_timezone_opt((seed % 2 == 0).then_some("UTC"));
            let complete = || -> ArrayRef { Arc::new(StringArray::from(vec!["a", "b", "c"])) };
            let keys = Int32Array::from_iter_values((0..rows as i32).map(|row| row / 3 % 3));
            let shared = DictionaryArray::<Int32Type>::new(keys, complete());
            let arrays: Vec<ArrayRef> = vec![
                dictionary(random, rows),
                Arc::new(shared.clone()),
                dictionary(random, rows),
                Arc::new(shared.with_values(complete())),
                Arc::new(numbers.clone()),
                Arc::new(shared.with_values(complete())),
                Arc::new(shared),
                Arc::new(numbers.clone()),
                dictionary(random, rows),
                Arc::new(numbers.clone()),
                Arc::new(Int64Array::from_iter_values((0..rows).map(|_| random.random()))),
                Arc::new(numbers),
                Arc::new(times),
                dictionary(random, rows),
                dictionary(random, rows),
                dictionary(random, rows),
            ];
            let zone =
                nyala_exec::Zone::named(["UTC", "Europe/Berlin", "Asia/Kolkata"][seed as usize / 3 % 3]);
            let zone = zone.expect("there is such a zone");
            let format = if seed % 7 == 0 { Format::Binary } else { Format::Text };
            let columns = |arrays: &[ArrayRef]| -> Vec<Column> {
                let of = |array: &ArrayRef| {
                    let field = Field::new("c", array.data_type().clone(), true);
                    let column_type = ColumnType::of_field(&field).expect("it has a type");
                    Column::of(array, column_type, format).expect("it can be sent").in_zone(zone)
                };
                arrays.iter().map(of).collect()
            };
            let first = random.random_range(0..10);
            let sliced: Vec<ArrayRef> = arrays.iter().map(|own| own.slice(first, rows - first)).collect();
            let mut known = WrittenRows::default();
            let mut writer = RowWriter::of(columns(&sliced), &sliced, &mut known, None);
            for row in (0..rows - first).filter(|_| random.random_bool(0.9)) {
                let (mut written, mut expected) = (Vec::new(), Vec::new());
                writer.write(row, &mut written).expect("it is written");
                let cells = columns(&arrays);
                cells.iter().for_each(|own| own.write(first + row, &mut expected).expect("it is written"));
                assert_eq!(written, expected, "seed {seed}, row {row}");
            }
        }
    }
}
