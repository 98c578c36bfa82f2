//! Writes the files of InfluxDB the simplest way that its formats allow, for tests to read.

#![allow(dead_code, reason = "each program uses its part")]

use nyala_influxdb::values::{Kind, Points, Values};
use std::collections::BTreeMap;

/// Seven bits a byte, the lowest first.
pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The words of simple8b: of all selectors the first whose count fits, else fewer numbers of more bits.
fn simple8b(values: &[u64], out: &mut Vec<u8>) {
    const SELECTORS: [(usize, u32); 14] = [
        (60, 1),
        (30, 2),
        (20, 3),
        (15, 4),
        (12, 5),
        (10, 6),
        (8, 7),
        (7, 8),
        (6, 10),
        (5, 12),
        (4, 15),
        (3, 20),
        (2, 30),
        (1, 60),
    ];
    let mut rest = values;
    while !rest.is_empty() {
        let ones = rest.iter().take(240).take_while(|value| **value == 1).count();
        if ones >= 120 {
            let count = if ones == 240 { 240 } else { 120 };
            out.extend_from_slice(&(u64::from(count == 120) << 60).to_be_bytes());
            rest = &rest[count..];
            continue;
        }
        let fits = |(count, bits): &(usize, u32)| {
            rest.len() >= *count && rest[..*count].iter().all(|value| *value < 1 << bits)
        };
        let selector = SELECTORS.iter().position(fits).expect("numbers of at most 60 bits");
        let (count, bits) = SELECTORS[selector];
        let mut word = (selector as u64 + 2) << 60;
        for (index, value) in rest[..count].iter().enumerate() {
            word |= value << (index as u32 * bits);
        }
        out.extend_from_slice(&word.to_be_bytes());
        rest = &rest[count..];
    }
}

/// Times of a block.
pub fn times(times_ns: &[i64]) -> Vec<u8> {
    let first = times_ns[0] as u64;
    let differences: Vec<u64> =
        times_ns.windows(2).map(|pair| (pair[1] as u64).wrapping_sub(pair[0] as u64)).collect();
    let is_repeated = !differences.is_empty() && differences.iter().all(|own| *own == differences[0]);
    let mut out = Vec::new();
    if !is_repeated && differences.iter().any(|own| *own >= 1 << 60) {
        out.push(0);
        out.extend_from_slice(&first.to_be_bytes());
        differences.iter().for_each(|own| out.extend_from_slice(&own.to_be_bytes()));
        return out;
    }
    let power =
        (0..=12).rev().find(|power| differences.iter().all(|own| own % 10_u64.pow(*power) == 0)).unwrap_or(0);
    let divided: Vec<u64> = differences.iter().map(|own| own / 10_u64.pow(power)).collect();
    out.push(if is_repeated { 0x20 } else { 0x10 } | power as u8);
    out.extend_from_slice(&first.to_be_bytes());
    match is_repeated {
        true => {
            varint(divided[0], &mut out);
            varint(times_ns.len() as u64, &mut out);
        }
        false => simple8b(&divided, &mut out),
    }
    out
}

/// Integers of a block.
pub fn integers(values: &[i64]) -> Vec<u8> {
    let mut last = 0_i64;
    let differences: Vec<u64> =
        values.iter().map(|value| zigzag(value.wrapping_sub(std::mem::replace(&mut last, *value)))).collect();
    let rest = &differences[1..];
    let mut out = Vec::new();
    if !rest.is_empty() && rest.iter().all(|own| *own == rest[0]) {
        out.push(0x20);
        out.extend_from_slice(&differences[0].to_be_bytes());
        varint(rest[0], &mut out);
        varint(rest.len() as u64, &mut out);
    } else if rest.iter().any(|own| *own >= 1 << 60) {
        out.push(0);
        differences.iter().for_each(|own| out.extend_from_slice(&own.to_be_bytes()));
    } else {
        out.push(0x10);
        out.extend_from_slice(&differences[0].to_be_bytes());
        simple8b(rest, &mut out);
    }
    out
}

/// Floats of a block.
pub fn floats(values: &[f64]) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    let push = |bits: &mut Vec<bool>, value: u64, count: u32| {
        bits.extend((0..count).rev().map(|index| value >> index & 1 == 1));
    };
    let mut last = values[0].to_bits();
    push(&mut bits, last, 64);
    let mut window: Option<(u32, u32)> = None;
    for value in values[1..].iter().map(|value| value.to_bits()).chain([0x7FF8_0000_0000_0001]) {
        let difference = value ^ last;
        last = value;
        if difference == 0 {
            bits.push(false);
            continue;
        }
        bits.push(true);
        let (leading, trailing) = (difference.leading_zeros() & 31, difference.trailing_zeros());
        match window.filter(|(before, after)| leading >= *before && trailing >= *after) {
            Some((before, after)) => {
                bits.push(false);
                push(&mut bits, difference >> after, 64 - before - after);
            }
            None => {
                bits.push(true);
                window = Some((leading, trailing));
                let width = 64 - leading - trailing;
                push(&mut bits, u64::from(leading), 5);
                push(&mut bits, u64::from(width & 63), 6);
                push(&mut bits, difference >> trailing, width);
            }
        }
    }
    let mut out = vec![0x10];
    out.extend(bits.chunks(8).map(|eight| {
        eight.iter().enumerate().fold(0, |byte, (index, bit)| byte | u8::from(*bit) << (7 - index))
    }));
    out
}

