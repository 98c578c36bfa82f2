//! Which tables there are: what the log of schema changes adds up to.

use crate::entry::{Bounds, Change, Entry, Progress, Scalar, WholeTable};
use nyala_core::schema::TableSchema;
use nyala_core::{ColumnId, Error, Result, TableId, TimeRange, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The most ranges that a write adds to a table. Kudu takes some 50 to 200 ms for each.
const NEW_RANGES_MAX: usize = 2048;

/// Tables as of an entry of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The number of the last entry; 0: there is none.
    pub(crate) version: i64,
    /// No table had this id, nor one above it.
    pub(crate) next_table: u32,
    /// No range had this number, nor one above it.
    pub(crate) next_range: u32,
    pub(crate) tables: BTreeMap<TableId, TableState>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableState {
    pub(crate) schema: Arc<TableSchema>,
    /// Its ranges of time, ascending, of tables that are divided by time; those that were dropped are not among them.
    pub(crate) ranges: Arc<[RangeState]>,
    /// The entry that altered it last, or a later one.
    pub(crate) altered: i64,
    /// What rows have of columns that came after them.
    pub(crate) added: Arc<BTreeMap<ColumnId, Value>>,
}

/// A range of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeState {
    /// No other range has it, nor had it.
    pub(crate) number: u32,
    pub(crate) time: TimeRange,
    /// A bit for each sheet after the first that may have rows in it.
    sheets: u32,
    /// A bit for each sheet, the first among them, that is not in the cluster yet. Nobody has written to it.
    unmade: u32,
    /// The entry that says that somebody drops it ([`crate::dropping`]).
    pub(crate) leaving: Option<i64>,
}

impl RangeState {
    /// One without rows.
    pub(crate) fn new(number: u32, time: TimeRange) -> Self {
        Self { number, time, sheets: 0, unmade: 0, leaving: None }
    }

    /// The sheets after the first that may have rows in it.
    pub(crate) fn sheets(self) -> impl Iterator<Item = u32> {
        (1..u32::BITS).filter(move |number| self.has_sheet(*number))
    }

    /// Whether it is another state of a range, and the same daemon is dropping it.
    pub(crate) fn is_marked_as(self, other: Self) -> bool {
        (self.number, self.leaving) == (other.number, other.leaving)
    }

    /// Whether a sheet is not in the cluster yet in the range, and so has no rows there that were acknowledged.
    pub(crate) fn is_unmade(self, number: u32) -> bool {
        self.unmade & (1 << number) != 0
    }

    fn with_sheets(self, bits: u32, progress: Progress) -> Self {
        let unmade = match progress {
            Progress::Unknown => self.unmade,
            Progress::Wanted => self.unmade | (bits & !self.sheets),
            Progress::Made => self.unmade & !bits,
        };
        // All ranges have the first sheet.
        Self { sheets: self.sheets | (bits & !1), unmade, ..self }
    }

    /// Whether a sheet may have rows in the range.
    pub(crate) fn has_sheet(&self, number: u32) -> bool {
        number == 0 || self.sheets & (1 << number) != 0
    }
}

impl State {
    pub(crate) fn table(&self, id: TableId) -> Result<&TableState> {
        self.tables.get(&id).ok_or_else(|| Error::missing(format!("table {id}")))
    }

    pub(crate) fn is_taken(&self, name: &str) -> bool {
        self.tables.values().any(|table| table.schema.name == name)
    }

