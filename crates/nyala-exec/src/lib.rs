//! What every query language executes with, over nyala-db.
//!
//! A query has its surroundings ([`surroundings`]) and a share of memory ([`memory`]), is listed and stopped
//! ([`running`]), and gives frames of columns ([`frame`], [`column`], [`tag`], [`group_tags`]), those of a heavy one ahead
//! of their writing ([`frames`]). Its expressions are evaluated over columns ([`expression`], [`elementary`]); time is
//! bounded by [`time_bounds`] and divided by [`window`] and [`zone`]; what the rows of a window have in common is computed
//! by the store, or of rows as they come ([`aggregate`]).
//!
//! Nothing here knows how a query was written down, how an answer is sent, or which store it is from. Where languages
//! differ in a rule, the rule is named and the language says which it follows.

pub mod aggregate;
pub mod column;
pub mod elementary;
pub mod expression;
pub mod frame;
pub mod frames;
pub mod group_series;
pub mod group_tags;
pub mod memory;
pub mod running;
pub mod surroundings;
pub mod tag;
pub mod time_bounds;
pub mod value_type;
pub mod window;
pub mod zone;

pub use column::{Column, Scalar};
pub use frame::{Chunks, Frame, Sheet};
pub use frames::{FrameStream, Frames};
pub use group_series::GroupSeries;
pub use group_tags::GroupTags;
pub use memory::QueryMemory;
pub use surroundings::Surroundings;
pub use time_bounds::TimeBounds;
pub use value_type::ValueType;
pub use window::WindowRule;
pub use zone::Zone;
