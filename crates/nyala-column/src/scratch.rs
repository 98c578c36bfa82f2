//! Buffers an encoder reuses from block to block.

use crate::bytes::Symbols;
use crate::directory::Entry;
use crate::float::Decimals;
use crate::integer::IntegerHabit;
use crate::level::Level;
use std::sync::Arc;

/// Reusable memory of one encoding thread. Bounded by the largest block encoded with it.
#[derive(Debug, Clone)]
pub struct Scratch {
    pub(crate) level: Level,
    pub(crate) block: BlockScratch,
    pub(crate) integer: IntegerScratch,
    pub(crate) float: FloatScratch,
    /// What the strings encoded last were coded by.
    pub(crate) symbols: Option<Arc<Symbols>>,
}

/// The way of a column: what its last values came to, tried first on the next ones.
#[derive(Debug, Clone, Default)]
pub struct Habit {
    integers: IntegerHabit,
    symbols: Option<Arc<Symbols>>,
}

/// A block being assembled.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockScratch {
    pub(crate) entries: Vec<Entry>,
    pub(crate) payload: Vec<u8>,
}

/// One integer vector being encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct IntegerScratch {
    pub(crate) quotients: Vec<i64>,
    pub(crate) differences: Vec<i64>,
    pub(crate) residuals: Vec<i64>,
    pub(crate) sample: Vec<i64>,
    pub(crate) packed: Vec<u64>,
    pub(crate) amounts: Vec<u64>,
    pub(crate) cut: CutScratch,
    pub(crate) distinct: Vec<u64>,
    pub(crate) trial: Vec<u8>,
    pub(crate) inner: Vec<u8>,
    pub(crate) habit: IntegerHabit,
}

/// Residuals of one width and what does not fit it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutScratch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) words: Vec<u64>,
    pub(crate) positions: Vec<u16>,
    pub(crate) amounts: Vec<u64>,
}

/// One float vector being encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct FloatScratch {
    pub(crate) integers: Vec<i64>,
    pub(crate) positions: Vec<u16>,
    pub(crate) exceptions: Vec<u64>,
    /// What fitted the vector before, which mostly fits the next.
    pub(crate) decimals: Option<Decimals>,
}

impl Scratch {
    /// Empty buffers, best instruction set.
    pub fn new() -> Self {
        Self::with_level(Level::best())
    }

    /// Empty buffers, encoding at a given level: the bytes written do not depend on it.
    pub fn with_level(level: Level) -> Self {
        Self {
            level,
            block: Default::default(),
            integer: Default::default(),
            float: Default::default(),
            symbols: None,
        }
    }

    /// Exchanges what is remembered of the column encoded last. Whoever encodes several columns in turn keeps
    /// a habit for each.
    pub fn swap_habit(&mut self, habit: &mut Habit) {
        std::mem::swap(&mut self.integer.habit, &mut habit.integers);
        std::mem::swap(&mut self.symbols, &mut habit.symbols);
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
