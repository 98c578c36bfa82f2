//! Random queries over the tables `t` and `u`.

use super::forms::{AGGREGATES, FRAMES, WINDOWS};
use super::grammar::{Column, Grammar, Kind, one_of};
use super::session::Parameter;
use rand::Rng;
use rand::rngs::SmallRng;

/// A query.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) parameters: Vec<Parameter>,
    /// Whether it says how its rows are ordered.
    pub(crate) is_ordered: bool,
}

/// The columns of `t`, beside its key `id`.
const COLUMNS: &[(&str, Kind)] = &[
    ("i2", Kind::Int2),
    ("i4", Kind::Int4),
    ("i8", Kind::Int8),
    ("f4", Kind::Float4),
    ("f8", Kind::Float8),
    ("n", Kind::Numeric),
    ("s", Kind::Text),
    ("b", Kind::Bool),
    ("d", Kind::Date),
    ("ts", Kind::Timestamp),
    ("tz", Kind::Timestamptz),
];

/// The types of columns of `t`.
const OF_TABLES: &str = "id int PRIMARY KEY, i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision, \
                         n numeric(12,3), s text, b boolean, d date, ts timestamp, tz timestamptz";
const ROWS: usize = 12;
const NULLS: f64 = 0.2;

/// Statements that make the tables.
pub(crate) fn tables(random: &mut SmallRng) -> Vec<String> {
    let mut statements = Vec::new();
    for (table, rows) in [("t", ROWS), ("u", ROWS / 2)] {
        statements.push(format!("DROP TABLE IF EXISTS {table}"));
        statements.push(format!("CREATE TABLE {table} ({OF_TABLES})"));
        for id in 1..=rows {
            let cells = COLUMNS.iter().map(|(_, kind)| match random.random_bool(NULLS) {
                true => "NULL".to_owned(),
                false => kind.literal(one_of(kind.values(), random)),
            });
            let cells: Vec<String> = cells.collect();
            statements.push(format!("INSERT INTO {table} VALUES ({id}, {})", cells.join(", ")));
        }
    }
    statements
}

fn columns(table: &str) -> Vec<Column> {
    let prefix = if table.is_empty() { String::new() } else { format!("{table}.") };
    COLUMNS.iter().map(|(name, kind)| Column { name: format!("{prefix}{name}"), kind: *kind }).collect()
}

/// A query.
pub(crate) fn query(random: &mut SmallRng) -> Query {
    let what = random.random_range(0..100);
    let mut grammar = Grammar { random, columns: Vec::new(), parameters: Some(Vec::new()) };
    let (text, is_ordered) = match what {
        0..12 => (constants(&mut grammar), true),
        12..40 => (rows(&mut grammar), true),
        40..50 => (totals(&mut grammar), true),
        50..63 => (groups(&mut grammar), false),
        63..73 => (windows(&mut grammar), true),
        73..80 => (operations(&mut grammar), false),
        80..88 => (subqueries(&mut grammar), true),
        88..94 => (joins(&mut grammar), false),
        _ => (others(&mut grammar), false),
    };
    Query { text, parameters: grammar.parameters.unwrap_or_default(), is_ordered }
}

impl Grammar<'_> {
    fn kind(&mut self) -> Kind {
        self.one_of(&Kind::ALL)
    }

    fn any(&mut self, depth: u32) -> String {
        let kind = self.kind();
        self.expression(kind, depth)
    }

    /// A condition, or none.
    fn condition(&mut self, word: &str) -> String {
        if self.chance(0.5) {
            return String::new();
        }
        let depth = self.random.random_range(1..=2);
        format!(" {word} {}", self.expression(Kind::Bool, depth))
    }

    fn aggregate(&mut self) -> String {
        let form = self.one_of(AGGREGATES);
        let depth = self.random.random_range(1..=2);
        self.filled(form, Kind::Int4, depth)
    }
}

fn constants(grammar: &mut Grammar<'_>) -> String {
    format!("SELECT {}, {}", grammar.any(2), grammar.any(2))
}

fn rows(grammar: &mut Grammar<'_>) -> String {
    grammar.columns = columns("");
    let depth = grammar.random.random_range(1..=2);
    let condition = grammar.condition("WHERE");
    format!("SELECT id, {} AS r, {} FROM t{condition} ORDER BY id", grammar.any(depth), grammar.any(1))
}

fn totals(grammar: &mut Grammar<'_>) -> String {
    grammar.columns = columns("");
    let condition = grammar.condition("WHERE");
    format!("SELECT {}, {} FROM t{condition}", grammar.aggregate(), grammar.aggregate())
}

fn groups(grammar: &mut Grammar<'_>) -> String {
    grammar.columns = columns("");
    let key = grammar.any(1);
    let having = match grammar.chance(0.3) {
        true => format!(" HAVING {} IS NOT NULL", grammar.aggregate()),
        false => String::new(),
    };
    let condition = grammar.condition("WHERE");
    // A key with a parameter would be another parameter at its second place.
    format!("SELECT {key} AS k, {} FROM t{condition} GROUP BY 1{having}", grammar.aggregate())
}

