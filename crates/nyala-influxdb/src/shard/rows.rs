//! Rows of a series: the fields that have the same time, side by side.

use super::field::FieldPoints;
use super::{FieldValues, Reading, RowTarget};
use crate::values::Points;

/// Rows are made of fields only if they are filled to this part (1/4) at least. Otherwise each field has rows of its own,
/// so that work is proportional to the values.
const EMPTY_CELLS_MAX: usize = 4;
/// The most memory of points that wait for those of other fields with the same times.
const WAITING_BYTES_MAX: usize = 192 << 20;

/// Passes the rows of a series to a target.
pub(super) fn read_rows<T: RowTarget>(
    series: &[u8],
    fields: &mut [FieldPoints],
    reading: &mut Reading<'_>,
    target: &mut T,
) -> Result<(), T::Error> {
    read_rows_within(WAITING_BYTES_MAX, series, fields, reading, target)
}

fn read_rows_within<T: RowTarget>(
    waiting_bytes_max: usize,
    series: &[u8],
    fields: &mut [FieldPoints],
    reading: &mut Reading<'_>,
    target: &mut T,
) -> Result<(), T::Error> {
    let mut times_ns = Vec::new();
    loop {
        let mut held: usize = fields.iter().map(FieldPoints::memory_bytes).sum();
        for field in &mut *fields {
            held -= field.memory_bytes();
            field.fill(reading);
            if held + field.memory_bytes() > waiting_bytes_max {
                write_alone(series, field, reading, target)?;
            }
            held += field.memory_bytes();
        }
        let Some(last_ns) = fields.iter().filter_map(|field| field.waiting().last().copied()).min() else {
            return Ok(());
        };
        let end =
            |field: &FieldPoints| field.used + field.waiting().partition_point(|time_ns| *time_ns <= last_ns);
        let ends: Vec<usize> = fields.iter().map(end).collect();
        let has_rows: Vec<usize> =
            (0..fields.len()).filter(|index| fields[*index].used < ends[*index]).collect();
        let slice = |index: usize| &fields[index].ready.times_ns[fields[index].used..ends[index]];
        let first = slice(has_rows[0]);
        if has_rows[1..].iter().all(|index| slice(*index) == first) {
            let columns: Vec<FieldValues<'_>> =
                has_rows.iter().map(|index| column(&fields[*index], ends[*index], None)).collect();
            target.rows(series, first, &columns)?;
        } else {
            times_ns.clear();
            has_rows.iter().for_each(|index| times_ns.extend_from_slice(slice(*index)));
            let values = times_ns.len();
            times_ns.sort();
            times_ns.dedup();
            if times_ns.len() * has_rows.len() > EMPTY_CELLS_MAX * values {
                write_apart(series, fields, &ends, target)?;
                continue;
            }
            let present: Vec<Option<Vec<bool>>> =
                has_rows.iter().map(|index| presence(&times_ns, slice(*index))).collect();
            let columns: Vec<FieldValues<'_>> = has_rows
                .iter()
                .zip(&present)
                .map(|(index, present)| column(&fields[*index], ends[*index], present.as_deref()))
                .collect();
            target.rows(series, &times_ns, &columns)?;
        }
        fields.iter_mut().zip(ends).for_each(|(field, end)| field.used = end);
    }
}

fn column<'a>(field: &'a FieldPoints, end: usize, present: Option<&'a [bool]>) -> FieldValues<'a> {
    FieldValues { field: &field.name, values: &field.ready.values, range: field.used..end, present }
}

/// Which of the times a field has; `None`: all.
fn presence(times_ns: &[i64], own: &[i64]) -> Option<Vec<bool>> {
    if own.len() == times_ns.len() {
        return None;
    }
    let mut own = own.iter().peekable();
    Some(times_ns.iter().map(|time_ns| own.next_if(|next| *next == time_ns).is_some()).collect())
}

/// Passes all points of a field as rows of their own. It has none in memory afterwards.
fn write_alone<T: RowTarget>(
    series: &[u8],
    field: &mut FieldPoints,
    reading: &mut Reading<'_>,
    target: &mut T,
) -> Result<(), T::Error> {
    while !field.waiting().is_empty() {
        let end = field.ready.len();
        write_apart(series, std::slice::from_mut(field), &[end], target)?;
        field.fill(reading);
    }
    field.ready = Points::new(field.kind);
    field.used = 0;
    Ok(())
}

