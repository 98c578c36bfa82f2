//! Expressions: fields, conditions, dimensions and arguments.
//!
//! Invariant: an expression that the parser built is at most `MAXIMUM_DEPTH` nodes deep, so recursion over it is
//! safe. Long chains of AND or OR are kept as balanced trees for that reason; the order of their operands is that of
//! the text, and neither operator cares about grouping.

use super::regex::Regex;
use super::time::TimeLiteral;

/// An operator between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "`as_str` says what they are")]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    And,
    Or,
    Equal,
    NotEqual,
    Matches,
    NotMatches,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl BinaryOperator {
    /// The operator as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            BinaryOperator::Add => "+",
            BinaryOperator::Subtract => "-",
            BinaryOperator::Multiply => "*",
            BinaryOperator::Divide => "/",
            BinaryOperator::Modulo => "%",
            BinaryOperator::BitwiseAnd => "&",
            BinaryOperator::BitwiseOr => "|",
            BinaryOperator::BitwiseXor => "^",
            BinaryOperator::And => "AND",
            BinaryOperator::Or => "OR",
            BinaryOperator::Equal => "=",
            BinaryOperator::NotEqual => "!=",
            BinaryOperator::Matches => "=~",
            BinaryOperator::NotMatches => "!~",
            BinaryOperator::Less => "<",
            BinaryOperator::LessOrEqual => "<=",
            BinaryOperator::Greater => ">",
            BinaryOperator::GreaterOrEqual => ">=",
        }
    }

    /// The precedence of OR.
    pub const LOWEST_PRECEDENCE: u8 = 1;
    /// The precedence of comparisons.
    pub const COMPARISON_PRECEDENCE: u8 = 3;
    /// The precedence of multiplication.
    pub const HIGHEST_PRECEDENCE: u8 = 5;

    /// The precedence: higher ones bind more tightly. All operators are left-associative.
    pub fn precedence(self) -> u8 {
        match self {
            BinaryOperator::Or => Self::LOWEST_PRECEDENCE,
            BinaryOperator::And => 2,
            BinaryOperator::Add
            | BinaryOperator::Subtract
            | BinaryOperator::BitwiseOr
            | BinaryOperator::BitwiseXor => 4,
            BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::BitwiseAnd => Self::HIGHEST_PRECEDENCE,
            _ => Self::COMPARISON_PRECEDENCE,
        }
    }

    /// Whether the result is a truth value rather than a number: `AND`, `OR` and the comparisons.
    pub fn is_logical(self) -> bool {
        self.precedence() <= Self::COMPARISON_PRECEDENCE
    }
}

/// The type that a reference is cast to (`::type`), or that type inference finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataType {
    /// `::float`
    Float,
    /// `::integer`
    Integer,
    /// `::unsigned`
    Unsigned,
    /// `::string`
    String,
    /// `::boolean`
    Boolean,
    /// `::tag`
    Tag,
    /// `::field`
    AnyField,
}

impl DataType {
    /// The type as it is written after `::`.
    pub fn as_str(self) -> &'static str {
        match self {
            DataType::Float => "float",
            DataType::Integer => "integer",
            DataType::Unsigned => "unsigned",
            DataType::String => "string",
            DataType::Boolean => "boolean",
            DataType::Tag => "tag",
            DataType::AnyField => "field",
        }
    }
}

/// What a `*` includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wildcard {
    /// `*`: fields and tags.
    All,
    /// `*::field`
    Fields,
    /// `*::tag`
    Tags,
}

/// A reference to a field, a tag or `time` by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VarRef {
    /// The name; segments of a dotted name are joined with dots.
    pub name: String,
    /// The cast, if one is written.
    pub data_type: Option<DataType>,
}

impl VarRef {
    /// Whether the reference names the time column, in any case.
    pub fn is_time(&self) -> bool {
        self.name.eq_ignore_ascii_case("time")
    }
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function's name in lower case.
    pub name: String,
    /// The arguments.
    pub args: Vec<Expr>,
}

/// An operation between two expressions.
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// The operator.
    pub op: BinaryOperator,
    /// The left operand.
    pub lhs: Expr,
    /// The right operand.
    pub rhs: Expr,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// `lhs op rhs`
    Binary(Box<Binary>),
    /// `true`, `false`
    Boolean(bool),
    /// `name(args)`
    Call(Call),
    /// `DISTINCT name`, without parentheses
    Distinct(String),
    /// `1h30m`, in nanoseconds
    Duration(i64),
    /// `12`
    Integer(i64),
    /// No value; never written in a query, a result of constant folding.
    Nil,
    /// `1.5`
    Number(f64),
    /// `(expr)`
    Paren(Box<Expr>),
    /// `/pattern/`
    Regex(Regex),
    /// `'text'`: may turn out to be a time where a time is compared
    String(String),
    /// A point in time; never written as such, a result of constant folding.
    Time(TimeLiteral),
    /// An integer above the greatest `i64`
    Unsigned(u64),
    /// `name` or `name::type`
    VarRef(VarRef),
    /// `*`
    Wildcard(Wildcard),
}

impl Expr {
    /// `lhs op rhs`
    pub fn binary(op: BinaryOperator, lhs: Expr, rhs: Expr) -> Expr {
        Expr::Binary(Box::new(Binary { op, lhs, rhs }))
    }

    /// `name(args)`
    pub fn call(name: impl Into<String>, args: Vec<Expr>) -> Expr {
        Expr::Call(Call { name: name.into(), args })
    }

    /// A reference without a cast.
    pub fn var(name: impl Into<String>) -> Expr {
        Expr::VarRef(VarRef { name: name.into(), data_type: None })
    }

    /// Whether this is a literal value.
    pub fn is_literal(&self) -> bool {
        matches!(
            self,
            Expr::Boolean(_)
                | Expr::Duration(_)
                | Expr::Integer(_)
                | Expr::Nil
                | Expr::Number(_)
                | Expr::Regex(_)
                | Expr::String(_)
                | Expr::Time(_)
                | Expr::Unsigned(_)
        )
    }

    /// Calls `visit` on this expression and, if it returns true, on the operands, in the order of the text.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Expr) -> bool) {
        if !visit(self) {
            return;
        }
        match self {
            Expr::Binary(binary) => {
                binary.lhs.walk(visit);
                binary.rhs.walk(visit);
            }
            Expr::Call(call) => call.args.iter().for_each(|arg| arg.walk(visit)),
            Expr::Paren(inner) => inner.walk(visit),
            _ => {}
        }
    }

    /// Whether any part of the expression, itself included, satisfies `test`.
    pub fn any(&self, mut test: impl FnMut(&Expr) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |expr| {
            found = found || test(expr);
            !found
        });
        found
    }
}
