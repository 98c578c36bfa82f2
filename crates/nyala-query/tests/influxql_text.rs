//! Statements to canonical text, expressions to trees, as scripts.
//!
//! To write the scripts' answers again: `cargo test -p nyala-query --test influxql_text -- --ignored`; then read what
//! changed.

mod influxql_support;

use influxql_support::Script;
use nyala_query::influxql::{Expr, Params, parse_expr, parse_query};

const STATEMENTS: &str = "statements.txt";
const TREES: &str = "trees.txt";

fn canonical(query: &str) -> String {
    match parse_query(query, &Params::default()) {
        Ok(statements) => statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Err(error) => error.to_string(),
    }
}

/// An expression with every operation in brackets and the kind of every operand.
fn tree(text: &str) -> String {
    fn write(expr: &Expr) -> String {
        let list = |args: &[Expr]| args.iter().map(|arg| format!(" {}", write(arg))).collect::<String>();
        match expr {
            Expr::Binary(binary) => {
                format!("[{} {} {}]", binary.op.as_str(), write(&binary.lhs), write(&binary.rhs))
            }
            Expr::Call(call) => format!("call({}{})", call.name, list(&call.args)),
            Expr::Paren(inner) => format!("({})", write(inner)),
            Expr::Regex(regex) => format!("/{}/", regex.as_str()),
            Expr::VarRef(reference) => match reference.data_type {
                Some(data_type) => format!("{:?}::{}", reference.name, data_type.as_str()),
                None => format!("{:?}", reference.name),
            },
            other => format!("{other:?}"),
        }
    }
    match parse_expr(text) {
        Ok(expr) => write(&expr),
        Err(error) => error.to_string(),
    }
}

#[test]
fn statements_print_canonically() {
    Script::read(STATEMENTS).check(canonical);
}

#[test]
fn canonical_text_is_canonical() {
    // Save for passwords, which are not printed.
    let redacted = |text: &str| text.contains("[REDACTED]");
    for case in Script::read(STATEMENTS).cases().filter(|case| !redacted(&case.answer)) {
        assert_eq!(canonical(&case.answer), case.answer);
    }
}

#[test]
fn expressions_group_as_written_down() {
    Script::read(TREES).check(tree);
}

#[test]
#[ignore = "rewrites the scripts"]
fn rewrite_scripts() {
    Script::read(STATEMENTS).rewrite(canonical);
    Script::read(TREES).rewrite(tree);
}