fn windows(grammar: &mut Grammar<'_>) -> String {
    grammar.columns = columns("");
    let form = grammar.one_of(WINDOWS);
    let function = grammar.filled(form, Kind::Int4, 1);
    let partition = match grammar.chance(0.5) {
        true => format!("PARTITION BY {} ", grammar.any(1)),
        false => String::new(),
    };
    let order = match grammar.chance(0.3) {
        true => format!("{}, id", grammar.any(0)),
        false => "id".to_owned(),
    };
    let frame = grammar.one_of(FRAMES);
    format!("SELECT id, {function} OVER ({partition}ORDER BY {order}{frame}) FROM t ORDER BY id")
}

fn operations(grammar: &mut Grammar<'_>) -> String {
    grammar.columns = columns("");
    let kind = grammar.kind();
    let number = [Kind::Int2, Kind::Int4, Kind::Int8, Kind::Float8, Kind::Numeric];
    let other = if number.contains(&kind) { grammar.one_of(&number) } else { kind };
    let (left, right) = (grammar.expression(kind, 1), grammar.expression(other, 1));
    let operation =
        grammar.one_of(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
    let condition = grammar.condition("WHERE");
    format!("SELECT {left} AS r FROM t{condition} {operation} SELECT {right} FROM u")
}

fn subqueries(grammar: &mut Grammar<'_>) -> String {
    // Not every part is used.
    grammar.parameters = None;
    let kind = grammar.kind();
    grammar.columns = columns("u");
    let inner = grammar.expression(kind, 1);
    let filter = grammar.condition("WHERE");
    grammar.columns = columns("t");
    let outer = grammar.expression(kind, 1);
    let column = grammar.one_of(COLUMNS).0;
    match grammar.random.random_range(0..5) {
        0 => format!("SELECT id FROM t WHERE {outer} IN (SELECT {inner} FROM u{filter}) ORDER BY id"),
        1 => format!("SELECT id FROM t WHERE {outer} NOT IN (SELECT {inner} FROM u{filter}) ORDER BY id"),
        2 => {
            format!(
                "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.{column} = t.{column}) ORDER BY id"
            )
        }
        3 => format!("SELECT id, (SELECT max(u.id) FROM u WHERE u.{column} = t.{column}) FROM t ORDER BY id"),
        _ => format!("SELECT id, {outer}, (SELECT count({inner}) FROM u{filter}) FROM t ORDER BY id"),
    }
}

fn joins(grammar: &mut Grammar<'_>) -> String {
    let column = grammar.one_of(COLUMNS).0;
    grammar.columns = [columns("t"), columns("u")].concat();
    let join = grammar.one_of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let shown = grammar.any(1);
    let condition = grammar.condition("WHERE");
    format!("SELECT t.id, u.id, {shown} FROM t {join} u ON t.{column} = u.{column}{condition}")
}

fn others(grammar: &mut Grammar<'_>) -> String {
    let kind = grammar.kind();
    match grammar.random.random_range(0..7) {
        0 => {
            grammar.columns = columns("");
            format!("SELECT DISTINCT {} FROM t", grammar.expression(kind, 1))
        }
        1 => {
            grammar.columns = columns("");
            let key = grammar.one_of(COLUMNS).0;
            format!("SELECT DISTINCT ON ({key}) {key}, id, {} FROM t ORDER BY {key}, id", grammar.any(1))
        }
        2 => {
            let values: Vec<String> = (0..3).map(|_| format!("({})", grammar.expression(kind, 1))).collect();
            format!("SELECT * FROM (VALUES {}) AS v(x)", values.join(", "))
        }
        3 => {
            grammar.columns = vec![Column { name: "g".to_owned(), kind: Kind::Int4 }];
            format!("SELECT g, {} FROM generate_series(1, 4) AS g", grammar.any(1))
        }
        4 => {
            grammar.columns = columns("");
            let inner = grammar.expression(kind, 1);
            grammar.columns = vec![Column { name: "x".to_owned(), kind }];
            format!("WITH w AS (SELECT {inner} AS x FROM t) SELECT {} FROM w", grammar.any(1))
        }
        5 => {
            grammar.columns = columns("");
            let (own, other) = (grammar.expression(kind, 1), grammar.any(1));
            format!("SELECT {own} FROM t ORDER BY {other} NULLS FIRST, id LIMIT 4")
        }
        _ => {
            grammar.columns = columns("");
            let key = grammar.one_of(COLUMNS).0;
            let others: Vec<_> = COLUMNS.iter().filter(|(name, _)| *name != key).collect();
            let other = grammar.one_of(&others).0;
            format!("SELECT {key}, {other}, {} FROM t GROUP BY ROLLUP ({key}, {other})", grammar.aggregate())
        }
    }
}
