//! A second reader of integer blocks, written from `docs/format/column.md` alone: slow, bit by bit, and sharing
//! no code with the crate. If the two disagree, the document or the crate is wrong.

use nyala_column::*;
use proptest::prelude::*;

struct Naive<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Naive<'_> {
    fn unsigned(&mut self, width: usize) -> u64 {
        let value = (0..width).map(|index| u64::from(self.bytes[self.at + index]) << (8 * index)).sum();
        self.at += width;
        value
    }

    fn signed(&mut self, width: usize) -> i64 {
        let value = self.unsigned(width);
        if width == 0 { 0 } else { (value << (64 - 8 * width)) as i64 >> (64 - 8 * width) }
    }

    fn packed(&mut self, count: usize, width: usize) -> Vec<u64> {
        let bit = |bit: usize| u64::from(self.bytes[self.at + bit / 8] >> (bit % 8) & 1);
        let values =
            (0..count).map(|index| (0..width).map(|at| bit(index * width + at) << at).sum()).collect();
        self.at += (count * width).div_ceil(8);
        values
    }

    fn patches(&mut self, count: usize, rows: usize) -> Vec<(usize, u64)> {
        if count == 0 {
            return Vec::new();
        }
        let width = self.unsigned(1) as usize;
        let positions = self.packed(count, bits(rows as u64 - 1));
        let amounts = self.packed(count, width);
        let unfold = |folded: u64| if folded.is_multiple_of(2) { folded / 2 } else { !(folded / 2) };
        positions.into_iter().zip(amounts).map(|(row, folded)| (row as usize, unfold(folded))).collect()
    }

    fn entropy(&mut self, rows: usize) -> Vec<u64> {
        let (widths, first) = (self.unsigned(1) as usize, self.unsigned(1) as usize);
        let differences = widths >> 4 != 15;
        let base = self.unsigned(widths & 15);
        let centre = if differences { self.signed(widths >> 4) as u64 } else { 0 };
        let stream = self.at * 8;
        let mut at = stream;
        let mut take = |count: usize| {
            let bit = |at: usize| u64::from(self.bytes[at / 8] >> (at % 8) & 1);
            at += count;
            (0..count).map(|index| bit(at - count + index) << index).sum::<u64>()
        };
        let mut frequencies = vec![0; first];
        loop {
            let left = 256 - frequencies.iter().sum::<u64>();
            if left == 0 {
                break;
            }
            frequencies.push(take(bits(left)));
            let mut more = if frequencies.last() == Some(&0) { 3 } else { 0 };
            while more == 3 {
                more = take(2);
                frequencies.extend((0..more).map(|_| 0));
            }
        }
        let mut owners = [0; 256];
        let mut place = 0;
        for (symbol, frequency) in frequencies.iter().enumerate() {
            for _ in 0..*frequency {
                owners[place] = symbol;
                place = (place + 163) % 256;
            }
        }
        let count = rows - usize::from(differences);
        let mut states: Vec<usize> = (0..8).map(|_| take(8) as usize).collect();
        let mut symbols = Vec::new();
        for index in 0..count {
            let state = states[index % 8];
            let symbol = owners[state];
            symbols.push(symbol as u64);
            if index + 8 < count {
                let earlier = owners[..state].iter().filter(|owner| **owner == symbol).count();
                let number = frequencies[symbol] as usize + earlier;
                let width = 9 - bits(number as u64);
                states[index % 8] = (number << width) + take(width) as usize - 256;
            }
        }
        let numbers: Vec<u64> = symbols
            .into_iter()
            .map(|symbol| match symbol {
                0..16 => symbol,
                _ => (4 + symbol % 4) << (symbol / 4 - 2) | take(symbol as usize / 4 - 2),
            })
            .collect();
        self.at = at.div_ceil(8);
        if !differences {
            return numbers;
        }
        let mut last = base;
        let unfold = |folded: u64| if folded.is_multiple_of(2) { folded / 2 } else { !(folded / 2) };
        let rest = numbers.into_iter().map(|number| {
            last = last.wrapping_add(centre).wrapping_add(unfold(number));
            last
        });
        std::iter::once(base).chain(rest).collect()
    }

    fn offsets(&mut self, tag: u8, rows: usize) -> Vec<u64> {
        match tag {
            0 => vec![0; rows],
            1 => {
                let (width, widths, patches) = (self.unsigned(1), self.unsigned(1), self.unsigned(1));
                let slope = self.signed((widths & 15) as usize) as u64;
                let anchor = self.signed((widths >> 4) as usize) as u64;
                let mut offsets = self.packed(rows, width as usize);
                for (row, amount) in self.patches(patches as usize, rows) {
                    offsets[row] = offsets[row].wrapping_add(amount);
                }
                let line = |row: u64| anchor.wrapping_add(slope.wrapping_mul(row));
                offsets.iter().zip(0..).map(|(rest, row)| rest.wrapping_add(line(row))).collect()
            }
            2 => {
                let (width, widths, anchor_width) = (self.unsigned(1), self.unsigned(1), self.unsigned(1));
                let (base_width, patches) = (self.unsigned(1), self.unsigned(1));
                let step = self.signed((widths & 15) as usize) as u64;
                let slope = self.signed((widths >> 4) as usize) as u64;
                let anchor = self.signed(anchor_width as usize) as u64;
                let bases = self.packed(rows.div_ceil(128), base_width as usize);
                let mut differences = self.packed(rows, width as usize);
                for (row, amount) in self.patches(patches as usize, rows) {
                    differences[row] = differences[row].wrapping_add(amount);
                }
                let mut last = 0_u64;
                (0..rows)
                    .map(|row| {
                        let group = row / 128;
                        last = if row % 128 == 0 {
                            anchor.wrapping_add(slope.wrapping_mul(group as u64)).wrapping_add(bases[group])
                        } else {
                            last.wrapping_add(step).wrapping_add(differences[row])
                        };
                        last
                    })
                    .collect()
            }
            3 => {
                let (runs, width) = (self.unsigned(2) as usize + 1, self.unsigned(1) as usize);
                let values = self.packed(runs, width);
                let ends = self.packed(runs, bits(rows as u64 - 1));
                let run = |row: usize| ends.iter().position(|end| row as u64 <= *end).unwrap();
                (0..rows).map(|row| values[run(row)]).collect()
            }
            4 => {
                let (count, width) = (self.unsigned(1) as usize + 1, self.unsigned(1) as usize);
                let entries = self.packed(count, width);
                assert!(entries.is_sorted_by(|left, right| left < right));
                let codes = self.packed(rows, bits(count as u64 - 1));
                codes.into_iter().map(|code| entries[code as usize]).collect()
            }
            6 => self.entropy(rows),
            _ => panic!("no such encoding"),
        }
    }
}

