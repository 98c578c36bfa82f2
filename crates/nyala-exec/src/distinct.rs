//! A list of distinct items that are found by value.

use std::collections::HashMap;
use std::hash::Hash;

/// Up to this many items are compared with each other instead of being hashed.
pub const FEW: usize = 16;

/// Items in the order they were added, each once.
#[derive(Debug, Clone)]
pub struct Distinct<T> {
    list: Vec<T>,
    /// Their positions, once there are more than a few.
    positions: HashMap<T, usize>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { list: Vec::new(), positions: HashMap::new() }
    }
}

impl<T: Eq + Hash + Clone> Distinct<T> {
    /// The position of an item, which is added at the end if it is new.
    pub fn position(&mut self, item: T) -> usize {
        if self.list.len() < FEW {
            return self.list.iter().position(|other| *other == item).unwrap_or_else(|| {
                self.list.push(item);
                self.list.len() - 1
            });
        }
        if self.positions.is_empty() {
            self.positions = self.list.iter().cloned().zip(0..).collect();
        }
        *self.positions.entry(item).or_insert_with_key(|item| {
            self.list.push(item.clone());
            self.list.len() - 1
        })
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them.
    pub fn into_list(self) -> Vec<T> {
        self.list
    }
}
