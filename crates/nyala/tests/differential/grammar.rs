//! Random queries: every function and clause of SELECT, and the forms of SHOW.
//!
//! What is left out is what differs on purpose: windows with functions that look back and no lower bound of time,
//! samples of fewer rows than there are, OFFSET without LIMIT, SLIMIT across shards, ties.

use crate::data::{FieldType, Measurement, Schema};
use rand::Rng;
use rand::rngs::SmallRng;

/// A query.
pub fn query(schema: &Schema, random: &mut SmallRng) -> String {
    let measurement = pick(random, &schema.measurements);
    match random.random_range(0..100) {
        0..8 => show(schema, measurement, random),
        8..20 => Writer { measurement, random }.raw(),
        20..24 => Writer { measurement, random }.of_inner_query(),
        _ => Writer { measurement, random }.functions(),
    }
}

fn pick<'a, T>(random: &mut SmallRng, choices: &'a [T]) -> &'a T {
    &choices[random.random_range(0..choices.len())]
}

struct Writer<'a> {
    measurement: &'a Measurement,
    random: &'a mut SmallRng,
}

/// What GROUP BY time asks for.
struct Windows {
    interval_s: i64,
    text: String,
}

impl Writer<'_> {
    fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    fn one_of(&mut self, choices: &[&str]) -> String {
        (*pick(self.random, choices)).to_owned()
    }

    fn number_field(&mut self) -> String {
        let fields = self.measurement.fields_of(|kind| matches!(kind, FieldType::Float | FieldType::Integer));
        self.one_of(&fields)
    }

    fn any_field(&mut self) -> String {
        let fields = self.measurement.fields_of(|_| true);
        self.one_of(&fields)
    }

    fn tag(&mut self) -> String {
        pick(self.random, &self.measurement.tags).name.to_owned()
    }

    /// Some stored rows.
    fn raw(&mut self) -> String {
        let count = self.random.random_range(1..=3);
        let mut columns: Vec<String> = (0..count).map(|_| self.raw_column()).collect();
        if self.chance(0.1) {
            columns = vec!["*".to_owned()];
        }
        let condition = self.condition(false);
        let group = self.group(None);
        let rest = self.rest(false);
        // Without a field there are no rows.
        columns.insert(0, self.any_field());
        format!("SELECT {} FROM {}{condition}{group}{rest}", columns.join(", "), self.measurement.name)
    }

    fn raw_column(&mut self) -> String {
        match self.random.random_range(0..6) {
            0 => self.tag(),
            1 => format!("{} {} {}", self.number_field(), self.operator(), self.number_field()),
            2 => format!("{} {} {}", self.number_field(), self.operator(), self.random.random_range(1..9)),
            3 => {
                let function = self.one_of(&[
                    "abs", "sin", "cos", "tan", "atan", "exp", "ln", "log2", "log10", "sqrt", "floor",
                    "ceil", "round",
                ]);
                // Of negative numbers some are none, and of zero some are infinite.
                match function.as_str() {
                    "ln" | "log2" | "log10" | "sqrt" => {
                        format!("{function}(abs({}) + 1)", self.number_field())
                    }
                    "exp" => format!("exp({} / 10)", self.number_field()),
                    _ => format!("{function}({})", self.number_field()),
                }
            }
            4 => format!("pow({}, {})", self.number_field(), self.random.random_range(0..4)),
            _ => self.any_field(),
        }
    }

    fn operator(&mut self) -> String {
        self.one_of(&["+", "-", "*", "/"])
    }

    fn functions(&mut self) -> String {
        let windows = if self.chance(0.6) { Some(self.windows()) } else { None };
        let (columns, is_mixed) = match self.random.random_range(0..100) {
            0..25 => self.aggregates(),
            25..40 => (self.selector(), false),
            40..80 => (self.transformations(windows.as_ref()), false),
            80..90 => (self.best(), false),
            _ => (self.forecast(windows.as_ref()), false),
        };
        let bounded = windows.is_some() || self.chance(0.5);
        let condition = self.condition(bounded);
        // The series of integrals come in any order, and a forecast of too few points ends the answer.
        let is_alone = columns.contains("integral(") || columns.contains("holt");
        let group = match &windows {
            Some(windows) if is_alone => format!(" GROUP BY {}", windows.text),
            None if is_alone => String::new(),
            windows => self.group(windows.as_ref()),
        };
        let mut fill = if windows.is_some() || is_mixed { self.fill() } else { String::new() };
        // InfluxDB counts windows from 1970 both ways, which bends lines across it unless windows begin there.
        if fill.contains("linear") && windows.as_ref().is_some_and(|windows| windows.text.contains(',')) {
            fill = " fill(previous)".to_owned();
        }
        // InfluxDB limits the rows that the best are chosen from.
        let is_limited = !columns.contains("top(") && !columns.contains("bottom(");
        let rest = if is_limited { self.rest(true) } else { String::new() };
        let zone = match windows.is_some() && !fill.contains("linear") && self.chance(0.15) {
            true => format!(" tz('{}')", self.one_of(&["Europe/Berlin", "America/New_York", "Asia/Kolkata"])),
            false => String::new(),
        };
        format!("SELECT {columns} FROM {}{condition}{group}{fill}{rest}{zone}", self.source())
    }

    /// The measurement, or several where times of several do not meet.
    fn source(&mut self) -> String {
        match self.random.random_range(0..20) {
            0 => format!("/^{}$/", self.measurement.name),
            1 => format!("\"autogen\".{}", self.measurement.name),
            _ => self.measurement.name.to_owned(),
        }
    }

    fn aggregate(&mut self, is_alone: bool) -> String {
        let name = self.one_of(&[
            "count",
            "sum",
            "mean",
            "median",
            "spread",
            "stddev",
            "min",
            "max",
            "first",
            "last",
            "count",
            "percentile",
            "count(distinct",
            "mode",
        ]);
        match name.as_str() {
            // Alone it shows the time of one of equal values, by chance.
            "percentile" if is_alone => format!("mean({})", self.number_field()),
            "percentile" => {
                let percentage = self.random.random_range(50..=100);
                format!("percentile({}, {percentage})", self.number_field())
            }
            "count(distinct" => format!("count(distinct({}))", self.any_field()),
            "count" | "first" | "last" => format!("{name}({})", self.any_field()),
            // Which of equally frequent values it takes is InfluxDB's chance.
            "mode" => format!("sum({})", self.number_field()),
            _ => format!("{name}({})", self.number_field()),
        }
    }

    fn aggregates(&mut self) -> (String, bool) {
        let count = self.random.random_range(1..=3);
        let mut columns: Vec<String> = (0..count).map(|_| self.aggregate(count == 1)).collect();
        if self.chance(0.2) {
            let (a, b) = (self.number_field(), self.number_field());
            columns.push(format!("max({a}) {} min({b}) AS together", self.operator()));
        }
        if self.chance(0.05) {
            columns = vec![format!("distinct({})", self.any_field())];
        }
        if self.chance(0.05) {
            columns = vec![format!("{}(*)", self.one_of(&["count", "max", "mean", "last"]))];
        }
        (columns.join(", "), count > 1)
    }

    fn selector(&mut self) -> String {
        let name = self.one_of(&["first", "last", "min", "max"]);
        let (field, tag) = (self.number_field(), self.tag());
        match self.random.random_range(0..3) {
            // Which of equal values brings its other columns is chance, except by time.
            0 => format!("{}({field}), {tag}", self.one_of(&["first", "last"])),
            1 => format!("{}({field}), {}", self.one_of(&["first", "last"]), self.any_field()),
            _ => format!("{name}({field})"),
        }
    }

    /// An aggregate that gives numbers.
    fn number_aggregate(&mut self) -> String {
        let name = self.one_of(&["mean", "sum", "max", "min", "last", "first", "count", "median", "spread"]);
        format!("{name}({})", self.number_field())
    }

    fn transformation(&mut self, windows: Option<&Windows>) -> String {
        let argument = match windows {
            Some(_) => self.number_aggregate(),
            None => self.number_field(),
        };
        let count = self.random.random_range(2..6);
        let unit = self.one_of(&["1s", "10s", "1m", "500ms"]);
        match self.random.random_range(0..16) {
            0 => format!("derivative({argument})"),
            1 => format!("derivative({argument}, {unit})"),
            2 => format!("non_negative_derivative({argument}, {unit})"),
            3 => format!("difference({argument})"),
            4 => format!("non_negative_difference({argument})"),
            5 => format!("moving_average({argument}, {count})"),
            6 => format!("cumulative_sum({argument})"),
            7 => format!("elapsed({argument}, {unit})"),
            8 => format!("exponential_moving_average({argument}, {count})"),
            9 => format!("double_exponential_moving_average({argument}, {count}, {})", count + 1),
            10 => format!("triple_exponential_moving_average({argument}, {count}, 2, 'simple')"),
            11 => format!("relative_strength_index({argument}, {count})"),
            12 => format!("kaufmans_efficiency_ratio({argument}, {count})"),
            13 => format!("kaufmans_adaptive_moving_average({argument}, {count})"),
            14 => format!("chande_momentum_oscillator({argument}, {count})"),
            _ => format!("difference({argument})"),
        }
    }

    fn transformations(&mut self, windows: Option<&Windows>) -> String {
        let mut columns = vec![self.transformation(windows)];
        match self.random.random_range(0..10) {
            0 => columns.push(self.transformation(windows)),
            1 if windows.is_some() => columns.push(self.number_aggregate()),
            2 => columns = vec![format!("{} * 2", columns[0])],
            3 if windows.is_some() => {
                let inner = self.number_aggregate();
                let outer = self.one_of(&["difference", "cumulative_sum", "non_negative_difference"]);
                columns = vec![format!("{outer}(cumulative_sum({inner}))")];
            }
            4 if windows.is_none() => {
                columns = vec![format!("integral({}, {})", self.number_field(), self.one_of(&["1s", "1m"]))];
            }
            _ => {}
        }
        columns.join(", ")
    }

    fn best(&mut self) -> String {
        let name = self.one_of(&["top", "bottom"]);
        let (field, count) = (self.number_field(), self.random.random_range(1..6));
        match self.random.random_range(0..4) {
            0 => format!("{name}({field}, {}, {count})", self.tag()),
            1 => format!("sample({field}, 1000)"),
            _ => format!("{name}({field}, {count})"),
        }
    }

    fn forecast(&mut self, windows: Option<&Windows>) -> String {
        if windows.is_none() {
            return self.transformations(windows);
        }
        let name = self.one_of(&["holt_winters", "holt_winters_with_fit"]);
        let (count, season) = (self.random.random_range(1..5), self.random.random_range(0..4));
        // A season that begins with a sum of nothing is divided by it.
        format!("{name}(count({}), {count}, {season})", self.number_field())
    }

    fn windows(&mut self) -> Windows {
        let (start_s, end_s) = self.measurement.range_s();
        let interval_s = (end_s - start_s) / self.random.random_range(3..40) + 1;
        let text = match self.random.random_range(0..5) {
            0 => format!("time({interval_s}s, {}s)", self.random.random_range(1..interval_s + 2)),
            _ => format!("time({interval_s}s)"),
        };
        Windows { interval_s, text }
    }

    fn condition(&mut self, bounded: bool) -> String {
        let mut parts = Vec::new();
        let (start_s, end_s) = self.measurement.range_s();
        let length_s = end_s - start_s;
        if bounded || self.chance(0.3) {
            let from_s = start_s - 20 + self.random.random_range(0..length_s / 2 + 1);
            let to_s = end_s + 20 - self.random.random_range(0..length_s / 3 + 1);
            parts.push(format!("time >= {from_s}s AND time < {to_s}s"));
        }
        if self.chance(0.3) {
            let tag = pick(self.random, &self.measurement.tags);
            let value = pick(self.random, &tag.values);
            let operator = pick(self.random, &["=", "!="]);
            parts.push(match self.random.random_range(0..3) {
                0 => format!("{} =~ /{}/", tag.name, &value[value.len() - 1..]),
                _ => format!("{} {operator} '{value}'", tag.name),
            });
        }
        if self.chance(0.2) {
            let operator = self.one_of(&[">", "<", ">=", "<=", "=", "!="]);
            parts.push(format!("{} {operator} {}", self.number_field(), self.random.random_range(-40..40)));
        }
        if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
    }

    fn group(&mut self, windows: Option<&Windows>) -> String {
        let mut dimensions = Vec::new();
        if let Some(windows) = windows {
            debug_assert!(windows.interval_s > 0, "windows have a width");
            dimensions.push(windows.text.clone());
        }
        if self.chance(0.5) {
            dimensions.push(match self.random.random_range(0..6) {
                0 => "*".to_owned(),
                _ => self.tag(),
            });
        }
        if dimensions.is_empty() { String::new() } else { format!(" GROUP BY {}", dimensions.join(", ")) }
    }

    fn fill(&mut self) -> String {
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

    fn rest(&mut self, of_functions: bool) -> String {
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
        rest
    }

    fn of_inner_query(&mut self) -> String {
        let tag = self.tag();
        let (inner, outer) = (self.number_aggregate(), self.one_of(&["mean", "max", "sum", "count", "min"]));
        let condition = self.condition(true);
        let name = self.measurement.name;
        match self.random.random_range(0..4) {
            0 => {
                format!("SELECT {outer}(x) FROM (SELECT {inner} AS x FROM {name} GROUP BY {tag}){condition}")
            }
            1 => {
                let windows = self.windows().text;
                format!(
                    "SELECT {outer}(x) FROM (SELECT {inner} AS x FROM {name}{condition} GROUP BY {windows}, {tag}) GROUP BY {tag}"
                )
            }
            2 => format!(
                "SELECT {outer}(x) FROM (SELECT difference({}) AS x FROM {name} GROUP BY {tag}){condition}",
                self.number_field()
            ),
            _ => {
                let field = self.number_field();
                format!("SELECT x * 2 FROM (SELECT {field} + 1 AS x FROM {name}{condition}) WHERE x > 0")
            }
        }
    }
}

