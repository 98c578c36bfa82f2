//! Random queries, and the clauses that all SELECTs share.
//!
//! Queries are left out whose answers differ on purpose or are random in InfluxDB: functions of consecutive windows
//! without a lower time bound, samples of fewer rows than there are, OFFSET without LIMIT, SLIMIT across shards, and
//! functions of single rows in measurements whose points have equal times.

use crate::data::{FieldType, Measurement, Schema};
use crate::show::show;
use rand::Rng;
use rand::rngs::SmallRng;

const ZONES: [&str; 5] =
    ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo"];

/// A query.
pub fn query(schema: &Schema, database: &str, random: &mut SmallRng) -> String {
    let kind = random.random_range(0..100);
    if kind < 12 {
        return show(schema, database, random);
    }
    let measurement = pick(random, &schema.measurements);
    let mut writer = Writer { schema, measurement, random };
    match kind {
        12..28 => writer.raw(),
        28..40 if !schema.has_ties => writer.of_inner_query(),
        _ => writer.functions(),
    }
}

pub fn pick<'a, T>(random: &mut SmallRng, choices: &'a [T]) -> &'a T {
    &choices[random.random_range(0..choices.len())]
}

pub struct Writer<'a> {
    pub schema: &'a Schema,
    pub measurement: &'a Measurement,
    pub random: &'a mut SmallRng,
}

