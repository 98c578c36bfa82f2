//! Defaults and checks as PostgreSQL shows them: not as they were written, but as it has understood them.
//!
//! [`analysis`] gives each part of an expression its type, as PostgreSQL's parser does: [`resolution`] says which operator or
//! function a name means, [`coercion`] how a value gets another type, [`constant`] what a literal is. [`printing`] writes the
//! outcome ([`node`]). What is not known here gives no text, and is then shown as it was written: a text never says something
//! else than the expression.

mod analysis;
mod coercion;
mod constant;
mod node;
mod printing;
mod resolution;
mod signatures;
mod types;

use super::builtin_type::of_declared;
use analysis::Analysis;
use chrono_tz::Tz;
use coercion::coerced_to;
use constant::Reading;
use datafusion::sql::sqlparser::ast::Expr;
use node::{Kind, Node};
use nyala_db::relations::DeclaredType;
use printing::printed;
use signatures::Context;

/// How expressions are shown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Style {
    /// The zone of the session, in which moments are shown.
    pub(super) zone: Tz,
    /// Whether names need their schema.
    pub(super) names_schemas: bool,
    /// Whether parentheses are left out that are not needed.
    pub(super) is_pretty: bool,
}

/// The text of a default of a column of a type. `None`: it has a form that is not known here.
pub(super) fn default_text(written: &Expr, target: DeclaredType, style: &Style) -> Option<DefaultText> {
    let mut analysis = Analysis::of(&[], style);
    let node = analysis.node(written)?;
    let node = coerced_to(node, kind_of(target), Context::Assignment, &analysis.reading);
    Some(match node? {
        Node::Constant { text: None, .. } => DefaultText::Nothing,
        node => DefaultText::Shown(printed(&node, style.is_pretty)),
    })
}

/// A default as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DefaultText {
    Shown(String),
    /// NULL is what a column without a default has.
    Nothing,
}

/// The text of a condition over columns of a table. `None`: it has a form that is not known here.
pub(super) fn condition_text<'a>(
    written: &Expr,
    columns: impl IntoIterator<Item = (&'a str, DeclaredType)>,
    style: &Style,
) -> Option<String> {
    let columns: Vec<_> = columns.into_iter().map(|(name, own)| (name, kind_of(own))).collect();
    let node = Analysis::of(&columns, style).condition(written)?;
    Some(printed(&node, style.is_pretty))
}

impl<'a> Analysis<'a> {
    fn of(columns: &'a [(&'a str, Kind)], style: &Style) -> Self {
        let reading = Reading { zone: style.zone, names_schemas: style.names_schemas };
        Self { columns, reading, depth: 0 }
    }
}

