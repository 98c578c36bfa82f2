//! Contains panics: a statement that ends with one has an error, and its session goes on.

use crate::error::{SqlError, SqlResult, SqlState};
use datafusion::error::DataFusionError;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;

/// A step of a statement. Whatever it was working on is given up after a panic, or does not mind: stores and catalogue guard
/// what they share themselves.
pub(crate) async fn contained<T>(step: impl Future<Output = SqlResult<T>>) -> SqlResult<T> {
    let done = AssertUnwindSafe(step).catch_unwind().await;
    done.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
        let words = format!("the statement met a fault of the server, please report it: {said}");
        // Some are known, and have their own words.
        Err(DataFusionError::from(SqlError::new(SqlState::INTERNAL, words)).into())
    })
}
