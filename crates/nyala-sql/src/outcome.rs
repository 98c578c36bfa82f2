//! What executing a statement gives.

use crate::command_tag::CommandTag;
use crate::rows::Rows;

/// What executing a statement gives.
pub enum Outcome {
    /// Rows.
    Rows(Rows),
    /// It was done, and gives no rows.
    Done(CommandTag),
}
