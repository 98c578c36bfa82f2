//! Plans by the shapes of their statements.
//!
//! An entry is found in two steps: the shape says which literals are parameters, and the shape with the other literals says
//! which plan it is. The least recently used entries make room for new ones.

use super::known::KnownPlan;
use crate::shape::Shape;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most entries.
const ENTRIES_MAX: usize = 512;
/// About the most memory of all entries.
const BYTES_MAX: usize = 16 << 20;

/// After so many uses plans of dropped measurements are looked for.
const SWEEP_EVERY: u64 = 256;

/// Plans by the shapes of their statements, for all sessions.
#[derive(Default)]
pub struct PlanCache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<String, (Entry, u64)>,
    bytes: usize,
    /// Counts uses.
    now: u64,
}

/// What is known of a key.
#[derive(Clone)]
enum Entry {
    /// By literal of a shape, whether it is a parameter.
    Mask(Arc<[bool]>),
    /// A plan.
    Plan(Arc<KnownPlan>),
    /// Statements like this one are planned each time.
    Never,
}

/// What the cache says of a statement.
pub(crate) enum Found {
    Plan(Arc<KnownPlan>),
    Never,
    Unknown,
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Entry::Mask(mask) => mask.len(),
            Entry::Plan(plan) => plan.bytes,
            Entry::Never => 0,
        }
    }
}

impl PlanCache {
    /// What is known of a statement in a context, which says what names and settings mean.
    pub(crate) fn find(&self, context: &str, shape: &Shape) -> Found {
        let mut entries = self.entries();
        let key = key_of(context, shape);
        let mask = match entries.get(&key) {
            Some(Entry::Mask(mask)) => mask,
            Some(Entry::Never) => return Found::Never,
            _ => return Found::Unknown,
        };
        match entries.get(&with_literals(key, shape, |number| !mask[number])) {
            Some(Entry::Plan(plan)) => Found::Plan(plan),
            Some(Entry::Never) => Found::Never,
            _ => Found::Unknown,
        }
    }

    /// Keeps a plan in which the literals with these numbers are parameters.
    pub(crate) fn insert(&self, context: &str, shape: &Shape, plan: Arc<KnownPlan>) {
        let mut entries = self.entries();
        let key = key_of(context, shape);
        let is_parameter = |number: usize| plan.literals.iter().any(|(own, _)| *own == number);
        let mask = (0..shape.literals.len()).map(is_parameter).collect();
        let whole = with_literals(key.clone(), shape, |number| !is_parameter(number));
        entries.insert(key, Entry::Mask(mask));
        entries.insert(whole, Entry::Plan(plan));
    }

    /// Notes that statements of this shape are planned each time.
    pub(crate) fn insert_never(&self, context: &str, shape: &Shape) {
        self.entries().insert(key_of(context, shape), Entry::Never);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing under this lock can panic half-way.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Forgets the plans of measurements that were dropped: they keep the series in memory.
    fn forget_dropped(&mut self) {
        let bytes = &mut self.bytes;
        self.by_key.retain(|key, (entry, _)| {
            let is_dead = matches!(entry, Entry::Plan(plan) if plan.is_dead());
            if is_dead {
                *bytes -= key.len() + entry.bytes();
            }
            !is_dead
        });
    }

    fn get(&mut self, key: &str) -> Option<Entry> {
        self.now += 1;
        if self.now.is_multiple_of(SWEEP_EVERY) {
            self.forget_dropped();
        }
        let (entry, used) = self.by_key.get_mut(key)?;
        *used = self.now;
        Some(entry.clone())
    }

    fn insert(&mut self, key: String, entry: Entry) {
        self.now += 1;
        self.forget_dropped();
        self.bytes += key.len() + entry.bytes();
        let length = key.len();
        if let Some((old, _)) = self.by_key.insert(key, (entry, self.now)) {
            self.bytes -= length + old.bytes();
        }
        while self.by_key.len() > ENTRIES_MAX || self.bytes > BYTES_MAX && self.by_key.len() > 1 {
            let oldest = self.by_key.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(key, _)| key.clone()).expect("it is not empty");
            if let Some((old, _)) = self.by_key.remove(&oldest) {
                self.bytes -= oldest.len() + old.bytes();
            }
        }
    }
}

fn key_of(context: &str, shape: &Shape) -> String {
    let mut key = String::with_capacity(context.len() + shape.text.len() + 1);
    key.push_str(context);
    key.push('\u{3}');
    key.push_str(&shape.text);
    key
}

/// The key of a shape with some of its literals.
fn with_literals(mut key: String, shape: &Shape, is_fixed: impl Fn(usize) -> bool) -> String {
    key.push('\u{4}');
    for (number, literal) in shape.literals.iter().enumerate().filter(|(number, _)| is_fixed(*number)) {
        // A text may have any letters, so that it is written with quotes and escapes.
        let _ = write!(key, "{number}{:?}", literal.text);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded() {
        let mut entries = Entries::default();
        for number in 0..3 * ENTRIES_MAX {
            entries.insert(format!("{number}"), Entry::Mask([true].into()));
            assert!(entries.get("0").is_some(), "what is used stays");
        }
        assert_eq!(entries.by_key.len(), ENTRIES_MAX);
        let bytes = entries.by_key.iter().map(|(key, (entry, _))| key.len() + entry.bytes()).sum::<usize>();
        assert_eq!(entries.bytes, bytes);
    }
}