fn bits(value: u64) -> usize {
    64 - value.leading_zeros() as usize
}

/// The values of an integer block, and each vector's tag.
fn read(bytes: &[u8]) -> (Vec<i64>, Vec<u8>) {
    let mut naive = Naive { bytes, at: 0 };
    assert_eq!((naive.unsigned(1), naive.unsigned(1)), (1, 1));
    let (count, vectors) = (naive.unsigned(2) as usize, naive.unsigned(2) as usize);
    let (shape, widths, more) = (naive.unsigned(1), naive.unsigned(1) as usize, naive.unsigned(1) as usize);
    let base = naive.signed(more >> 4);
    let mut column = |width| (0..vectors).map(|_| naive.unsigned(width)).collect::<Vec<u64>>();
    let tags = column(1);
    let row_ends = if shape & 1 == 1 {
        column(2)
    } else {
        (1..=vectors).map(|vector| (vector * 1024).min(count) as u64).collect()
    };
    let payload_ends = column((shape >> 1) as usize + 1);
    let mins = column(widths & 15);
    let ranges = column(widths >> 4);
    naive.at += vectors * (more & 15);
    let payload = naive.at;
    let (mut values, mut row, mut start) = (Vec::new(), 0, 0);
    for vector in 0..vectors {
        naive.at = payload + start as usize;
        let mut divisor = 1;
        if tags[vector] & 0x80 != 0 {
            let width = naive.unsigned(1) as usize;
            divisor = naive.unsigned(width);
        }
        let offsets = naive.offsets(tags[vector] as u8 & 0x7f, (row_ends[vector] - row) as usize);
        assert_eq!(naive.at, payload + payload_ends[vector] as usize);
        assert!(offsets.iter().all(|offset| offset.checked_mul(divisor).unwrap() <= ranges[vector]));
        let min = base.wrapping_add_unsigned(mins[vector]);
        values.extend(offsets.iter().map(|offset| min.wrapping_add_unsigned(*offset * divisor)));
        (row, start) = (row_ends[vector], payload_ends[vector]);
    }
    assert_eq!(naive.at, bytes.len());
    (values, tags.iter().map(|tag| *tag as u8).collect())
}

fn shape(length: usize, shape: u32, seed: u64) -> Vec<i64> {
    let mut state = seed | 1;
    let mut random = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % bound) as i64
    };
    let mut walk = random(1 << 30);
    (0..length as i64)
        .map(|row| match shape {
            0 => 7,
            1 => row * 10_000_000_000 + i64::from(row % 97 == 13) * random(1 << 30),
            2 => random(100) - 50,
            3 => {
                walk += random(7) - 3 + i64::from(random(100) == 0) * 10_000;
                walk
            }
            4 => {
                walk += random(900);
                walk
            }
            5 => (row / 40 * 999_999_937) % 1_000_003,
            6 => [i64::MIN, 1 << 40, -(1 << 50)][random(3) as usize],
            7 => random(1 << 31) << 33 ^ random(1 << 31),
            _ => (row * 10_000 + random(20)) * 1_000_000,
        })
        .collect()
}

const PREFERENCES: [Preference; 3] = [Preference::Speed, Preference::Balanced, Preference::Size];

proptest! {
    #[test]
    fn the_document_and_the_crate_agree(
        length in 1..2500_usize,
        kind in 0..9_u32,
        seed in any::<u64>(),
        cut in 1..2500_u32,
        preference in 0..3_usize,
    ) {
        let values = shape(length, kind, seed);
        let breaks: Vec<u32> = Some(cut).filter(|cut| (*cut as usize) < length).into_iter().collect();
        let preference = PREFERENCES[preference];
        let mut bytes = Vec::new();
        encode_integers(&values, &breaks, preference, &mut Scratch::new(), &mut bytes);
        prop_assert_eq!(read(&bytes).0, values);
    }
}

#[test]
fn every_encoding_is_read() {
    let read_all = |preference| {
        let mut scratch = Scratch::new();
        let tags = (0..9).flat_map(move |kind| {
            let mut bytes = Vec::new();
            encode_integers(&shape(1000, kind, 3), &[], preference, &mut scratch, &mut bytes);
            read(&bytes).1
        });
        tags.collect::<Vec<u8>>()
    };
    let mut tags = [read_all(Preference::Balanced), read_all(Preference::Size)].concat();
    assert!(tags.iter().any(|tag| tag & 0x80 != 0), "a divisor");
    tags.iter_mut().for_each(|tag| *tag &= 0x7f);
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags, [0, 1, 2, 3, 4, 6]);
}
