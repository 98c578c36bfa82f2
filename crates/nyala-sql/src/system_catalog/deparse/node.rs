//! An expression whose types are known: what PostgreSQL makes of what is written, before it computes anything.

use super::super::builtin_type::BuiltinType;

/// Types that are named here.
pub(super) const BOOL: u32 = 16;
pub(super) const INT4: u32 = 23;
pub(super) const INT8: u32 = 20;
pub(super) const TEXT: u32 = 25;
pub(super) const NUMERIC: u32 = 1700;
pub(super) const INTERVAL: u32 = 1186;
/// That of a literal in quotes as long as nobody has said what it is.
pub(super) const UNKNOWN: u32 = 705;

/// A type and its modifier; -1: it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) oid: u32,
    pub(super) modifier: i32,
}

impl Kind {
    pub(super) fn of(oid: u32) -> Self {
        Self { oid, modifier: -1 }
    }
}

/// What joins conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Junction {
    And,
    Or,
    Not,
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Column {
        name: String,
        kind: Kind,
    },
    /// A value as its type writes it; `None`: NULL.
    Constant {
        text: Option<String>,
        kind: Kind,
    },
    /// What has a word of its own: `CURRENT_DATE`.
    Word {
        text: String,
        kind: Kind,
    },
    Operator {
        name: String,
        operands: Vec<Node>,
        result: u32,
    },
    /// `is_standard`: whether it has the form of standard SQL, such as `EXTRACT(year FROM a)`.
    Call {
        name: String,
        arguments: Vec<Node>,
        result: u32,
        is_standard: bool,
    },
    /// `by_function`: whether a function computes it.
    Cast {
        inner: Box<Node>,
        kind: Kind,
        is_implicit: bool,
        by_function: bool,
    },
    /// `left operator ANY (right)`, or ALL.
    Quantified {
        left: Box<Node>,
        name: String,
        is_any: bool,
        right: Box<Node>,
    },
    Joined {
        by: Junction,
        parts: Vec<Node>,
    },
    NullTest {
        inner: Box<Node>,
        is_null: bool,
    },
    /// `IS TRUE` and the like.
    TruthTest {
        inner: Box<Node>,
        test: &'static str,
    },
    Distinct {
        operands: Vec<Node>,
    },
    NullIf {
        operands: Vec<Node>,
    },
    Case {
        operand: Option<Box<Node>>,
        branches: Vec<(Node, Node)>,
        otherwise: Box<Node>,
        result: u32,
    },
    /// What the operand of CASE is compared as.
    CaseOperand {
        kind: Kind,
    },
    /// COALESCE, GREATEST, LEAST.
    OneOf {
        word: &'static str,
        values: Vec<Node>,
        result: u32,
    },
    Array {
        elements: Vec<Node>,
        result: u32,
    },
}

impl Node {
    pub(super) fn null() -> Self {
        Self::Constant { text: None, kind: Kind::of(UNKNOWN) }
    }

    /// A literal in quotes.
    pub(super) fn unknown(text: &str) -> Self {
        Self::Constant { text: Some(text.to_owned()), kind: Kind::of(UNKNOWN) }
    }

    pub(super) fn constant(text: impl Into<String>, oid: u32) -> Self {
        Self::Constant { text: Some(text.into()), kind: Kind::of(oid) }
    }

    pub(super) fn not(inner: Self) -> Self {
        Self::Joined { by: Junction::Not, parts: vec![inner] }
    }

    /// The type of its values.
    pub(super) fn oid(&self) -> u32 {
        match self {
            Self::Column { kind, .. }
            | Self::Constant { kind, .. }
            | Self::Word { kind, .. }
            | Self::Cast { kind, .. }
            | Self::CaseOperand { kind } => kind.oid,
            Self::Operator { result, .. }
            | Self::Call { result, .. }
            | Self::Case { result, .. }
            | Self::OneOf { result, .. }
            | Self::Array { result, .. } => *result,
            Self::NullIf { operands } => operands[0].oid(),
            Self::Quantified { .. }
            | Self::Joined { .. }
            | Self::NullTest { .. }
            | Self::TruthTest { .. }
            | Self::Distinct { .. } => BOOL,
        }
    }

    /// The modifier of the type of its values, as far as that is known.
    pub(super) fn modifier(&self) -> i32 {
        fn common<'a>(mut nodes: impl Iterator<Item = &'a Node>) -> i32 {
            let first = nodes.next().map_or(-1, Node::modifier);
            if nodes.all(|own| own.modifier() == first) { first } else { -1 }
        }
        match self {
            Self::Column { kind, .. }
            | Self::Constant { kind, .. }
            | Self::Word { kind, .. }
            | Self::Cast { kind, .. }
            | Self::CaseOperand { kind } => kind.modifier,
            Self::NullIf { operands } => operands[0].modifier(),
            Self::OneOf { values, .. } => common(values.iter()),
            Self::Case { branches, otherwise, .. } => {
                common(branches.iter().map(|(_, then)| then).chain([&**otherwise]))
            }
            _ => -1,
        }
    }

    /// Whether it is a literal in quotes, or NULL, of which nobody has said what it is.
    pub(super) fn is_unknown(&self) -> bool {
        self.oid() == UNKNOWN
    }

    /// Whether it is NULL, and nothing has been said of its type.
    pub(super) fn is_bare_null(&self) -> bool {
        matches!(self, Self::Constant { text: None, kind } if kind.oid == UNKNOWN)
    }
}

/// The category of a type, and whether it is the preferred one there.
pub(super) fn category(oid: u32) -> (&'static str, bool) {
    match BuiltinType::of_oid(oid) {
        Some(own) => (own.category, own.is_preferred),
        None => ("X", false),
    }
}

/// The type of the elements of an array.
pub(super) fn element_of(oid: u32) -> Option<u32> {
    BuiltinType::of_oid(oid).filter(|own| own.is_array()).map(|own| own.element)
}

/// The type of arrays of a type.
pub(super) fn array_of(oid: u32) -> Option<u32> {
    BuiltinType::of_oid(oid).map(|own| own.array).filter(|array| *array != 0)
}
