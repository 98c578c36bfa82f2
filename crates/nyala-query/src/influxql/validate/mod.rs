//! Checks what a SELECT must satisfy beyond the grammar, and normalises it.
//!
//! All checks are independent of any schema: which functions exist, which arguments they take, which fields may be
//! combined, what GROUP BY may contain. The order of the checks decides which message a client gets, so it is InfluxDB's:
//! condition, dimensions, fields from left to right, combinations of fields, subqueries.

mod call;

use std::borrow::Cow;

use super::ast::{Fill, Select, Source};
use super::condition::split;
use super::expr::{Call, Expr};
use super::math::is_math_function;
use super::reduce::{Context, reduce};
use super::time::{Zone, looks_like_time, parse_time};
use nyala_core::{Error, Result};

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::invalid(message))
}

/// A SELECT that passed the checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The statement with its fields and dimensions folded, also in subqueries: `DISTINCT name` is a call, the
    /// second argument of `time(…)` is an offset as a duration, and `time` is no longer among the outermost fields.
    /// The condition is unchanged.
    pub select: Select,
    /// The name of the time column: `time`, or its alias.
    pub time_column: String,
    /// How many windows before the first (after the last, if times fall) functions such as `derivative` need.
    pub extra_windows: i64,
}

/// Checks and normalises a SELECT. `now_ns` is what `now()` means in it.
pub fn compile(mut select: Select, now_ns: i64) -> Result<Compiled> {
    let mut checker = Checker::new(now_ns);
    checker.prepare(&mut select)?;
    checker.check(&mut select)?;
    check_offsets(&select)?;
    select.fields.retain(|field| !is_time(&field.expr));
    for field in &mut select.fields {
        if let Expr::Distinct(name) = &field.expr {
            field.expr = Expr::call("distinct", vec![Expr::var(name)]);
        } else {
            call_distinct(&mut field.expr);
        }
    }
    Ok(Compiled { select, time_column: checker.time_column, extra_windows: checker.extra_windows })
}

/// The window of `GROUP BY time(…)` in nanoseconds; 0 without one.
pub(crate) fn group_by_interval(select: &Select) -> Result<i64> {
    let Some(call) = select.time_dimension() else { return Ok(0) };
    if !(1..=2).contains(&call.args.len()) {
        return refuse("time dimension expected 1 or 2 arguments");
    }
    match call.args[0] {
        Expr::Duration(nanoseconds) => Ok(nanoseconds),
        _ => refuse("time dimension must have duration argument"),
    }
}

/// Refuses strings as offsets of windows, also in subqueries.
fn check_offsets(select: &Select) -> Result<()> {
    if let Some(offset @ Expr::String(_)) = select.time_dimension().and_then(|call| call.args.get(1)) {
        return refuse(format!("invalid time dimension offset: {offset}"));
    }
    select.sources.iter().try_for_each(|source| match source {
        Source::Subquery(inner) => check_offsets(inner),
        Source::Measurement(_) => Ok(()),
    })
}

/// In fields, unlike elsewhere, the case of the name matters.
fn is_time(expr: &Expr) -> bool {
    matches!(expr, Expr::VarRef(reference) if reference.name == "time")
}

/// Turns `DISTINCT name` into a call where it is an argument.
fn call_distinct(expr: &mut Expr) {
    match expr {
        Expr::Binary(binary) => {
            call_distinct(&mut binary.lhs);
            call_distinct(&mut binary.rhs);
        }
        Expr::Paren(inner) => call_distinct(inner),
        Expr::Call(call) => {
            for arg in &mut call.args {
                match arg {
                    Expr::Distinct(name) => *arg = Expr::call("distinct", vec![Expr::var(name.as_str())]),
                    arg => call_distinct(arg),
                }
            }
        }
        _ => {}
    }
}

fn fold_in_place(expr: &mut Expr, context: &Context) {
    let folded = match reduce(expr, context) {
        // Nothing to fold, unless it is in parentheses.
        Cow::Borrowed(folded) if std::ptr::eq(folded, expr) => return,
        folded => folded.into_owned(),
    };
    *expr = folded;
}

/// What is known about a statement while its parts are checked.
struct Checker {
    now_ns: i64,
    ascending: bool,
    limit: u64,
    has_target: bool,
    fill: Fill,
    interval_ns: i64,
    /// The window is that of the outer query.
    inherited: bool,
    time_column: String,
    extra_windows: i64,
    fields: usize,
    calls: usize,
    only_selectors: bool,
    has_distinct: bool,
    has_references: bool,
    top_bottom: Option<String>,
}

impl Checker {
    fn new(now_ns: i64) -> Self {
        Checker {
            now_ns,
            ascending: true,
            limit: 0,
            has_target: false,
            fill: Fill::Null,
            interval_ns: 0,
            inherited: false,
            time_column: "time".to_string(),
            extra_windows: 0,
            fields: 0,
            calls: 0,
            only_selectors: true,
            has_distinct: false,
            has_references: false,
            top_bottom: None,
        }
    }

    /// Checks the statement as a whole.
    fn prepare(&mut self, select: &mut Select) -> Result<()> {
        self.ascending = select.is_ascending();
        self.limit = select.limit;
        self.has_target = select.target.is_some();
        self.fill = select.fill;
        if let Some(condition) = &select.condition {
            let context = Context { now_ns: Some(self.now_ns), zone: select.zone, ..Context::default() };
            match split(condition, &context)?.0.as_deref() {
                Some(Expr::Paren(inner)) => check_condition(inner)?,
                Some(rest) => check_condition(rest)?,
                None => {}
            }
        }
        self.dimensions(select)
    }

