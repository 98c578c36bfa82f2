//! Splits values into residuals that fit a width, and patches for the few that do not.

use crate::cpu::dispatched;
use crate::little_endian::fold_sign;
use crate::narrow::Narrow;

/// Values that are tested together, because those that do not fit are few.
const CHUNK_ROWS: usize = 8;

/// Where the results go: a residual per value (0 if it does not fit), and row and amount of each that does not fit.
pub(crate) struct SplitInto<'a, T> {
    pub(crate) residuals: &'a mut [T],
    pub(crate) positions: &'a mut Vec<u16>,
    /// Folded.
    pub(crate) amounts: &'a mut Vec<u64>,
}

dispatched! {
    /// Splits `values` minus `low`. Up to `span`, which is a power of two minus 1 and fits `T`, they are residuals.
    pub(crate) fn split_residuals<T: Narrow>(values: &[i64], low: i64, span: u64, into: SplitInto<'_, T>) = split_residuals_body;
}

#[inline(always)]
fn split_residuals_body<T: Narrow>(values: &[i64], low: i64, span: u64, into: SplitInto<'_, T>) {
    let SplitInto { residuals, positions, amounts } = into;
    assert_eq!(values.len(), residuals.len());
    let residual = |value: &i64| value.wrapping_sub(low) as u64;
    let mut patch = |row: usize, values: &[i64], residuals: &mut [T]| {
        for ((value, row), out) in values.iter().zip(row..).zip(residuals) {
            if residual(value) > span {
                positions.push(row as u16);
                amounts.push(fold_sign(residual(value)));
                *out = T::default();
            }
        }
    };
    let (chunks, rest) = values.as_chunks::<CHUNK_ROWS>();
    let (chunks_out, rest_out) = residuals.as_chunks_mut::<CHUNK_ROWS>();
    for (chunk, (values, out)) in chunks.iter().zip(chunks_out).enumerate() {
        let mut any = 0;
        for (value, out) in values.iter().zip(out.iter_mut()) {
            any |= residual(value);
            *out = T::truncate(residual(value));
        }
        if any > span {
            patch(chunk * CHUNK_ROWS, values, out);
        }
    }
    for (value, out) in rest.iter().zip(rest_out.iter_mut()) {
        *out = T::truncate(residual(value));
    }
    patch(chunks.len() * CHUNK_ROWS, rest, rest_out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;

    #[test]
    fn every_instruction_set_splits_alike() {
        for rows in [1, 7, 8, 9, 100, 1024] {
            let values: Vec<i64> = (0..rows)
                .map(|row| {
                    if row % 11 == 7 {
                        [i64::MIN, i64::MAX, 500, -500][row % 4]
                    } else {
                        (row * 37 % 64) as i64 - 5
                    }
                })
                .collect();
            for cpu in CpuFeatures::available() {
                let (mut bytes, mut positions, mut amounts) = (vec![9_u8; rows], Vec::new(), Vec::new());
                let into =
                    SplitInto { residuals: &mut bytes, positions: &mut positions, amounts: &mut amounts };
                split_residuals(cpu, &values, -5, 63, into);
                let expected: Vec<u16> =
                    (0..rows as u16).filter(|row| !(-5..59).contains(&values[usize::from(*row)])).collect();
                assert_eq!(positions, expected);
                for (row, value) in values.iter().enumerate() {
                    let residual = value.wrapping_add(5) as u64;
                    match positions.iter().position(|position| usize::from(*position) == row) {
                        None => assert_eq!(u64::from(bytes[row]), residual),
                        Some(patch) => {
                            assert_eq!((bytes[row], amounts[patch]), (0, fold_sign(residual)));
                        }
                    }
                }
            }
        }
    }
}
