//! Functions with the prefix `pg_catalog`, those that are called without parentheses, and `ARRAY(SELECT …)`.

use super::collected::collected;
use super::{cast, first_match, is_text, own_name, series};
use crate::call::{call, exact, list};
use crate::dialect::{at_zone, numeric};
use crate::gaps::positional;
use crate::system_catalog::is_name_column;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, DataType, DuplicateTreatment, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, ObjectName, OrderByExpr,
    OrderByOptions, Subscript, TimezoneInfo, UnaryOperator, Value,
};

/// Words that are functions without parentheses, and that the parser takes for names.
const WORDS: [&str; 2] = ["current_schema", "current_role"];

pub(super) fn rewrite(expression: &mut Expr) {
    match expression {
        Expr::Identifier(word) if word.quote_style.is_none() => {
            let folded = word.value.to_lowercase();
            if WORDS.contains(&&*folded) {
                *expression = call(exact(&folded), Vec::new());
            }
        }
        Expr::Function(own) => {
            if own.name.0.len() == 2
                && let Some(name) = own_name(&own.name)
            {
                own.name = exact(&name);
            }
            if let Some(mut cut) = cut_now(own) {
                cast::rewrite(&mut cut);
                *expression = cut;
                return;
            }
            if let Some(other) = own_name(&own.name).and_then(|name| renamed(&name)) {
                own.name = exact(other);
            }
            if let Some(aggregated) = aggregated_json(own) {
                *expression = aggregated;
                return;
            }
            respelled(own);
            if let Some(rest) = spelled_out(own) {
                *expression = rest;
                return;
            }
            if let Some(rest) = operation(own) {
                *expression = rest;
                return;
            }
            if let Some(data_type) = own_name(&own.name).and_then(|name| counted(&name)) {
                let expr = Box::new(expression.clone());
                *expression =
                    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
                return;
            }
            if let Some(expanded) = own_name(&own.name).and_then(|name| expanded(&name)) {
                own.name = exact(expanded);
                *expression = call(exact("unnest"), vec![expression.clone()]);
                return;
            }
            if own_name(&own.name).as_deref() == Some("generate_series") {
                if let FunctionArguments::List(list) = &mut own.args {
                    series::rewrite(list);
                }
                *expression = call(exact("unnest"), vec![expression.clone()]);
                return;
            }
            if let Some(name) = own_name(&own.name) {
                positional(&name, &mut own.args);
                if name == "make_interval" {
                    by_name(&INTERVAL_PARTS, &mut own.args);
                }
            }
            match &own.args {
                FunctionArguments::None => own.args = FunctionArguments::List(list(Vec::new())),
                FunctionArguments::Subquery(query) if own_name(&own.name).as_deref() == Some("array") => {
                    let collected = collected(query);
                    *expression = call(exact("array::or_empty"), vec![collected]);
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// Whether an expression is a name of the system catalogue, as far as its own name tells.
fn is_name(expression: &Expr) -> bool {
    let column = match expression {
        Expr::Identifier(column) => Some(column),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    column.is_some_and(|column| is_name_column(&column.value.to_lowercase()))
}

/// `(row).field` as a call, and a letter of a name.
pub(super) fn rewrite_access(expression: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expression else { return };
    if let [AccessExpr::Subscript(Subscript::Index { index })] = &access_chain[..]
        && is_name(root)
    {
        // A name is an array of letters, the first of which is number 0.
        let one = || Expr::value(Value::Number("1".to_owned(), false));
        let (left, right) = (Box::new(index.clone()), Box::new(one()));
        let place = Expr::BinaryOp { left, op: BinaryOperator::Plus, right };
        *expression = call(exact("substr"), vec![root.as_ref().clone(), place, one()]);
        return;
    }
    let field = |access: &AccessExpr| match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name.value.clone()),
        _ => None,
    };
    let Some(fields) = access_chain.iter().map(field).collect::<Option<Vec<String>>>() else { return };
    let root = root.as_ref().clone();
    let got = |row, field| call(exact("get_field"), vec![row, Expr::value(Value::SingleQuotedString(field))]);
    *expression = fields.into_iter().fold(root, got);
}

/// What the planner calls a function of PostgreSQL; `None` if it has the same name.
pub(super) fn renamed(name: &str) -> Option<&'static str> {
    Some(match name {
        "every" => "bool_and",
        "variance" => "var_samp",
        "ceiling" => "ceil",
        "sign" => "signum",
        "transaction_timestamp" => "now",
        // In a transaction it is another time than `now`.
        "statement_timestamp" => "clock_timestamp",
        // Dumps of PostgreSQL have these in the place of ESCAPE and SIMILAR TO.
        "like_escape" => "like::pattern",
        "similar_to_escape" => "similar::pattern",
        _ => return None,
    })
}

/// Calls that are short for others, or whose values have types that cannot be told from these: that of a literal in quotes is
/// unknown, that of a UUID is not `text`.
fn spelled_out(own: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &own.args else { return None };
    match (&*own_name(&own.name)?, &list.args[..]) {
        ("pg_typeof", [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))])
            if matches!(value.value, Value::SingleQuotedString(_)) =>
        {
            Some(call(exact("pg_typeof"), vec![Expr::value(Value::Null)]))
        }
        // How old something is today.
        ("age", [FunctionArg::Unnamed(FunctionArgExpr::Expr(time))]) => {
            Some(call(exact("age"), vec![call(exact("current_date"), Vec::new()), time.clone()]))
        }
        // Without quotes its name is a form of its own.
        (
            "substring",
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(text)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern)),
            ],
        ) if is_text(pattern) => Some(first_match(text, pattern)),
        ("num_nulls", arguments) => counted_nulls(arguments, false),
        ("num_nonnulls", arguments) => counted_nulls(arguments, true),
        ("gen_random_uuid", []) => Some(call(exact("as::uuid"), vec![call(exact("uuid"), Vec::new())])),
        _ => None,
    }
}