fn show(schema: &Schema, measurement: &Measurement, random: &mut SmallRng) -> String {
    let tag = pick(random, &measurement.tags);
    let value = pick(random, &tag.values).clone();
    let (name, tag) = (measurement.name, tag.name);
    let from = match random.random_range(0..3) {
        0 => String::new(),
        1 => format!(" FROM {name}"),
        _ => format!(" FROM /{}/", &schema.measurements[0].name[..1]),
    };
    let condition = if random.random_bool(0.4) { format!(" WHERE {tag} = '{value}'") } else { String::new() };
    let limit = if random.random_bool(0.3) { " LIMIT 2" } else { "" };
    let exact = if random.random_bool(0.5) { " EXACT" } else { "" };
    match random.random_range(0..11) {
        0 => format!("SHOW MEASUREMENTS{condition}{limit}"),
        1 => format!("SHOW TAG KEYS{from}{condition}{limit}"),
        2 => format!("SHOW TAG VALUES{from} WITH KEY = {tag}{condition}{limit}"),
        3 => format!("SHOW TAG VALUES{from} WITH KEY =~ /r/{condition}{limit}"),
        4 => format!("SHOW FIELD KEYS{from}{limit}"),
        5 => format!("SHOW SERIES{from}{condition}{limit}"),
        6 => format!("SHOW SERIES{exact} CARDINALITY{from}{condition}"),
        7 => format!("SHOW MEASUREMENT{exact} CARDINALITY{from}{condition}"),
        8 => format!("SHOW TAG KEY{exact} CARDINALITY{from}{condition}"),
        9 => format!("SHOW TAG VALUES{exact} CARDINALITY{from} WITH KEY = {tag}{condition}"),
        _ => format!("SHOW FIELD KEY{exact} CARDINALITY{from}"),
    }
}
