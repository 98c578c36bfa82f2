//! Ending what other sessions do.

use super::call::{Call, bool};
use super::{Function, Gives, volatile};
use crate::sessions::End;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) static FUNCTIONS: &[Function] = &[
    volatile("pg_cancel_backend", Gives::Bool, |call| end(call, End::Statement)),
    // How long it may wait for the end is of no use: a session ends at once, or with the step that its statement is at.
    volatile("pg_terminate_backend", Gives::Bool, |call| end(call, End::Session)),
];

fn end(call: &Call<'_>, what: End) -> Result<ScalarValue> {
    let Some(number) = call.number(0).and_then(|number| i32::try_from(number).ok()) else {
        return Ok(bool(false));
    };
    Ok(bool(call.viewer.sessions.end(number, what, &call.viewer.principal)?))
}
