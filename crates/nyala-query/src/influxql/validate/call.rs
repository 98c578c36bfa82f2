//! Checks fields one by one: which functions exist, and which arguments they take.

use crate::influxql::condition::go_type;
use crate::influxql::duration::format_duration;
use crate::influxql::expr::{Call, Expr};
use crate::influxql::math::is_math_function;

use super::{Checker, refuse};
use nyala_core::Result;

/// Checks the expression of one field.
pub(super) struct FieldChecker<'a> {
    statement: &'a mut Checker,
    /// Whether `*` and regular expressions are allowed here: not next to an operator.
    wildcard: bool,
}

pub(super) fn count_arguments(name: &str, args: &[Expr], expected: usize) -> Result<()> {
    if args.len() == expected {
        return Ok(());
    }
    refuse(format!("invalid number of arguments for {name}, expected {expected}, got {}", args.len()))
}

fn count_between(name: &str, args: &[Expr], least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&args.len()) {
        return Ok(());
    }
    refuse(format!(
        "invalid number of arguments for {name}, expected at least {least} but no more than {most}, got {}",
        args.len()
    ))
}

impl<'a> FieldChecker<'a> {
    pub(super) fn new(statement: &'a mut Checker) -> Self {
        FieldChecker { statement, wildcard: true }
    }

    pub(super) fn expression(&mut self, expr: &Expr) -> Result<()> {
        match expr {
            Expr::VarRef(_) => {
                self.statement.has_references = true;
                Ok(())
            }
            Expr::Wildcard(_) if !self.wildcard => refuse("unable to use wildcard in a binary expression"),
            Expr::Regex(_) if !self.wildcard => refuse("unable to use regex in a binary expression"),
            Expr::Wildcard(_) | Expr::Regex(_) => {
                self.statement.has_references = true;
                Ok(())
            }
            Expr::Call(call) => self.call(call),
            Expr::Distinct(_) => {
                self.statement.calls += 1;
                self.distinct_call(false);
                Ok(())
            }
            Expr::Binary(binary) => {
                self.wildcard = false;
                match (binary.lhs.is_literal(), binary.rhs.is_literal()) {
                    (true, true) => refuse("cannot perform a binary expression on two literals"),
                    (true, false) => self.expression(&binary.rhs),
                    (false, true) => self.expression(&binary.lhs),
                    (false, false) => {
                        self.expression(&binary.lhs)?;
                        self.expression(&binary.rhs)
                    }
                }
            }
            Expr::Paren(inner) => self.expression(inner),
            _ => refuse("field must contain at least one variable"),
        }
    }

    fn math_function(&mut self, call: &Call) -> Result<()> {
        let expected = if matches!(call.name.as_str(), "atan2" | "pow" | "log") { 2 } else { 1 };
        count_arguments(&call.name, &call.args, expected)?;
        call.args.iter().filter(|arg| !arg.is_literal()).try_for_each(|arg| self.expression(arg))
    }

    fn function(&mut self, call: &Call) -> Result<()> {
        let (name, args) = (call.name.as_str(), call.args.as_slice());
        match name {
            "max" | "min" | "first" | "last" => {
                count_arguments(name, args, 1)?;
                self.symbol(name, &args[0])
            }
            "count" | "sum" | "mean" | "median" | "mode" | "stddev" | "spread" => self.aggregate(name, args),
            "percentile" => self.percentile(args),
            "sample" => self.sample(args),
            "distinct" => self.distinct(args, false),
            "top" | "bottom" => self.top_bottom(call),
            "derivative" | "non_negative_derivative" | "elapsed" => {
                self.per_unit(name, args)?;
                self.transformation(name, args, 1)
            }
            "difference" | "non_negative_difference" | "cumulative_sum" => {
                count_arguments(name, args, 1)?;
                self.transformation(name, args, 1)
            }
            "moving_average" => self.moving_average(args),
            "exponential_moving_average"
            | "double_exponential_moving_average"
            | "triple_exponential_moving_average"
            | "relative_strength_index"
            | "triple_exponential_derivative" => {
                count_between(name, args, 2, 4)?;
                self.technical_analysis(name, args, &["exponential", "simple"])
            }
            "kaufmans_efficiency_ratio" | "kaufmans_adaptive_moving_average" => {
                count_between(name, args, 2, 3)?;
                self.technical_analysis(name, args, &[])
            }
            "chande_momentum_oscillator" => {
                count_between(name, args, 2, 4)?;
                self.technical_analysis(name, args, &["none", "exponential", "simple"])
            }
            "integral" => self.integral(args),
            "holt_winters" | "holt_winters_with_fit" => self.holt_winters(name, args),
            _ => refuse(format!("undefined function {name}()")),
        }
    }

