//! Plans: a SELECT with every name resolved.
//!
//! Planning has two phases. [`rewrite`] goes from the inner queries outwards: sources, wildcards, types.
//! [`Plan::build`] goes from the outer query inwards, because an inner one inherits time range and groups.

mod call;
pub mod condition;
mod context;
mod expression;
mod hint;
mod indicator;
mod reference;
pub mod rewrite;
pub mod rewritten;
mod transformation;
pub mod types;

pub use crate::influxql::{Fill, MAXIMUM_TIME_NS, MINIMUM_TIME_NS};
pub use call::{CallPlan, Function};
pub use condition::{MeasurementPlan, PointLimit, RowCondition};
pub use context::QueryContext;
pub use expression::{compile_regex, literal_value};
pub use indicator::{Indicator, IndicatorKind, WarmUp};
pub use reference::{Reference, ReferenceKind, fields_named};
pub use transformation::Transformation;

use crate::influxql::{Call, Expr, Field, VarRef};
use expression::{Clause, Translator};
use nyala_core::{Error, Result, TimeRange};
use nyala_db::catalog::Catalog;
use nyala_exec::distinct::{Distinct, FEW};
use nyala_exec::expression::Expression;
use nyala_exec::{TimeBounds, WindowRule};
use rewritten::{Rewritten, RewrittenSource};
use std::collections::HashMap;

/// A SELECT ready to be executed.
#[derive(Clone)]
pub struct Plan {
    /// Where rows come from.
    pub(crate) sources: Vec<PlanSource>,
    /// What is shown of them.
    pub(crate) outputs: Outputs,
    /// The aggregates that columns are computed from, each once.
    pub(crate) calls: Vec<CallPlan>,
    /// The fields and tags that columns are computed from directly, each once.
    pub(crate) references: Vec<Reference>,
    /// How rows are grouped.
    pub(crate) groups: Grouping,
    /// The time range of the query.
    pub(crate) times: TimeBounds,
    /// Stored rows are read within these times.
    pub(crate) stored: TimeBounds,
    /// The condition on rows of inner queries.
    pub(crate) inner_rows: Option<RowCondition>,
    /// What fills empty windows, and missing values of rows.
    pub(crate) fill: Fill,
    /// Whether times rise.
    pub(crate) ascending: bool,
    /// Which rows of each result series are shown.
    pub(crate) rows: RowLimit,
}

/// What a SELECT shows.
#[derive(Clone)]
pub(crate) struct Outputs {
    /// The name of the time column.
    pub(crate) time_column: String,
    /// The selected columns, without time.
    pub(crate) columns: Vec<OutputColumn>,
    /// With INTO: the columns that become tags of the written points. They are arguments of `top` and `bottom`.
    pub(crate) tag_columns: Vec<usize>,
    /// A warning, if the query probably means something else than it says.
    pub(crate) hint: Option<String>,
}

/// The groups of a SELECT, each of which is a result series, and their windows.
#[derive(Clone)]
pub(crate) struct Grouping {
    /// The tags rows are grouped by, in the order results show them.
    pub(crate) tags: Vec<String>,
    /// How many of the last columns are tags that this inner query groups stored rows by, but the outer query does not: they
    /// distinguish rows without making result series.
    pub(crate) row_tags: usize,
    /// `GROUP BY time`, if any.
    pub(crate) windows: Option<WindowRule>,
    /// The most groups of each measurement; `None`: all.
    pub(crate) limit: Option<usize>,
    /// How many groups of each measurement are skipped at the start.
    pub(crate) offset: usize,
}

/// Which rows of each result series are shown.
#[derive(Clone, Copy)]
pub(crate) struct RowLimit {
    /// The most rows; 0: all.
    pub(crate) limit: usize,
    /// How many rows are skipped at the start.
    pub(crate) offset: usize,
    /// Whether rows of an inner query that tags distinguish are counted by their tags; else each run of rows with the same
    /// tags is.
    pub(crate) by_tags: bool,
}

impl Plan {
    /// The time range in which it reads stored rows, half-open.
    pub fn time_range(&self) -> TimeRange {
        self.times.within(self.stored).range()
    }

    /// Whether the only function selects stored rows, so that a result carries their times and other columns.
    pub(crate) fn is_selector(&self) -> bool {
        matches!(&self.calls[..], [call] if call.is_selector())
    }

    /// Keeps the series that the plan reads in memory. Returns whether all of them are in memory.
    pub fn pin(&mut self, catalog: &Catalog) -> bool {
        let time = self.time_range();
        self.sources.iter_mut().all(|source| match source {
            PlanSource::Measurement(source) => {
                source.pin = catalog.pin_series(&source.measurement, time);
                source.pin.is_some()
            }
            PlanSource::Subquery(inner) => inner.pin(catalog),
        })
    }

