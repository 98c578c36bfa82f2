//! The buckets that must be there, computed when a query is executed.

use super::BUCKETS_MAX;
use super::node::{Dialect, Role};
use crate::buckets::Buckets;
use crate::constant::constant;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{interval, time_buckets, time_ns};
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, cast};

/// The buckets that must be there.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) buckets: Buckets,
    /// The start of the first one; `None` if it is that of the first row of a group.
    pub(super) start_ns: Option<i64>,
    /// Where the next one would begin, or before.
    pub(super) end_ns: i64,
}

impl Range {
    /// `values` are those of the parameters that arguments name.
    pub(super) fn of(
        dialect: Dialect,
        arguments: &[(Role, Expr)],
        values: &[ScalarValue],
    ) -> SqlResult<Self> {
        let named = |wanted: Role| -> SqlResult<Option<ScalarValue>> {
            let found = arguments.iter().find(|(role, _)| *role == wanted);
            found.map(|(_, value)| constant(value, values)).transpose()
        };
        let width = named(Role::Width)?.unwrap_or(ScalarValue::Null);
        let buckets = match dialect {
            Dialect::TimescaleDb => time_buckets(&width, named(Role::Zone)?.as_ref())?,
            Dialect::InfluxDb => {
                let origin = named(Role::Origin)?.filter(|own| !own.is_null());
                let origin_ns = origin.as_ref().map_or(Some(0), time_ns);
                let buckets = interval(&width).and_then(|own| Buckets::of_interval(own, origin_ns, None));
                buckets.ok_or_else(|| {
                    invalid(dialect, "the interval must be positive, and months begin a month")
                })?
            }
        };
        let (mut start_ns, mut end_ns) = (None, None);
        for (role, value) in arguments {
            match role {
                Role::Start { excluded } => {
                    let bound_ns =
                        moment(dialect, "start", value, values)?.saturating_add((*excluded).into());
                    start_ns = start_ns.max(Some(bound_ns));
                }
                Role::Finish { included } => {
                    let bound_ns =
                        moment(dialect, "finish", value, values)?.saturating_add((*included).into());
                    end_ns = Some(end_ns.map_or(bound_ns, |known: i64| known.min(bound_ns)));
                }
                _ => {}
            }
        }
        let missing = |what: &str| {
            let words =
                format!("missing {} argument: could not infer {what} from WHERE clause", dialect.function());
            SqlError::new(SqlState::INVALID_PARAMETER, words).with_hint(match dialect {
                Dialect::TimescaleDb => "Specify start and finish as arguments or in the WHERE clause.",
                Dialect::InfluxDb => "Compare the time with a value in the WHERE clause.",
            })
        };
        let end_ns = end_ns.ok_or_else(|| missing("finish"))?;
        if start_ns.is_none() && dialect == Dialect::TimescaleDb {
            return Err(missing("start"));
        }
        let start_of = |bound_ns: i64| {
            buckets.start_of(bound_ns).ok_or_else(|| {
                let words = format!("{}: the first bucket begins before all times", dialect.function());
                SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, words)
            })
        };
        let start_ns = start_ns.map(start_of).transpose()?;
        let range = Self { buckets, start_ns, end_ns };
        range.check_count(dialect)?;
        Ok(range)
    }

    fn check_count(&self, dialect: Dialect) -> SqlResult<()> {
        let Some(start_ns) = self.start_ns else { return Ok(()) };
        if self.buckets.about_between(start_ns, self.end_ns) <= BUCKETS_MAX {
            return Ok(());
        }
        Err(too_many(dialect))
    }
}

/// The error of a range that has more buckets than a group may have rows.
pub(super) fn too_many(dialect: Dialect) -> SqlError {
    let words = format!("{} would give more than {BUCKETS_MAX} rows for each group", dialect.function());
    SqlError::new(SqlState::LIMIT_EXCEEDED, words).with_hint("Ask for wider buckets, or for less time.")
}

impl Dialect {
    /// The function that users write.
    pub(super) fn function(self) -> &'static str {
        match self {
            Dialect::TimescaleDb => super::functions::TIME_BUCKET_GAPFILL,
            Dialect::InfluxDb => super::functions::DATE_BIN_GAPFILL,
        }
    }
}

fn invalid(dialect: Dialect, words: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER, format!("invalid {} argument: {words}", dialect.function()))
}

/// A bound, ns since 1970.
fn moment(dialect: Dialect, what: &str, value: &Expr, values: &[ScalarValue]) -> SqlResult<i64> {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
    let value = constant(&cast(value.clone(), time), values)?;
    time_ns(&value).ok_or_else(|| {
        invalid(dialect, &format!("{what} cannot be NULL"))
            .with_hint("Specify start and finish as arguments or in the WHERE clause.")
    })
}