/// Passes the points of each field as rows of their own.
fn write_apart<T: RowTarget>(
    series: &[u8],
    fields: &mut [FieldPoints],
    ends: &[usize],
    target: &mut T,
) -> Result<(), T::Error> {
    for (field, end) in fields.iter_mut().zip(ends) {
        if field.used < *end {
            let times_ns = &field.ready.times_ns[field.used..*end];
            target.rows(series, times_ns, &[column(field, *end, None)])?;
            field.used = *end;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::field::Source;
    use super::*;
    use crate::damage::DamageList;
    use crate::tsm::block::Scratch;
    use crate::values::{Kind, Strings, Values};

    const FIELDS: usize = 5;
    const POINTS: i64 = 6;
    /// The bytes of a string.
    const LENGTH: usize = 100;
    /// What two fields take, but not three.
    const MOST: usize = 1000;

    /// Takes rows, as many as it wants.
    struct Taken {
        points: Vec<(Vec<u8>, i64)>,
        rows_max: usize,
    }

    impl RowTarget for Taken {
        type Error = ();

        fn rows(&mut self, _: &[u8], times_ns: &[i64], fields: &[FieldValues<'_>]) -> Result<(), ()> {
            for own in fields {
                let has = |row: &usize| own.present.is_none_or(|present| present[*row]);
                let rows = (0..times_ns.len()).filter(has);
                self.points.extend(rows.map(|row| (own.field.to_vec(), times_ns[row])));
            }
            if self.points.len() > self.rows_max { Err(()) } else { Ok(()) }
        }

        fn read(&mut self, _: u64) {}
    }

    /// Fields of a series. Each has two parts of the log, of which the second overlaps the first.
    fn fields() -> Vec<FieldPoints> {
        let part = |times_ns: Vec<i64>| {
            let mut strings = Strings::default();
            times_ns.iter().for_each(|_| strings.push(&[b'x'; LENGTH]));
            Source::Memory(Points { times_ns, values: Values::String(strings) })
        };
        let field = |number: usize| {
            let mut field = FieldPoints::new(format!("f{number}").as_bytes(), Kind::String);
            field.add(0, part((0..POINTS).step_by(2).collect()));
            field.add(1, part((1..POINTS).step_by(2).collect()));
            field.sort();
            field
        };
        (0..FIELDS).map(field).collect()
    }

    fn read_within(most: usize, rows_max: usize) -> (Vec<FieldPoints>, Taken) {
        let mut damage = DamageList::default();
        let mut reading = Reading {
            files: Vec::new(),
            damage: &mut damage,
            scratch: Scratch::default(),
            times_ns: i64::MIN..=i64::MAX,
            read_bytes: 0,
        };
        let (mut fields, mut taken) = (fields(), Taken { points: Vec::new(), rows_max });
        let read = read_rows_within(most, b"s", &mut fields, &mut reading, &mut taken);
        assert_eq!(read.is_ok(), rows_max == usize::MAX);
        (fields, taken)
    }

    #[test]
    fn fields_are_read_side_by_side_as_far_as_there_is_memory() {
        let all: Vec<(Vec<u8>, i64)> = (0..FIELDS)
            .flat_map(|number| (0..POINTS).map(move |time_ns| (format!("f{number}").into_bytes(), time_ns)))
            .collect();
        for most in [0, MOST, usize::MAX] {
            let (_, mut taken) = read_within(most, usize::MAX);
            taken.points.sort();
            assert_eq!(taken.points, all, "within {most} bytes");
        }
        // When the first rows come, no more fields are in memory than may be.
        let (fields, taken) = read_within(MOST, 0);
        assert_eq!(taken.points, [(b"f2".to_vec(), 0)]);
        assert!(fields[..3].iter().all(|field| field.memory_bytes() > 0));
        assert!(fields[3..].iter().all(|field| field.memory_bytes() == 0));
    }
}
