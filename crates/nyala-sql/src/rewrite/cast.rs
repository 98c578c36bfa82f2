//! Casts to types of the system catalogue, which become calls of functions.
//!
//! `'t'::regclass` is a number where it is compared and a name where it is shown. Here it becomes the call that gives the
//! number; what shows it asks for the name instead ([`show`]).

use super::own_name;
use crate::call::{self, exact};
use crate::dialect::{numeric, rounded_time};
use crate::parser_dialect::SqlDialect;
use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, ObjectName,
    SelectItem, Value,
};
use datafusion::sql::sqlparser::parser::Parser;

/// Types whose values are numbers of objects that are shown as names.
const NAMED: [&str; 5] = ["regclass", "regtype", "regnamespace", "regrole", "regproc"];

pub(super) fn rewrite(expression: &mut Expr) {
    let data_type = match expression {
        Expr::Cast { data_type, .. } => data_type,
        Expr::TypedString(typed) => &mut typed.data_type,
        _ => return,
    };
    let name = name_of(data_type);
    let data_type = &data_type.clone();
    let inner = match expression {
        Expr::Cast { expr, .. } => std::mem::replace(&mut **expr, Expr::value(Value::Null)),
        Expr::TypedString(typed) => Expr::Value(typed.value.clone()),
        _ => return,
    };
    if let Some(letters) = length_of(data_type) {
        // What does not fit is cut off where somebody asks for the type.
        let cast = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(text_of(inner)),
            data_type: DataType::Text,
            array: false,
            format: None,
        };
        let letters = Expr::value(Value::Number(letters.to_string(), false));
        *expression = call::call(exact("left"), vec![cast, letters]);
        if matches!(data_type, DataType::Char(_) | DataType::Character(_)) {
            // Blanks at the end of these have no meaning.
            *expression = call("rtrim", expression.clone());
        }
        return;
    }
    if let DataType::Timestamp(Some(digits), zone) = data_type {
        let digits = Expr::value(Value::Number(digits.to_string(), false));
        let unrounded = DataType::Timestamp(None, *zone);
        let expr = Box::new(inner);
        let time =
            Expr::Cast { kind: CastKind::Cast, expr, data_type: unrounded, array: false, format: None };
        *expression = call::call(exact(rounded_time::NAME), vec![time, digits]);
        return;
    }
    let replaced = match name.as_deref() {
        Some("regprocedure" | "regoper" | "regoperator") => Some(call("regproc::text", inner.clone())),
        Some("regtype[]") => Some(call("regtype[]::text", inner.clone())),
        Some(name) if NAMED.contains(&name) => Some(call(&format!("{name}::oid"), inner.clone())),
        Some("oid" | "xid" | "cid") => Some(call("as::oid", inner.clone())),
        Some("name" | "sql_identifier") => Some(call("as::name", text_of(inner.clone()))),
        Some("char") => Some(call("as::char", text_of(inner.clone()))),
        // A parameter gets its type from the cast.
        Some("bytea") if is_parameter(&inner) => None,
        Some(name @ ("uuid" | "json" | "jsonb" | "bytea")) => {
            Some(call(&format!("as::{name}"), inner.clone()))
        }
        // A parameter gets its type from the cast.
        None if is_plain_numeric(data_type) && !is_parameter(&inner) => {
            Some(call(numeric::NAME, inner.clone()))
        }
        Some("text" | "varchar" | "bpchar") if is_number(&inner) => Some(text_of(inner.clone())),
        _ => None,
    };
    if let Some(replaced) = replaced {
        *expression = replaced;
        return;
    }
    match expression {
        Expr::Cast { expr, data_type, .. } => {
            **expr = match array_elements(&inner).filter(|_| matches!(data_type, DataType::Array(_))) {
                Some(elem) => Expr::Array(Array { elem, named: true }),
                None => inner,
            };
            plain(data_type);
        }
        Expr::TypedString(typed) => plain(&mut typed.data_type),
        _ => {}
    }
}

fn is_parameter(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(own) if matches!(own.value, Value::Placeholder(_)))
}

/// Whether a type is a `numeric` without digits.
fn is_plain_numeric(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
    )
}

/// How many letters a type of texts has at most.
fn length_of(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Varchar(length) | DataType::CharacterVarying(length) => match length {
            Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
            _ => None,
        },
        DataType::Char(length) | DataType::Character(length) => match length {
            Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
            Some(CharacterLength::Max) => None,
            None => Some(1),
        },
        _ => None,
    }
}

