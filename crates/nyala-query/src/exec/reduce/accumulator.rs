//! What a function keeps of each window while rows arrive, if that is more than two values.

use super::best::Best;
use super::chunked_vec::ChunkedVec;
use super::datum::Datum;
use super::kept::{Bare, Item, Kept, Timed, by_value};
use super::statistics::{median, percentile, stddev};
use super::{Reduced, Shown};
use crate::plan::Function;
use hashbrown::HashMap;
use nyala_exec::aggregate::{Reduction, RowId};

/// What is kept, by slot of the window.
pub enum WindowAccumulator<T: Datum> {
    Bare(Vec<ChunkedVec<Bare<T>>>),
    Timed(Vec<ChunkedVec<Timed<T>>>),
    Items(Vec<ChunkedVec<Item<T>>>),
    /// Each distinct value with its earliest time, or its latest if times fall.
    Distinct(bool, Vec<HashMap<T::Key, Item<T>>>),
    Best(Best<T>),
}

fn slot_of<S: Default>(slots: &mut Vec<S>, slot: usize) -> &mut S {
    if slots.len() <= slot {
        slots.resize_with(slot + 1, S::default);
    }
    &mut slots[slot]
}

impl<T: Datum> WindowAccumulator<T> {
    pub fn new(function: Function, ascending: bool, shown: Shown) -> Self {
        use Function::{CountDistinct, Distinct, Mode, Percentile};
        if let Some(best) = Best::of(function, ascending) {
            return WindowAccumulator::Best(best);
        }
        match function {
            Distinct | CountDistinct => WindowAccumulator::Distinct(ascending, Vec::new()),
            Mode => WindowAccumulator::Timed(Vec::new()),
            Percentile(_) => match shown {
                Shown::Values => WindowAccumulator::Bare(Vec::new()),
                Shown::Times => WindowAccumulator::Timed(Vec::new()),
                Shown::Rows => WindowAccumulator::Items(Vec::new()),
            },
            // Medians and deviations; the store's accumulators do the others.
            _ => WindowAccumulator::Bare(Vec::new()),
        }
    }

    /// Adds a row to a window. Returns by how many bytes memory grows.
    pub fn add(&mut self, slot: usize, tags: Option<u32>, item: Item<T>) -> usize {
        match self {
            WindowAccumulator::Best(best) => return best.add(slot, tags, item),
            WindowAccumulator::Bare(kept) => return keep(kept, slot, item),
            WindowAccumulator::Timed(kept) => return keep(kept, slot, item),
            WindowAccumulator::Items(kept) => return keep(kept, slot, item),
            WindowAccumulator::Distinct(ascending, distinct) => {
                let seen = slot_of(distinct, slot);
                match seen.get_mut(&item.value.key()) {
                    Some(old)
                        if item.time_ns != old.time_ns && (item.time_ns < old.time_ns) == *ascending =>
                    {
                        *old = item
                    }
                    Some(_) => {}
                    None => {
                        let bytes = 2 * item.value.heap_bytes() + size_of::<(T::Key, Item<T>)>() + 16;
                        seen.insert(item.value.key(), item);
                        return bytes;
                    }
                }
            }
        }
        0
    }

    /// Visits the rows that can still be selected.
    pub fn visit_rows(&mut self, visit: &mut dyn FnMut(&mut RowId)) {
        match self {
            WindowAccumulator::Items(kept) => {
                kept.iter_mut().flat_map(ChunkedVec::iter_mut).for_each(|item| visit(&mut item.row));
            }
            WindowAccumulator::Distinct(_, seen) => {
                seen.iter_mut().flat_map(HashMap::values_mut).for_each(|item| visit(&mut item.row));
            }
            WindowAccumulator::Best(best) => best.visit_rows(visit),
            WindowAccumulator::Bare(_) | WindowAccumulator::Timed(_) => {}
        }
    }

    /// The reduced windows.
    pub fn finish(self, function: Function, order: &[(u32, u32)]) -> (Reduction, Vec<RowId>) {
        match self {
            WindowAccumulator::Best(best) => collect(best.finish(order)),
            WindowAccumulator::Bare(kept) => finish_kept(kept, function, order),
            WindowAccumulator::Timed(kept) => finish_kept(kept, function, order),
            WindowAccumulator::Items(kept) => finish_kept(kept, function, order),
            WindowAccumulator::Distinct(ascending, distinct) => {
                let distinct = in_order(distinct, order).filter(|(_, seen)| !seen.is_empty());
                match function {
                    Function::CountDistinct => {
                        collect(distinct.map(|(window, seen)| plain(window, Some(seen.len() as i64))))
                    }
                    _ => collect(distinct.flat_map(|(window, seen)| {
                        let mut items: Vec<Item<T>> = seen.into_values().collect();
                        // If times fall, the items are read from the end, but those of one time still from the smallest.
                        let at_once = |a: &Item<T>, b: &Item<T>| match ascending {
                            true => by_value(a, b),
                            false => by_value(b, a),
                        };
                        items.sort_by(|a, b| a.time_ns.cmp(&b.time_ns).then(at_once(a, b)));
                        items.into_iter().map(move |item| selected(window, item))
                    })),
                }
            }
        }
    }
}

/// Keeps a row of a window. Returns how many bytes it takes.
fn keep<T: Datum, K: Kept<T>>(kept: &mut Vec<ChunkedVec<K>>, slot: usize, item: Item<T>) -> usize {
    let bytes = size_of::<K>() + item.value.heap_bytes();
    slot_of(kept, slot).push(K::of(item));
    bytes
}

fn finish_kept<T: Datum, K: Kept<T>>(
    kept: Vec<ChunkedVec<K>>,
    function: Function,
    order: &[(u32, u32)],
) -> (Reduction, Vec<RowId>) {
    let kept = in_order(kept, order)
        .filter(|(_, kept)| !kept.is_empty())
        .map(|(window, kept)| (window, kept.into_vec()));
    match function {
        Function::Median => collect(kept.map(|(window, kept)| plain(window, Some(median(kept))))),
        Function::Stddev => collect(kept.map(|(window, kept)| plain(window, Some(stddev(&kept))))),
        Function::Percentile(percentage) => {
            collect(kept.filter_map(|(window, kept)| Some(selected(window, percentile(kept, percentage)?))))
        }
        _ => collect(kept.map(|(window, kept)| plain(window, Some(T::mode(kept))))),
    }
}

/// What is kept, in the order of the windows. Slots past the end have nothing.
fn in_order<S: Default>(mut slots: Vec<S>, order: &[(u32, u32)]) -> impl Iterator<Item = (u32, S)> {
    order.iter().filter_map(move |(window, slot)| {
        let kept = slots.get_mut(*slot as usize)?;
        Some((*window, std::mem::take(kept)))
    })
}

fn plain<T>(window: u32, value: Option<T>) -> Reduced<T> {
    Reduced { window, value, time_ns: 0, row: (0, 0) }
}

fn selected<T>(window: u32, item: Item<T>) -> Reduced<T> {
    Reduced { window, value: Some(item.value), time_ns: item.time_ns, row: item.row }
}

/// Reduced windows as columns.
pub fn collect<T: Datum>(reduced: impl Iterator<Item = Reduced<T>>) -> (Reduction, Vec<RowId>) {
    let (mut windows, mut values, mut times_ns, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for reduced in reduced {
        windows.push(reduced.window);
        values.push(reduced.value);
        times_ns.push(reduced.time_ns);
        rows.push(reduced.row);
    }
    (Reduction { windows, values: T::column(values), times_ns }, rows)
}