    /// The state after an entry, which follows the last one, or says everything.
    pub(crate) fn after(&self, version: i64, entry: &Entry) -> Result<Self> {
        let damaged = |words: &str| Error::invalid(format!("entry {version} of the schema log {words}"));
        let mut state = self.clone();
        let used_up = || damaged("has a number after which there is none");
        if self.version.checked_add(1) != Some(version) && !entry.is_whole() {
            return Err(damaged(&format!("comes after entry {}", self.version)));
        }
        state.version = version;
        for change in &entry.changes {
            match change {
                Change::Everything { next_table, next_range, tables } => {
                    state.next_table = *next_table;
                    state.next_range = *next_range;
                    state.tables = tables
                        .iter()
                        .map(|WholeTable { table, schema, ranges, sheets, unmade, leaving, added }| {
                            let schema = Arc::new(schema.clone().try_into()?);
                            let added = Arc::new(values_of(added)?);
                            let mark = |number: u32| {
                                let mut marks = leaving.iter();
                                marks.find(|(other, _)| *other == number).map(|(_, entry)| *entry)
                            };
                            let (sheets, unmade) = (bits_by_range(sheets), bits_by_range(unmade));
                            let bits = |bits: &HashMap<u32, u32>, number: u32| {
                                bits.get(&number).copied().unwrap_or_default()
                            };
                            let ranges = ranges_of(ranges, |range| RangeState {
                                sheets: bits(&sheets, range.number),
                                unmade: bits(&unmade, range.number),
                                leaving: mark(range.number),
                                ..range
                            });
                            Ok((TableId(*table), TableState { schema, ranges, altered: version, added }))
                        })
                        .collect::<Result<_>>()?;
                }
                Change::Create { table, schema } => {
                    let schema = Arc::new(schema.clone().try_into()?);
                    let next = table.checked_add(1).ok_or_else(used_up)?;
                    state.next_table = state.next_table.max(next);
                    state.tables.insert(
                        TableId(*table),
                        TableState { schema, ranges: Arc::new([]), altered: version, added: Arc::default() },
                    );
                }
                Change::Alter { table, schema, added } => {
                    let known = state.tables.get_mut(&TableId(*table));
                    let known = known.ok_or_else(|| damaged("alters a table that is not there"))?;
                    known.schema = Arc::new(schema.clone().try_into()?);
                    known.altered = version;
                    if !added.is_empty() {
                        Arc::make_mut(&mut known.added).extend(values_of(added)?);
                    }
                }
                Change::Ranges { table, ranges, unmade, leaving } => {
                    let known = state.tables.get_mut(&TableId(*table));
                    let known = known.ok_or_else(|| damaged("divides a table that is not there"))?;
                    let before: HashMap<u32, RangeState> =
                        known.ranges.iter().map(|range| (range.number, *range)).collect();
                    let unmade: HashSet<&u32> = unmade.iter().collect();
                    known.ranges = ranges_of(ranges, |range| {
                        let kept = before.get(&range.number);
                        let new = RangeState { unmade: unmade.contains(&range.number).into(), ..range };
                        let range = kept.map_or(new, |kept| RangeState { time: range.time, ..*kept });
                        let is_marked = leaving.contains(&range.number);
                        RangeState { leaving: is_marked.then_some(version).or(range.leaving), ..range }
                    });
                    for (number, ..) in ranges {
                        let next = number.checked_add(1).ok_or_else(used_up)?;
                        state.next_range = state.next_range.max(next);
                    }
                }
                Change::Sheets { table, sheets, progress } => {
                    let known = state.tables.get_mut(&TableId(*table));
                    let known = known.ok_or_else(|| damaged("widens a table that is not there"))?;
                    let bits = bits_by_range(sheets);
                    let with = |range: &RangeState| {
                        range.with_sheets(bits.get(&range.number).copied().unwrap_or_default(), *progress)
                    };
                    known.ranges = known.ranges.iter().map(with).collect();
                }
                Change::Drop { table } => drop(state.tables.remove(&TableId(*table))),
            }
        }
        Ok(state)
    }
}

fn values_of(added: &[(u32, Scalar)]) -> Result<BTreeMap<ColumnId, Value>> {
    added.iter().map(|(id, value)| Ok((ColumnId(*id), value.clone().try_into()?))).collect()
}