    /// An argument that must name fields.
    fn symbol(&mut self, name: &str, field: &Expr) -> Result<()> {
        match field {
            Expr::VarRef(_) => Ok(()),
            Expr::Wildcard(_) if !self.wildcard => {
                refuse(format!("unsupported expression with wildcard: {name}()"))
            }
            Expr::Regex(_) if !self.wildcard => {
                refuse(format!("unsupported expression with regex field: {name}()"))
            }
            Expr::Wildcard(_) | Expr::Regex(_) => {
                self.statement.only_selectors = false;
                Ok(())
            }
            _ => refuse(format!("expected field argument in {name}()")),
        }
    }

    fn aggregate(&mut self, name: &str, args: &[Expr]) -> Result<()> {
        self.statement.only_selectors = false;
        count_arguments(name, args, 1)?;
        match &args[0] {
            Expr::Call(inner) if name == "count" && inner.name == "distinct" => {
                self.distinct(&inner.args, true)
            }
            Expr::Distinct(_) if name == "count" => Ok(()),
            field => self.symbol(name, field),
        }
    }

    fn percentile(&mut self, args: &[Expr]) -> Result<()> {
        count_arguments("percentile", args, 2)?;
        if !matches!(args[1], Expr::Integer(_) | Expr::Number(_)) {
            return refuse("expected float argument in percentile()");
        }
        self.symbol("percentile", &args[0])
    }

    fn sample(&mut self, args: &[Expr]) -> Result<()> {
        count_arguments("sample", args, 2)?;
        match args[1] {
            Expr::Integer(1..) => self.symbol("sample", &args[0]),
            Expr::Integer(size) => refuse(format!("sample window must be greater than 1, got {size}")),
            _ => refuse("expected integer argument in sample()"),
        }
    }

    /// `nested`: the argument of another function, which may then stand beside others.
    fn distinct(&mut self, args: &[Expr], nested: bool) -> Result<()> {
        match args {
            [] => refuse("distinct function requires at least one argument"),
            [Expr::VarRef(_)] => {
                self.distinct_call(nested);
                Ok(())
            }
            [_] => refuse("expected field argument in distinct()"),
            _ => refuse("distinct function can only have one argument"),
        }
    }

    fn distinct_call(&mut self, nested: bool) {
        self.statement.has_distinct |= !nested;
        self.statement.only_selectors = false;
    }

    fn top_bottom(&mut self, call: &Call) -> Result<()> {
        let name = call.name.as_str();
        if let Some(other) = &self.statement.top_bottom {
            return refuse(format!("selector function {other}() cannot be combined with other functions"));
        }
        let [field, tags @ .., last] = call.args.as_slice() else {
            return refuse(format!(
                "invalid number of arguments for {name}, expected at least 2, got {}",
                call.args.len()
            ));
        };
        let limit = self.statement.limit;
        match last {
            Expr::Integer(count @ ..=0) => {
                return refuse(format!("limit ({count}) in {name} function must be at least 1"));
            }
            Expr::Integer(count) if limit > 0 && count.unsigned_abs() > limit => {
                return refuse(format!(
                    "limit ({count}) in {name} function can not be larger than the LIMIT ({limit}) in the select statement"
                ));
            }
            Expr::Integer(_) => {}
            _ => return refuse(format!("expected integer as last argument in {name}(), found {last}")),
        }
        if !matches!(field, Expr::VarRef(_)) {
            return refuse(format!("expected first argument to be a field in {name}(), found {field}"));
        }
        for tag in tags {
            if !matches!(tag, Expr::VarRef(_)) {
                return refuse(format!("only fields or tags are allowed in {name}(), found {tag}"));
            }
            // Each is a column of its own, unless the result is written.
            if !self.statement.has_target {
                self.statement.fields += 1;
                self.statement.has_references = true;
            }
        }
        self.statement.top_bottom = Some(name.to_string());
        Ok(())
    }

    /// The optional unit of time of `derivative` and `elapsed`.
    fn per_unit(&mut self, name: &str, args: &[Expr]) -> Result<()> {
        count_between(name, args, 1, 2)?;
        match args.get(1) {
            None | Some(Expr::Duration(1..)) => Ok(()),
            Some(Expr::Duration(unit)) => {
                refuse(format!("duration argument must be positive, got {}", format_duration(*unit)))
            }
            Some(other) => {
                refuse(format!("second argument to {name} must be a duration, got {}", go_type(other)))
            }
        }
    }

