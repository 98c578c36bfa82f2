//! Plans: what a SELECT asks for, with every name resolved.
//!
//! Planning has two phases. [`rewrite`] goes from the inner queries outwards: sources, wildcards, types.
//! [`Plan::build`] goes from the outer query inwards, because an inner one inherits time range and groups.

mod call;
pub mod condition;
pub mod rewrite;
pub mod types;
pub mod window;

pub use call::{CallPlan, Function};
pub use window::WindowRule;

use crate::exec::column::Scalar;
use crate::exec::expression::{Expression, MathFunction};
use crate::influxql::{Binary, BinaryOperator, Call, DataType, Expr, Fill, Select, VarRef};
use crate::influxql::{MAXIMUM_TIME_NS, MINIMUM_TIME_NS};
use nyala_core::{Error, Result};
use nyala_db::catalog::{Catalog, Measurement};
use rewrite::{Rewritten, RewrittenSource, compile_regex};
use std::collections::HashMap;
use std::sync::Arc;

/// What surrounds a query.
#[derive(Clone)]
pub struct QueryContext {
    /// All databases.
    pub catalog: Arc<Catalog>,
    /// The database where none is written; may be empty.
    pub database: String,
    /// The retention policy where none is written; empty for the database's default.
    pub retention_policy: String,
    /// The time of day that `now()` means, ns.
    pub now_ns: i64,
}

/// A SELECT ready to be executed.
#[derive(Clone)]
pub struct Plan {
    /// Where rows come from.
    pub sources: Vec<PlanSource>,
    /// What the time column is called.
    pub time_column: String,
    /// The selected columns, time not among them.
    pub columns: Vec<OutputColumn>,
    /// The aggregates that columns are computed from, each once.
    pub calls: Vec<CallPlan>,
    /// The fields and tags that columns are computed from directly, each once.
    pub references: Vec<VarRef>,
    /// The tags rows are grouped by, in the order results show them.
    pub group_tags: Vec<String>,
    /// `GROUP BY time`, if any.
    pub windows: Option<WindowRule>,
    /// The first time asked for, ns; the smallest possible where there is no bound.
    pub first_ns: i64,
    /// The last time asked for, ns; the largest possible where there is no bound.
    pub last_ns: i64,
    /// What rows must satisfy.
    pub condition: Option<Expr>,
    /// What stands in empty windows.
    pub fill: Fill,
    /// Whether times rise.
    pub ascending: bool,
    /// The most rows of each result series; 0: all.
    pub limit: usize,
    /// Rows left out at the start of each result series.
    pub offset: usize,
    /// The most result series of each measurement; 0: all.
    pub series_limit: usize,
    /// Result series left out at the start.
    pub series_offset: usize,
    /// Whether the only function selects stored rows, so that a result carries their times and other columns.
    pub selector: bool,
}

/// Where rows come from.
#[derive(Clone)]
pub enum PlanSource {
    /// Stored rows.
    Measurement(Arc<Measurement>),
    /// The rows of another query.
    Subquery(Box<Plan>),
}

/// A selected column.
#[derive(Clone)]
pub struct OutputColumn {
    /// Its name in the result.
    pub name: String,
    /// The name that outer queries know it by.
    pub reference_name: String,
    /// How it is computed from the calls, then the references.
    pub expression: Expression,
}

/// What an inner query takes over from the outer one.
struct Inherited<'a> {
    first_ns: i64,
    last_ns: i64,
    group_tags: &'a [String],
}

impl Plan {
    /// The plan of a rewritten statement.
    pub fn build(rewritten: Rewritten, context: &QueryContext) -> Result<Self> {
        let inherited = Inherited { first_ns: MINIMUM_TIME_NS, last_ns: MAXIMUM_TIME_NS, group_tags: &[] };
        Self::build_inner(rewritten, context, &inherited)
    }

    fn build_inner(rewritten: Rewritten, context: &QueryContext, inherited: &Inherited<'_>) -> Result<Self> {
        let own_tags: Vec<String> = rewritten.group_tags().map(str::to_owned).collect();
        let Rewritten { select, sources, time_column } = rewritten;
        let windows = condition::window_rule(&select, context.now_ns)?;
        let (range, rows) = condition::split_time(&select, context.now_ns)?;
        let first_ns = range.0.unwrap_or(MINIMUM_TIME_NS).max(inherited.first_ns);
        let mut last_ns = range.1.unwrap_or(MAXIMUM_TIME_NS).min(inherited.last_ns);
        if windows.is_some() && last_ns == MAXIMUM_TIME_NS {
            last_ns = context.now_ns;
        }
        let mut group_tags = own_tags;
        for tag in inherited.group_tags {
            if !group_tags.contains(tag) {
                group_tags.push(tag.clone());
            }
        }
        // Result series are ordered by their tags in the order of the keys, however the query lists them.
        group_tags.sort_unstable();
        group_tags.dedup();
        let mut symbols = Symbols::default();
        let mut columns = Vec::with_capacity(select.fields.len());
        let names = column_names(&select, &time_column);
        for (field, name) in select.fields.iter().zip(names) {
            let expression = symbols.map(&field.expr)?;
            columns.push(OutputColumn { name, reference_name: field.name(), expression });
        }
        let Symbols { calls, references, .. } = symbols;
        symbols_in_place(&mut columns, calls.len());
        let selector = calls.len() == 1 && calls[0].function.is_selector();
        let ascending = select.is_ascending();
        let handed_on = Inherited { first_ns, last_ns, group_tags: &group_tags };
        let sources = sources
            .into_iter()
            .map(|source| match source {
                RewrittenSource::Measurement(measurement) => Ok(PlanSource::Measurement(measurement)),
                RewrittenSource::Subquery(inner) => {
                    Ok(PlanSource::Subquery(Box::new(Self::build_inner(*inner, context, &handed_on)?)))
                }
            })
            .collect::<Result<_>>()?;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            sources,
            time_column,
            columns,
            calls,
            references,
            group_tags,
            windows,
            first_ns,
            last_ns,
            condition: rows,
            fill: select.fill,
            ascending,
            limit: count(select.limit),
            offset: count(select.offset),
            series_limit: count(select.slimit),
            series_offset: count(select.soffset),
            selector,
        })
    }

    /// The time that stands beside an aggregate of everything, ns.
    pub fn aggregate_time_ns(&self) -> i64 {
        if self.first_ns == MINIMUM_TIME_NS { 0 } else { self.first_ns }
    }
}

