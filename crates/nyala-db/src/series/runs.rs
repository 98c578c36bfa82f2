//! Short arrays (runs) by numbers that are given out in order and never reused: the tags of series as numbers, the texts
//! of tag values. Removing a run frees its memory.
//!
//! Numbers are divided into pages of 1024. A page knows which of its numbers exist, and stores their runs one after the
//! other without gaps: the index of a run is the number of existing runs before it. So a page takes what its runs take,
//! however few are left, and an empty page is freed. All that remains for ever is a pointer, 8 bytes per 1024 numbers.
//! Removing rebuilds the page: at most 1024 runs are copied, once for all numbers that are removed together.

/// Numbers in a page: few enough that rebuilding a page stalls nobody, many enough that its own 250 bytes do not
/// matter.
const PAGE_NUMBERS: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 10;
const BITMAP_WORDS: usize = PAGE_NUMBERS / 64;

/// Runs of elements, each with an item.
pub(crate) struct Runs<E, T = ()> {
    pages: Vec<Option<Box<Page<E, T>>>>,
    /// The number above all that were ever given out.
    pub(crate) next: u32,
    /// Bytes of all pages.
    page_bytes: usize,
}

struct Page<E, T> {
    /// Which numbers exist; `None`: all from 0 on, without gaps.
    with_holes: Option<Box<Present>>,
    /// The end of each run.
    ends: Vec<u32>,
    elements: Vec<E>,
    items: Vec<T>,
}

/// Which numbers of a page exist.
struct Present {
    bits: [u64; BITMAP_WORDS],
    /// How many exist before each word of the bitmap.
    ranks: [u16; BITMAP_WORDS],
}

impl<E, T> Default for Runs<E, T> {
    fn default() -> Self {
        Self { pages: Vec::new(), next: 0, page_bytes: 0 }
    }
}

impl<E: Copy, T> Runs<E, T> {
    /// Makes sure that numbers below `number` are not given out.
    pub(crate) fn reserve(&mut self, number: u32) {
        self.next = self.next.max(number);
    }

    /// Adds a run under a number that does not exist.
    pub(crate) fn insert(&mut self, number: u32, run: &[E], item: T) {
        self.reserve(
            number.checked_add(1).expect("a measurement never has 2^32 - 1 series or values of a tag"),
        );
        let (at, slot) = split(number);
        if self.pages.len() <= at {
            self.pages.resize_with(at + 1, || None);
        }
        // Insertions have moved on to the next page, so the one before gives back its spare capacity.
        if self.pages[at].is_none()
            && let Some(full) = at.checked_sub(1).and_then(|at| self.pages[at].as_mut())
        {
            let before = full.memory_bytes();
            full.shrink();
            self.page_bytes = self.page_bytes + full.memory_bytes() - before;
        }
        let page = self.pages[at].get_or_insert_default();
        let before = if page.ends.is_empty() { 0 } else { page.memory_bytes() };
        page.insert(slot, run, item);
        self.page_bytes = self.page_bytes + page.memory_bytes() - before;
    }

