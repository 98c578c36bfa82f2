//! Boolean and cell-state blocks: what goes in comes out.

use nyala_column::*;
use proptest::prelude::*;

fn runs(states: &[(u8, usize)], limit: usize) -> Vec<CellState> {
    let state = |number: u8| [CellState::Absent, CellState::Null, CellState::Value][number as usize % 3];
    let mut list: Vec<CellState> =
        states.iter().flat_map(|(number, count)| vec![state(*number); *count]).collect();
    list.truncate(limit);
    list
}

proptest! {
    #[test]
    fn states_read_back(
        long in any::<bool>(),
        pieces in prop::collection::vec((any::<u8>(), 1..300_usize), 0..80),
        ranges in prop::collection::vec(any::<(u32, u32)>(), 5),
    ) {
        let pieces: Vec<_> = pieces.iter().map(|(state, count)| (*state, if long { *count } else { count % 3 })).collect();
        let states = runs(&pieces, BLOCK_VALUES);
        let mut bytes = Vec::new();
        encode_validity(&states, &mut bytes);
        let block = ValidityBlock::parse(&bytes).unwrap();
        prop_assert_eq!(block.len() as usize, states.len());
        let count = |slice: &[CellState], state| slice.iter().filter(|other| **other == state).count() as u32;
        for (start, end) in ranges {
            let (start, end) = (start % (block.len() + 1), end % (block.len() + 1));
            let rows = start.min(end)..start.max(end);
            let expected = &states[rows.start as usize..rows.end as usize];
            let mut decoded = Vec::new();
            block.decode_range(rows.clone(), &mut decoded);
            prop_assert_eq!(&decoded[..], expected);
            prop_assert_eq!(block.rank(rows.end), count(&states[..rows.end as usize], CellState::Value));
            let mut bounds = Vec::new();
            block.rank_bounds(&[rows.start, rows.start, rows.end], &mut bounds);
            prop_assert_eq!(bounds, vec![block.rank(rows.start), block.rank(rows.start), block.rank(rows.end)]);
        }
    }

    #[test]
    fn booleans_read_back(
        long in any::<bool>(),
        pieces in prop::collection::vec((any::<u8>(), 1..300_usize), 0..80),
        ranges in prop::collection::vec(any::<(u32, u32)>(), 5),
    ) {
        let pieces: Vec<_> = pieces.iter().map(|(state, count)| (*state, if long { *count } else { count % 3 })).collect();
        let list: Vec<bool> = runs(&pieces, BLOCK_VALUES).iter().map(|state| *state == CellState::Value).collect();
        let mut bytes = Vec::new();
        encode_booleans(&list.iter().copied().collect(), &mut bytes);
        let block = BooleanBlock::parse(&bytes).unwrap();
        prop_assert_eq!(block.len() as usize, list.len());
        for (start, end) in ranges {
            let (start, end) = (start % (block.len() + 1), end % (block.len() + 1));
            let rows = start.min(end)..start.max(end);
            let expected = &list[rows.start as usize..rows.end as usize];
            let mut decoded = Bitmap::new();
            block.decode_range(rows.clone(), &mut decoded);
            prop_assert_eq!(&decoded, &expected.iter().copied().collect::<Bitmap>());
        }
    }
}

#[test]
fn uniform_columns_cost_next_to_nothing() {
    let mut bytes = Vec::new();
    encode_validity(&[CellState::Value; BLOCK_VALUES], &mut bytes);
    assert_eq!(bytes.len(), 5);
    bytes.clear();
    encode_validity(&[CellState::Null; BLOCK_VALUES], &mut bytes);
    assert_eq!(bytes.len(), 6);
}
