//! Random queries with functions.

use crate::data::FieldType;
use crate::grammar::Writer;
use rand::Rng;

impl Writer<'_> {
    pub fn functions(&mut self) -> String {
        let windows = if self.chance(0.6) { Some(self.windows()) } else { None };
        let windows = windows.as_deref();
        let kind = if self.schema.has_ties { 0 } else { self.random.random_range(0..100) };
        let (columns, is_mixed) = match kind {
            0..25 => self.aggregates(),
            25..40 => (self.selector(), false),
            40..78 => (self.transformations(windows), false),
            78..82 => (self.integral(), false),
            82..90 => (self.best(), false),
            _ => (self.forecast(windows), false),
        };
        let bounded = windows.is_some() || self.chance(0.5);
        let condition = self.condition(bounded);
        // A forecast with too few points ends the answer.
        let is_alone = columns.contains("holt");
        let group = match windows {
            Some(windows) if is_alone => format!(" GROUP BY {windows}"),
            None if is_alone => String::new(),
            windows => self.group(windows),
        };
        let mut fill = if windows.is_some() || is_mixed { self.fill() } else { String::new() };
        // InfluxDB counts windows from 1970 in both directions, so lines across 1970 have a bend unless a window begins
        // there.
        if fill.contains("linear") && windows.is_some_and(|windows| windows.contains(',')) {
            fill = " fill(previous)".to_owned();
        }
        // Between unsigned integers InfluxDB interpolates through 2⁶³.
        if fill.contains("linear") && (columns.contains("(u") || columns.contains("(*)")) {
            fill = " fill(3)".to_owned();
        }
        // InfluxDB limits the rows that top and bottom choose from.
        let is_limited =
            !columns.contains("top(") && !columns.contains("bottom(") && !columns.contains("integral(");
        let rest = if is_limited { self.rest(true) } else { String::new() };
        let zone = match windows {
            Some(_) if fill.contains("linear") => String::new(),
            Some(_) => self.zone(0.25),
            None => self.zone(0.03),
        };
        let source = if is_alone { self.measurement.name.to_owned() } else { self.source() };
        format!("SELECT {columns} FROM {source}{condition}{group}{fill}{rest}{zone}")
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
            "first" | "last" if self.schema.has_ties => format!("count({})", self.any_field()),
            // Alone it shows the time of a random one of equal values.
            "percentile" if is_alone => format!("mean({})", self.number_field()),
            "percentile" => {
                let percentage = self.random.random_range(50..=100);
                format!("percentile({}, {percentage})", self.number_field())
            }
            "count(distinct" => format!("count(distinct({}))", self.any_field()),
            "count" | "first" | "last" => format!("{name}({})", self.any_field()),
            // InfluxDB chooses randomly among equally frequent values.
            "mode" => match self.field_of(|kind| kind == FieldType::Boolean) {
                Some(field) => format!("mode({field})"),
                None => format!("sum({})", self.number_field()),
            },
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
        match self.random.random_range(0..20) {
            0 => columns = vec![format!("distinct({})", self.any_field())],
            1 => {
                columns =
                    vec![format!("{}(*)", self.one_of(&["count", "max", "mean", "median", "sum", "spread"]))]
            }
            2 => {
                columns =
                    vec![format!("{}(/[fgi]/)", self.one_of(&["count", "min", "mean", "spread", "stddev"]))]
            }
            3 => columns.push(format!("round(mean({})) AS rounded", self.number_field())),
            _ => {}
        }
        (columns.join(", "), count > 1)
    }

    fn selector(&mut self) -> String {
        let name = self.one_of(&["first", "last", "min", "max"]);
        let (field, tag) = (self.number_field(), self.tag());
        match self.random.random_range(0..3) {
            // Which of equal values supplies the other columns is random, except by time.
            0 => {
                format!("{}({field}), {tag}", self.one_of(&["first", "last"]))
            }
            1 => {
                format!("{}({field}), {}", self.one_of(&["first", "last"]), self.any_field())
            }
            _ => format!("{name}({field})"),
        }
    }

    /// An aggregate with a numeric result.
    pub fn number_aggregate(&mut self) -> String {
        let name = self.one_of(&["mean", "sum", "max", "min", "last", "first", "count", "median", "spread"]);
        format!("{name}({})", self.number_field())
    }

    fn transformation(&mut self, windows: Option<&str>) -> String {
        let argument = match windows {
            Some(_) => self.number_aggregate(),
            None => self.number_field(),
        };
        let count = self.random.random_range(2..6);
        let unit = self.one_of(&["1s", "10s", "1m", "500ms"]);
        match self.random.random_range(0..18) {
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
            15 => format!("triple_exponential_derivative({argument}, {count})"),
            16 => {
                let warm_up = self.one_of(&["none", "exponential", "simple"]);
                format!("chande_momentum_oscillator({argument}, {count}, {}, '{warm_up}')", count - 1)
            }
            _ => format!("exponential_moving_average({argument}, {count}, 3, 'exponential')"),
        }
    }

    fn transformations(&mut self, windows: Option<&str>) -> String {
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
            _ => {}
        }
        columns.join(", ")
    }

    /// An integral of floats: for integers and unsigned integers, areas at window borders differ on purpose.
    fn integral(&mut self) -> String {
        let field = self.field_of(|kind| kind == FieldType::Float).expect("every measurement has f");
        match self.random.random_range(0..3) {
            0 => format!("integral({field})"),
            _ => format!("integral({field}, {})", self.one_of(&["1s", "1m", "500ms"])),
        }
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

    fn forecast(&mut self, windows: Option<&str>) -> String {
        if windows.is_none() {
            return self.transformations(windows);
        }
        let name = self.one_of(&["holt_winters", "holt_winters_with_fit"]);
        let (count, season) = (self.random.random_range(1..5), self.random.random_range(0..4));
        // A season with the sum zero causes a division by zero.
        format!("{name}(count({}), {count}, {season})", self.number_field())
    }
}
