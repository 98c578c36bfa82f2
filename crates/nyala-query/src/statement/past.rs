//! `SELECT … AS OF <time>`: which moment of the past a statement asks for.

use crate::influxql::{Context, Expr, Overflow, Statement, parse_time, reduce};
use nyala_core::{Error, Result};

/// The moment that a statement asks for, ns since 1970; `None`: the present.
///
/// # Errors
/// Invalid if what it asks for is no time.
pub fn moment_of(statement: &Statement, now_ns: i64) -> Result<Option<i64>> {
    let Statement::Select(select) = statement else { return Ok(None) };
    let Some(written) = &select.as_of else { return Ok(None) };
    let overflow = Overflow::Refused;
    let context = Context { now_ns: Some(now_ns), zone: select.zone, overflow, ..Context::default() };
    let unix_ns = match &*reduce(written, &context) {
        Expr::Time(time) => Some(time.unix_ns),
        Expr::Integer(unix_ns) => Some((*unix_ns).into()),
        Expr::String(text) => parse_time(text, select.zone).map(|time| time.unix_ns),
        _ => None,
    };
    let moment = unix_ns.and_then(|unix_ns| i64::try_from(unix_ns).ok());
    moment.map(Some).ok_or_else(|| {
        Error::invalid(format!(
            "AS OF takes a time, such as '2026-01-31T12:00:00Z' or now() - 5m, or nanoseconds since 1970, not {written}"
        ))
    })
}
