//! Rows of a series: the fields that have the same time, side by side.

use super::field::FieldPoints;
use super::{FieldValues, Reading, RowTarget};

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
    let mut times_ns = Vec::new();
    loop {
        fields.iter_mut().for_each(|field| field.fill(reading));
        let Some(last_ns) = fields.iter().filter_map(|field| field.waiting().last().copied()).min() else {
            return Ok(());
        };
        let held: usize =
            fields.iter().map(|field| 8 * field.waiting().len() + field.ready.values.memory_bytes()).sum();
        if held > WAITING_BYTES_MAX {
            let ends: Vec<usize> = fields.iter().map(|field| field.ready.len()).collect();
            write_apart(series, fields, &ends, target)?;
            continue;
        }
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