fn ranges_of(bounds: &[Bounds], whole: impl Fn(RangeState) -> RangeState) -> Arc<[RangeState]> {
    let range = |(number, start, end): &Bounds| whole(RangeState::new(*number, TimeRange::new(*start, *end)));
    bounds.iter().map(range).collect()
}

/// The bits of the sheets of ranges, out of pairs of ranges and sheets.
fn bits_by_range(sheets: &[(u32, u32)]) -> HashMap<u32, u32> {
    let mut bits: HashMap<u32, u32> = HashMap::new();
    for (range, sheet) in sheets {
        *bits.entry(*range).or_default() |= 1_u32.checked_shl(*sheet).unwrap_or(0);
    }
    bits
}

impl TableState {
    /// The range that holds a time, if there is one.
    pub(crate) fn range_of(&self, time_ns: i64) -> Option<RangeState> {
        let place = self.ranges.partition_point(|range| range.time.end_ns <= time_ns);
        self.ranges.get(place).copied().filter(|range| range.time.contains(time_ns))
    }

    /// A new range for a time that none holds: that of the schema's width, cut where it would overlap another, or the one that
    /// was added last before it.
    fn new_range(&self, time_ns: i64, added: Option<TimeRange>) -> TimeRange {
        let after = self.ranges.partition_point(|range| range.time.end_ns <= time_ns);
        let range = |place: usize| self.ranges.get(place).map(|range| range.time);
        let before = after.checked_sub(1).and_then(range).into_iter().chain(added);
        let before = before.max_by_key(|range| range.end_ns);
        self.schema.partition_between(before, time_ns, range(after))
    }

    /// The table's ranges with new ones for these times, which ascend; `None` if each has one.
    pub(crate) fn ranges_with(&self, times_ns: &[i64], next_number: u32) -> Result<Option<Vec<Bounds>>> {
        let mut added: Vec<TimeRange> = Vec::new();
        for time_ns in times_ns {
            let last = added.last().copied();
            if last.is_some_and(|last| last.contains(*time_ns)) || self.range_of(*time_ns).is_some() {
                continue;
            }
            if added.len() == NEW_RANGES_MAX {
                let words =
                    format!("a write that needs more than {NEW_RANGES_MAX} new shards: write less at once");
                return Err(Error::limit(format!("table {}: {words}", self.schema.shown_name())));
            }
            added.push(self.new_range(*time_ns, last));
        }
        if added.is_empty() {
            return Ok(None);
        }
        let mut ranges = self.bounds();
        ranges.extend((next_number..).zip(added).map(|(number, time)| (number, time.start_ns, time.end_ns)));
        ranges.sort_unstable_by_key(|(_, start_ns, _)| *start_ns);
        Ok(Some(ranges))
    }

    /// All that is known of the table, as the log has it.
    pub(crate) fn whole(&self, table: TableId) -> WholeTable {
        let added = self.added.iter().map(|(id, value)| (id.0, Scalar::from(value))).collect();
        let ranges = || self.ranges.iter();
        let sheets = ranges().flat_map(|range| range.sheets().map(|sheet| (range.number, sheet)));
        let unmade = ranges().flat_map(|range| {
            let numbers = (0..u32::BITS).filter(|number| range.is_unmade(*number));
            numbers.map(|number| (range.number, number))
        });
        let unmade = unmade.collect();
        let leaving = ranges().filter_map(|range| Some((range.number, range.leaving?))).collect();
        let (schema, ranges, sheets) = ((&*self.schema).into(), self.bounds(), sheets.collect());
        WholeTable { table: table.0, schema, ranges, sheets, unmade, leaving, added }
    }