    /// The measurements that it and its inner queries read, with the times they read.
    pub fn measurements_mut(&mut self) -> Vec<(&mut MeasurementPlan, TimeRange)> {
        let time = self.time_range();
        let mut all = Vec::new();
        for source in &mut self.sources {
            match source {
                PlanSource::Measurement(measurement) => all.push((measurement, time)),
                PlanSource::Subquery(inner) => all.extend(inner.measurements_mut()),
            }
        }
        all
    }
}

/// Where rows come from.
#[derive(Clone)]
pub enum PlanSource {
    /// Stored rows.
    Measurement(MeasurementPlan),
    /// The rows of another query.
    Subquery(Box<Plan>),
}

/// A selected column.
#[derive(Clone)]
pub struct OutputColumn {
    /// Its name in the result.
    pub name: String,
    /// The name by which outer queries refer to it.
    pub reference_name: String,
    /// How it is computed from the calls, then the references.
    pub expression: Expression,
}

/// What an inner query inherits from the outer one.
struct Inherited<'a> {
    times: TimeBounds,
    /// The times within which the outermost query lets all of them read stored rows.
    stored: TimeBounds,
    group_tags: &'a [String],
    ascending: bool,
    windows: Option<WindowRule>,
    series_limit: u64,
    series_offset: u64,
    /// Whether the rows are read in order of time, and not series by series.
    in_order: bool,
}

impl Plan {
    /// The plan of a rewritten statement. `extra_windows`: how many windows beyond those shown may be read.
    pub fn build(rewritten: Rewritten, extra_windows: i64, context: &QueryContext) -> Result<Self> {
        for field in &rewritten.select.fields {
            types::check_operations(&field.expr)?;
        }
        Self::build_inner(rewritten, extra_windows, context, None)
    }

