//! Plans that are used again.
//!
//! Clients send the same statement again and again with other literals. [`crate::shape`] is a statement without its
//! literals, [`literals`] says which of them can become parameters, [`cache`] keeps the plans by shape, and [`known`] is such a plan:
//! if possible a physical plan, which only has to be executed. [`renewed`] makes it as if it were new.

mod cache;
mod checks;
mod known;
mod literals;
mod renewed;

pub(crate) use cache::Found;
pub use cache::PlanCache;
pub(crate) use checks::{calls_stable_function, check_only_reads};
pub(crate) use known::{KnownPlan, KnownTable, Reused, measurements_of, tables_of};
pub(crate) use literals::parameterized;
pub(crate) use renewed::renewed;