    /// The table's ranges as the log has them.
    pub(crate) fn bounds(&self) -> Vec<Bounds> {
        self.ranges.iter().map(|range| (range.number, range.time.start_ns, range.time.end_ns)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_keeps_its_mark_until_it_is_removed() {
        let schema = (&TableSchema::measurement("m", 100)).into();
        let entry = |changes: Vec<Change>| Entry { changes };
        let ranges = |numbers: &[u32], leaving: &[u32]| Change::Ranges {
            table: 0,
            ranges: numbers
                .iter()
                .map(|number| (*number, i64::from(*number) * 100, i64::from(*number) * 100 + 100))
                .collect(),
            unmade: Vec::new(),
            leaving: leaving.to_vec(),
        };
        let marks = |state: &State| -> Vec<(u32, Option<i64>)> {
            let known = &state.tables[&TableId(0)];
            known.ranges.iter().map(|range| (range.number, range.leaving)).collect()
        };
        let made = vec![Change::Create { table: 0, schema }, ranges(&[0, 1], &[])];
        let state = State::default().after(1, &entry(made)).unwrap();
        let state = state.after(2, &entry(vec![ranges(&[0, 1], &[1])])).unwrap();
        let state = state.after(3, &entry(vec![ranges(&[0, 1, 2], &[])])).unwrap();
        assert_eq!(marks(&state), [(0, None), (1, Some(2)), (2, None)]);
        // An entry that says everything says this, too.
        let tables = vec![state.tables[&TableId(0)].whole(TableId(0))];
        let everything = Change::Everything { next_table: 1, next_range: 3, tables };
        let text = serde_json::to_string(&entry(vec![everything])).unwrap();
        let whole = State::default().after(9, &serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(marks(&whole), marks(&state));
        let state = state.after(4, &entry(vec![ranges(&[0, 1, 2], &[1])])).unwrap();
        assert_eq!(marks(&state)[1], (1, Some(4)), "it is marked again");
        let state = state.after(5, &entry(vec![ranges(&[0, 2], &[])])).unwrap();
        assert_eq!(marks(&state), [(0, None), (2, None)]);
        // As older versions write it.
        let old = r#"{"changes": [{"ranges": {"table": 0, "ranges": [[0, 0, 100], [5, 100, 200]]}}]}"#;
        let state = state.after(6, &serde_json::from_str(old).unwrap()).unwrap();
        assert_eq!(marks(&state), [(0, None), (5, None)]);
    }

    #[test]
    fn sheets_are_unmade_until_an_entry_says_that_they_are_there() {
        let schema = (&TableSchema::measurement("m", 100)).into();
        let after = |state: &State, change: Change| {
            state.after(state.version + 1, &Entry { changes: vec![change] }).unwrap()
        };
        let ranges = |numbers: &[u32], unmade: &[u32]| {
            let ranges = numbers.iter().map(|number| (*number, i64::from(*number), i64::from(*number) + 1));
            Change::Ranges {
                table: 0,
                ranges: ranges.collect(),
                unmade: unmade.to_vec(),
                leaving: Vec::new(),
            }
        };
        let sheets =
            |sheets: &[(u32, u32)], progress| Change::Sheets { table: 0, sheets: sheets.to_vec(), progress };
        let unmade = |state: &State| state.tables[&TableId(0)].whole(TableId(0)).unmade;
        let state = after(&State::default(), Change::Create { table: 0, schema });
        let state = after(&state, ranges(&[0], &[]));
        assert!(unmade(&state).is_empty(), "as earlier versions have made it");
        let state = after(&state, ranges(&[0, 1], &[0, 1]));
        assert_eq!(unmade(&state), [(1, 0)], "a range that is there stays as it is");
        let state = after(&state, sheets(&[(0, 2), (1, 2)], Progress::Wanted));
        assert_eq!(unmade(&state), [(0, 2), (1, 0), (1, 2)]);
        let whole = state.tables[&TableId(0)].whole(TableId(0));
        let everything = Change::Everything { next_table: 1, next_range: 2, tables: vec![whole] };
        let state = after(&state, everything);
        let state = after(&state, sheets(&[(1, 0), (0, 2)], Progress::Made));
        assert_eq!(unmade(&state), [(1, 2)]);
        let state = after(&state, sheets(&[(0, 2), (0, 3)], Progress::Wanted));
        assert_eq!(unmade(&state), [(0, 3), (1, 2)], "a sheet that is there stays");
        let ranges = &state.tables[&TableId(0)].ranges;
        assert_eq!(ranges[0].sheets().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(ranges[1].sheets().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn new_ranges_are_cut_where_others_are() {
        let schema = Arc::new(TableSchema::measurement("m", 100));
        let of = |ranges: &[(i64, i64)]| {
            let ranges: Vec<Bounds> = ranges.iter().map(|(start, end)| (0, *start, *end)).collect();
            TableState {
                schema: schema.clone(),
                ranges: ranges_of(&ranges, |range| range),
                altered: 1,
                added: Arc::default(),
            }
        };
        let width = of(&[]).new_range(150, None);
        assert!(width.contains(150));
        assert_eq!(width.end_ns - width.start_ns, 100);
        let table = of(&[(width.start_ns - 50, width.start_ns + 10), (width.end_ns - 10, width.end_ns + 70)]);
        let middle = width.start_ns + 50;
        assert_eq!(table.range_of(middle), None);
        assert_eq!(table.new_range(middle, None), TimeRange::new(width.start_ns + 10, width.end_ns - 10));
        assert_eq!(table.range_of(width.start_ns), Some(table.ranges[0]));
    }

    #[test]
    fn numbers_after_which_there_is_none_are_refused() {
        let create = |table| Change::Create { table, schema: (&TableSchema::measurement("m", 100)).into() };
        let after = |state: &State, change| state.after(state.version + 1, &Entry { changes: vec![change] });
        assert!(after(&State::default(), create(u32::MAX)).is_err());
        let state = after(&State::default(), create(u32::MAX - 1)).unwrap();
        assert_eq!(state.next_table, u32::MAX);
        let ranges = |number| Change::Ranges {
            table: u32::MAX - 1,
            ranges: vec![(number, 0, 100)],
            unmade: Vec::new(),
            leaving: Vec::new(),
        };
        assert!(after(&state, ranges(u32::MAX)).is_err());
        assert_eq!(after(&state, ranges(7)).unwrap().next_range, 8);
        let last = State { version: i64::MAX, ..state };
        assert!(last.after(i64::MIN, &Entry { changes: Vec::new() }).is_err());
    }

    #[test]
    fn many_new_ranges_are_those_that_one_by_one_would_be() {
        const WEEK: i64 = 7 * 86_400;
        let of = |ranges: &[Bounds]| TableState {
            schema: Arc::new(TableSchema::measurement("m", WEEK)),
            ranges: ranges_of(ranges, |range| range),
            altered: 1,
            added: Arc::default(),
        };
        // One that is there, of another width.
        let first = vec![(0, 10 * WEEK + 5, 12 * WEEK + 9)];
        let times: Vec<i64> = (0..NEW_RANGES_MAX as i64).map(|week| week * WEEK + week % 11).collect();
        let mut one_by_one = first.clone();
        for time_ns in &times[..200] {
            let next = one_by_one.len() as u32;
            one_by_one = of(&one_by_one).ranges_with(&[*time_ns], next).unwrap().unwrap_or(one_by_one);
        }
        assert_eq!(of(&first).ranges_with(&times[..200], 1).unwrap(), Some(one_by_one.clone()));
        assert_eq!(of(&one_by_one).ranges_with(&times[..200], 1000).unwrap(), None);
        assert!(of(&[]).ranges_with(&times, 0).is_ok());
        let more: Vec<i64> = (0..=NEW_RANGES_MAX as i64).map(|week| week * WEEK).collect();
        assert_eq!(of(&[]).ranges_with(&more, 0).unwrap_err().kind(), nyala_core::ErrorKind::Limit);
    }
}
