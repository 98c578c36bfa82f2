//! Reading an arbitrary text as the log of schema changes: the entry for fuzzers.

use crate::entry::{Change, Entry};
use crate::state::State;

/// Reads a text as a log: an entry a line, numbered from 1.
///
/// # Panics
/// The state that the entries add up to is not the same after it was written.
pub fn read_arbitrary(log: &str) {
    let mut state = State::default();
    for (number, text) in (1..).zip(log.lines()) {
        let Ok(entry) = serde_json::from_str::<Entry>(text) else { return };
        match state.after(number, &entry) {
            Ok(next) => state = next,
            Err(_) => return,
        }
    }
    // A sheet that is named twice is written once.
    let once = written(&state);
    assert_eq!(written(&once), once);
}

/// What a state is after it was written as a whole.
fn written(state: &State) -> State {
    let tables = state.tables.iter().map(|(id, table)| table.whole(*id)).collect();
    let (next_table, next_range) = (state.next_table, state.next_range);
    let whole = Entry { changes: vec![Change::Everything { next_table, next_range, tables }] };
    let text = serde_json::to_string(&whole).expect("plain data becomes JSON");
    let entry = serde_json::from_str(&text).expect("it was just written");
    State::default().after(state.version, &entry).expect("what was valid is valid")
}