impl Writer<'_> {
    pub fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    pub fn one_of(&mut self, choices: &[&str]) -> String {
        (*pick(self.random, choices)).to_owned()
    }

    pub fn field_of(&mut self, wanted: impl Fn(FieldType) -> bool) -> Option<String> {
        let fields = self.measurement.fields_of(wanted);
        (!fields.is_empty()).then(|| self.one_of(&fields))
    }

    pub fn number_field(&mut self) -> String {
        self.field_of(FieldType::is_number).expect("every measurement has f")
    }

    pub fn any_field(&mut self) -> String {
        self.field_of(|_| true).expect("every measurement has f")
    }

    pub fn tag(&mut self) -> String {
        pick(self.random, &self.measurement.tags).name.to_owned()
    }

    pub fn operator(&mut self) -> String {
        self.one_of(&["+", "-", "*", "/", "+", "%"])
    }

    /// The measurement, by one of its names, or several.
    pub fn source(&mut self) -> String {
        let name = self.measurement.name;
        match self.random.random_range(0..20) {
            0 => format!("/^{name}$/"),
            1 => format!("\"autogen\".{name}"),
            2 => "/./".to_owned(),
            3 => {
                // A measurement that is named twice gives its rows twice, in random order.
                let other = pick(self.random, &self.schema.measurements).name;
                if other == name { name.to_owned() } else { format!("{other}, {name}") }
            }
            4 => format!("/[{}n]/", &name[..1]),
            _ => name.to_owned(),
        }
    }

    /// The window of GROUP BY time.
    pub fn windows(&mut self) -> String {
        let (start_s, end_s) = self.measurement.range_s();
        let interval_s = (end_s - start_s) / self.random.random_range(3..40) + 1;
        match self.random.random_range(0..5) {
            0 => format!("time({interval_s}s, {}s)", self.random.random_range(1..interval_s + 2)),
            1 => format!("time({interval_s}s, -{}s)", self.random.random_range(1..interval_s + 2)),
            _ => format!("time({interval_s}s)"),
        }
    }

    pub fn times(&mut self) -> String {
        let (start_s, end_s) = self.measurement.range_s();
        let length_s = end_s - start_s;
        let from_s = start_s - 20 + self.random.random_range(0..length_s / 2 + 1);
        let to_s = end_s + 20 - self.random.random_range(0..length_s / 3 + 1);
        match self.random.random_range(0..4) {
            0 => format!("time > {from_s}000ms AND time <= {to_s}s"),
            _ => format!("time >= {from_s}s AND time < {to_s}s"),
        }
    }

    pub fn condition(&mut self, bounded: bool) -> String {
        let mut parts = Vec::new();
        if bounded || self.chance(0.3) {
            parts.push(self.times());
        }
        if self.chance(0.3) {
            parts.push(self.tag_condition());
        }
        if self.chance(0.25) {
            parts.push(self.field_condition());
        }
        if self.chance(0.08) {
            let other = if self.chance(0.5) { self.tag_condition() } else { self.field_condition() };
            parts.push(format!("({} OR {other})", self.field_condition()));
        }
        if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
    }

    fn tag_condition(&mut self) -> String {
        let tag = pick(self.random, &self.measurement.tags);
        let value = pick(self.random, &tag.values);
        let (name, last) = (tag.name, &value[value.len() - 1..]);
        match self.random.random_range(0..8) {
            0 => format!("{name} =~ /{last}/"),
            1 => format!("{name} !~ /{last}$/"),
            2 => format!("{name} = ''"),
            3 => format!("{name} != ''"),
            4 => format!("{name} != '{value}'"),
            5 => format!("{name}::tag = '{value}'"),
            _ => format!("{name} = '{value}'"),
        }
    }

    fn field_condition(&mut self) -> String {
        let operator = self.one_of(&[">", "<", ">=", "<=", "=", "!="]);
        match self.random.random_range(0..8) {
            0 => match self.field_of(|kind| kind == FieldType::String) {
                Some(field) => format!(
                    "{field} =~ /[{}t]{}/",
                    self.random.random_range(0..4),
                    self.random.random_range(0..6)
                ),
                None => "f > 0".to_owned(),
            },
            1 => match self.field_of(|kind| kind == FieldType::Boolean) {
                Some(field) => format!("{field} = {}", self.one_of(&["true", "false"])),
                None => "f < 0".to_owned(),
            },
            2 => format!("{} {operator} {}", self.number_field(), self.number_field()),
            3 => format!("{} * 2 {operator} {} + 1", self.number_field(), self.number_field()),
            4 => match self.field_of(|kind| kind == FieldType::String) {
                Some(field) => format!("{field} != 't{}'", self.random.random_range(0..6)),
                None => "f != 0".to_owned(),
            },
            _ => format!("{} {operator} {}", self.number_field(), self.random.random_range(-40..40)),
        }
    }

    pub fn group(&mut self, windows: Option<&str>) -> String {
        let mut dimensions: Vec<String> = windows.map(str::to_owned).into_iter().collect();
        if self.chance(0.5) {
            dimensions.push(match self.random.random_range(0..8) {
                0 => "*".to_owned(),
                1 => "/^r/".to_owned(),
                2 => "region, zone".to_owned(),
                _ => self.tag(),
            });
        }
        if dimensions.is_empty() { String::new() } else { format!(" GROUP BY {}", dimensions.join(", ")) }
    }

    pub fn fill(&mut self) -> String {
        match self.random.random_range(0..8) {
            0 => " fill(none)".to_owned(),
            1 => " fill(previous)".to_owned(),
            2 => " fill(linear)".to_owned(),
            3 => " fill(0)".to_owned(),
            4 => " fill(-1.5)".to_owned(),
            5 => " fill(null)".to_owned(),
            _ => String::new(),
        }
    }

    /// Order and limits.
    pub fn rest(&mut self, of_functions: bool) -> String {
        let mut rest = String::new();
        if self.chance(0.25) {
            rest.push_str(" ORDER BY time DESC");
        }
        if self.chance(0.25) {
            rest.push_str(&format!(" LIMIT {}", self.random.random_range(6..12)));
            if self.chance(0.4) && of_functions {
                rest.push_str(&format!(" OFFSET {}", self.random.random_range(0..4)));
            }
        }
        let is_in_one_shard = self.schema.measurements.iter().all(Measurement::is_in_one_shard);
        if is_in_one_shard && self.chance(0.15) {
            rest.push_str(&format!(" SLIMIT {}", self.random.random_range(1..4)));
            if self.chance(0.4) {
                rest.push_str(&format!(" SOFFSET {}", self.random.random_range(0..3)));
            }
        }
        rest
    }

    pub fn zone(&mut self, probability: f64) -> String {
        if self.chance(probability) { format!(" tz('{}')", self.one_of(&ZONES)) } else { String::new() }
    }
}
