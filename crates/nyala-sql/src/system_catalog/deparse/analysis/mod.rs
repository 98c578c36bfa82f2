//! What PostgreSQL's parser makes of an expression (`parse_expr.c`): types of literals, conversions, operators in the place of
//! other words. [`calls`] are functions.

mod calls;

use super::coercion::{array, can_coerce, coerced, coerced_to, common_type, is_polymorphic, unified};
use super::constant::{Reading, of_number};
use super::node::{BOOL, INTERVAL, Junction, Kind, Node, TEXT, array_of, element_of};
use super::resolution;
use super::signatures::Context;
use super::types::written_type;
use crate::identifier::folded;
use calls::word;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Ident, UnaryOperator, Value, ValueWithSpan,
};

/// What lies deeper in each other is shown as it is written.
const DEPTH_MAX: usize = 100;

/// What expressions are about.
pub(super) struct Analysis<'a> {
    /// The columns that they may name, and their types.
    pub(super) columns: &'a [(&'a str, Kind)],
    pub(super) reading: Reading,
    pub(super) depth: usize,
}

impl Analysis<'_> {
    /// An expression. `None`: it has a form that is not known here.
    pub(super) fn node(&mut self, written: &Expr) -> Option<Node> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let node = self.inner_node(written);
        self.depth -= 1;
        node
    }

    fn inner_node(&mut self, written: &Expr) -> Option<Node> {
        match written {
            Expr::Nested(inner) => self.node(inner),
            Expr::Identifier(name) => self.column(name),
            Expr::CompoundIdentifier(names) => self.column(names.last()?),
            Expr::Value(value) => literal(&value.value),
            Expr::TypedString(own) if !own.uses_odbc_syntax => {
                let node = literal(&own.value.value)?;
                self.cast(node, &own.data_type)
            }
            Expr::Interval(own) => {
                // A unit behind it would be a part of the type, which is not read here.
                let has_unit = own.leading_field.is_some() || own.last_field.is_some();
                let node = self.node(&own.value).filter(|node| node.is_unknown() && !has_unit)?;
                coerced(node, INTERVAL, Context::Explicit, &self.reading)
            }
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, array, format } => {
                if *array || format.is_some() {
                    return None;
                }
                let node = match (without_parentheses(expr), written_type(data_type)) {
                    (Expr::Array(elements), Some(kind))
                        if element_of(kind.oid).is_some() && kind.modifier == -1 =>
                    {
                        self.array(&elements.elem, element_of(kind.oid))?
                    }
                    _ => self.node(expr)?,
                };
                self.cast(node, data_type)
            }
            Expr::Array(own) => self.array(&own.elem, None),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::IsNull(inner) => self.null_test(inner, true),
            Expr::IsNotNull(inner) => self.null_test(inner, false),
            Expr::IsTrue(inner) => self.truth_test(inner, "TRUE"),
            Expr::IsNotTrue(inner) => self.truth_test(inner, "NOT TRUE"),
            Expr::IsFalse(inner) => self.truth_test(inner, "FALSE"),
            Expr::IsNotFalse(inner) => self.truth_test(inner, "NOT FALSE"),
            Expr::IsUnknown(inner) => self.truth_test(inner, "UNKNOWN"),
            Expr::IsNotUnknown(inner) => self.truth_test(inner, "NOT UNKNOWN"),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, true),
            Expr::IsNotDistinctFrom(left, right) => self.distinct(left, right, false),
            Expr::Between { expr, negated, low, high } => self.between(expr, low, high, *negated),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(if *negated { "!~~" } else { "~~" }, expr, pattern, escape_char.as_ref())
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(if *negated { "!~~*" } else { "~~*" }, expr, pattern, escape_char.as_ref())
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let left = self.node(expr)?;
                let mut arguments = vec![self.node(pattern)?];
                if let Some(escape) = escape_char {
                    arguments.push(literal(&escape.value)?);
                }
                let right = self.called("similar_to_escape", arguments)?;
                self.operator(if *negated { "!~" } else { "~" }, left, right)
            }
            Expr::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, true),
            Expr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, false),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            other => self.call(other),
        }
    }

    fn column(&self, written: &Ident) -> Option<Node> {
        let name = folded(written);
        match self.columns.iter().find(|(own, _)| *own == name) {
            Some((_, kind)) => Some(Node::Column { name, kind: *kind }),
            None if written.quote_style.is_none() => word(&name, None),
            None => None,
        }
    }

    fn cast(&self, node: Node, to: &DataType) -> Option<Node> {
        coerced_to(node, written_type(to)?, Context::Explicit, &self.reading)
    }

    /// A condition.
    pub(super) fn condition(&mut self, written: &Expr) -> Option<Node> {
        let node = self.node(written)?;
        coerced(node, BOOL, Context::Assignment, &self.reading)
    }

    /// An array. `of` is the type of its elements if that is said.
    fn array(&mut self, elements: &[Expr], of: Option<u32>) -> Option<Node> {
        let elements = self.nodes(elements)?;
        // Arrays of arrays are arrays of more dimensions.
        if elements.iter().any(|own| element_of(own.oid()).is_some()) {
            return None;
        }
        match of {
            Some(of) => array(elements, of, Context::Explicit, &self.reading),
            None if elements.is_empty() => None,
            None => array(elements.clone(), common_type(&elements)?, Context::Implicit, &self.reading),
        }
    }

    pub(super) fn nodes<'e>(&mut self, written: impl IntoIterator<Item = &'e Expr>) -> Option<Vec<Node>> {
        written.into_iter().map(|own| self.node(own)).collect()
    }

    fn unary(&mut self, op: UnaryOperator, operand: &Expr) -> Option<Node> {
        let name = match op {
            UnaryOperator::Not => return Some(Node::not(self.condition(operand)?)),
            UnaryOperator::Minus => match negated_number(operand) {
                Some(number) => return of_number(&number),
                None => "-",
            },
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            _ => return None,
        };
        let operand = self.node(operand)?;
        let found = resolution::operator(name, &[operand.oid()])?;
        let operands = vec![coerced(operand, found.arguments[0], Context::Implicit, &self.reading)?];
        Some(Node::Operator { name: name.to_owned(), operands, result: found.result })
    }

    fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Node> {
        let by = match op {
            BinaryOperator::And => Junction::And,
            BinaryOperator::Or => Junction::Or,
            other => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                return self.operator(name_of(other)?, left, right);
            }
        };
        // What stands on the left is no condition of its own, with or without parentheses.
        let (mut parts, mut rest) = (vec![right], left);
        while let Expr::BinaryOp { left, op: inner, right } = without_parentheses(rest)
            && inner == op
        {
            parts.push(right);
            rest = left;
        }
        parts.push(rest);
        let parts = parts.into_iter().rev().map(|own| self.condition(own)).collect::<Option<_>>()?;
        Some(Node::Joined { by, parts })
    }

    /// An operator between two values.
    pub(super) fn operator(&self, name: &str, left: Node, right: Node) -> Option<Node> {
        let found = resolution::operator(name, &[left.oid(), right.oid()])?;
        if is_polymorphic(found.result) {
            return None;
        }
        let operands = [left, right].into_iter().zip(&found.arguments);
        let operands = operands
            .map(|(own, to)| coerced(own, *to, Context::Implicit, &self.reading))
            .collect::<Option<_>>()?;
        Some(Node::Operator { name: name.to_owned(), operands, result: found.result })
    }

    fn null_test(&mut self, inner: &Expr, is_null: bool) -> Option<Node> {
        Some(Node::NullTest { inner: Box::new(self.node(inner)?), is_null })
    }

    fn truth_test(&mut self, inner: &Expr, test: &'static str) -> Option<Node> {
        Some(Node::TruthTest { inner: Box::new(self.condition(inner)?), test })
    }

    fn distinct(&mut self, left: &Expr, right: &Expr, is_distinct: bool) -> Option<Node> {
        let (left, right) = (self.node(left)?, self.node(right)?);
        for (null, other) in [(&right, &left), (&left, &right)] {
            if null.is_bare_null() {
                return Some(Node::NullTest { inner: Box::new(other.clone()), is_null: !is_distinct });
            }
        }
        let Node::Operator { operands, .. } = self.operator("=", left, right)? else { return None };
        let node = Node::Distinct { operands };
        Some(if is_distinct { node } else { Node::not(node) })
    }

    fn between(&mut self, value: &Expr, low: &Expr, high: &Expr, negated: bool) -> Option<Node> {
        let (value, low, high) = (self.node(value)?, self.node(low)?, self.node(high)?);
        let (first, second, by) =
            if negated { ("<", ">", Junction::Or) } else { (">=", "<=", Junction::And) };
        let parts = vec![self.operator(first, value.clone(), low)?, self.operator(second, value, high)?];
        Some(Node::Joined { by, parts })
    }

    fn in_list(&mut self, value: &Expr, list: &[Expr], negated: bool) -> Option<Node> {
        let (value, list) = (self.node(value)?, self.nodes(list)?);
        let name = if negated { "<>" } else { "=" };
        // Only what names no column is one array, unless it is one value.
        let (single, together): (Vec<_>, Vec<_>) = list.iter().cloned().partition(names_column);
        let mut node = None;
        let mut one_by_one = list;
        if together.len() > 1
            && let Some(of) = self.type_of_list(&value, &together)
        {
            let right = array(together, of, Context::Implicit, &self.reading)?;
            node = Some(self.any_of(value.clone(), name, right, !negated)?);
            one_by_one = single;
        }
        for other in one_by_one {
            let next = self.operator(name, value.clone(), other)?;
            let by = if negated { Junction::And } else { Junction::Or };
            node = Some(match node {
                Some(before) => Node::Joined { by, parts: vec![before, next] },
                None => next,
            });
        }
        node
    }

    /// The type that a value and those of a list have in common, if there is one.
    fn type_of_list(&self, value: &Node, list: &[Node]) -> Option<u32> {
        let all = || std::iter::once(value).chain(list);
        let of = common_type(all())?;
        all().all(|own| can_coerce(&[own.oid()], &[of], Context::Implicit)).then_some(of)
    }

    /// A comparison with the elements of an array.
    fn any_of(&self, left: Node, name: &str, right: Node, is_any: bool) -> Option<Node> {
        let found = resolution::operator(name, &[left.oid(), element_of(right.oid())?])?;
        let [of_left, of_right] = found.arguments[..] else { return None };
        if found.result != BOOL || is_polymorphic(of_right) {
            return None;
        }
        let left = coerced(left, of_left, Context::Implicit, &self.reading)?;
        let right = coerced(right, array_of(of_right)?, Context::Implicit, &self.reading)?;
        let (left, right) = (Box::new(left), Box::new(right));
        Some(Node::Quantified { left, name: name.to_owned(), is_any, right })
    }

    fn quantified(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr, is_any: bool) -> Option<Node> {
        let (left, mut right) = (self.node(left)?, self.node(right)?);
        if right.is_unknown() {
            // A literal is an array of what the other side is.
            let of = if left.is_unknown() { TEXT } else { left.oid() };
            let found = resolution::operator(name_of(op)?, &[left.oid(), of])?;
            right = coerced(right, array_of(*found.arguments.last()?)?, Context::Implicit, &self.reading)?;
        }
        self.any_of(left, name_of(op)?, right, is_any)
    }

    fn like(
        &mut self,
        name: &str,
        value: &Expr,
        pattern: &Expr,
        escape: Option<&ValueWithSpan>,
    ) -> Option<Node> {
        let (left, mut right) = (self.node(value)?, self.node(pattern)?);
        if let Some(escape) = escape {
            right = self.called("like_escape", vec![right, literal(&escape.value)?])?;
        }
        self.operator(name, left, right)
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Option<Node> {
        let operand = match operand {
            Some(own) => {
                let node = self.node(own)?;
                let to = if node.is_unknown() { TEXT } else { node.oid() };
                Some(coerced(node, to, Context::Implicit, &self.reading)?)
            }
            None => None,
        };
        let mut tests = Vec::new();
        for own in conditions {
            tests.push(match &operand {
                None => self.condition(&own.condition)?,
                Some(operand) => {
                    let kind = Kind { oid: operand.oid(), modifier: operand.modifier() };
                    let value = self.node(&own.condition)?;
                    match self.operator("=", Node::CaseOperand { kind }, value)? {
                        // Only the other operand is shown.
                        Node::Operator { mut operands, .. } => operands.pop()?,
                        _ => return None,
                    }
                }
            });
        }
        let otherwise = match otherwise {
            Some(own) => self.node(own)?,
            None => Node::null(),
        };
        let mut values = vec![otherwise];
        values.extend(self.nodes(conditions.iter().map(|own| &own.result))?);
        let result = common_type(&values)?;
        let mut values = unified(values, result, &self.reading)?.into_iter();
        let otherwise = Box::new(values.next()?);
        let branches = tests.into_iter().zip(values).collect();
        Some(Node::Case { operand: operand.map(Box::new), branches, otherwise, result })
    }
}

