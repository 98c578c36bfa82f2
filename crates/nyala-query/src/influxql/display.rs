//! Canonical text: what `SHOW CONTINUOUS QUERIES`, `SHOW QUERIES` and error messages print.
//!
//! It is the text that InfluxDB prints, unless that would not parse to the same statement: numbers that need more than three
//! decimals keep all their digits, and names that need quotes always get them.

use std::fmt::{Display, Formatter, Result};

use super::ast::{Field, Fill, Measurement, MeasurementName, Select, SortField, Source, Target};
use super::duration::format_duration;
use super::expr::{Binary, Call, Expr, VarRef, Wildcard};
use super::quote::{Identifier, Quoted};
use super::regex::Regex;

/// Items with `, ` between them.
pub(super) struct Comma<'a, T>(pub(super) &'a [T]);

impl<T: Display> Display for Comma<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Expr::Binary(binary) => binary.fmt(f),
            Expr::Boolean(value) => value.fmt(f),
            Expr::Call(call) => call.fmt(f),
            Expr::Distinct(name) => write!(f, "DISTINCT {}", Identifier(name)),
            Expr::Duration(nanoseconds) => f.write_str(&format_duration(*nanoseconds)),
            Expr::Integer(value) => value.fmt(f),
            Expr::Nil => f.write_str("nil"),
            Expr::Number(value) => write_number(f, *value),
            Expr::Paren(inner) => write!(f, "({inner})"),
            Expr::Regex(regex) => regex.fmt(f),
            Expr::String(text) => Quoted(text).fmt(f),
            Expr::Time(time) => write!(f, "'{time}'"),
            Expr::Unsigned(value) => value.fmt(f),
            Expr::VarRef(reference) => reference.fmt(f),
            Expr::Wildcard(Wildcard::All) => f.write_str("*"),
            Expr::Wildcard(Wildcard::Fields) => f.write_str("*::field"),
            Expr::Wildcard(Wildcard::Tags) => f.write_str("*::tag"),
        }
    }
}

/// Three decimals, or as many as it takes.
fn write_number(f: &mut Formatter<'_>, value: f64) -> Result {
    let text = format!("{value:.3}");
    if text.parse::<f64>() == Ok(value) { f.write_str(&text) } else { write!(f, "{value}") }
}

impl Display for Binary {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} {}", self.lhs, self.op.as_str(), self.rhs)
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        // The keyword is the function's name here.
        if self.name == "distinct" {
            f.write_str(&self.name)?;
        } else {
            Identifier(&self.name).fmt(f)?;
        }
        write!(f, "({})", Comma(&self.args))
    }
}

impl Display for VarRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Identifier(&self.name).fmt(f)?;
        match self.data_type {
            Some(data_type) => write!(f, "::{}", data_type.as_str()),
            None => Ok(()),
        }
    }
}

impl Display for Regex {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "/{}/", self.as_str().replace('/', "\\/"))
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.expr.fmt(f)?;
        match &self.alias {
            Some(alias) => write!(f, " AS {}", Identifier(alias)),
            None => Ok(()),
        }
    }
}

/// The database and retention policy, if they are named, with a dot after them.
fn write_place(f: &mut Formatter<'_>, measurement: &Measurement) -> Result {
    if let Some(database) = &measurement.database {
        write!(f, "{}.", Identifier(database))?;
    }
    if let Some(retention_policy) = &measurement.retention_policy {
        Identifier(retention_policy).fmt(f)?;
    }
    if measurement.database.is_some() || measurement.retention_policy.is_some() {
        f.write_str(".")?;
    }
    Ok(())
}

impl Display for Measurement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_place(f, self)?;
        match &self.name {
            MeasurementName::Name(name) => Identifier(name).fmt(f),
            MeasurementName::Regex(regex) => regex.fmt(f),
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Source::Measurement(measurement) => measurement.fmt(f),
            Source::Subquery(select) => write!(f, "({select})"),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("INTO ")?;
        match &self.measurement.name {
            MeasurementName::Name(name) if name.is_empty() => {
                write_place(f, &self.measurement)?;
                f.write_str(":MEASUREMENT")
            }
            _ => self.measurement.fmt(f),
        }
    }
}

impl Display for SortField {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(name) = &self.name {
            write!(f, "{name} ")?;
        }
        f.write_str(if self.ascending { "ASC" } else { "DESC" })
    }
}

/// A clause that is left out where it has no value.
pub(super) fn write_clause(f: &mut Formatter<'_>, keyword: &str, value: Option<impl Display>) -> Result {
    match value {
        Some(value) => write!(f, " {keyword} {value}"),
        None => Ok(()),
    }
}

/// `KEYWORD n`, left out at 0.
pub(super) fn write_count(f: &mut Formatter<'_>, keyword: &str, count: u64) -> Result {
    write_clause(f, keyword, Some(count).filter(|count| *count > 0))
}

/// `KEYWORD a, b`, left out where there is nothing.
pub(super) fn write_list(f: &mut Formatter<'_>, keyword: &str, items: &[impl Display]) -> Result {
    write_clause(f, keyword, Some(Comma(items)).filter(|items| !items.0.is_empty()))
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "SELECT {}", Comma(&self.fields))?;
        if let Some(target) = &self.target {
            write!(f, " {target}")?;
        }
        write_list(f, "FROM", &self.sources)?;
        write_clause(f, "WHERE", self.condition.as_ref())?;
        write_list(f, "GROUP BY", &self.dimensions)?;
        match self.fill {
            Fill::Null => {}
            Fill::None => f.write_str(" fill(none)")?,
            Fill::Integer(value) => write!(f, " fill({value})")?,
            Fill::Number(value) => {
                // A whole number keeps its point, or it would come back as an integer.
                let point = if value.fract() == 0.0 { ".0" } else { "" };
                write!(f, " fill({value}{point})")?;
            }
            Fill::Previous => f.write_str(" fill(previous)")?,
            Fill::Linear => f.write_str(" fill(linear)")?,
        }
        write_clause(f, "ORDER BY", self.order.as_ref())?;
        write_count(f, "LIMIT", self.limit)?;
        write_count(f, "OFFSET", self.offset)?;
        write_count(f, "SLIMIT", self.slimit)?;
        write_count(f, "SOFFSET", self.soffset)?;
        if let Some(zone) = self.zone {
            write!(f, " TZ('{}')", zone.name())?;
        }
        write_clause(f, "AS OF", self.as_of.as_ref())
    }
}