    fn build_inner(
        rewritten: Rewritten,
        extra_windows: i64,
        context: &QueryContext,
        outer: Option<&Inherited<'_>>,
    ) -> Result<Self> {
        let mut own_tags: Vec<String> = rewritten.group_tags().map(str::to_owned).collect();
        let Rewritten {
            select,
            time_ns: (mut first_ns, mut last_ns),
            condition,
            sources,
            time_column,
            hint,
            ..
        } = rewritten;
        let in_order = outer.is_none_or(|outer| outer.in_order);
        let own_windows = condition::window_rule(&select, context.now_ns)?;
        let mut windows = own_windows;
        let mut fill = select.fill;
        let (mut series_limit, mut series_offset) = (select.slimit, select.soffset);
        let mut ascending = select.is_ascending();
        let mut group_tags = Vec::new();
        if let Some(outer) = outer {
            first_ns = first_ns.max(outer.times.first_ns);
            last_ns = last_ns.min(outer.times.last_ns);
            // Windows that are inherited follow the clock of a zone that the inner query itself names.
            let inherited = outer.windows.map(|rule| WindowRule { zone: select.zone.or(rule.zone), ..rule });
            windows = own_windows.or(inherited);
            // Outer queries see no rows for empty windows, unless another value than NULL fills them.
            if fill == Fill::Null {
                fill = Fill::None;
            }
            series_limit = series_limit.saturating_add(outer.series_limit);
            series_offset = series_offset.saturating_add(outer.series_offset);
            ascending = outer.ascending;
            group_tags = outer.group_tags.to_vec();
        }
        if own_windows.is_some() && last_ns == MAXIMUM_TIME_NS {
            last_ns = context.now_ns;
        }
        let interval_ns = windows.map(|rule| rule.interval_ns);
        let stored = match outer {
            Some(outer) => outer.stored,
            None => {
                let extra_ns = interval_ns.unwrap_or(0).saturating_mul(extra_windows);
                let most = context.running.limits.buckets_max;
                let moved = own_windows.filter(|_| most > 0 && first_ns == MINIMUM_TIME_NS);
                let moved_ns = moved.and_then(|rule| condition::beginning_of_last(rule, most, last_ns));
                let times = TimeBounds { first_ns: moved_ns.unwrap_or(first_ns), last_ns };
                call::extended(times, extra_ns, ascending)
            }
        };
        let seed = context.now_ns as u64;
        let of_inner_rows = sources.iter().any(|source| matches!(source, RewrittenSource::Subquery(_)));
        let call_context = call::CallContext { of_inner_rows, interval_ns, seed };
        let mut symbols = Symbols::new(call_context);
        // INTO does not write NULL.
        if select.target.is_some() && fill == Fill::Null {
            fill = Fill::None;
        }
        let (fields, tag_columns) = match select.target {
            None => (with_shown_arguments(select.fields), Vec::new()),
            Some(_) => with_written_arguments(select.fields),
        };
        let mut columns = Vec::with_capacity(fields.len());
        let reference_names: Vec<String> = fields.iter().map(Field::name).collect();
        let names = column_names(&fields, &reference_names);
        for ((field, reference_name), name) in fields.iter().zip(reference_names).zip(names) {
            let expression = symbols.map(&field.expr)?;
            columns.push(OutputColumn { name, reference_name, expression });
        }
        own_tags.retain(|tag| !group_tags.contains(tag));
        own_tags.sort_unstable();
        own_tags.dedup();
        let mut row_tags = 0;
        if outer.is_some() && symbols.calls.is_empty() {
            row_tags = own_tags.len();
            for name in own_tags {
                let reference = Reference { name: name.clone(), kind: ReferenceKind::GroupTag };
                let expression = symbols.reference(reference);
                columns.push(OutputColumn { name: name.clone(), reference_name: name, expression });
            }
        } else {
            group_tags.extend(own_tags);
        }
        // Result series are ordered by their tags in the order of the keys, however the query lists them.
        group_tags.sort_unstable();
        let Symbols { mut calls, references, .. } = symbols;
        let references = references.into_list();
        for call in &mut calls {
            call.set_times(TimeBounds { first_ns, last_ns }, ascending, interval_ns);
        }
        let times = TimeBounds {
            first_ns: calls.iter().map(|call| call.times.first_ns).min().unwrap_or(first_ns),
            last_ns: calls.iter().map(|call| call.times.last_ns).max().unwrap_or(last_ns),
        };
        number_references(&mut columns, calls.len());
        let inherited = Inherited {
            times,
            stored,
            group_tags: &group_tags,
            ascending,
            windows,
            series_limit,
            series_offset,
            in_order: match calls.is_empty() {
                true => in_order,
                false => calls.iter().all(|call| call.reads_in_order(in_order)),
            },
        };
        let mut inner_rows = None;
        let mut plan_sources = Vec::with_capacity(sources.len());
        // If no column refers to anything, there are no rows, whatever the sources hold.
        let is_empty =
            calls.is_empty() && references.iter().all(|reference| reference.kind == ReferenceKind::Nothing);
        for source in sources.into_iter().filter(|_| !is_empty) {
            plan_sources.push(match source {
                RewrittenSource::Measurement(measurement, _) => {
                    PlanSource::Measurement(MeasurementPlan::of(measurement, condition.as_ref())?)
                }
                RewrittenSource::Subquery(inner) => {
                    if let (Some(condition), None) = (&condition, &inner_rows) {
                        inner_rows = Some(RowCondition::on_inner_rows(condition)?);
                    }
                    PlanSource::Subquery(Box::new(Self::build_inner(*inner, 0, context, Some(&inherited))?))
                }
            });
        }
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            sources: plan_sources,
            outputs: Outputs { time_column, columns, tag_columns, hint },
            calls,
            references,
            groups: Grouping {
                tags: group_tags,
                row_tags,
                windows,
                limit: (series_limit > 0 || series_offset > 0).then(|| count(series_limit)),
                offset: count(series_offset),
            },
            times,
            stored,
            inner_rows,
            fill,
            ascending,
            rows: RowLimit { limit: count(select.limit), offset: count(select.offset), by_tags: !in_order },
        })
    }

    /// How many windows from the first are within the limit; `None`: all, or that is unknown before transformations.
    pub fn windows_needed(&self) -> Option<usize> {
        let known = self.rows.limit > 0 && self.calls.iter().all(|call| call.transformations.is_empty());
        known.then(|| self.rows.limit.saturating_add(self.rows.offset))
    }

    /// Whether rows, or the results of functions of consecutive rows, are shown while rows arrive: no call gathers rows, and
    /// if there are several calls, each gives its results at the times of its rows.
    pub fn is_streamed(&self) -> bool {
        let lags = |call: &CallPlan| call.transformations.iter().any(|transformation| transformation.lags());
        self.calls.iter().all(|call| call.function.is_none())
            && (self.calls.len() < 2 || !self.calls.iter().any(lags))
    }

    /// The time that is shown for an aggregate without windows, ns.
    pub fn aggregate_time_ns(&self) -> i64 {
        if self.times.begins() { self.times.first_ns } else { 0 }
    }
}

/// Gives references their final column numbers. They come after the calls, whose number is known only when all columns are
/// translated; until then they are numbered from [`REFERENCES_FROM`].
fn number_references(columns: &mut [OutputColumn], calls: usize) {
    fn number(expression: &mut Expression, calls: usize) {
        match expression {
            Expression::Column(position) if *position >= REFERENCES_FROM => {
                *position = *position - REFERENCES_FROM + calls;
            }
            Expression::Column(_) | Expression::Literal(_) => {}
            Expression::Binary(binary) => {
                number(&mut binary.left, calls);
                number(&mut binary.right, calls);
            }
            Expression::Matches { text, .. } => number(text, calls),
            Expression::Math(_, arguments) => {
                arguments.iter_mut().for_each(|argument| number(argument, calls))
            }
        }
    }
    columns.iter_mut().for_each(|column| number(&mut column.expression, calls));
}

