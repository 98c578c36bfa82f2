//! The text of an expression, as PostgreSQL writes it (`ruleutils.c`): with all parentheses, or only with those that it needs.

use super::super::builtin_type::BuiltinType;
use super::node::{BOOL, INT4, Junction, Kind, NUMERIC, Node, UNKNOWN};
use crate::identifier::{quoted, quoted_text};

/// How far the parts of CASE are moved to the right.
const INDENT: usize = 4;
/// Where a line goes no further to the right.
const INDENT_MAX: usize = 40;

/// Writes expressions.
pub(super) struct Printer {
    text: String,
    /// Whether parentheses are left out that are not needed.
    is_pretty: bool,
    indent: usize,
}

/// The text of an expression.
pub(super) fn printed(node: &Node, is_pretty: bool) -> String {
    let mut printer = Printer { text: String::new(), is_pretty, indent: 0 };
    printer.node(node, false);
    printer.text
}

impl Printer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Parentheses that a pretty text has only where the node around needs them.
    fn enclosed(&mut self, inner: impl FnOnce(&mut Self)) {
        if self.is_pretty {
            return inner(self);
        }
        self.push("(");
        inner(self);
        self.push(")");
    }

    /// A part of another node.
    fn part(&mut self, node: &Node, shows_implicit: bool, parent: &Node) {
        let needs = self.is_pretty && !is_simple(node, parent);
        if needs {
            self.push("(");
        }
        self.node(node, shows_implicit);
        if needs {
            self.push(")");
        }
    }

    fn list(&mut self, nodes: &[Node]) {
        for (place, node) in nodes.iter().enumerate() {
            if place > 0 {
                self.push(", ");
            }
            self.node(node, true);
        }
    }

    fn node(&mut self, own: &Node, shows_implicit: bool) {
        match own {
            Node::Column { name, .. } => self.push(&quoted(name)),
            Node::Constant { text, kind } => self.constant(text.as_deref(), *kind, true),
            Node::Word { text, .. } => self.push(text),
            Node::CaseOperand { .. } => {}
            Node::Operator { name, operands, .. } => self.enclosed(|printer| match &operands[..] {
                [left, right] => {
                    printer.part(left, true, own);
                    printer.push(&format!(" {name} "));
                    printer.part(right, true, own);
                }
                all => {
                    printer.push(&format!("{name} "));
                    all.iter().for_each(|operand| printer.part(operand, true, own));
                }
            }),
            Node::Call { is_standard: true, name, arguments, .. } => self.standard(own, name, arguments),
            Node::Call { name, arguments, .. } => {
                self.push(&quoted(name));
                self.push("(");
                self.list(arguments);
                self.push(")");
            }
            Node::Cast { inner, is_implicit: true, .. } if !shows_implicit => self.part(inner, false, own),
            Node::Cast { inner, kind, .. } => self.cast(own, inner, *kind),
            Node::Quantified { left, name, is_any, right } => self.enclosed(|printer| {
                printer.part(left, true, own);
                printer.push(&format!(" {name} {} (", if *is_any { "ANY" } else { "ALL" }));
                printer.part(right, true, own);
                printer.push(")");
            }),
            Node::Joined { by, parts } => self.enclosed(|printer| {
                if *by == Junction::Not {
                    printer.push("NOT ");
                }
                for (place, part) in parts.iter().enumerate() {
                    if place > 0 {
                        printer.push(if *by == Junction::And { " AND " } else { " OR " });
                    }
                    printer.part(part, false, own);
                }
            }),
            Node::NullTest { inner, is_null } => self.enclosed(|printer| {
                printer.part(inner, true, own);
                printer.push(if *is_null { " IS NULL" } else { " IS NOT NULL" });
            }),
            Node::TruthTest { inner, test } => self.enclosed(|printer| {
                printer.part(inner, false, own);
                printer.push(&format!(" IS {test}"));
            }),
            Node::Distinct { operands } => self.enclosed(|printer| {
                for (place, operand) in operands.iter().enumerate() {
                    if place > 0 {
                        printer.push(" IS DISTINCT FROM ");
                    }
                    printer.part(operand, true, own);
                }
            }),
            Node::NullIf { operands } => {
                self.push("NULLIF(");
                self.list(operands);
                self.push(")");
            }
            Node::Case { operand, branches, otherwise, .. } => {
                self.case(operand.as_deref(), branches, otherwise);
            }
            Node::OneOf { word, values, .. } => {
                self.push(word);
                self.push("(");
                self.list(values);
                self.push(")");
            }
            Node::Array { elements, result } => {
                self.push("ARRAY[");
                self.list(elements);
                self.push("]");
                if elements.is_empty() {
                    self.type_name(Kind::of(*result));
                }
            }
        }
    }

    fn cast(&mut self, own: &Node, inner: &Node, kind: Kind) {
        match inner {
            // Its own type is not said twice.
            Node::Constant { text, kind: of } if of.oid == kind.oid && of.modifier == -1 => {
                self.constant(text.as_deref(), *of, false);
            }
            _ => self.enclosed(|printer| printer.part(inner, false, own)),
        }
        self.type_name(kind);
    }

    fn type_name(&mut self, kind: Kind) {
        let name = BuiltinType::of_oid(kind.oid).map(|own| own.shown(Some(kind.modifier)));
        self.push("::");
        self.push(&name.unwrap_or_default());
    }

    fn constant(&mut self, text: Option<&str>, kind: Kind, with_type: bool) {
        let Some(text) = text else {
            self.push("NULL");
            if with_type {
                self.type_name(kind);
            }
            return;
        };
        let begins_with_digit = text.starts_with(|letter: char| letter.is_ascii_digit());
        let (is_bare, needs_type) = match kind.oid {
            BOOL => {
                self.push(if text == "t" { "true" } else { "false" });
                return;
            }
            INT4 => (begins_with_digit, !begins_with_digit),
            // Without a point it would be another number.
            NUMERIC => {
                let is_bare = begins_with_digit && text.contains('.');
                (is_bare, !is_bare || kind.modifier >= 0)
            }
            UNKNOWN => (false, false),
            _ => (false, true),
        };
        match is_bare {
            true => self.push(text),
            false => self.push(&quoted_text(text)),
        }
        if with_type && needs_type {
            self.type_name(kind);
        }
    }

    fn case(&mut self, operand: Option<&Node>, branches: &[(Node, Node)], otherwise: &Node) {
        self.line("CASE");
        self.indent += INDENT;
        if let Some(operand) = operand {
            self.push(" ");
            self.node(operand, true);
        }
        for (test, value) in branches {
            self.line("WHEN ");
            self.node(test, false);
            self.push(" THEN ");
            self.node(value, true);
        }
        self.line("ELSE ");
        self.node(otherwise, true);
        self.indent -= INDENT;
        self.line("END");
    }

    /// A word that begins a line.
    fn line(&mut self, word: &str) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        let blanks = match self.indent {
            indent @ ..INDENT_MAX => indent,
            indent => (INDENT_MAX + (indent - INDENT_MAX) / INDENT) % INDENT_MAX,
        };
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(' ', blanks));
        self.push(word);
    }

    /// A call in the form of standard SQL.
    fn standard(&mut self, own: &Node, name: &str, arguments: &[Node]) {
        match (name, arguments) {
            ("timezone", [zone, time]) => {
                self.push("(");
                self.part(time, false, own);
                self.push(" AT TIME ZONE ");
                self.part(zone, false, own);
                self.push(")");
            }
            ("extract", [Node::Constant { text, .. }, time]) => {
                self.push(&format!("EXTRACT({} FROM ", text.as_deref().unwrap_or_default()));
                self.node(time, false);
                self.push(")");
            }
            ("position", [text, sought]) => {
                self.push("POSITION((");
                self.node(sought, false);
                self.push(") IN (");
                self.node(text, false);
                self.push("))");
            }
            ("btrim" | "ltrim" | "rtrim", [text, letters @ ..]) => {
                self.push(match name {
                    "btrim" => "TRIM(BOTH",
                    "ltrim" => "TRIM(LEADING",
                    _ => "TRIM(TRAILING",
                });
                for letters in letters {
                    self.push(" ");
                    self.node(letters, false);
                }
                self.push(" FROM ");
                self.node(text, false);
                self.push(")");
            }
            (name, arguments) => {
                let words: &[&str] = match name {
                    "overlay" => &["", " PLACING ", " FROM ", " FOR "],
                    _ => &["", " FROM ", " FOR "],
                };
                self.push(&name.to_uppercase());
                self.push("(");
                for (word, argument) in words.iter().zip(arguments) {
                    self.push(word);
                    self.node(argument, false);
                }
                self.push(")");
            }
        }
    }
}

