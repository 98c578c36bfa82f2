//! Long chains of operators, such as `a = 1 OR a = 2 OR …`. Each operator makes the syntax tree one level deeper, without the
//! parser noticing, and whoever walks through the tree needs a stack for all levels. So chains are bounded before they
//! are parsed.

use crate::error::{SqlError, SqlResult, SqlState};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// What a chain may weigh: 200 operators, or 500 AND and OR, which are planned faster. Twice as many fit on the stack of an
/// unoptimised program.
const WEIGHT_MAX: usize = 1000;
const OPERATOR_WEIGHT: usize = 5;
const LOGICAL_WEIGHT: usize = 2;
const LOGICAL: [&str; 2] = ["and", "or"];
/// Other words that continue an expression.
const OPERATORS: [&str; 11] =
    ["is", "in", "like", "ilike", "similar", "between", "collate", "at", "isnull", "notnull", "overlaps"];
/// Words between SELECTs.
const SET_OPERATORS: [&str; 3] = ["union", "except", "intersect"];
/// Words behind which another expression begins.
const BEGINNINGS: [&str; 16] = [
    "select", "from", "where", "group", "having", "order", "limit", "offset", "on", "when", "then", "else",
    "end", "values", "set", "join",
];

/// Parentheses that are nested deeper are refused by the parser.
const LEVELS_MAX: usize = 1000;

/// How deeply square brackets may be nested. An array has six dimensions at most, and where the parser meets the end of its own
/// patience inside of brackets, it tries everything twice for each level.
const BRACKETS_MAX: usize = 8;

/// The most statements of a text. Each takes kilobytes when all are parsed, before the first is executed.
const STATEMENTS_MAX: usize = 10_000;

/// What was weighed between two parentheses.
#[derive(Default)]
struct Level {
    set_operators: usize,
    logical: usize,
    /// The operators since the last AND or OR, and the heaviest before it.
    operators: usize,
    operators_before: usize,
    /// The heaviest chain in parentheses of this expression.
    inner: usize,
    /// The heaviest chain of an expression before this one.
    before: usize,
}

impl Level {
    /// What is around the next parentheses.
    fn around(&self) -> usize {
        self.set_operators + self.logical + self.operators
    }

    fn chain(&self) -> usize {
        self.set_operators + self.logical + self.operators.max(self.operators_before) + self.inner
    }

    /// Begins another operand of AND or OR.
    fn begin_operand(&mut self) {
        self.operators_before = self.operators_before.max(std::mem::take(&mut self.operators));
    }

    /// Begins another expression.
    fn begin(&mut self) {
        self.before = self.before.max(self.chain());
        (self.logical, self.operators, self.operators_before, self.inner) = (0, 0, 0, 0);
    }
}

/// Refuses statements with longer chains and deeper brackets, and texts of more statements.
///
/// # Errors
/// Too complex (54001), at the first operator or bracket that is too many.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> SqlResult<()> {
    let mut around: Vec<Level> = Vec::new();
    let mut level = Level::default();
    // Of the levels around.
    let mut around_chains = 0;
    let (mut brackets, mut ends) = (0_usize, 0);
    for TokenWithSpan { token, span } in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                brackets += usize::from(*token == Token::LBracket);
                if brackets > BRACKETS_MAX {
                    return Err(too_deep(span.start));
                }
                around_chains += level.around();
                around.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                brackets = brackets.saturating_sub(usize::from(*token == Token::RBracket));
                let inner = level.before.max(level.chain());
                level = around.pop().unwrap_or_default();
                around_chains = around_chains.saturating_sub(level.around());
                level.inner = level.inner.max(inner);
            }
            Token::SemiColon => {
                ends += 1;
                if ends > STATEMENTS_MAX {
                    return Err(too_many());
                }
                level = Level::default();
            }
            Token::Comma => level.begin(),
            Token::Whitespace(_) | Token::EOF | Token::Period | Token::Number(..) => {}
            Token::Word(word) if word.quote_style.is_some() => {}
            Token::Word(word) => {
                let is_one_of = |words: &[&str]| words.iter().any(|own| word.value.eq_ignore_ascii_case(own));
                if is_one_of(&LOGICAL) {
                    level.begin_operand();
                    level.logical += LOGICAL_WEIGHT;
                } else if is_one_of(&OPERATORS) {
                    level.operators += OPERATOR_WEIGHT;
                } else if is_one_of(&SET_OPERATORS) {
                    level.begin();
                    level.set_operators += OPERATOR_WEIGHT;
                } else if is_one_of(&BEGINNINGS) {
                    level.begin();
                }
            }
            token if is_text(token) => {}
            _ => level.operators += OPERATOR_WEIGHT,
        }
        if around.len() > LEVELS_MAX {
            return Ok(());
        }
        if level.chain() + around_chains > WEIGHT_MAX {
            return Err(too_long(span.start));
        }
    }
    Ok(())
}

fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::Placeholder(_)
    )
}

fn too_many() -> SqlError {
    let message = format!("a text may have {STATEMENTS_MAX} statements");
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
        .with_hint("Send them in several texts, or many rows by one INSERT or COPY.")
}

fn too_deep(place: Location) -> SqlError {
    let message = format!(
        "square brackets are nested more than {BRACKETS_MAX} levels deep at Line: {}, Column: {}",
        place.line, place.column
    );
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
}

fn too_long(place: Location) -> SqlError {
    let message = format!(
        "more than {} operators, or {} AND and OR, follow each other at Line: {}, Column: {}",
        WEIGHT_MAX / OPERATOR_WEIGHT,
        WEIGHT_MAX / LOGICAL_WEIGHT,
        place.line,
        place.column
    );
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
        .with_hint("Use IN (…) or = ANY($1) instead of many OR, or several columns or statements.")
}

#[cfg(test)]
mod tests {
    use crate::Statement;
    use crate::error::SqlState;

    #[test]
    fn chains_are_bounded_however_they_are_nested() {
        let plus = |count: usize| format!("1{}", " + 1".repeat(count));
        let is_refused = |text: &str| match Statement::parse(text) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.code, SqlState::STATEMENT_TOO_COMPLEX, "{error}");
                assert!(error.position.is_some(), "{error}");
                true
            }
        };
        assert!(!is_refused(&format!("SELECT {}, {} FROM t WHERE {} > 1", plus(190), plus(190), plus(190))));
        assert!(!is_refused(&format!("INSERT INTO t VALUES {}", vec!["(-1, 1 + 2)"; 2000].join(", "))));
        assert!(!is_refused(&format!("SELECT CASE {} END", "WHEN a = 1 THEN 2 ".repeat(2000))));
        assert!(!is_refused(&format!("SELECT {}", vec!["(1 + 2)"; 190].join(" + "))));
        assert!(!is_refused(&format!("SELECT * FROM t WHERE a = 1{}", " OR a + 1 = 1".repeat(490))));
        let nested = (0..50).fold("1".to_owned(), |inner, _| format!("({inner} + 1)"));
        assert!(!is_refused(&format!("SELECT {nested}")));
        for refused in [
            format!("SELECT {}", plus(100_000)),
            format!("SELECT ({} + ({} + ({})))", plus(80), plus(80), plus(80)),
            format!("SELECT {} + {}", format_args!("({})", plus(120)), plus(120)),
            format!("SELECT a{}", " IS NULL".repeat(1000)),
            format!("SELECT 1{}", "::int".repeat(1000)),
            format!("SELECT * FROM t WHERE a = 1{}", " OR a = 1".repeat(1000)),
            vec!["SELECT 1"; 1000].join(" UNION ALL "),
            format!("SELECT {}1{}", "ARRAY[".repeat(100), "]".repeat(100)),
        ] {
            assert!(is_refused(&refused), "{}", &refused[..60]);
        }
    }
}