/// The time of the transaction without its zone (`localtimestamp`), or with fewer digits (`current_timestamp(0)`).
fn cut_now(own: &Function) -> Option<Expr> {
    let name = own_name(&own.name)?;
    let zone = match &*name {
        "localtimestamp" => TimezoneInfo::WithoutTimeZone,
        "current_timestamp" => TimezoneInfo::WithTimeZone,
        _ => return None,
    };
    let digits = match &own.args {
        FunctionArguments::None => None,
        FunctionArguments::List(list) => match &list.args[..] {
            [] => None,
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(digits)))] => match &digits.value {
                Value::Number(digits, _) => Some(digits.parse().ok()?),
                _ => return None,
            },
            _ => return None,
        },
        FunctionArguments::Subquery(_) => return None,
    };
    if zone == TimezoneInfo::WithTimeZone && digits.is_none() {
        return None;
    }
    let expr = Box::new(call(exact("now"), Vec::new()));
    let data_type = DataType::Timestamp(digits, zone);
    Some(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
}

/// An aggregate of JSON as an array of texts of JSON, which are put together then.
fn aggregated_json(own: &Function) -> Option<Expr> {
    let (element, whole) = match &*own_name(&own.name)? {
        "json_agg" => ("json::element", "json::of_elements"),
        "jsonb_agg" => ("json::element", "jsonb::of_elements"),
        "json_object_agg" => ("json::pair", "json::of_pairs"),
        "jsonb_object_agg" => ("json::pair", "jsonb::of_pairs"),
        _ => return None,
    };
    let mut collected = own.clone();
    collected.name = ObjectName::from(vec![Ident::new("array_agg")]);
    let FunctionArguments::List(arguments) = &mut collected.args else { return None };
    let given = arguments.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(given)) => Some(given.clone()),
        _ => None,
    });
    let text = call(exact(element), given.collect::<Option<Vec<_>>>()?);
    let is_sorted = arguments.clauses.iter().any(|own| matches!(own, FunctionArgumentClause::OrderBy(_)));
    if arguments.duplicate_treatment == Some(DuplicateTreatment::Distinct) && !is_sorted {
        // Otherwise their order would be another one each time.
        let options = OrderByOptions { asc: None, nulls_first: None };
        let order = OrderByExpr { expr: text.clone(), options, with_fill: None };
        arguments.clauses.push(FunctionArgumentClause::OrderBy(vec![order]));
    }
    arguments.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(text))];
    Some(call(exact(whole), vec![Expr::Function(collected)]))
}

/// Words of arguments that the planner spells otherwise: units in the plural, and the whole match in what replaces it.
fn respelled(own: &mut Function) {
    let (place, spell): (usize, fn(&str) -> String) = match own_name(&own.name).as_deref() {
        Some("date_trunc") => (0, |unit| {
            let unit = unit.to_lowercase();
            let is_plural = unit.ends_with('s');
            match is_plural {
                true => unit.trim_end_matches('s').to_owned(),
                false => unit,
            }
        }),
        Some("date_part") => (0, str::to_owned),
        Some("regexp_replace") => (2, |with| with.replace("\\&", "\\0")),
        _ => return,
    };
    let FunctionArguments::List(list) = &mut own.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(word))) = list.args.get_mut(place) else { return };
    // Dumps of PostgreSQL say of each literal what it is.
    if let Expr::Cast { expr, data_type: DataType::Text, .. } = word
        && let Expr::Value(literal) = &**expr
    {
        *word = Expr::Value(literal.clone());
    }
    if let Expr::Value(value) = word
        && let Value::SingleQuotedString(text) = &mut value.value
    {
        *text = spell(text);
    }
}