    fn check(&mut self, select: &mut Select) -> Result<()> {
        let context = Context { mathematics: true, ..Context::default() };
        for field in &mut select.fields {
            if is_time(&field.expr) {
                self.time_column =
                    field.alias.clone().unwrap_or_else(|| std::mem::take(&mut self.time_column));
                continue;
            }
            fold_in_place(&mut field.expr, &context);
            self.fields += 1;
            call::FieldChecker::new(self).expression(&field.expr)?;
        }
        self.combination()?;
        for source in &mut select.sources {
            if let Source::Subquery(inner) = source {
                self.subquery(inner)?;
            }
        }
        Ok(())
    }

    fn subquery(&self, select: &mut Select) -> Result<()> {
        let mut inner = Checker::new(self.now_ns);
        inner.prepare(select)?;
        if select.order.is_some() && inner.ascending != self.ascending {
            return refuse("subqueries must be ordered in the same direction as the query itself");
        }
        inner.ascending = self.ascending;
        if inner.interval_ns != 0 && inner.fill == Fill::Null {
            inner.fill = Fill::None;
        }
        if self.interval_ns != 0 && inner.interval_ns == 0 {
            inner.interval_ns = self.interval_ns;
            inner.inherited = true;
        }
        inner.check(select)
    }

    fn dimensions(&mut self, select: &mut Select) -> Result<()> {
        for dimension in &mut select.dimensions {
            fold_in_place(dimension, &Context::default());
            match dimension {
                Expr::VarRef(reference) if reference.is_time() => {
                    return refuse("time() is a function and expects at least one argument");
                }
                Expr::VarRef(_) | Expr::Wildcard(_) | Expr::Regex(_) => {}
                Expr::Call(call) => self.time_dimension(call, select.zone)?,
                _ => return refuse("only time and tag dimensions allowed"),
            }
        }
        Ok(())
    }

    /// `time(interval[, offset])`; the offset becomes a duration.
    fn time_dimension(&mut self, call: &mut Call, zone: Option<Zone>) -> Result<()> {
        if call.name != "time" {
            return refuse("only time() calls allowed in dimensions");
        }
        if !(1..=2).contains(&call.args.len()) {
            return refuse("time dimension expected 1 or 2 arguments");
        }
        let Expr::Duration(interval_ns) = call.args[0] else {
            return refuse("time dimension must have duration argument");
        };
        if self.interval_ns != 0 {
            return refuse("multiple time dimensions not allowed");
        }
        self.interval_ns = interval_ns;
        let Some(offset) = call.args.get_mut(1) else { return Ok(()) };
        let offset_ns = match offset {
            Expr::Duration(offset_ns) => offset_ns.checked_rem(interval_ns).unwrap_or(0),
            Expr::Time(time) => offset_in_window(time.unix_ns, interval_ns),
            Expr::Call(now) if now.name != "now" => {
                return refuse("time dimension offset function must be now()");
            }
            Expr::Call(now) if !now.args.is_empty() => {
                return refuse("time dimension offset now() function requires no arguments");
            }
            Expr::Call(_) => offset_in_window(self.now_ns.into(), interval_ns),
            // A time is refused as well, but only after everything else has been checked.
            Expr::String(text) if looks_like_time(text) => {
                return match parse_time(text, zone) {
                    Some(_) => Ok(()),
                    None => refuse("invalid timestamp string"),
                };
            }
            _ => return refuse("time dimension offset must be duration or now()"),
        };
        *offset = Expr::Duration(offset_ns);
        Ok(())
    }

    /// Checks combinations of fields.
    fn combination(&self) -> Result<()> {
        if self.fields == 0 {
            return refuse("at least 1 non-time field must be queried");
        }
        if let Some(name) = self.top_bottom.as_ref().filter(|_| self.calls > 1) {
            return refuse(format!("selector function {name}() cannot be combined with other functions"));
        }
        if self.calls == 0 {
            match self.fill {
                Fill::None => return refuse("fill(none) must be used with a function"),
                Fill::Linear => return refuse("fill(linear) must be used with a function"),
                _ => {}
            }
            if self.interval_ns != 0 && !self.inherited {
                return refuse("GROUP BY requires at least one aggregate function");
            }
        }
        if self.has_distinct && (self.calls != 1 || self.has_references) {
            return refuse("aggregate function distinct() cannot be combined with other functions or fields");
        }
        if self.has_references {
            if !self.only_selectors {
                return refuse("mixing aggregate and non-aggregate queries is not supported");
            }
            if self.calls > 1 {
                return refuse("mixing multiple selector functions with tags or fields is not supported");
            }
        }
        Ok(())
    }
}

/// How far into its window a time lies, where windows are counted from the start of year 1 as Go does.
fn offset_in_window(unix_ns: i128, interval_ns: i64) -> i64 {
    const YEAR_1_TO_1970_NS: i128 = 62_135_596_800 * 1_000_000_000;
    if interval_ns <= 0 {
        return 0;
    }
    // Less than the interval, so it fits.
    (unix_ns + YEAR_1_TO_1970_NS).rem_euclid(interval_ns.into()) as i64
}

/// Checks that a condition calls mathematical functions only. Parentheses are not looked into, as in InfluxDB.
fn check_condition(condition: &Expr) -> Result<()> {
    match condition {
        Expr::Binary(binary) => {
            check_condition(&binary.lhs)?;
            check_condition(&binary.rhs)
        }
        Expr::Call(call) => {
            if !is_math_function(&call.name) {
                return refuse(format!("invalid function call in condition: {call}"));
            }
            let expected = if matches!(call.name.as_str(), "atan2" | "pow") { 2 } else { 1 };
            call::count_arguments(&call.name, &call.args, expected)?;
            call.args.iter().try_for_each(check_condition)
        }
        _ => Ok(()),
    }
}
