//! Random queries for stored rows, and for the results of inner queries.

use crate::data::FieldType;
use crate::grammar::Writer;
use rand::Rng;

impl Writer<'_> {
    /// Some stored rows.
    pub fn raw(&mut self) -> String {
        let count = self.random.random_range(1..=3);
        let mut columns: Vec<String> = (0..count).map(|_| self.raw_column()).collect();
        match self.random.random_range(0..20) {
            0 => columns = vec!["*".to_owned()],
            1 => columns = vec![self.one_of(&["*::field", "/[fgi]/", "*::field, zone"])],
            _ => {}
        }
        let condition = self.condition(false);
        let group = self.group(None);
        let rest = self.rest(false);
        let zone = self.zone(0.05);
        // Without a field there are no rows.
        columns.insert(0, self.any_field());
        format!("SELECT {} FROM {}{condition}{group}{rest}{zone}", columns.join(", "), self.source())
    }

    fn raw_column(&mut self) -> String {
        match self.random.random_range(0..10) {
            0 => self.tag(),
            1 => format!("{} {} {}", self.number_field(), self.operator(), self.number_field()),
            2 => format!("{} {} {}", self.number_field(), self.operator(), self.random.random_range(1..9)),
            3 => self.elementary(),
            4 => format!("pow({}, {})", self.number_field(), self.random.random_range(0..4)),
            5 => match self.field_of(|kind| kind == FieldType::Integer) {
                Some(field) => {
                    format!("{field} {} {}", self.one_of(&["&", "|", "^"]), self.random.random_range(1..9))
                }
                None => self.any_field(),
            },
            // Rows whose only values have another type may count for LIMIT.
            6 => format!("{}::{}", self.number_field(), self.one_of(&["float", "integer", "field"])),
            7 => format!("({} {} {}) * 2 AS x", self.number_field(), self.operator(), self.number_field()),
            _ => self.any_field(),
        }
    }

    fn elementary(&mut self) -> String {
        let function = self.one_of(&[
            "abs", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "ln", "log2", "log10", "log", "sqrt",
            "floor", "ceil", "round", "atan2",
        ]);
        let field = self.number_field();
        // Of negative numbers some results are NaN, and of zero some are infinite.
        match function.as_str() {
            "ln" | "log2" | "log10" | "sqrt" => format!("{function}(abs({field}) + 1)"),
            "log" => format!("log(abs({field}) + 1, {})", self.random.random_range(2..5)),
            "asin" | "acos" => format!("{function}({field} / 200)"),
            "exp" => format!("exp({field} / 10)"),
            "atan2" => format!("atan2({field}, {})", self.number_field()),
            _ => format!("{function}({field})"),
        }
    }

    /// An inner query with the result `x`, grouped by `tag`, and its depth.
    fn inner(&mut self, tag: &str, condition: &str, depth: usize) -> String {
        let name = self.measurement.name;
        if depth > 0 {
            let inner = self.inner(tag, condition, depth - 1);
            return match self.random.random_range(0..4) {
                0 => format!("SELECT x + 1 AS x FROM ({inner}) GROUP BY {tag}"),
                1 => format!("SELECT x FROM ({inner}) WHERE x > -10 GROUP BY {tag}"),
                2 => format!("SELECT cumulative_sum(x) AS x FROM ({inner}) GROUP BY {tag}"),
                _ => format!(
                    "SELECT {}(x) AS x FROM ({inner}) GROUP BY {tag}",
                    self.one_of(&["mean", "max", "count", "sum"])
                ),
            };
        }
        let windows = self.windows();
        match self.random.random_range(0..4) {
            0 => format!("SELECT {} AS x FROM {name}{condition} GROUP BY {tag}", self.number_aggregate()),
            1 => format!(
                "SELECT {} AS x FROM {name}{condition} GROUP BY {windows}, {tag} fill(none)",
                self.number_aggregate()
            ),
            2 => format!("SELECT {} AS x FROM {name}{condition} GROUP BY {tag}", self.number_field()),
            _ => format!(
                "SELECT difference({}) AS x FROM {name}{condition} GROUP BY {tag}",
                self.number_field()
            ),
        }
    }

    pub fn of_inner_query(&mut self) -> String {
        let tag = self.tag();
        let (inner, outer) = (self.number_aggregate(), self.one_of(&["mean", "max", "sum", "count", "min"]));
        let condition = self.condition(true);
        let name = self.measurement.name;
        match self.random.random_range(0..8) {
            0 => {
                format!("SELECT {outer}(x) FROM (SELECT {inner} AS x FROM {name} GROUP BY {tag}){condition}")
            }
            1 => {
                let windows = self.windows();
                format!(
                    "SELECT {outer}(x) FROM (SELECT {inner} AS x FROM {name}{condition} GROUP BY {windows}, {tag}) GROUP BY {tag}"
                )
            }
            2 => format!(
                "SELECT {outer}(x) FROM (SELECT difference({}) AS x FROM {name} GROUP BY {tag}){condition}",
                self.number_field()
            ),
            3 => {
                let field = self.number_field();
                format!("SELECT x * 2 FROM (SELECT {field} + 1 AS x FROM {name}{condition}) WHERE x > 0")
            }
            4 => {
                // Windows of the outer query have a lower time bound.
                let (windows, times) = (self.windows(), self.times());
                let inner = self.inner(&tag, "", 0);
                format!("SELECT {outer}(x) FROM ({inner}) WHERE {times} GROUP BY {windows}, {tag} fill(none)")
            }
            depth => {
                let inner = self.inner(&tag, &condition, depth - 4);
                let group = if self.chance(0.7) { format!(" GROUP BY {tag}") } else { String::new() };
                format!("SELECT {outer}(x) FROM ({inner}){group}")
            }
        }
    }
}
