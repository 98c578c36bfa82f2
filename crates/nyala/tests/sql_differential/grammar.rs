//! Random expressions with types.

use super::forms::{ANY, COMPARISONS, PARTS, PATTERNS, SMALL, TEMPLATES, UNITS, forms};
use super::session::Parameter;
use rand::Rng;
use rand::rngs::SmallRng;

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Bool,
    Date,
    Timestamp,
    Timestamptz,
    Interval,
}

use Kind::{Bool, Date, Float4, Float8, Int2, Int4, Int8, Interval, Numeric, Text, Timestamp, Timestamptz};

/// How often a place has a column, and a literal is a parameter.
const COLUMNS: f64 = 0.6;
const PARAMETERS: f64 = 0.1;
/// How often a form is one that every type has, and something is NULL.
const OF_EVERY_TYPE: f64 = 0.15;
const NULLS: f64 = 0.03;

impl Kind {
    pub(crate) const ALL: [Kind; 12] =
        [Int2, Int4, Int8, Float4, Float8, Numeric, Text, Bool, Date, Timestamp, Timestamptz, Interval];

    fn of_name(name: &str, random: &mut SmallRng) -> Option<Kind> {
        Some(match name {
            "int2" => Int2,
            "int4" => Int4,
            "int8" => Int8,
            "int" => one_of(&[Int2, Int4, Int4, Int8], random),
            "float4" => Float4,
            "float8" => Float8,
            "numeric" => Numeric,
            "number" => one_of(&[Int2, Int4, Int8, Float8, Numeric], random),
            "text" => Text,
            "bool" => Bool,
            "date" => Date,
            "timestamp" => Timestamp,
            "timestamptz" => Timestamptz,
            "interval" => Interval,
            _ => return None,
        })
    }

    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Int2 => "smallint",
            Int4 => "integer",
            Int8 => "bigint",
            Float4 => "real",
            Float8 => "double precision",
            Numeric => "numeric",
            Text => "text",
            Bool => "boolean",
            Date => "date",
            Timestamp => "timestamp",
            Timestamptz => "timestamptz",
            Interval => "interval",
        }
    }

    fn oid(self) -> u32 {
        match self {
            Int2 => 21,
            Int4 => 23,
            Int8 => 20,
            Float4 => 700,
            Float8 => 701,
            Numeric => 1700,
            Text => 25,
            Bool => 16,
            Date => 1082,
            Timestamp => 1114,
            Timestamptz => 1184,
            Interval => 1186,
        }
    }

    /// Values of the type, as texts without quotes.
    pub(crate) fn values(self) -> &'static [&'static str] {
        match self {
            Int2 => &["0", "1", "2", "-3", "7", "32767", "-32768", "100"],
            Int4 => &["0", "1", "2", "-3", "7", "42", "2147483647", "-2147483648", "1000"],
            Int8 => &["0", "1", "-2", "7", "4000000000", "9223372036854775807", "-5000000000", "12"],
            Float4 => &["0", "1.5", "-2.25", "0.1", "1e10", "3"],
            Float8 => &["0", "1.5", "-2.25", "0.1", "1e100", "3", "123456.789", "1e-7", "2.5", "-0.5"],
            Numeric => &["0", "1.5", "-2.25", "0.001", "100", "12345.678", "2.5", "-0.5", "3.10", "7"],
            Text => &["a", "b", "", "abc", "Ab c", " x ", "änder", "12", "a1b2", "true", "2024-02-29"],
            Bool => &["true", "false"],
            Date => &["2024-02-29", "2024-03-01", "1999-12-31", "1970-01-01", "2023-10-29"],
            Timestamp => &[
                "2024-02-29 12:00:00",
                "2024-03-01 00:00:00.123456",
                "1999-12-31 23:59:59.5",
                "1970-01-01 00:00:00",
                "2023-10-29 01:30:00",
                "1969-07-20 20:17:40",
            ],
            Timestamptz => &[
                "2024-02-29 12:00:00+00",
                "2024-03-01 00:00:00.123456+00",
                "1999-12-31 23:59:59.5+02",
                "1970-01-01 00:00:00+00",
                "2023-10-29 01:30:00+00",
            ],
            Interval => &[
                "1 day",
                "24 hours",
                "1 month",
                "30 days",
                "-3 hours",
                "1 year 2 months 3 days 04:05:06.789",
                "00:00:00",
                "90 minutes",
                "-1 mon +5 days",
            ],
        }
    }

    /// A value as it is written in a statement.
    pub(crate) fn literal(self, value: &str) -> String {
        match self {
            Int4 if value == "-2147483648" => "(-2147483648)".to_owned(),
            Int4 | Numeric if value.starts_with('-') => format!("({value})"),
            Int4 => value.to_owned(),
            Numeric if value.contains('.') => value.to_owned(),
            Text => format!("'{value}'"),
            Bool => value.to_owned(),
            Int8 if value.len() > 11 || value.len() == 10 => value.to_owned(),
            Date | Timestamp | Timestamptz | Interval => format!("{} '{value}'", self.name()),
            Int2 | Int8 | Float4 | Float8 | Numeric => format!("'{value}'::{}", self.name()),
        }
    }
}

