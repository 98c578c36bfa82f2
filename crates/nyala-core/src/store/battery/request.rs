//! Random reads.

use super::super::{
    AggregateFunction, AggregateRequest, Comparison, Direction, Measure, Order, Predicate, ScanRequest,
    SlidingWindows, WindowRuns, Windows,
};
use super::generate::{Generator, KnownTable, SERIES, TIME_SPAN_NS};
use crate::ids::{ColumnId, SeriesId};
use crate::schema::{ColumnType, TableSchema};

impl Generator {
    /// A scan of the subject's table.
    pub fn scan(&mut self, table: &KnownTable) -> ScanRequest {
        let schema = &table.schema;
        let direction = self.direction();
        let order = if schema.is_series_keyed() && self.chance(3) {
            Order::Time(direction)
        } else {
            Order::Key(direction)
        };
        let mut columns: Vec<ColumnId> = Vec::new();
        for column in &schema.columns {
            let is_series = schema.is_series_keyed() && column.id == schema.key[0];
            if !is_series && !self.chance(3) {
                columns.push(column.id);
            }
        }
        if let (Some(first), true) = (columns.first().copied(), self.chance(10)) {
            columns.push(first);
        }
        if self.chance(60) {
            columns.push(ColumnId(999));
        }
        let by_time = matches!(order, Order::Time(_));
        let prefixed = !by_time && self.chance(5);
        let ties = match by_time && self.chance(2) {
            true => self.some_series_in_any_order(),
            false => Vec::new(),
        };
        ScanRequest {
            table: table.subject,
            rows: self.selection(schema),
            columns,
            predicates: self.predicates(schema),
            skip_empty_rows: self.chance(3),
            order,
            ties: ties.into(),
            prefilter: None,
            limit: self.chance(3).then(|| self.below(30) as usize),
            limit_per_prefix: prefixed.then(|| 1 + self.below(3) as usize),
            in_background: false,
        }
    }

    fn some_series_in_any_order(&mut self) -> Vec<SeriesId> {
        let mut series: Vec<SeriesId> = (0..SERIES as u32).map(SeriesId).collect();
        for last in (1..series.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            series.swap(last, other);
        }
        series.truncate(self.below(SERIES + 1) as usize);
        series
    }

    fn direction(&mut self) -> Direction {
        if self.chance(2) { Direction::Forward } else { Direction::Backward }
    }

    /// Conditions on up to two columns.
    pub(super) fn predicates(&mut self, schema: &TableSchema) -> Vec<Predicate> {
        let count = if self.chance(2) { 0 } else { 1 + self.below(2) };
        (0..count)
            .map(|_| {
                let column = &schema.columns[self.below(schema.columns.len() as u64) as usize];
                let column_type = column.column_type;
                let value = self.value(column_type);
                let comparison = match self.below(9) {
                    0 => Comparison::Equal(value),
                    1 => Comparison::NotEqual(value),
                    2 => Comparison::Less(value),
                    3 => Comparison::LessOrEqual(value),
                    4 => Comparison::Greater(value),
                    5 => Comparison::GreaterOrEqual(value),
                    6 => Comparison::In((0..self.below(4)).map(|_| self.value(column_type)).collect()),
                    7 => Comparison::IsNull,
                    _ => Comparison::IsNotNull,
                };
                Predicate { column: column.id, comparison }
            })
            .collect()
    }

    /// An aggregate of the subject's table.
    pub fn aggregate(&mut self, table: &KnownTable) -> AggregateRequest {
        let schema = &table.schema;
        let mut groups = 1 + self.below(3) as usize;
        let mut series: Vec<(SeriesId, u32)> = Vec::new();
        for id in (0..SERIES as u32).chain([u32::MAX]) {
            if !self.chance(4) {
                series.push((SeriesId(id), self.below(groups as u64) as u32));
            }
        }
        let windows = match self.below(4) {
            0 => Windows::single(self.time_range()),
            1 => {
                let mut bounds: Vec<i64> = (0..self.below(6)).map(|_| self.time()).collect();
                bounds.sort_unstable();
                bounds.dedup();
                let mut runs = WindowRuns::starting_at(bounds.first().copied().unwrap_or(0));
                bounds.iter().skip(1).for_each(|bound| runs.push_to(*bound));
                runs.into()
            }
            _ => {
                let width_ns = 1 + self.below(TIME_SPAN_NS as u64 / 3) as i64;
                let start_ns = self.below(TIME_SPAN_NS as u64) as i64 - TIME_SPAN_NS / 2;
                Windows::Regular { start_ns, width_ns, count: self.below(40) as usize }
            }
        };
        // Stores may have a special path when only one function is requested.
        use AggregateFunction::{First, Last, Max, Min};
        let favourite = self.chance(3).then(|| [Last, Max, Min, First][self.below(4) as usize]);
        let measures: Vec<_> = (0..1 + self.below(5)).map(|_| self.measure(schema, favourite)).collect();
        if measures.iter().any(|measure| measure.function == AggregateFunction::Increase) && !self.chance(8) {
            // It is only defined for groups of one series.
            series.iter_mut().zip(0..).for_each(|((_, group), number)| *group = number);
            groups = series.len();
        }
        AggregateRequest {
            table: table.subject,
            series: series.into(),
            groups,
            time: self.time_range(),
            windows,
            predicates: if self.chance(3) { self.predicates(schema) } else { Vec::new() },
            measures,
            times: self.chance(2),
        }
    }

    /// Windows that overlap or have gaps.
    pub fn sliding(&mut self) -> SlidingWindows {
        let width = |generator: &mut Self| 1 + generator.below(TIME_SPAN_NS as u64 / 4) as i64;
        let (step_ns, range_ns) = (width(self), width(self));
        let range_ns = if self.chance(3) { step_ns * (1 + range_ns % 4) } else { range_ns };
        let start_ns = self.below(TIME_SPAN_NS as u64) as i64 - TIME_SPAN_NS / 2;
        SlidingWindows { start_ns, step_ns, range_ns, count: self.below(20) as usize }
    }

    /// A function that the column supports; the favourite if there is one and the column supports it.
    fn measure(&mut self, schema: &TableSchema, favourite: Option<AggregateFunction>) -> Measure {
        use AggregateFunction::{Count, First, Increase, Last, Max, Min, Sum};
        let cells = if favourite.is_some() && schema.columns.len() > 2 { 2 } else { 1 };
        let column = &schema.columns[cells + self.below((schema.columns.len() - cells) as u64) as usize];
        let functions: &[AggregateFunction] = match column.column_type {
            ColumnType::Int64 | ColumnType::UInt64 | ColumnType::Float64 => {
                &[Count, Sum, Min, Max, First, Last, Increase]
            }
            ColumnType::Bool | ColumnType::Timestamp => &[Count, Min, Max, First, Last],
            ColumnType::String => &[Count, First, Last],
            _ => &[Count],
        };
        if let Some(function) = favourite.filter(|favourite| functions.contains(favourite)) {
            return Measure { column: column.id, function };
        }
        // Sometimes a function that the type does not support.
        let function =
            if self.chance(40) { Sum } else { functions[self.below(functions.len() as u64) as usize] };
        Measure { column: column.id, function }
    }
}