/// Whether a node needs no parentheses as a part of another.
fn is_simple(node: &Node, parent: &Node) -> bool {
    match node {
        Node::Column { .. }
        | Node::Constant { .. }
        | Node::Word { .. }
        | Node::CaseOperand { .. }
        | Node::Call { .. }
        | Node::NullIf { .. }
        | Node::Case { .. }
        | Node::OneOf { .. }
        | Node::Array { .. }
        | Node::Cast { by_function: true, .. } => true,
        Node::Cast { inner, .. } => is_simple(inner, node),
        Node::Operator { .. } if matches!(parent, Node::Operator { .. }) => binds_tighter(node, parent),
        Node::Operator { .. } | Node::NullTest { .. } | Node::TruthTest { .. } | Node::Distinct { .. } => {
            matches!(parent, Node::Joined { .. }) || separates(parent)
        }
        Node::Joined { by, .. } => match parent {
            Node::Joined { by: around, .. } => match by {
                Junction::Not | Junction::And => *around != Junction::Not,
                Junction::Or => *around == Junction::Or,
            },
            _ => separates(parent),
        },
        Node::Quantified { .. } => false,
    }
}

/// Whether the parts of a node are separated by words or commas.
fn separates(parent: &Node) -> bool {
    match parent {
        Node::Call { is_standard, .. } => !is_standard,
        Node::NullIf { .. } | Node::Case { .. } | Node::OneOf { .. } | Node::Array { .. } => true,
        _ => false,
    }
}

/// Whether an operator inside another binds its operands first without parentheses.
fn binds_tighter(node: &Node, parent: &Node) -> bool {
    let rank = |own: &Node| match own {
        Node::Operator { name, operands, .. } if operands.len() == 2 => match &**name {
            "+" | "-" => Some(1),
            "*" | "/" | "%" => Some(2),
            _ => None,
        },
        _ => None,
    };
    match (rank(node), rank(parent), parent) {
        (Some(own), Some(around), Node::Operator { operands, .. }) => {
            own > around || (own == around && std::ptr::eq(node, &raw const operands[0]))
        }
        _ => false,
    }
}
