//! What a naive encoder writes is decoded to the same, and no bytes make a decoder panic.

mod support;

use nyala_influxdb::tsm::block::{self, Scratch};
use nyala_influxdb::tsm::tombstone::Tombstones;
use nyala_influxdb::values::{Kind, Points, Strings, Values};
use nyala_influxdb::wal::entry::LogTarget;
use nyala_influxdb::wal::segment::read_entries;
use proptest::prelude::*;

const KINDS: [Kind; 5] = [Kind::Float, Kind::Integer, Kind::Boolean, Kind::String, Kind::Unsigned];

/// Times with steps of all sizes: regular, dividable by powers of ten, huge.
fn times(count: usize) -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![
        Just(1_u64),
        Just(10_000_000_000),
        1..1000_u64,
        any::<u32>().prop_map(|step| u64::from(step) + 1)
    ];
    let same = (any::<i32>(), step.clone(), 1..count).prop_map(|(first, step, count)| {
        (0..count as i64).map(|index| i64::from(first) + index * step as i64).collect::<Vec<i64>>()
    });
    let mixed = (any::<i32>(), prop::collection::vec(step, 0..count)).prop_map(|(first, steps)| {
        let mut time = i64::from(first);
        std::iter::once(time)
            .chain(steps.into_iter().map(|step| {
                time += step as i64;
                time
            }))
            .collect()
    });
    let any_times =
        prop::collection::btree_set(any::<i64>(), 1..count).prop_map(|times| times.into_iter().collect());
    prop_oneof![same, mixed, any_times]
}

fn values(count: usize) -> impl Strategy<Value = Values> {
    let number = || prop_oneof![any::<i64>(), -3..3_i64, Just(i64::MIN), Just(i64::MAX), Just(7)];
    let finite = |value: f64| if value.is_finite() { value } else { 0.5 };
    let float = prop_oneof![
        any::<f64>().prop_map(finite),
        (0..100_i32).prop_map(|value| f64::from(value) / 8.0),
        Just(-0.0)
    ];
    prop_oneof![
        prop::collection::vec(float, count).prop_map(Values::Float),
        prop::collection::vec(number(), count).prop_map(Values::Integer),
        (number(), -2..3_i64).prop_map(move |(first, step)| {
            Values::Integer((0..count as i64).map(|index| first.wrapping_add(index * step)).collect())
        }),
        prop::collection::vec(any::<u64>(), count).prop_map(Values::Unsigned),
        prop::collection::vec(any::<bool>(), count).prop_map(Values::Boolean),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), count).prop_map(|texts| {
            let mut strings = Strings::default();
            texts.iter().for_each(|text| strings.push(text));
            Values::String(strings)
        }),
    ]
}

fn points() -> impl Strategy<Value = Points> {
    times(400).prop_flat_map(|times_ns| {
        values(times_ns.len()).prop_map(move |values| Points { times_ns: times_ns.clone(), values })
    })
}

/// Floats are compared by their bits: `-0.0` is another value than `0.0`.
fn bits(values: &Values) -> Values {
    match values {
        Values::Float(values) => Values::Unsigned(values.iter().map(|value| value.to_bits()).collect()),
        other => other.clone(),
    }
}

#[derive(Default)]
struct Ignored(Option<Points>);

impl LogTarget for Ignored {
    fn points(&mut self, _: &[u8], kind: Kind) -> &mut Points {
        self.0.insert(Points::new(kind))
    }

    fn delete(&mut self, _: &[u8], _: i64, _: i64) {}
}

proptest! {
    #[test]
    fn blocks_are_decoded_to_what_was_encoded(points in points()) {
        let encoded = support::block(&points);
        let mut decoded = Points::new(points.values.kind());
        block::decode(&encoded, &mut Scratch::default(), &mut decoded).unwrap();
        prop_assert_eq!(&decoded.times_ns, &points.times_ns);
        prop_assert_eq!(bits(&decoded.values), bits(&points.values));
        prop_assert_eq!(block::count(&encoded).unwrap(), points.len());
    }

    #[test]
    fn a_changed_block_is_decoded_or_refused(points in points(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut encoded = support::block(&points);
        *at.get_mut(&mut encoded) = byte;
        encoded.truncate(cut.index(encoded.len()) + 1);
        for kind in KINDS {
            let _ = block::decode(&encoded, &mut Scratch::default(), &mut Points::new(kind));
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in KINDS {
            let _ = block::decode(&bytes, &mut Scratch::default(), &mut Points::new(kind));
        }
        let _ = Tombstones::default().read(&bytes[..]);
        let _ = read_entries(&bytes[..], &mut 0, &mut Ignored::default());
        let _ = nyala_influxdb::meta::decode(&bytes);
        for entry_type in 0..5 {
            let segment = support::segment(&[(entry_type, bytes.clone())]);
            let _ = read_entries(&segment[..], &mut 0, &mut Ignored::default());
        }
    }
}

#[test]
fn hostile_counts_are_refused_before_memory_is_taken() {
    // A float block whose times claim to be repeated very often.
    let mut times = vec![0x20];
    times.extend_from_slice(&0_u64.to_be_bytes());
    support::varint(1, &mut times);
    support::varint(u64::MAX, &mut times);
    let mut block = vec![0];
    support::varint(times.len() as u64, &mut block);
    block.extend(times);
    block.push(0x10);
    let refused = block::decode(&block, &mut Scratch::default(), &mut Points::new(Kind::Float)).unwrap_err();
    assert!(refused.contains("at most 65536 are read"), "{refused}");
    // A log entry that claims to decompress to 4 GiB.
    let entry = [1, 0, 0, 0, 6, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0];
    let refused = read_entries(&entry[..], &mut 0, &mut Ignored::default()).unwrap_err();
    assert!(refused.contains("claim to be"), "{refused}");
}