/// References come after the calls, whose number is known only when all columns were looked at: until
/// then they are numbered from the end.
fn symbols_in_place(columns: &mut [OutputColumn], calls: usize) {
    fn place(expression: &mut Expression, calls: usize) {
        match expression {
            Expression::Column(position) if *position >= REFERENCES_FROM => {
                *position = *position - REFERENCES_FROM + calls;
            }
            Expression::Column(_) | Expression::Literal(_) => {}
            Expression::Binary(_, left, right) => {
                place(left, calls);
                place(right, calls);
            }
            Expression::Matches { text, .. } => place(text, calls),
            Expression::Math(_, arguments) => {
                arguments.iter_mut().for_each(|argument| place(argument, calls))
            }
        }
    }
    columns.iter_mut().for_each(|column| place(&mut column.expression, calls));
}

const REFERENCES_FROM: usize = 1 << 32;

/// The distinct calls and references of a statement's columns.
#[derive(Default)]
struct Symbols {
    calls: Vec<CallPlan>,
    references: Vec<VarRef>,
    call_texts: HashMap<String, usize>,
}

impl Symbols {
    fn map(&mut self, expr: &Expr) -> Result<Expression> {
        Ok(match expr {
            Expr::VarRef(reference) => {
                Expression::Column(REFERENCES_FROM + position(&mut self.references, reference))
            }
            Expr::Call(call) => match MathFunction::named(&call.name) {
                Some(function) => {
                    let arguments =
                        call.args.iter().map(|argument| self.map(argument)).collect::<Result<_>>()?;
                    Expression::Math(function, arguments)
                }
                None => Expression::Column(self.call(call)?),
            },
            Expr::Distinct(name) => {
                return Err(Error::invalid(format!("unexpected DISTINCT {name}")));
            }
            Expr::Paren(inner) => self.map(inner)?,
            Expr::Binary(binary) => self.binary(binary)?,
            literal => Expression::Literal(literal_value(literal)?),
        })
    }

    fn binary(&mut self, binary: &Binary) -> Result<Expression> {
        binary_expression(binary, &mut |operand| self.map(operand))
    }

    fn call(&mut self, call: &Call) -> Result<usize> {
        let text = Expr::Call(call.clone()).to_string();
        if let Some(position) = self.call_texts.get(&text) {
            return Ok(*position);
        }
        self.calls.push(CallPlan::of(call)?);
        self.call_texts.insert(text, self.calls.len() - 1);
        Ok(self.calls.len() - 1)
    }
}

/// The place of a reference in a list of distinct ones, added if it is new.
pub fn position(references: &mut Vec<VarRef>, reference: &VarRef) -> usize {
    references.iter().position(|other| other == reference).unwrap_or_else(|| {
        references.push(reference.clone());
        references.len() - 1
    })
}

/// An operation on operands that `map` translates.
pub fn binary_expression(
    binary: &Binary,
    map: &mut impl FnMut(&Expr) -> Result<Expression>,
) -> Result<Expression> {
    if let BinaryOperator::Matches | BinaryOperator::NotMatches = binary.op {
        let Expr::Regex(regex) = &binary.rhs else {
            return Err(Error::invalid(format!("{} needs a regular expression", binary.op.as_str())));
        };
        return Ok(Expression::Matches {
            text: Box::new(map(&binary.lhs)?),
            regex: compile_regex(regex.as_str())?,
            wanted: binary.op == BinaryOperator::Matches,
        });
    }
    Ok(Expression::Binary(binary.op, Box::new(map(&binary.lhs)?), Box::new(map(&binary.rhs)?)))
}

/// The value of a literal.
pub fn literal_value(expr: &Expr) -> Result<Option<Scalar>> {
    Ok(Some(match expr {
        Expr::Boolean(value) => Scalar::Boolean(*value),
        Expr::Integer(value) | Expr::Duration(value) => Scalar::Integer(*value),
        Expr::Unsigned(value) => Scalar::Unsigned(*value),
        Expr::Number(value) => Scalar::Float(*value),
        Expr::String(value) => Scalar::String(value.clone()),
        Expr::Nil => return Ok(None),
        other => return Err(Error::invalid(format!("unexpected {other} in an expression"))),
    }))
}

/// The names of the selected columns: aliases first, then names made distinct by a number.
fn column_names(select: &Select, time_column: &str) -> Vec<String> {
    let mut uses: HashMap<String, usize> = HashMap::from([(time_column.to_owned(), 1)]);
    for alias in select.fields.iter().filter_map(|field| field.alias.as_ref()) {
        uses.insert(alias.clone(), 1);
    }
    let name_of = |field: &crate::influxql::Field| {
        if let Some(alias) = &field.alias {
            return alias.clone();
        }
        let mut name = field.name();
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
    select.fields.iter().map(name_of).collect()
}

/// The type of a reference that rewriting found, if any.
pub fn is_tag(reference: &VarRef) -> bool {
    reference.data_type == Some(DataType::Tag)
}