/// The name of a type of the system catalogue, or of text.
fn name_of(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Regclass => Some("regclass".to_owned()),
        DataType::Text => Some("text".to_owned()),
        DataType::Uuid => Some("uuid".to_owned()),
        DataType::JSON => Some("json".to_owned()),
        DataType::JSONB => Some("jsonb".to_owned()),
        DataType::Bytea => Some("bytea".to_owned()),
        DataType::Varchar(None) | DataType::CharacterVarying(None) => Some("varchar".to_owned()),
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => {
            name_of(inner).filter(|own| own == "regtype").map(|own| own + "[]")
        }
        // In quotes it is a type of one letter; without them it is one of texts.
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let is_quoted = name.to_string().ends_with('"');
            own_name(name).filter(|name| name != "char" || is_quoted)
        }
        _ => None,
    }
}

/// The type without the schema that PostgreSQL's own types are in, and with a name that the planner knows.
fn plain(data_type: &mut DataType) {
    match data_type {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::Parenthesis(inner),
        ) => plain(inner),
        DataType::Regclass => *data_type = DataType::BigInt(None),
        DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            *data_type = DataType::Varchar(*length);
        }
        DataType::Custom(name, modifiers) => {
            let Some(name) = own_name(name) else { return };
            match &*name {
                "oid" | "xid" => *data_type = DataType::BigInt(None),
                "name" | "sql_identifier" | "character_data" | "yes_or_no" | "char" | "json" | "jsonb"
                | "pg_node_tree" | "inet" | "cidr" | "bpchar" => *data_type = DataType::Text,
                "cardinal_number" => *data_type = DataType::Int(None),
                "int2vector" => *data_type = array_of(DataType::SmallInt(None)),
                "oidvector" => *data_type = array_of(DataType::BigInt(None)),
                _ => {
                    let modifiers = if modifiers.is_empty() {
                        String::new()
                    } else {
                        format!("({})", modifiers.join(","))
                    };
                    let parser = Parser::new(&SqlDialect);
                    let parsed = parser.try_with_sql(&format!("{name}{modifiers}"));
                    if let Ok(found) = parsed.and_then(|mut parser| parser.parse_data_type()) {
                        *data_type = found;
                    }
                }
            }
        }
        _ => {}
    }
}

/// The elements of the text of an array such as `'{a,"b c",NULL}'`; `None` if it is none of one dimension.
pub(super) fn array_elements(expression: &Expr) -> Option<Vec<Expr>> {
    let Expr::Value(value) = expression else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut elements, mut element, mut letters) = (Vec::new(), String::new(), inner.chars());
    let mut is_quoted = false;
    if inner.trim().is_empty() {
        return Some(elements);
    }
    let add = |element: &mut String, is_quoted: &mut bool, elements: &mut Vec<Expr>| {
        let own = std::mem::take(element);
        let plain = own.trim();
        elements.push(Expr::value(match std::mem::take(is_quoted) {
            true => Value::SingleQuotedString(own),
            false if plain.eq_ignore_ascii_case("null") => Value::Null,
            false => Value::SingleQuotedString(plain.to_owned()),
        }));
    };
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' => return None,
            '"' => {
                is_quoted = true;
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => element.extend(letters.next()),
                        other => element.push(other),
                    }
                }
            }
            '\\' => element.extend(letters.next()),
            ',' => add(&mut element, &mut is_quoted, &mut elements),
            other => element.push(other),
        }
    }
    add(&mut element, &mut is_quoted, &mut elements);
    Some(elements)
}

fn array_of(inner: DataType) -> DataType {
    DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(inner), None))
}

fn call(name: &str, argument: Expr) -> Expr {
    call::call(exact(name), vec![argument])
}

/// Whether a column is the number of an object, which is shown as its name.
pub(super) fn is_named(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(own) | SelectItem::ExprWithAlias { expr: own, .. } => is_number(own),
        _ => false,
    }
}

/// What a column shows.
pub(super) fn show(item: &mut SelectItem) {
    match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
            show_expression(expression);
        }
        _ => {}
    }
}

/// An expression as it is shown: the name instead of the number.
pub(super) fn show_expression(expression: &mut Expr) {
    if let Expr::Function(own) = expression
        && let Some(kind) = number_kind(&own.name)
    {
        own.name = exact(&format!("{kind}::text"));
    }
}

fn text_of(mut expression: Expr) -> Expr {
    show_expression(&mut expression);
    expression
}

pub(super) fn is_number(expression: &Expr) -> bool {
    matches!(expression, Expr::Function(own) if number_kind(&own.name).is_some())
}

/// Which kind of object a call gives the number of.
fn number_kind(name: &ObjectName) -> Option<String> {
    let name = own_name(name)?;
    let kind = name.strip_suffix("::oid")?;
    NAMED.contains(&kind).then(|| kind.to_owned())
}