fn kind_of(declared: DeclaredType) -> Kind {
    let (oid, modifier) = of_declared(declared);
    Kind { oid, modifier }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::parsed;

    const COLUMNS: [(&str, DeclaredType); 9] = [
        ("a", DeclaredType::Int4),
        ("b", DeclaredType::Int8),
        ("n", DeclaredType::Numeric { precision: 8, scale: 2 }),
        ("f", DeclaredType::Float8),
        ("s", DeclaredType::Text),
        ("v", DeclaredType::Varchar(10)),
        ("c", DeclaredType::Char(3)),
        ("z", DeclaredType::Timestamptz),
        ("ok", DeclaredType::Bool),
    ];

    fn condition(text: &str, is_pretty: bool) -> String {
        let style = Style { is_pretty, ..Style::default() };
        condition_text(&parsed(text).unwrap(), COLUMNS, &style).unwrap_or_else(|| "?".to_owned())
    }

    fn default(text: &str, of: DeclaredType, style: &Style) -> String {
        match default_text(&parsed(text).unwrap(), of, style) {
            Some(DefaultText::Shown(text)) => text,
            Some(DefaultText::Nothing) => String::new(),
            None => "?".to_owned(),
        }
    }

    /// The answers are those of a real PostgreSQL 15, as those of `testdata/postgres/deparsed.txt`.
    #[test]
    fn conditions_are_shown_as_by_postgresql() {
        for (written, pretty, whole) in [
            ("a > 0", "a > 0", "(a > 0)"),
            ("n > 0", "n > 0::numeric", "(n > (0)::numeric)"),
            ("f > n", "f > n::double precision", "(f > (n)::double precision)"),
            ("b > -1", "b > '-1'::integer", "(b > '-1'::integer)"),
            ("v <> 'x'", "v::text <> 'x'::text", "((v)::text <> 'x'::text)"),
            ("c = 'x'", "c = 'x'::bpchar", "(c = 'x'::bpchar)"),
            ("a - (b - 1) * 2 > 0", "(a - (b - 1) * 2) > 0", "((a - ((b - 1) * 2)) > 0)"),
            ("a IN (1, 2, b)", "(a = ANY (ARRAY[1, 2])) OR a = b", "((a = ANY (ARRAY[1, 2])) OR (a = b))"),
            ("s NOT LIKE 'x'", "s !~~ 'x'::text", "(s !~~ 'x'::text)"),
            ("a BETWEEN 1 AND 5", "a >= 1 AND a <= 5", "((a >= 1) AND (a <= 5))"),
            ("NOT (ok OR a > 0) AND ok", "NOT (ok OR a > 0) AND ok", "((NOT (ok OR (a > 0))) AND ok)"),
            ("(ok AND ok) AND a > 0", "ok AND ok AND a > 0", "(ok AND ok AND (a > 0))"),
            ("a IS DISTINCT FROM NULL", "a IS NOT NULL", "(a IS NOT NULL)"),
            ("ok", "ok", "ok"),
        ] {
            assert_eq!(
                (&*condition(written, true), &*condition(written, false)),
                (pretty, whole),
                "{written}"
            );
        }
        let case = "CASE WHEN ok THEN CASE a WHEN 1 THEN v END ELSE s END = 'x'";
        let lines = "\nCASE\n    WHEN ok THEN (\n    CASE a\n        WHEN 1 THEN v\n        ELSE NULL::character varying\n    \
                     END)::text\n    ELSE s\nEND = 'x'::text";
        assert_eq!(condition(case, false), format!("({lines})"));
    }

    #[test]
    fn defaults_are_shown_as_by_postgresql() {
        use DeclaredType::{Date, Int2, Int8, Text, TimestamptzDigits, Varchar};
        let style = Style::default();
        for (written, of, shown) in [
            ("'x'", Text, "'x'::text"),
            ("'x'", Varchar(5), "'x'::character varying"),
            ("NULL", Text, ""),
            ("NULL", Varchar(5), "NULL::character varying"),
            ("-1", Int8, "'-1'::integer"),
            ("1 + 1", Int2, "(1 + 1)"),
            ("'a' || 5", Text, "('a'::text || 5)"),
            ("now() + interval '90 minutes'", TimestamptzDigits(3), "(now() + '01:30:00'::interval)"),
            ("nextval('public.\"S\"')", Int8, "nextval('\"S\"'::regclass)"),
            ("CURRENT_DATE", Date, "CURRENT_DATE"),
            ("substring('abc', 2)", Text, "\"substring\"('abc'::text, 2)"),
            ("position('b' in 'abc')", Int8, "POSITION(('b'::text) IN ('abc'::text))"),
        ] {
            assert_eq!(default(written, of, &style), shown, "{written}");
        }
        let pretty = Style { is_pretty: true, ..style };
        assert_eq!(
            [default("1 + 1", Int8, &pretty), default("1 + 1", Int2, &pretty)],
            ["(1 + 1)", "(1 + 1)"]
        );
        let whole = Style { names_schemas: true, zone: Tz::America__New_York, is_pretty: false };
        assert_eq!(default("nextval('s') + 1", Int8, &whole), "(nextval('public.s'::regclass) + 1)");
        let summer = "'2024-07-01 12:00:00-04'::timestamp with time zone";
        assert_eq!(default("'2024-07-01 12:00'", DeclaredType::Timestamptz, &whole), summer);
    }

    #[test]
    fn what_is_not_known_has_no_text() {
        for written in [
            "time_bucket('1 day', z) = z",
            "jsonb_extract_path('{}', 'a') = '1'",
            "s > 5",
            "nothing > 0",
            "(a, b) = (1, 2)",
            "s LIKE ANY (ARRAY['x'])",
            "z > 'today'",
            "z > z - INTERVAL '1' DAY",
            "s = 'x' COLLATE \"C\"",
        ] {
            assert_eq!(condition(written, true), "?", "{written}");
        }
        let deep = format!("{}a > 0{}", "(".repeat(45), ")".repeat(45));
        assert_eq!(condition(&deep, true), "a > 0");
    }
}