/// How many of the arguments are NULL, or are not.
fn counted_nulls(arguments: &[FunctionArg], is_negated: bool) -> Option<Expr> {
    let number = |own: &str| Expr::value(Value::Number(own.to_owned(), false));
    let counted = arguments.iter().map(|own| {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(own)) = own else { return None };
        let nested = Box::new(Expr::Nested(Box::new(own.clone())));
        let condition = if is_negated { Expr::IsNotNull(nested) } else { Expr::IsNull(nested) };
        Some(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition, result: number("1") }],
            else_result: Some(Box::new(number("0"))),
        })
    });
    let counted = counted.collect::<Option<Vec<_>>>()?;
    let plus = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::Plus,
        right: Box::new(right),
    };
    counted.into_iter().reduce(plus).map(|own| Expr::Nested(Box::new(own)))
}

/// `mod(a, b)` as `a % b`, and `timezone(zone, time)` as `time AT TIME ZONE zone`.
fn operation(own: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &own.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(a)), FunctionArg::Unnamed(FunctionArgExpr::Expr(b))] =
        &list.args[..]
    else {
        return None;
    };
    let nested = |own: &Expr| Box::new(Expr::Nested(Box::new(own.clone())));
    match own_name(&own.name).as_deref() {
        Some("mod") => Some(Expr::BinaryOp { left: nested(a), op: BinaryOperator::Modulo, right: nested(b) }),
        Some("div") => {
            // What is left has a whole quotient.
            let a = || call(exact(numeric::NAME), vec![a.clone()]);
            let plain = |left, op, right| Expr::BinaryOp { left: Box::new(left), op, right: nested(&right) };
            let rest = plain(a(), BinaryOperator::Modulo, b.clone());
            let whole = plain(a(), BinaryOperator::Minus, rest);
            let quotient = plain(Expr::Nested(Box::new(whole)), BinaryOperator::Divide, b.clone());
            Some(call(exact("trunc"), vec![quotient]))
        }
        Some("timezone") => Some(call(exact(at_zone::NAME), vec![b.clone(), a.clone()])),
        _ => None,
    }
}

/// The arguments of `make_interval`.
const INTERVAL_PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// Gives arguments their places that were given by name, and 0 to those that are left out.
fn by_name(names: &[&str], arguments: &mut FunctionArguments) {
    let FunctionArguments::List(list) = arguments else { return };
    let zero = Expr::value(Value::Number("0".to_owned(), false));
    let mut places = vec![zero; names.len()];
    for (number, argument) in list.args.iter().enumerate() {
        let (place, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (Some(number), value),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            }
            | FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                (names.iter().position(|known| known.eq_ignore_ascii_case(&name.value)), value)
            }
            _ => return,
        };
        match place.and_then(|place| places.get_mut(place)) {
            Some(free) => *free = value.clone(),
            // The planner says what is wrong.
            None => return,
        }
    }
    let unnamed = |own| FunctionArg::Unnamed(FunctionArgExpr::Expr(own));
    list.args = places.into_iter().map(unnamed).collect();
}

/// The type of what a function counts, where the planner gives it one without a sign.
fn counted(name: &str) -> Option<DataType> {
    match name {
        "row_number" | "rank" | "dense_rank" | "regr_count" => Some(DataType::BigInt(None)),
        "ntile" | "regexp_count" | "regexp_instr" | "array_length" | "cardinality" | "array_position"
        | "array_ndims" => Some(DataType::Integer(None)),
        _ => None,
    }
}

/// The function that gives as an array what a function gives as rows; `None` if the planner knows the function.
pub(super) fn expanded(name: &str) -> Option<&'static str> {
    match name {
        "generate_subscripts" => Some("array::subscripts"),
        "_pg_expandarray" => Some("array::numbered"),
        "regexp_split_to_table" => Some("regexp_split_to_array"),
        "regexp_matches" => Some("array::matches"),
        "string_to_table" => Some("string_to_array"),
        "aclexplode" => Some("array::privileges"),
        _ => None,
    }
}

/// A comparison with the text of an array, which has no type of its own.
pub(super) fn array_comparison(left: &Expr, right: &Expr, is_negated: bool) -> Expr {
    let equal = call(exact("array::equals"), vec![left.clone(), right.clone()]);
    match is_negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(equal) },
        false => equal,
    }
}
