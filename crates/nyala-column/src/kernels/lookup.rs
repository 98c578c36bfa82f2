//! Dictionary codes to entries.

use crate::cpu::dispatched;
use crate::narrow::Narrow;

dispatched! {
    /// Writes each code's entry; returns the highest code, for the caller to check.
    pub(crate) fn look_up<T: Narrow>(entries: &[T; 256], codes: &[u8], out: &mut [T]) -> u8 = look_up_body;
}

#[inline(always)]
fn look_up_body<T: Narrow>(entries: &[T; 256], codes: &[u8], out: &mut [T]) -> u8 {
    assert_eq!(codes.len(), out.len());
    for (out, code) in out.iter_mut().zip(codes) {
        *out = entries[*code as usize];
    }
    codes.iter().copied().fold(0, u8::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;

    #[test]
    fn every_instruction_set_looks_up_the_same() {
        let entries: [u64; 256] = std::array::from_fn(|index| index as u64 * 1_000_000_007);
        let codes: Vec<u8> = (0..300).map(|index| (index * 7 % 251) as u8).collect();
        for cpu in CpuFeatures::available() {
            let mut out = vec![0; codes.len()];
            assert_eq!(look_up(cpu, &entries, &codes, &mut out), 250);
            assert!(out.iter().zip(&codes).all(|(out, code)| *out == entries[*code as usize]));
        }
    }
}
