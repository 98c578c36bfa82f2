//! Calls of functions, and what has the form of one.

use super::super::coercion::{coerced, common_type, is_polymorphic, unified, way};
use super::super::node::{INT4, Kind, Node, TEXT, UNKNOWN};
use super::super::resolution;
use super::super::signatures::{CastMethod, Context};
use super::Analysis;
use crate::identifier::folded;
use crate::system_catalog::builtin_type::BuiltinType;
use datafusion::sql::sqlparser::ast::{
    CeilFloorKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectName, TrimWhereField,
};

/// The type of any value, which stays what it is.
const ANY: u32 = 2276;
const NAME: u32 = 19;

impl Analysis<'_> {
    /// A call, or an expression of a form that only some functions have.
    pub(super) fn call(&mut self, written: &Expr) -> Option<Node> {
        match written {
            Expr::Function(own) => self.function(own),
            Expr::Extract { field, expr, .. } => {
                let field = Node::unknown(&field_name(field)?);
                let value = self.node(expr)?;
                self.standard("extract", vec![field, value])
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let arguments = self.nodes([&**time_zone, &**timestamp])?;
                self.standard("timezone", arguments)
            }
            Expr::Ceil { expr, field } => self.rounded("ceil", expr, field),
            Expr::Floor { expr, field } => self.rounded("floor", expr, field),
            Expr::Position { expr, r#in } => {
                let arguments = self.nodes([&**r#in, &**expr])?;
                self.standard("position", arguments)
            }
            Expr::Substring { expr, substring_from, substring_for, special, shorthand } => {
                let from = substring_from.as_deref();
                let mut arguments = self.nodes(std::iter::once(&**expr).chain(from))?;
                if let Some(length) = substring_for {
                    let mut length = self.node(length)?;
                    if from.is_none() {
                        arguments.push(Node::constant("1", INT4));
                        length = coerced(length, INT4, Context::Explicit, &self.reading)?;
                    }
                    arguments.push(length);
                }
                let is_pattern = |own: &Node| matches!(own.oid(), UNKNOWN | TEXT);
                let has_pattern = arguments.get(1).is_some_and(is_pattern);
                match (shorthand, special) {
                    (true, _) => self.called("substr", arguments),
                    // One with an escape would have another form.
                    (false, _) if has_pattern && arguments.len() > 2 => None,
                    (false, true) => self.called("substring", arguments),
                    (false, false) if has_pattern => self.called("substring", arguments),
                    (false, false) => self.standard("substring", arguments),
                }
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "btrim",
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                };
                let letters = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                let arguments = self.nodes(std::iter::once(&**expr).chain(letters))?;
                self.standard(name, arguments)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let all = [&**expr, &**overlay_what, &**overlay_from];
                let arguments = self.nodes(all.into_iter().chain(overlay_for.as_deref()))?;
                self.standard("overlay", arguments)
            }
            _ => None,
        }
    }

    fn rounded(&mut self, name: &str, value: &Expr, kind: &CeilFloorKind) -> Option<Node> {
        match kind {
            CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => {
                let value = self.node(value)?;
                self.called(name, vec![value])
            }
            _ => None,
        }
    }

    fn function(&mut self, own: &Function) -> Option<Node> {
        let is_plain = matches!(own.parameters, FunctionArguments::None)
            && own.filter.is_none()
            && own.null_treatment.is_none()
            && own.over.is_none()
            && own.within_group.is_empty()
            && !own.uses_odbc_syntax;
        let name = function_name(&own.name).filter(|_| is_plain)?;
        let list = match &own.args {
            FunctionArguments::None => return word(&name, None),
            FunctionArguments::Subquery(_) => return None,
            FunctionArguments::List(list) => list,
        };
        if !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
            return None;
        }
        let expression = |own| match own {
            &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref own)) => Some(own),
            _ => None,
        };
        let written: Vec<&Expr> = list.args.iter().map(expression).collect::<Option<_>>()?;
        let arguments = self.nodes(written)?;
        match &*name {
            "coalesce" => self.one_of("COALESCE", arguments),
            "greatest" => self.one_of("GREATEST", arguments),
            "least" => self.one_of("LEAST", arguments),
            "nullif" => {
                let [left, right] = <[Node; 2]>::try_from(arguments).ok()?;
                match self.operator("=", left, right)? {
                    Node::Operator { operands, .. } => Some(Node::NullIf { operands }),
                    _ => None,
                }
            }
            "current_timestamp" | "current_time" | "localtime" | "localtimestamp" => match &arguments[..] {
                [Node::Constant { text: Some(digits), kind }] if kind.oid == INT4 => {
                    word(&name, Some(digits.parse().ok().filter(|digits| (0..=6).contains(digits))?))
                }
                _ => None,
            },
            "xmlelement" | "grouping" => None,
            _ => self.called(&name, arguments),
        }
    }

    fn one_of(&self, word: &'static str, values: Vec<Node>) -> Option<Node> {
        let result = common_type(&values)?;
        Some(Node::OneOf { word, values: unified(values, result, &self.reading)?, result })
    }

    /// A call in the form of standard SQL.
    fn standard(&self, name: &str, arguments: Vec<Node>) -> Option<Node> {
        match self.called(name, arguments)? {
            Node::Call { name, arguments, result, .. } => {
                Some(Node::Call { name, arguments, result, is_standard: true })
            }
            _ => None,
        }
    }

    /// A call of a function with values.
    pub(super) fn called(&self, name: &str, arguments: Vec<Node>) -> Option<Node> {
        let given: Vec<u32> = arguments.iter().map(Node::oid).collect();
        // The name of a type may be that of its casts.
        if let ([from], false) = (&given[..], resolution::is_exact(name, &given))
            && let Some(of) = BuiltinType::of_name(name)
            && (*from == UNKNOWN || way(*from, of.oid, Context::Explicit) == Some(CastMethod::Relabel))
        {
            return coerced(arguments.into_iter().next()?, of.oid, Context::Explicit, &self.reading);
        }
        let found = resolution::function(name, &given)?;
        // What is repeated is shown as VARIADIC, which is not read here, unless it may be anything.
        if is_polymorphic(found.result) || !matches!(found.variadic, 0 | ANY) {
            return None;
        }
        let arguments = arguments.into_iter().zip(&found.arguments);
        let arguments = arguments.map(|(own, to)| coerced(own, *to, Context::Implicit, &self.reading));
        let (name, arguments) = (name.to_owned(), arguments.collect::<Option<_>>()?);
        Some(Node::Call { name, arguments, result: found.result, is_standard: false })
    }
}

