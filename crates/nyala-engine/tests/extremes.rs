//! Least and greatest values of many series: series that cannot change them by their index are not read, and the answer
//! is that of all rows.

mod support;

use nyala_core::store::aggregate::SelectedValues;
use nyala_core::store::{AggregateFunction, AggregateRequest, Measure, PartialAggregate, Store, Windows};
use nyala_core::{ColumnId, Result, SeriesId, TimeRange};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, block_on};
use support::{create, options, points, rows};

const SERIES: u32 = 40;

/// A row: series, time, value.
type Row = (u32, i64, Option<i64>);

/// The extreme of each group in each window.
fn found(engine: &Engine, request: AggregateRequest) -> Result<Vec<Option<i64>>> {
    let states = block_on(engine.latest().aggregate(request))?;
    let PartialAggregate::Selected(selected) = &states.measures[0] else { panic!("a selecting function") };
    let SelectedValues::Int(values) = &selected.values else { panic!("integers") };
    Ok(selected.series.iter().zip(values).map(|(series, value)| series.map(|_| *value)).collect())
}

fn expected(all: &[Row], request: &AggregateRequest) -> Vec<Option<i64>> {
    let mut extremes = vec![None; request.slots()];
    for (series, time_ns, value) in all {
        let Some(window) = request.windows.index_of(*time_ns) else { continue };
        let Some((_, group)) = request.series.iter().find(|(id, _)| id.0 == *series) else { continue };
        let slot: &mut Option<i64> = &mut extremes[*group as usize * request.windows.count() + window];
        *slot = match request.measures[0].function {
            AggregateFunction::Min => [*slot, *value].into_iter().flatten().min(),
            _ => (*slot).max(*value),
        };
    }
    extremes
}

#[test]
fn extremes_are_those_of_all_rows() -> Result<()> {
    for seed in 1..6_u64 {
        let engine = Engine::open(options(&SimulatedFs::new()))?;
        let table = create(&engine)?;
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        for _ in 0..4 {
            let mut written: Vec<Row> = Vec::new();
            for series in 0..SERIES {
                // Each has values of its own, and many come near the greatest.
                let least = random(40) as i64 * 5 - 400;
                for _ in 0..20 {
                    let value = (random(12) > 0).then(|| least + random(60) as i64);
                    written.push((series, random(1000) as i64, value));
                }
            }
            written.sort_by_key(|row| (row.0, row.1));
            written.dedup_by_key(|row| (row.0, row.1));
            block_on(engine.write(points(table, &written)))?;
            engine.flush()?;
            if random(2) == 0 {
                engine.compact()?;
            }
            let all = rows(&engine, table)?;
            for (function, windows, groups) in [
                (AggregateFunction::Max, 5, 1),
                (AggregateFunction::Min, 5, 1),
                (AggregateFunction::Max, 1, 3),
                (AggregateFunction::Min, 40, 2),
                (AggregateFunction::Max, 200, 1),
            ] {
                let request = AggregateRequest {
                    table,
                    series: (0..SERIES).map(|id| (SeriesId(id), id % groups)).collect(),
                    groups: groups as usize,
                    time: TimeRange::ALL,
                    windows: Windows::Regular {
                        start_ns: 300,
                        width_ns: 400 / windows as i64,
                        count: windows,
                    },
                    predicates: Vec::new(),
                    measures: vec![Measure { column: ColumnId(2), function }],
                    times: false,
                };
                assert_eq!(
                    found(&engine, request.clone())?,
                    expected(&all, &request),
                    "seed {seed}: {function:?} in {windows} windows of {groups} groups"
                );
            }
        }
    }
    Ok(())
}