    /// A function of consecutive values: of an aggregate for each window, or of a field without windows.
    fn transformation(&mut self, name: &str, args: &[Expr], extra_windows: i64) -> Result<()> {
        self.transformation_of(name, args, extra_windows, Self::nested_call)
    }

    fn transformation_of(
        &mut self,
        name: &str,
        args: &[Expr],
        extra_windows: i64,
        check_call: fn(&mut Self, &Call) -> Result<()>,
    ) -> Result<()> {
        self.statement.only_selectors = false;
        self.statement.extra_windows = self.statement.extra_windows.max(extra_windows);
        match &args[0] {
            Expr::Call(inner) => {
                if self.statement.interval_ns == 0 {
                    return refuse(format!("{name} aggregate requires a GROUP BY interval"));
                }
                check_call(self, inner)
            }
            field => {
                if self.statement.interval_ns != 0 && !self.statement.inherited {
                    return refuse(format!("aggregate function required inside the call to {name}"));
                }
                self.symbol(name, field)
            }
        }
    }

    fn nested_call(&mut self, inner: &Call) -> Result<()> {
        if inner.name == "distinct" {
            return self.distinct(&inner.args, true);
        }
        self.call(inner)
    }

    fn call(&mut self, call: &Call) -> Result<()> {
        if is_math_function(&call.name) {
            return self.math_function(call);
        }
        self.statement.calls += 1;
        self.function(call)
    }

    fn moving_average(&mut self, args: &[Expr]) -> Result<()> {
        let name = "moving_average";
        count_arguments(name, args, 2)?;
        match args[1] {
            Expr::Integer(window @ 2..) => self.transformation(name, args, window),
            Expr::Integer(window) => {
                refuse(format!("moving_average window must be greater than 1, got {window}"))
            }
            ref other => {
                refuse(format!("second argument for {name} must be an integer, got {}", go_type(other)))
            }
        }
    }

    /// `f(field, period[, hold[, warm-up]])`
    fn technical_analysis(&mut self, name: &str, args: &[Expr], warmups: &[&str]) -> Result<()> {
        let period = match args[1] {
            Expr::Integer(period @ 1..) => period,
            Expr::Integer(_) => return refuse(format!("{name} period must be greater than or equal to 1")),
            _ => return refuse(format!("{name} period must be an integer")),
        };
        match args.get(2) {
            None | Some(Expr::Integer(-1)) => {}
            Some(Expr::Integer(..=0)) if name == "triple_exponential_derivative" => {
                return refuse(format!("{name} hold period must be greater than or equal to 1"));
            }
            Some(Expr::Integer(hold)) if *hold >= 0 => {}
            Some(Expr::Integer(_)) => {
                return refuse(format!("{name} hold period must be greater than or equal to 0"));
            }
            Some(_) => return refuse(format!("{name} hold period must be an integer")),
        }
        match args.get(3) {
            None => {}
            Some(Expr::String(warmup)) if warmups.contains(&warmup.as_str()) => {}
            Some(Expr::String(_)) => {
                return refuse(format!("{name} warmup type must be one of: '{}'", warmups.join("' '")));
            }
            Some(_) => return refuse(format!("{name} warmup type must be a string")),
        }
        self.transformation_of(name, args, period, Self::call)
    }

    fn integral(&mut self, args: &[Expr]) -> Result<()> {
        count_between("integral", args, 1, 2)?;
        match args.get(1) {
            None | Some(Expr::Duration(1..)) => {}
            Some(Expr::Duration(unit)) => {
                return refuse(format!("duration argument must be positive, got {}", format_duration(*unit)));
            }
            Some(_) => return refuse("second argument must be a duration"),
        }
        self.statement.only_selectors = false;
        self.symbol("integral", &args[0])
    }

    fn holt_winters(&mut self, name: &str, args: &[Expr]) -> Result<()> {
        count_arguments(name, args, 3)?;
        match args[1] {
            Expr::Integer(1..) => {}
            Expr::Integer(count) => {
                return refuse(format!("second arg to {name} must be greater than 0, got {count}"));
            }
            _ => return refuse(format!("expected integer argument as second arg in {name}")),
        }
        match args[2] {
            Expr::Integer(0..) => {}
            Expr::Integer(season) => {
                return refuse(format!("third arg to {name} cannot be negative, got {season}"));
            }
            _ => return refuse(format!("expected integer argument as third arg in {name}")),
        }
        self.statement.only_selectors = false;
        match &args[0] {
            Expr::Call(_) if self.statement.interval_ns == 0 => {
                refuse(format!("{name} aggregate requires a GROUP BY interval"))
            }
            Expr::Call(inner) => self.nested_call(inner),
            _ => refuse(format!("must use aggregate function with {name}")),
        }
    }
}
