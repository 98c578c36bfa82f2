//! Blocks of strings: what goes in comes out, in every form.

use nyala_column::*;
use proptest::prelude::*;

const PREFERENCES: [Preference; 3] = [Preference::Speed, Preference::Balanced, Preference::Size];

fn shapes() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![0..20_usize, 100..140_usize, 1000..2100_usize];
    (length, 0..8_u32, any::<u64>()).prop_map(|(length, shape, seed)| {
        let mut state = seed | 1;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        (0..length)
            .map(|index| match shape {
                0 => format!("host_{}", random(100)).into_bytes(),
                1 => format!("GET /api/v{}/items/{} HTTP/1.1 {}", random(3), random(100_000), index)
                    .into_bytes(),
                2 => (0..random(20)).map(|_| random(256) as u8).collect(),
                3 => Vec::new(),
                4 => format!("eu-west-1{}", index / 500).into_bytes(),
                5 => vec![b'x'; random(300) as usize],
                6 => format!("{:040}", random(50)).into_bytes(),
                _ => format!("{{\"level\":\"info\",\"id\":{index},\"took_ms\":{}}}", random(50))
                    .repeat(3)
                    .into_bytes(),
            })
            .collect()
    })
}

fn encode(values: &[Vec<u8>], preference: Preference) -> Vec<u8> {
    let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
    let mut block = Vec::new();
    encode_bytes(&values, preference, &mut Scratch::new(), &mut block);
    block
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_range_reads_back(
        values in shapes(),
        ranges in prop::collection::vec(any::<(u32, u32)>(), 4),
    ) {
        for preference in PREFERENCES {
            let bytes = encode(&values, preference);
            let block = BytesBlock::parse(&bytes).unwrap();
            prop_assert_eq!(block.len() as usize, values.len());
            if let Some(bounds) = block.bounds() {
                prop_assert!(values.iter().all(|value| &value[..] >= bounds.low));
                prop_assert!(values.iter().all(|value| value[..value.len().min(32)] <= *bounds.high));
            }
            for (start, end) in ranges.iter().copied().chain([(0, block.len())]) {
                let (start, end) = (start % (block.len() + 1), end % (block.len() + 1));
                let rows = start.min(end)..start.max(end);
                let expected = &values[rows.start as usize..rows.end as usize];
                let mut decoded = ByteValues::new();
                decoded.push(b"before");
                block.decode_range(rows.clone(), &mut decoded).unwrap();
                prop_assert_eq!(decoded.get(0), b"before");
                prop_assert_eq!(decoded.len(), expected.len() + 1);
                prop_assert!(decoded.iter().skip(1).zip(expected).all(|(left, right)| left == right));
                if let Some(first) = expected.first() {
                    let mut row = b"before".to_vec();
                    block.append_row(rows.start, &mut row).unwrap();
                    prop_assert_eq!(&row[b"before".len()..], &first[..]);
                }
            }
        }
    }
}

#[test]
fn repeated_strings_cost_their_codes() {
    let hosts: Vec<Vec<u8>> =
        (0..8192).map(|index| format!("host_{}", index * 7 % 100).into_bytes()).collect();
    let bytes = encode(&hosts, Preference::Balanced);
    assert!(bytes.len() < 8192 * 95 / 100, "{}", bytes.len());
    // The byte after the start is the form: 1, dictionary.
    assert_eq!(bytes[4], 1);
    let sorted: Vec<Vec<u8>> = (0..8192).map(|index| format!("host_{}", index / 2048).into_bytes()).collect();
    assert!(encode(&sorted, Preference::Balanced).len() < 200);
}