/// The name of a function of PostgreSQL.
fn function_name(name: &ObjectName) -> Option<String> {
    let parts: Vec<String> = name.0.iter().map(|part| part.as_ident().map(folded)).collect::<Option<_>>()?;
    match &parts[..] {
        [name] => Some(name.clone()),
        [schema, name] if schema == "pg_catalog" => Some(name.clone()),
        _ => None,
    }
}

/// A value that has a word of its own.
pub(super) fn word(name: &str, digits: Option<i32>) -> Option<Node> {
    let oid = match name {
        "current_date" => 1082,
        "current_time" => 1266,
        "current_timestamp" => 1184,
        "localtime" => 1083,
        "localtimestamp" => 1114,
        "current_role" | "current_user" | "user" | "session_user" | "current_catalog" | "current_schema" => {
            NAME
        }
        _ => return None,
    };
    let text = match digits {
        Some(digits) => format!("{}({digits})", name.to_uppercase()),
        None => name.to_uppercase(),
    };
    Some(Node::Word { text, kind: Kind { oid, modifier: digits.unwrap_or(-1) } })
}

/// The part of a time that is asked for.
fn field_name(field: &DateTimeField) -> Option<String> {
    let name = match field {
        DateTimeField::Custom(name) => folded(name),
        DateTimeField::Week(Some(_)) => return None,
        other => other.to_string().to_lowercase(),
    };
    name.bytes().all(|own| own.is_ascii_lowercase() || own == b'_').then_some(name)
}
