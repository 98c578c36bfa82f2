//! PostgreSQL's language, as the parser knows it, but for one thing: an argument of a function has an identifier for its name, as in
//! PostgreSQL. The parser's own dialect takes any expression for a name, so that it reads each argument twice, and one that
//! lies in thirty calls a thousand million times.

use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use std::any::TypeId;

/// What all texts of SQL are read by.
#[derive(Debug)]
pub(crate) struct SqlDialect;

macro_rules! as_in_postgresql {
    ($($name:ident)*) => {
        $(fn $name(&self) -> bool {
            PostgreSqlDialect {}.$name()
        })*
    };
}

impl Dialect for SqlDialect {
    fn dialect(&self) -> TypeId {
        PostgreSqlDialect {}.dialect()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    // All others that PostgreSqlDialect has of its own.

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PostgreSqlDialect {}.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        PostgreSqlDialect {}.is_delimited_identifier_start(letter)
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(letter)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        PostgreSqlDialect {}.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, letter: char) -> bool {
        PostgreSqlDialect {}.is_custom_operator_part(letter)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        PostgreSqlDialect {}.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(precedence)
    }

    as_in_postgresql! {
        supports_unicode_string_literal
        supports_filter_during_aggregation
        supports_group_by_expr
        allow_extract_custom
        allow_extract_single_quotes
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_listen_notify
        supports_factorial_operator
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_colon_operator
        supports_empty_projections
        supports_nested_comments
        supports_string_escape_constant
        supports_numeric_literal_underscores
        supports_array_typedef_with_brackets
        supports_geometric_types
        supports_set_names
        supports_alter_column_type_using
        supports_notnull_operator
        supports_interval_options
        supports_insert_table_alias
        supports_create_table_like_parenthesized
        supports_select_wildcard_with_alias
        supports_comma_separated_trim
        supports_xml_expressions
        supports_comment_optimizer_hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Statement;

    #[test]
    fn what_lies_deep_is_read_once() {
        for (begin, end) in [
            ("abs(", ")"),
            ("coalesce(NULL, ", ")"),
            ("f(a => ", ")"),
            ("convert(", ")"),
            ("(", ")"),
            ("(SELECT ", ")"),
            ("ROW(", ")"),
            ("CASE WHEN true THEN ", " END"),
            ("CAST(", " AS int)"),
            ("1 IN (", ")"),
            ("substring(", " FROM 1)"),
            ("count(*) FILTER (WHERE ", ")"),
            ("sum(1) OVER (ORDER BY ", ")"),
        ] {
            // Twice as many steps for each would take until tomorrow.
            let text = format!("SELECT {}1{}", begin.repeat(40), end.repeat(40));
            assert_eq!(Statement::parse(&text).map(|all| all.len()).ok(), Some(1), "{text}");
        }
    }

    #[test]
    fn arguments_have_names() {
        let read = |text: &str| Parser::parse_sql(&SqlDialect, text).map(|all| all[0].to_string());
        for text in [
            "SELECT make_interval(days => 1, hours => 2)",
            "SELECT f(a := 1, b)",
            "SELECT count(*), f(DISTINCT a ORDER BY b)",
        ] {
            assert_eq!(read(text).as_deref(), Ok(text));
        }
    }
}