/// A literal.
pub(super) fn literal(value: &Value) -> Option<Node> {
    match value {
        Value::Number(digits, false) => of_number(digits),
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(Node::unknown(text)),
        Value::DollarQuotedString(own) => Some(Node::unknown(&own.value)),
        Value::Boolean(own) => Some(Node::constant(if *own { "t" } else { "f" }, BOOL)),
        Value::Null => Some(Node::null()),
        _ => None,
    }
}

/// A number with the opposite sign, as its sign belongs to it.
fn negated_number(operand: &Expr) -> Option<String> {
    match without_parentheses(operand) {
        Expr::Value(own) => match &own.value {
            Value::Number(digits, false) => Some(format!("-{digits}")),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let inner = negated_number(expr)?;
            Some(inner.strip_prefix('-').map_or_else(|| format!("-{inner}"), str::to_owned))
        }
        _ => None,
    }
}

fn without_parentheses(written: &Expr) -> &Expr {
    let mut own = written;
    while let Expr::Nested(inner) = own {
        own = inner;
    }
    own
}

/// Whether a column stands in an expression.
fn names_column(node: &Node) -> bool {
    match node {
        Node::Column { .. } => true,
        Node::Constant { .. } | Node::Word { .. } | Node::CaseOperand { .. } => false,
        Node::Operator { operands: parts, .. }
        | Node::Call { arguments: parts, .. }
        | Node::Joined { parts, .. }
        | Node::Distinct { operands: parts }
        | Node::NullIf { operands: parts }
        | Node::OneOf { values: parts, .. }
        | Node::Array { elements: parts, .. } => parts.iter().any(names_column),
        Node::Cast { inner, .. } | Node::NullTest { inner, .. } | Node::TruthTest { inner, .. } => {
            names_column(inner)
        }
        Node::Quantified { left, right, .. } => names_column(left) || names_column(right),
        Node::Case { operand, branches, otherwise, .. } => {
            operand.as_deref().is_some_and(names_column)
                || branches.iter().any(|(test, value)| names_column(test) || names_column(value))
                || names_column(otherwise)
        }
    }
}

