//! Plans that are used again.
//!
//! Clients send the same statement again and again with other literals. [`shape`] is a statement without its literals,
//! [`literals`] says which of them can become parameters, [`cache`] keeps the plans by shape, and [`known`] is such a plan:
//! if possible a physical plan, which only has to be executed.

mod cache;
mod known;
mod literals;
mod shape;

pub use cache::PlanCache;
pub(crate) use known::{KnownPlan, Reused, find, make};
pub(crate) use shape::Shape;