fn booleans(values: &[bool]) -> Vec<u8> {
    let mut out = vec![0x10];
    varint(values.len() as u64, &mut out);
    out.extend(values.chunks(8).map(|eight| {
        eight.iter().enumerate().fold(0, |byte, (index, bit)| byte | u8::from(*bit) << (7 - index))
    }));
    out
}

fn strings(values: &nyala_influxdb::values::Strings) -> Vec<u8> {
    let mut text = Vec::new();
    for index in 0..values.ends.len() {
        varint(values.get(index).len() as u64, &mut text);
        text.extend_from_slice(values.get(index));
    }
    let mut out = vec![0x10];
    out.extend(snap::raw::Encoder::new().compress_vec(&text).expect("a short text"));
    out
}

/// A block without its checksum.
pub fn block(points: &Points) -> Vec<u8> {
    let (kind, values) = match &points.values {
        Values::Float(values) => (0, floats(values)),
        Values::Integer(values) => (1, integers(values)),
        Values::Boolean(values) => (2, booleans(values)),
        Values::String(values) => (3, strings(values)),
        Values::Unsigned(values) => {
            (4, integers(&values.iter().map(|value| *value as i64).collect::<Vec<i64>>()))
        }
    };
    let times = times(&points.times_ns);
    let mut out = vec![kind];
    varint(times.len() as u64, &mut out);
    out.extend(times);
    out.extend(values);
    out
}

/// A TSM file with some blocks for each key.
pub fn tsm(keys: &BTreeMap<Vec<u8>, Vec<Points>>) -> Vec<u8> {
    let mut out = vec![0x16, 0xD1, 0x16, 0xD1, 1];
    let mut index = Vec::new();
    for (key, blocks) in keys {
        index.extend_from_slice(&(key.len() as u16).to_be_bytes());
        index.extend_from_slice(key);
        index.push(match blocks[0].values.kind() {
            Kind::Float => 0,
            Kind::Integer => 1,
            Kind::Boolean => 2,
            Kind::String => 3,
            Kind::Unsigned => 4,
        });
        index.extend_from_slice(&(blocks.len() as u16).to_be_bytes());
        for points in blocks {
            let block = block(points);
            let (first, last) = (points.times_ns[0], points.times_ns[points.len() - 1]);
            index.extend_from_slice(&first.to_be_bytes());
            index.extend_from_slice(&last.to_be_bytes());
            index.extend_from_slice(&(out.len() as u64).to_be_bytes());
            index.extend_from_slice(&(block.len() as u32 + 4).to_be_bytes());
            out.extend_from_slice(&crc32fast::hash(&block).to_be_bytes());
            out.extend_from_slice(&block);
        }
    }
    let index_offset = out.len() as u64;
    out.extend(index);
    out.extend_from_slice(&index_offset.to_be_bytes());
    out
}

/// A segment of the log with entries (type, content).
pub fn segment(entries: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (entry_type, content) in entries {
        let compressed = snap::raw::Encoder::new().compress_vec(content).expect("a short entry");
        out.push(*entry_type);
        out.extend_from_slice(&(compressed.len() as u32).to_be_bytes());
        out.extend(compressed);
    }
    out
}

/// The content of an entry that writes points of a key.
pub fn written(key: &[u8], points: &Points) -> Vec<u8> {
    let mut out = vec![match points.values.kind() {
        Kind::Float => 1,
        Kind::Integer => 2,
        Kind::Boolean => 3,
        Kind::String => 4,
        Kind::Unsigned => 5,
    }];
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&(points.len() as u32).to_be_bytes());
    for (index, time_ns) in points.times_ns.iter().enumerate() {
        out.extend_from_slice(&time_ns.to_be_bytes());
        match &points.values {
            Values::Float(values) => out.extend_from_slice(&values[index].to_be_bytes()),
            Values::Integer(values) => out.extend_from_slice(&values[index].to_be_bytes()),
            Values::Unsigned(values) => out.extend_from_slice(&values[index].to_be_bytes()),
            Values::Boolean(values) => out.push(u8::from(values[index])),
            Values::String(values) => {
                out.extend_from_slice(&(values.get(index).len() as u32).to_be_bytes());
                out.extend_from_slice(values.get(index));
            }
        }
    }
    out
}

/// The content of an entry that deletes points of keys.
pub fn deleted(first_ns: i64, last_ns: i64, keys: &[&[u8]]) -> Vec<u8> {
    let mut out = [first_ns.to_be_bytes(), last_ns.to_be_bytes()].concat();
    for key in keys {
        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
        out.extend_from_slice(key);
    }
    out
}

/// Tombstones of version 4: one part for each deletion.
pub fn tombstones(deletions: &[(&[u8], i64, i64)]) -> Vec<u8> {
    use std::io::Write;
    let mut out = 0x1504_u32.to_be_bytes().to_vec();
    for (key, first_ns, last_ns) in deletions {
        let mut part = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let entry =
            [&(key.len() as u32).to_be_bytes()[..], key, &first_ns.to_be_bytes(), &last_ns.to_be_bytes()];
        part.write_all(&entry.concat()).expect("writing to memory");
        out.extend(part.finish().expect("writing to memory"));
    }
    out
}
