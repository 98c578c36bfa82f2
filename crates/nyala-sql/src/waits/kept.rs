//! What the calls of a statement have given. When it begins anew they give the same once more, in the same order.

use std::collections::HashMap;
use std::hash::Hash;

/// The most results that are kept. A statement that has had more of them cannot begin anew any more.
const KEPT_MAX: usize = 1 << 14;

/// Results by calls.
pub(super) struct Kept<C, R> {
    /// The results of each call, and how many of them were taken since the statement began anew.
    results: HashMap<C, (Vec<R>, usize)>,
    count: usize,
}

impl<C, R> Default for Kept<C, R> {
    fn default() -> Self {
        Self { results: HashMap::new(), count: 0 }
    }
}

impl<C: Eq + Hash, R: Copy> Kept<C, R> {
    /// The next result of a call, if the statement has had it before it began anew.
    pub(super) fn again(&mut self, call: &C) -> Option<R> {
        let (results, taken) = self.results.get_mut(call)?;
        let result = results.get(*taken).copied()?;
        *taken += 1;
        Some(result)
    }

    /// Keeps a result that the statement has taken.
    pub(super) fn keep(&mut self, call: C, result: R) {
        if !self.is_full() {
            self.count += 1;
            let (results, taken) = self.results.entry(call).or_default();
            results.push(result);
            *taken = results.len();
        }
    }

    /// Whether it keeps no more.
    pub(super) fn is_full(&self) -> bool {
        self.count >= KEPT_MAX
    }

    /// Forgets the results of some calls.
    pub(super) fn forget(&mut self, is_forgotten: impl Fn(&C) -> bool) {
        self.results.retain(|call, _| !is_forgotten(call));
        self.count = self.results.values().map(|(results, _)| results.len()).sum();
    }

    /// The statement begins anew.
    pub(super) fn rewind(&mut self) {
        self.results.values_mut().for_each(|(_, taken)| *taken = 0);
    }
}