const REFERENCES_FROM: usize = 1 << 32;

/// The distinct calls and references of a statement's columns.
struct Symbols {
    context: call::CallContext,
    calls: Vec<CallPlan>,
    references: Distinct<Reference>,
    /// The calls as they are written.
    written: Vec<Call>,
    /// The positions of calls by their text, once there are more than a few.
    positions: HashMap<String, Vec<usize>>,
}

impl Symbols {
    fn new(context: call::CallContext) -> Self {
        let (calls, written, positions) = (Vec::new(), Vec::new(), HashMap::new());
        Self { context, calls, references: Distinct::default(), written, positions }
    }

    fn map(&mut self, expr: &Expr) -> Result<Expression> {
        if let Expr::Distinct(name) = expr {
            return Err(Error::invalid(format!("unexpected DISTINCT {name}")));
        }
        let Self { context, calls, references, written, positions } = self;
        let mut translator = Translator {
            clause: Clause::Selected,
            reference: &mut |reference| {
                Expression::Column(REFERENCES_FROM + references.position(Reference::of(reference)))
            },
            call: &mut |call: &Call| {
                let known = if written.len() < FEW {
                    written.iter().position(|other| other == call)
                } else {
                    if positions.is_empty() {
                        for (position, call) in written.iter().enumerate() {
                            positions.entry(call.to_string()).or_default().push(position);
                        }
                    }
                    let positions = positions.entry(call.to_string()).or_default();
                    let known = positions.iter().copied().find(|position| written[*position] == *call);
                    if known.is_none() {
                        positions.push(written.len());
                    }
                    known
                };
                if let Some(position) = known {
                    return Ok(Expression::Column(position));
                }
                calls.push(CallPlan::of(call, *context)?);
                written.push(call.clone());
                Ok(Expression::Column(calls.len() - 1))
            },
        };
        translator.translate(expr)
    }

    fn reference(&mut self, reference: Reference) -> Expression {
        Expression::Column(REFERENCES_FROM + self.references.position(reference))
    }
}

/// The arguments of a field's call that are shown, as fields.
fn shown_arguments(field: &Field) -> Vec<Field> {
    let Expr::Call(call) = &field.expr else { return Vec::new() };
    let plain = |reference: &VarRef| Field { expr: Expr::VarRef(reference.clone()), alias: None };
    call::arguments_shown(call).map(plain).collect()
}

/// The fields, each followed by those of its arguments that are shown.
fn with_shown_arguments(fields: Vec<Field>) -> Vec<Field> {
    if fields.iter().all(|field| shown_arguments(field).is_empty()) {
        return fields;
    }
    let with_arguments = |field: Field| {
        let arguments = shown_arguments(&field);
        std::iter::once(field).chain(arguments)
    };
    fields.into_iter().flat_map(with_arguments).collect()
}

/// The fields, followed by those of their arguments that become tags of written points; and the positions of these.
fn with_written_arguments(mut fields: Vec<Field>) -> (Vec<Field>, Vec<usize>) {
    let written = fields.len();
    let arguments: Vec<Field> = fields.iter().flat_map(shown_arguments).collect();
    fields.extend(arguments);
    let tag_columns = (written..fields.len()).collect();
    (fields, tag_columns)
}

/// The names of the selected columns: aliases first, then names made distinct by a number. The name of the
/// time column is not in their way.
fn column_names(fields: &[Field], names: &[String]) -> Vec<String> {
    let is_new = |number: usize| !names[..number].contains(&names[number]);
    if names.len() <= FEW && (0..names.len()).all(is_new) {
        return names.to_vec();
    }
    let mut uses: HashMap<String, usize> = HashMap::new();
    for alias in fields.iter().filter_map(|field| field.alias.as_ref()) {
        uses.insert(alias.clone(), 1);
    }
    let name_of = |(field, name): (&Field, &String)| {
        if let Some(alias) = &field.alias {
            return alias.clone();
        }
        let mut name = name.clone();
        if let Some(mut number) = uses.get(&name).copied() {
            let resolved = loop {
                let candidate = format!("{name}_{number}");
                if !uses.contains_key(&candidate) {
                    break candidate;
                }
                number += 1;
            };
            uses.insert(name, number + 1);
            name = resolved;
        }
        *uses.entry(name.clone()).or_default() += 1;
        name
    };
    fields.iter().zip(names).map(name_of).collect()
}