    /// The run of a number, if it exists.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&[E]> {
        let (page, place) = self.find(number)?;
        Some(page.run(place))
    }

    /// The item of a number, if it exists.
    pub(crate) fn item(&self, number: u32) -> Option<&T> {
        let (page, place) = self.find(number)?;
        page.items.get(place)
    }

    /// The item of a number, if it exists.
    pub(crate) fn item_mut(&mut self, number: u32) -> Option<&mut T> {
        let (at, slot) = split(number);
        let page = self.pages.get_mut(at)?.as_deref_mut()?;
        let place = page.place(slot)?;
        page.items.get_mut(place)
    }

    /// All numbers, runs and items, in order of numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[E], &T)> {
        self.pages.iter().enumerate().filter_map(|(at, page)| Some((at, page.as_deref()?))).flat_map(
            |(at, page)| {
                page.slots().zip(&page.items).enumerate().map(move |(place, (slot, item))| {
                    (((at << PAGE_BITS) + slot) as u32, page.run(place), item)
                })
            },
        )
    }

    /// Removes numbers, given in ascending order.
    pub(crate) fn remove_all(&mut self, numbers: impl IntoIterator<Item = u32>) {
        let mut numbers = numbers.into_iter().map(split).peekable();
        while let Some((at, _)) = numbers.peek().copied() {
            let mut gone = [0; BITMAP_WORDS];
            while let Some((_, slot)) = numbers.next_if(|(other, _)| *other == at) {
                gone[slot / 64] |= 1 << (slot % 64);
            }
            let Some(place) = self.pages.get_mut(at) else { continue };
            let Some(page) = place else { continue };
            self.page_bytes -= page.memory_bytes();
            page.remove_all(&gone);
            if page.ends.is_empty() {
                *place = None;
            } else {
                self.page_bytes += page.memory_bytes();
            }
        }
        while self.pages.last().is_some_and(Option::is_none) {
            self.pages.pop();
        }
        self.pages.shrink_to(self.pages.len() * 2);
    }

    /// The memory without what items hold elsewhere, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Option<Box<Page<E, T>>>>() + self.page_bytes
    }

    #[inline]
    fn find(&self, number: u32) -> Option<(&Page<E, T>, usize)> {
        let (at, slot) = split(number);
        let page = self.pages.get(at)?.as_deref()?;
        Some((page, page.place(slot)?))
    }
}

impl<E, T> Default for Page<E, T> {
    fn default() -> Self {
        Self { with_holes: None, ends: Vec::new(), elements: Vec::new(), items: Vec::new() }
    }
}

impl Present {
    /// These numbers, given in ascending order.
    fn of(slots: impl Iterator<Item = usize>) -> Box<Self> {
        let mut present = Box::new(Self { bits: [0; BITMAP_WORDS], ranks: [0; BITMAP_WORDS] });
        slots.for_each(|slot| present.bits[slot / 64] |= 1 << (slot % 64));
        let mut before = 0;
        for (rank, bits) in present.ranks.iter_mut().zip(&present.bits) {
            *rank = before;
            before += bits.count_ones() as u16;
        }
        present
    }

