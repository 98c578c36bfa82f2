//! Locks that applications agree upon, and pauses.

use super::call::{Call, bool, text};
use super::{Function, Gives, VOID, volatile};
use crate::error::{SqlError, SqlState};
use crate::waits::{Call as Awaited, LockKey, LockNumber, Mode, Span};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use nyala_core::store::Feature;
use std::time::Duration;

const WAITS: bool = true;
const TRIES: bool = false;

pub(super) static FUNCTIONS: &[Function] = &[
    volatile("pg_advisory_lock", VOID, |call| lock(call, Mode::Exclusive, Span::Session, WAITS)),
    volatile("pg_advisory_lock_shared", VOID, |call| lock(call, Mode::Shared, Span::Session, WAITS)),
    volatile("pg_advisory_xact_lock", VOID, |call| lock(call, Mode::Exclusive, Span::Transaction, WAITS)),
    volatile("pg_advisory_xact_lock_shared", VOID, |call| lock(call, Mode::Shared, Span::Transaction, WAITS)),
    volatile("pg_try_advisory_lock", Gives::Bool, |call| lock(call, Mode::Exclusive, Span::Session, TRIES)),
    volatile("pg_try_advisory_lock_shared", Gives::Bool, |call| {
        lock(call, Mode::Shared, Span::Session, TRIES)
    }),
    volatile("pg_try_advisory_xact_lock", Gives::Bool, |call| {
        lock(call, Mode::Exclusive, Span::Transaction, TRIES)
    }),
    volatile("pg_try_advisory_xact_lock_shared", Gives::Bool, |call| {
        lock(call, Mode::Shared, Span::Transaction, TRIES)
    }),
    volatile("pg_advisory_unlock", Gives::Bool, |call| unlock(call, Mode::Exclusive)),
    volatile("pg_advisory_unlock_shared", Gives::Bool, |call| unlock(call, Mode::Shared)),
    volatile("pg_advisory_unlock_all", VOID, |call| {
        call.viewer.waits.call(Awaited::UnlockAll)?;
        Ok(text(""))
    }),
    volatile("pg_sleep", VOID, |call| {
        let seconds: f64 = call.text(0).and_then(|own| own.trim().parse().ok()).unwrap_or(0.0);
        let pause = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        call.viewer.waits.call(Awaited::Sleep(pause))?;
        Ok(text(""))
    }),
];

fn lock(call: &Call<'_>, mode: Mode, span: Span, waits: bool) -> Result<ScalarValue> {
    let key = key(call)?;
    // Each server knows only what its own clients lock.
    call.viewer
        .catalog
        .store()
        .capabilities()
        .need(Feature::StagedWrites)
        .map_err(|_| SqlError::unsupported("an advisory lock in a store that several servers share"))?;
    let is_taken = call.viewer.waits.call(Awaited::Lock { key, mode, span, waits })?;
    Ok(if waits { text("") } else { bool(is_taken) })
}

fn unlock(call: &Call<'_>, mode: Mode) -> Result<ScalarValue> {
    Ok(bool(call.viewer.waits.call(Awaited::Unlock { key: key(call)?, mode })?))
}

/// The lock that the arguments name: a bigint, or two integers.
fn key(call: &Call<'_>) -> Result<LockKey> {
    let numbers: Vec<Option<i64>> = (0..call.values.len()).map(|place| call.number(place)).collect();
    let small = |own: i64| i32::try_from(own).ok();
    let number = match numbers[..] {
        [Some(number)] => Some(LockNumber::One(number)),
        [Some(first), Some(second)] => {
            small(first).zip(small(second)).map(|(first, second)| LockNumber::Two(first, second))
        }
        _ => None,
    };
    let words = "an advisory lock is named by a bigint, or by two integers";
    let number = number.ok_or_else(|| SqlError::new(SqlState::UNKNOWN_FUNCTION, words))?;
    Ok(LockKey { database: call.viewer.database.as_str().into(), number })
}
