//! What every query language executes with, over nyala-db.
//!
//! A query runs in [`execution_context`] and within a share of memory ([`memory`]). Clients can list and kill it ([`running`]).
//! Its result is a sequence of frames of columns ([`frame`], [`column`], [`tag`], [`group_tags`]); those of a heavy query
//! are prefetched while earlier ones are written ([`frames`]). Expressions are evaluated over columns ([`expression`],
//! [`elementary`]). Series get dense numbers ([`series_numbers`]), columns positions ([`distinct`]). [`time_bounds`], [`window`] and [`zone`] divide time. The store computes aggregates of windows, or they
//! are accumulated from rows ([`aggregate`]).
//!
//! Nothing here knows the text of a query, how an answer is sent, or which store answers. Where languages differ in a
//! rule, the rule has a name and the language says which it follows.

pub mod aggregate;
pub mod column;
pub mod distinct;
pub mod elementary;
pub mod execution_context;
pub mod expression;
pub mod frame;
pub mod frames;
pub mod group_series;
pub mod group_tags;
pub mod memory;
pub mod running;
pub mod series_numbers;
pub mod slowest;
pub mod tag;
pub mod time_bounds;
pub mod value_type;
pub mod window;
pub mod zone;

pub use column::{Column, Scalar};
pub use distinct::Distinct;
pub use execution_context::ExecutionContext;
pub use frame::{Chunks, Frame, ResultBatch};
pub use frames::{FrameStream, Frames};
pub use group_series::GroupSeries;
pub use group_tags::GroupTags;
pub use memory::QueryMemory;
pub use series_numbers::SeriesNumbers;
pub use time_bounds::TimeBounds;
pub use value_type::ValueType;
pub use window::WindowRule;
pub use zone::Zone;