    #[inline]
    fn contains(&self, slot: usize) -> bool {
        self.bits[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// How many exist before a number.
    #[inline]
    fn rank(&self, slot: usize) -> usize {
        let below = self.bits[slot / 64] & ((1 << (slot % 64)) - 1);
        usize::from(self.ranks[slot / 64]) + below.count_ones() as usize
    }

    fn add(&mut self, slot: usize) {
        self.bits[slot / 64] |= 1 << (slot % 64);
        self.ranks[slot / 64 + 1..].iter_mut().for_each(|rank| *rank += 1);
    }
}

impl<E: Copy, T> Page<E, T> {
    /// The numbers that exist.
    fn slots(&self) -> impl Iterator<Item = usize> {
        let end = if self.with_holes.is_some() { PAGE_NUMBERS } else { self.ends.len() };
        (0..end).filter(|slot| self.with_holes.as_ref().is_none_or(|present| present.contains(*slot)))
    }

    /// The index of a number, if it exists.
    #[inline]
    fn place(&self, slot: usize) -> Option<usize> {
        match &self.with_holes {
            None => (slot < self.ends.len()).then_some(slot),
            Some(present) => present.contains(slot).then(|| present.rank(slot)),
        }
    }

    #[inline]
    fn run(&self, place: usize) -> &[E] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        &self.elements[start..self.ends[place] as usize]
    }

    fn insert(&mut self, slot: usize, run: &[E], item: T) {
        assert!(self.place(slot).is_none(), "numbers are given out once");
        let count = self.ends.len();
        if self.with_holes.is_none() && slot > count {
            self.with_holes = Some(Present::of(0..count));
        }
        let place = self.with_holes.as_mut().map_or(slot, |present| {
            present.add(slot);
            present.rank(slot)
        });
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        if start == self.elements.len() {
            self.elements.extend_from_slice(run);
        } else {
            self.elements.splice(start..start, run.iter().copied());
        }
        let length = u32::try_from(run.len()).expect("a run is part of a line");
        self.ends.insert(place, start as u32 + length);
        self.ends[place + 1..].iter_mut().for_each(|end| *end += length);
        self.items.insert(place, item);
    }

    fn remove_all(&mut self, gone: &[u64; BITMAP_WORDS]) {
        let old = std::mem::take(self);
        let is_kept = |slot: usize| gone[slot / 64] >> (slot % 64) & 1 == 0;
        let slots: Vec<usize> = old.slots().collect();
        // The runs to keep, with their old indexes.
        let left = || slots.iter().enumerate().filter(|(_, slot)| is_kept(**slot));
        let count = left().count();
        self.ends.reserve_exact(count);
        self.items.reserve_exact(count);
        self.elements.reserve_exact(left().map(|(place, _)| old.run(place).len()).sum());
        for (place, _) in left() {
            self.elements.extend_from_slice(old.run(place));
            self.ends.push(self.elements.len() as u32);
        }
        if left().next_back().is_some_and(|(_, slot)| *slot >= count) {
            self.with_holes = Some(Present::of(left().map(|(_, slot)| *slot)));
        }
        let items = old.items.into_iter().zip(&slots).filter(|(_, slot)| is_kept(**slot));
        self.items.extend(items.map(|(item, _)| item));
    }

    fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        self.elements.shrink_to_fit();
        self.items.shrink_to_fit();
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.with_holes.as_ref().map_or(0, |_| size_of::<Present>())
            + self.ends.capacity() * size_of::<u32>()
            + self.elements.capacity() * size_of::<E>()
            + self.items.capacity() * size_of::<T>()
    }
}

/// The page of a number, and its slot in the page.
#[inline]
fn split(number: u32) -> (usize, usize) {
    ((number >> PAGE_BITS) as usize, number as usize % PAGE_NUMBERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Runs equal what a map holds, whatever is added and removed.
        #[test]
        fn runs_equal_a_map(steps in prop::collection::vec((0_u32..5000, 0_usize..6, any::<bool>()), 1..60)) {
            let (mut runs, mut map) = (Runs::<u8, u32>::default(), BTreeMap::new());
            let mut next = 0;
            for (number, length, grows) in steps {
                if grows {
                    for number in number..number + 200 {
                        if let Entry::Vacant(place) = map.entry(number) {
                            let run = vec![number as u8; length];
                            runs.insert(number, &run, number);
                            place.insert(run);
                            next = next.max(number + 1);
                        }
                    }
                } else {
                    let gone: Vec<u32> = (number..number + 1500).filter(|number| number % 7 < length as u32).collect();
                    runs.remove_all(gone.iter().copied());
                    gone.iter().for_each(|number| drop(map.remove(number)));
                }
                prop_assert_eq!(runs.next, next);
                prop_assert!(runs.iter().map(|(number, run, item)| (number, run.to_vec(), *item)).eq(
                    map.iter().map(|(number, run)| (*number, run.clone(), *number))
                ));
                for number in (0..6600).step_by(3) {
                    prop_assert_eq!(runs.get(number), map.get(&number).map(Vec::as_slice));
                    prop_assert_eq!(runs.item(number).copied(), map.get(&number).map(|_| number));
                }
                let bytes: usize = runs.pages.iter().flatten().map(|page| page.memory_bytes()).sum();
                prop_assert_eq!(runs.page_bytes, bytes);
            }
            runs.remove_all(0..7000);
            prop_assert_eq!((runs.memory_bytes(), runs.next), (0, next));
        }
    }
}
