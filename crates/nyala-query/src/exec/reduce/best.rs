//! The largest, the smallest or randomly chosen values of a window: `top`, `bottom`, `sample`.

use super::Reduced;
use super::datum::Datum;
use super::kept::Item;
use crate::plan::Function;
use hashbrown::HashMap;
use nyala_exec::aggregate::RowId;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What is kept of the windows of a call.
pub struct Best<T> {
    choice: Choice,
    ascending: bool,
    windows: Vec<Window<T>>,
}

#[derive(Clone, Copy)]
enum Choice {
    Top(usize),
    Bottom(usize),
    /// Random rows: how many, and the state of a random number generator.
    Sample(usize, u64),
}

/// What is kept of a window.
enum Window<T> {
    Nothing,
    /// The best rows so far, the worst of them on top.
    Ranked(BinaryHeap<Ranked<T>>),
    /// The best row of each tag set; the best of these are chosen at the end.
    PerTagSet(HashMap<u32, Item<T>>),
    /// Random rows, and from how many they were chosen.
    Sampled(Vec<Item<T>>, usize),
}

/// A row ordered by its rank: a higher rank is worse.
struct Ranked<T> {
    item: Item<T>,
    is_top: bool,
}

/// The better of two rows ranks lower; of equal values the earlier row.
fn rank<T: PartialOrd>(is_top: bool, a: &Item<T>, b: &Item<T>) -> Ordering {
    let values = a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal);
    let values = if is_top { values.reverse() } else { values };
    values.then(a.time_ns.cmp(&b.time_ns))
}

impl<T: PartialOrd> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: PartialOrd> Eq for Ranked<T> {}

impl<T: PartialOrd> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: PartialOrd> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        rank(self.is_top, &self.item, &other.item)
    }
}

impl<T: Datum> Best<T> {
    /// For one of these functions; `None` for others. `ascending`: whether times of the answer rise.
    pub fn of(function: Function, ascending: bool) -> Option<Self> {
        let choice = match function {
            Function::Top(count) => Choice::Top(count),
            Function::Bottom(count) => Choice::Bottom(count),
            // A generator must not begin with zero.
            Function::Sample { count, seed } => Choice::Sample(count, seed | 1),
            _ => return None,
        };
        Some(Self { choice, ascending, windows: Vec::new() })
    }

    /// Adds a row to a window. Returns by how many bytes memory grows. `tags`: the number of its tag set, if the function
    /// distinguishes these.
    pub fn add(&mut self, slot: usize, tags: Option<u32>, item: Item<T>) -> usize {
        if self.windows.len() <= slot {
            self.windows.resize_with(slot + 1, || Window::Nothing);
        }
        let bytes = 2 * size_of::<Item<T>>() + item.value.heap_bytes();
        let window = &mut self.windows[slot];
        let (is_top, count) = match &mut self.choice {
            Choice::Top(count) => (true, *count),
            Choice::Bottom(count) => (false, *count),
            Choice::Sample(count, random) => return sample(window, *count, random, item) * bytes,
        };
        if let Window::Nothing = window {
            *window = match tags {
                Some(_) => Window::PerTagSet(HashMap::new()),
                None => Window::Ranked(BinaryHeap::new()),
            };
        }
        match window {
            Window::Ranked(heap) if heap.len() < count => heap.push(Ranked { item, is_top }),
            Window::Ranked(heap) => {
                if let Some(mut worst) = heap.peek_mut()
                    && rank(is_top, &item, &worst.item) == Ordering::Less
                {
                    worst.item = item;
                }
                return 0;
            }
            Window::PerTagSet(best) => {
                let tags = tags.unwrap_or(0);
                match best.get_mut(&tags) {
                    Some(old) => {
                        if rank(is_top, &item, old) == Ordering::Less {
                            *old = item;
                        }
                        return 0;
                    }
                    None => drop(best.insert(tags, item)),
                }
            }
            Window::Nothing | Window::Sampled(..) => return 0,
        }
        bytes
    }

    /// Visits the rows that can still be selected.
    pub fn visit_rows(&mut self, visit: &mut dyn FnMut(&mut RowId)) {
        for window in &mut self.windows {
            match window {
                Window::Nothing => {}
                Window::Ranked(heap) => {
                    let mut ranked = std::mem::take(heap).into_vec();
                    ranked.iter_mut().for_each(|ranked| visit(&mut ranked.item.row));
                    *heap = ranked.into();
                }
                Window::PerTagSet(best) => best.values_mut().for_each(|item| visit(&mut item.row)),
                Window::Sampled(items, _) => items.iter_mut().for_each(|item| visit(&mut item.row)),
            }
        }
    }

    /// The rows selected, by window in the order of the slots, then by time.
    pub fn finish(mut self, order: &[(u32, u32)]) -> impl Iterator<Item = Reduced<T>> {
        let (choice, ascending) = (self.choice, self.ascending);
        let windows = order.iter().filter_map(move |(window, slot)| {
            let kept = self.windows.get_mut(*slot as usize)?;
            Some((*window, std::mem::replace(kept, Window::Nothing)))
        });
        windows.flat_map(move |(window, kept)| {
            selected(kept, choice, ascending).into_iter().map(move |item| Reduced {
                window,
                value: Some(item.value),
                time_ns: item.time_ns,
                row: item.row,
            })
        })
    }
}

/// Keeps a row by chance. Returns how many more rows are kept then.
fn sample<T>(window: &mut Window<T>, count: usize, random: &mut u64, item: Item<T>) -> usize {
    if let Window::Nothing = window {
        *window = Window::Sampled(Vec::new(), 0);
    }
    let Window::Sampled(items, seen) = window else { return 0 };
    *seen += 1;
    if items.len() < count {
        items.push(item);
        return 1;
    }
    // Marsaglia's xorshift: each row is kept with the same probability.
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let position = (*random % *seen as u64) as usize;
    if position < items.len() {
        items[position] = item;
    }
    0
}

/// The rows that are shown of a window, in order of time. Of rows at one time the best is first in the answer.
fn selected<T: Datum>(kept: Window<T>, choice: Choice, ascending: bool) -> Vec<Item<T>> {
    let is_top = matches!(choice, Choice::Top(_));
    let mut items = match (kept, choice) {
        (Window::Nothing, _) => Vec::new(),
        (Window::Ranked(heap), _) => heap.into_vec().into_iter().map(|ranked| ranked.item).collect(),
        (Window::PerTagSet(best), Choice::Top(count) | Choice::Bottom(count)) => {
            // By number, so that the first of equal rows is always the same.
            let mut by_tags: Vec<(u32, Item<T>)> = best.into_iter().collect();
            by_tags.sort_unstable_by_key(|(tags, _)| *tags);
            let mut items: Vec<Item<T>> = by_tags.into_iter().map(|(_, item)| item).collect();
            items.sort_by(|a, b| rank(is_top, a, b));
            items.truncate(count);
            items
        }
        (Window::PerTagSet(_), Choice::Sample(..)) => Vec::new(),
        (Window::Sampled(items, _), _) => items,
    };
    let at_once = |a: &Item<T>, b: &Item<T>| match (choice, ascending) {
        (Choice::Sample(..), _) => a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal),
        (_, true) => rank(is_top, a, b),
        (_, false) => rank(is_top, b, a),
    };
    items.sort_by(|a, b| a.time_ns.cmp(&b.time_ns).then_with(|| at_once(a, b)));
    items
}