/// How PostgreSQL calls an operator.
fn name_of(op: &BinaryOperator) -> Option<&str> {
    Some(match op {
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::StringConcat => "||",
        BinaryOperator::Gt => ">",
        BinaryOperator::Lt => "<",
        BinaryOperator::GtEq => ">=",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::BitwiseOr => "|",
        BinaryOperator::BitwiseAnd => "&",
        BinaryOperator::PGBitwiseXor => "#",
        BinaryOperator::PGBitwiseShiftLeft => "<<",
        BinaryOperator::PGBitwiseShiftRight => ">>",
        BinaryOperator::PGExp => "^",
        BinaryOperator::PGOverlap => "&&",
        BinaryOperator::PGRegexMatch => "~",
        BinaryOperator::PGRegexIMatch => "~*",
        BinaryOperator::PGRegexNotMatch => "!~",
        BinaryOperator::PGRegexNotIMatch => "!~*",
        BinaryOperator::PGLikeMatch => "~~",
        BinaryOperator::PGILikeMatch => "~~*",
        BinaryOperator::PGNotLikeMatch => "!~~",
        BinaryOperator::PGNotILikeMatch => "!~~*",
        BinaryOperator::PGStartsWith => "^@",
        BinaryOperator::Arrow => "->",
        BinaryOperator::LongArrow => "->>",
        BinaryOperator::HashArrow => "#>",
        BinaryOperator::HashLongArrow => "#>>",
        BinaryOperator::HashMinus => "#-",
        BinaryOperator::AtArrow => "@>",
        BinaryOperator::ArrowAt => "<@",
        BinaryOperator::AtQuestion => "@?",
        BinaryOperator::AtAt => "@@",
        BinaryOperator::Question => "?",
        BinaryOperator::QuestionAnd => "?&",
        BinaryOperator::QuestionPipe => "?|",
        BinaryOperator::PGCustomBinaryOperator(parts) => match &parts[..] {
            [name] => name,
            [schema, name] if schema == "pg_catalog" => name,
            _ => return None,
        },
        _ => return None,
    })
}