/// A column that an expression may name.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Makes a statement.
pub(crate) struct Grammar<'a> {
    pub(crate) random: &'a mut SmallRng,
    /// What can be named where an expression stands.
    pub(crate) columns: Vec<Column>,
    /// The parameters so far; none where there can be none.
    pub(crate) parameters: Option<Vec<Parameter>>,
}

pub(crate) fn one_of<T: Clone>(all: &[T], random: &mut SmallRng) -> T {
    all[random.random_range(0..all.len())].clone()
}

impl Grammar<'_> {
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        one_of(all, self.random)
    }

    /// An expression of a type, with so many levels at most.
    pub(crate) fn expression(&mut self, kind: Kind, depth: u32) -> String {
        if depth == 0 || self.chance(0.1) {
            return self.leaf(kind);
        }
        let all = if self.chance(OF_EVERY_TYPE) { ANY } else { forms(kind) };
        let form = self.one_of(all);
        self.filled(form, kind, depth)
    }

    /// A form, with expressions in its places.
    pub(crate) fn filled(&mut self, form: &str, kind: Kind, depth: u32) -> String {
        let mut whole = String::new();
        let mut rest = form;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("a place ends");
            whole.push_str(before);
            let place = match name {
                "same" => self.expression(kind, depth - 1),
                "small" => self.one_of(SMALL).to_owned(),
                "part" => self.one_of(PARTS).to_owned(),
                "unit" => self.one_of(UNITS).to_owned(),
                "pattern" => self.one_of(PATTERNS).to_owned(),
                "template" => self.one_of(TEMPLATES).to_owned(),
                "compare" => self.one_of(COMPARISONS).to_owned(),
                _ => {
                    let kind = Kind::of_name(name, self.random).unwrap_or_else(|| panic!("{name} in {form}"));
                    self.expression(kind, depth - 1)
                }
            };
            whole.push_str(&place);
            rest = after;
        }
        whole + rest
    }

    /// A column, a parameter or a literal.
    fn leaf(&mut self, kind: Kind) -> String {
        let columns: Vec<String> =
            self.columns.iter().filter(|own| own.kind == kind).map(|own| own.name.clone()).collect();
        if !columns.is_empty() && self.chance(COLUMNS) {
            return self.one_of(&columns);
        }
        if self.chance(NULLS) {
            return format!("NULL::{}", kind.name());
        }
        let value = self.one_of(kind.values());
        if self.chance(PARAMETERS)
            && let Some(number) = self.parameters.as_ref().map(|own| own.len() + 1)
        {
            let is_known = self.chance(0.5);
            let text = if self.chance(0.1) { None } else { Some(value.to_owned()) };
            let oid = if is_known { kind.oid() } else { 0 };
            self.parameters.as_mut().expect("there are some").push(Parameter { oid, text });
            return if is_known { format!("${number}") } else { format!("${number}::{}", kind.name()) };
        }
        kind.literal(value)
    }
}
