//! The SELECT statement and what other statements share with it.

use super::expr::{Call, Expr};
use super::regex::Regex;
use super::time::Zone;

/// `SELECT …`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Select {
    /// What is selected; never empty.
    pub fields: Vec<Field>,
    /// `INTO …`
    pub target: Option<Target>,
    /// `FROM …`; never empty.
    pub sources: Vec<Source>,
    /// `WHERE …`
    pub condition: Option<Expr>,
    /// `GROUP BY …`: calls of `time`, references, wildcards and regular expressions once validated.
    pub dimensions: Vec<Expr>,
    /// `fill(…)`
    pub fill: Fill,
    /// `ORDER BY …`
    pub order: Option<SortField>,
    /// `LIMIT n`: rows of each series; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
    /// `SLIMIT n`: series; 0 means all.
    pub slimit: u64,
    /// `SOFFSET n`
    pub soffset: u64,
    /// `tz('…')`
    pub zone: Option<Zone>,
    /// `AS OF …`: the moment of the past that is asked for; only of a whole statement.
    pub as_of: Option<Expr>,
}

impl Select {
    /// Whether rows are in the order of rising time.
    pub fn is_ascending(&self) -> bool {
        self.order.as_ref().is_none_or(|order| order.ascending)
    }

    /// Whether no field calls a function: the stored rows themselves are selected.
    pub fn is_raw(&self) -> bool {
        !self.fields.iter().any(|field| field.expr.any(|expr| matches!(expr, Expr::Call(_))))
    }

    /// The call of `time` among the dimensions.
    pub fn time_dimension(&self) -> Option<&Call> {
        self.dimensions.iter().find_map(|dimension| match dimension {
            Expr::Call(call) if call.name == "time" => Some(call),
            _ => None,
        })
    }

    /// Whether the fields or their arguments contain `*` or a regular expression.
    pub fn has_field_wildcard(&self) -> bool {
        self.fields
            .iter()
            .any(|field| field.expr.any(|expr| matches!(expr, Expr::Wildcard(_) | Expr::Regex(_))))
    }

    /// Whether the dimensions contain `*` or a regular expression.
    pub fn has_dimension_wildcard(&self) -> bool {
        self.dimensions.iter().any(|dimension| matches!(dimension, Expr::Wildcard(_) | Expr::Regex(_)))
    }
}

/// One selected expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// What is computed.
    pub expr: Expr,
    /// `AS name`
    pub alias: Option<String>,
}

impl Field {
    /// The column's name before conflicts are resolved: the alias, the function or the reference; the names of all
    /// operands joined with `_`; empty for literals.
    pub fn name(&self) -> String {
        if let Some(alias) = &self.alias {
            return alias.clone();
        }
        let mut expr = &self.expr;
        while let Expr::Paren(inner) = expr {
            expr = inner;
        }
        match expr {
            Expr::Call(call) => call.name.clone(),
            Expr::VarRef(reference) => reference.name.clone(),
            Expr::Binary(_) => {
                let mut names = Vec::new();
                expr.walk(&mut |part| match part {
                    Expr::VarRef(reference) => {
                        names.push(reference.name.as_str());
                        true
                    }
                    Expr::Call(call) => {
                        names.push(call.name.as_str());
                        false
                    }
                    _ => true,
                });
                names.join("_")
            }
            _ => String::new(),
        }
    }
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A measurement or all that match a regular expression.
    Measurement(Measurement),
    /// `(SELECT …)`
    Subquery(Box<Select>),
}

/// `[database.][retention_policy.]name`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Measurement {
    /// The database, where one is written.
    pub database: Option<String>,
    /// The retention policy, where one is written.
    pub retention_policy: Option<String>,
    /// The name or the pattern.
    pub name: MeasurementName,
}

/// How a measurement is named.
#[derive(Clone, Debug, PartialEq)]
pub enum MeasurementName {
    /// By its name; empty in a target that ends in `:MEASUREMENT`.
    Name(String),
    /// By a regular expression.
    Regex(Regex),
}

impl Default for MeasurementName {
    fn default() -> Self {
        MeasurementName::Name(String::new())
    }
}

/// `INTO …`
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Where to write. An empty name means `:MEASUREMENT`: the name of the source.
    pub measurement: Measurement,
}

/// What is shown for windows that have no rows.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Fill {
    /// `fill(null)`, the default.
    #[default]
    Null,
    /// `fill(none)`: no row.
    None,
    /// `fill(1)`
    Integer(i64),
    /// `fill(1.5)`
    Number(f64),
    /// `fill(previous)`
    Previous,
    /// `fill(linear)`
    Linear,
}

/// `ORDER BY time ASC|DESC`; the name may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortField {
    /// The name, when written: only `time` parses.
    pub name: Option<String>,
    /// The direction.
    pub ascending: bool,
}
