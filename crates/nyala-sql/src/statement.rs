//! Statements: parsed, but not looked at.

use crate::as_of;
use crate::asof_join;
use crate::auto_increment;
use crate::chains;
use crate::copy::{CopyStatement, CopySubject, begins_copy};
use crate::create_as_execute;
use crate::current_of;
use crate::cursor::{CursorStatement, begins_cursor_statement};
use crate::distinct_from;
use crate::double_minus;
use crate::dry_run;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::latest_on;
use crate::like_table;
use crate::merge_nothing;
use crate::numbers;
use crate::overriding;
use crate::parser_dialect::SqlDialect;
use crate::partition_options;
use crate::prepare_statement::{PrepareStatement, begins_prepare};
use crate::select_into;
use crate::sequence_statement::{SequenceStatement, begins_sequence_statement, in_order};
use crate::shape::Shape;
use crate::undo::{self, Undo};
use crate::unknown_forms;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};
use std::sync::Arc;

/// The longest text of a request, bytes.
pub const TEXT_MAX_BYTES: usize = 16 << 20;
/// Words that may begin a statement that the parser does not know, or knows otherwise.
const UNKNOWN: [&str; 9] =
    ["copy", "alter", "declare", "fetch", "move", "close", "prepare", "sequence", "overriding"];
/// How deeply expressions and queries may be nested.
const DEPTH_MAX: usize = 100;

/// One statement.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Shared: it is large, and statements are passed on and kept.
    pub(crate) ast: Arc<ast::Statement>,
    /// The text of the request that it came with, for positions in errors.
    pub(crate) text: Arc<str>,
    /// Whether it is `UPSERT INTO`, which Kudu's and Impala's users write: an INSERT that replaces rows that exist.
    pub(crate) is_upsert: bool,
    /// Whether it is a change that is only counted.
    pub(crate) is_dry_run: bool,
    /// Whether it is `ALTER VIEW`, which is read as ALTER TABLE.
    pub(crate) is_view: bool,
    /// The moment of the past that it asks for.
    pub(crate) as_of: Option<Arc<ast::Expr>>,
    /// Its shape, if it is the only statement of the text and plans of its shape can be kept.
    pub(crate) shape: Option<Arc<Shape>>,
    /// The COPY that it is; `ast` says nothing then.
    pub(crate) copy: Option<Arc<Copy>>,
    /// What it does with a cursor; `ast` says nothing then.
    pub(crate) cursor: Option<Arc<OfCursor>>,
    /// The PREPARE that it is; `ast` says nothing then.
    pub(crate) prepare: Option<Arc<OfPrepare>>,
    /// What it does with a sequence; `ast` says nothing then.
    pub(crate) sequence: Option<Arc<OfSequence>>,
    /// Whether it is an INSERT that may name values for columns that are always generated.
    pub(crate) is_overriding: bool,
}

/// A statement about a sequence.
#[derive(Debug)]
pub(crate) struct OfSequence {
    pub(crate) written: SequenceStatement,
    /// Its text.
    text: String,
}

/// A COPY, and the statement whose rows it copies.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) written: CopyStatement,
    pub(crate) query: Option<Statement>,
}

/// A statement about a cursor, and the query that it declares.
#[derive(Debug)]
pub(crate) struct OfCursor {
    pub(crate) written: CursorStatement,
    pub(crate) query: Option<Statement>,
    /// Its text.
    text: String,
}

/// A PREPARE, and the statement that it keeps.
#[derive(Debug)]
pub(crate) struct OfPrepare {
    pub(crate) written: PrepareStatement,
    pub(crate) statement: Statement,
    /// Its text.
    pub(crate) text: String,
}

/// Prepared statements to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgotten {
    /// All of the session.
    All,
    /// One, by its name.
    One(String),
}

impl Statement {
    /// The statements of a text. An empty text has none.
    ///
    /// # Errors
    /// A syntax error, with its position.
    pub fn parse(text: &str) -> SqlResult<Vec<Self>> {
        if text.len() > TEXT_MAX_BYTES {
            let message =
                format!("the text of a request may have {TEXT_MAX_BYTES} bytes, not {}", text.len());
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message));
        }
        let placed = |error: ParserError| SqlError::from(error).placed_in(text);
        let tokens = Tokenizer::new(&SqlDialect, text).tokenize_with_location();
        let tokens = tokens.map_err(|error| placed(error.into()))?;
        chains::check(&tokens).map_err(|error| error.placed_in(text))?;
        auto_increment::check(&tokens)?;
        let mut shape = Shape::of(&tokens).map(Arc::new);
        let has_distinct = tokens.iter().any(is_distinct);
        let has_double_minus = double_minus::is_in(&tokens);
        let tokens = current_of::rewritten(latest_on::rewritten(asof_join::rewritten(tokens)));
        let tokens = like_table::rewritten(unknown_forms::rewritten(create_as_execute::rewritten(tokens)));
        let tokens = if tokens.iter().any(is_identity) { in_order(tokens) } else { tokens };
        let mut parsed = statements(merge_nothing::rewritten(numbers::rewritten(tokens))).map_err(placed)?;
        if has_distinct {
            parsed.iter_mut().for_each(|parsed| parsed.repair(distinct_from::repair));
        }
        if has_double_minus {
            parsed.iter_mut().for_each(|parsed| parsed.repair(double_minus::repair));
        }
        let text: Arc<str> = text.into();
        if parsed.len() > 1 || parsed.iter().any(Parsed::is_more_than_its_tree) {
            shape = None;
        }
        Ok(parsed.into_iter().map(|own| own.statement(&text, shape.clone())).collect())
    }

    /// Which prepared statements it makes the session forget: who has something beside them can do the same.
    pub fn forgotten(&self) -> Option<Forgotten> {
        match &*self.ast {
            ast::Statement::Discard { object_type: ast::DiscardObject::ALL } => Some(Forgotten::All),
            ast::Statement::Deallocate { name, .. } => Some(match name.value.eq_ignore_ascii_case("all") {
                true if name.quote_style.is_none() => Forgotten::All,
                _ => Forgotten::One(folded(name)),
            }),
            _ => None,
        }
    }

    /// Its text, as lists of running queries show it.
    pub fn shown(&self) -> String {
        if let Some(copy) = &self.copy {
            return copy.written.text.clone();
        }
        if let Some(cursor) = &self.cursor {
            return cursor.text.clone();
        }
        if let Some(prepare) = &self.prepare {
            return prepare.text.clone();
        }
        if let Some(sequence) = &self.sequence {
            return sequence.text.clone();
        }
        if let Some(undo) = Undo::of(&self.ast) {
            return undo.to_string();
        }
        let text =
            current_of::shown(format!("{}{}", if self.is_dry_run { "DRY RUN " } else { "" }, self.ast));
        if let Some(rest) = text.strip_prefix("ALTER TABLE").filter(|_| self.is_view) {
            return format!("ALTER VIEW{rest}");
        }
        if matches!(*self.ast, ast::Statement::Merge(_)) {
            return merge_nothing::shown(&text);
        }
        if matches!(*self.ast, ast::Statement::CreateTable(_)) {
            return like_table::shown(&create_as_execute::shown(&text));
        }
        if self.is_overriding {
            return overriding::shown(&text);
        }
        match (self.is_upsert, &self.as_of) {
            (true, _) => text.replacen("INSERT", "UPSERT", 1),
            (false, Some(moment)) => format!("{text} AS OF {moment}"),
            (false, None) => text,
        }
    }
}

/// A statement, and what the parser does not know of it.
struct Parsed {
    ast: ast::Statement,
    is_upsert: bool,
    is_dry_run: bool,
    is_view: bool,
    as_of: Option<ast::Expr>,
    copy: Option<ParsedCopy>,
    cursor: Option<ParsedCursor>,
    prepare: Option<ParsedPrepare>,
    sequence: Option<OfSequence>,
    is_overriding: bool,
}

/// A COPY, and the statement whose rows it copies.
struct ParsedCopy {
    written: CopyStatement,
    query: Option<Box<Parsed>>,
}

/// A statement about a cursor, and the query that it declares.
struct ParsedCursor {
    written: CursorStatement,
    query: Option<Box<Parsed>>,
    text: String,
}

/// A PREPARE, and the statement that it keeps.
struct ParsedPrepare {
    written: PrepareStatement,
    statement: Box<Parsed>,
    text: String,
}

impl Parsed {
    fn is_more_than_its_tree(&self) -> bool {
        self.as_of.is_some()
            || self.copy.is_some()
            || self.cursor.is_some()
            || self.prepare.is_some()
            || self.sequence.is_some()
            || self.is_overriding
    }

    fn repair(&mut self, repair: fn(&mut ast::Statement)) {
        repair(&mut self.ast);
        if let Some(query) = self.copy.as_mut().and_then(|copy| copy.query.as_mut()) {
            query.repair(repair);
        }
        if let Some(query) = self.cursor.as_mut().and_then(|cursor| cursor.query.as_mut()) {
            query.repair(repair);
        }
        if let Some(prepare) = &mut self.prepare {
            prepare.statement.repair(repair);
        }
    }

    fn statement(self, text: &Arc<str>, shape: Option<Arc<Shape>>) -> Statement {
        let Self { ast, is_upsert, is_dry_run, is_view, is_overriding, .. } = self;
        let Self { as_of, copy, cursor, prepare, sequence, .. } = self;
        let copy = copy.map(|ParsedCopy { written, query }| {
            Arc::new(Copy { written, query: query.map(|query| query.statement(text, None)) })
        });
        let cursor = cursor.map(|cursor| {
            let query = cursor.query.map(|query| query.statement(text, None));
            Arc::new(OfCursor { written: cursor.written, query, text: cursor.text })
        });
        let prepare = prepare.map(|prepare| {
            let statement = prepare.statement.statement(text, None);
            Arc::new(OfPrepare { written: prepare.written, statement, text: prepare.text })
        });
        let (ast, as_of, sequence) = (Arc::new(ast), as_of.map(Arc::new), sequence.map(Arc::new));
        Statement {
            ast,
            text: text.clone(),
            is_upsert,
            is_dry_run,
            is_view,
            as_of,
            shape,
            copy,
            cursor,
            prepare,
            sequence,
            is_overriding,
        }
    }

    fn plain(ast: ast::Statement) -> Self {
        Self {
            ast,
            is_upsert: false,
            is_dry_run: false,
            is_view: false,
            as_of: None,
            copy: None,
            cursor: None,
            prepare: None,
            sequence: None,
            is_overriding: false,
        }
    }

    fn of_sequence(part: &[TokenWithSpan]) -> Result<Self, ParserError> {
        let written = SequenceStatement::parse(part)?;
        let sequence = Some(OfSequence { written, text: text_of(part) });
        Ok(Self { sequence, ..Self::plain(nothing()) })
    }

    fn of_copy(part: &[TokenWithSpan]) -> Result<Self, ParserError> {
        let written = CopyStatement::parse(part, DEPTH_MAX)?;
        let query = match &written.subject {
            CopySubject::Table { .. } => None,
            CopySubject::Query(tokens) => match statements(tokens.clone())?.pop() {
                Some(query) if query.copy.is_none() => Some(Box::new(query)),
                _ => return Err(ParserError::ParserError("syntax error at or near \")\"".to_owned())),
            },
        };
        let copy = Some(ParsedCopy { written, query });
        Ok(Self { copy, ..Self::plain(nothing()) })
    }

    fn of_cursor(part: &[TokenWithSpan]) -> Result<Self, ParserError> {
        let (written, tokens) = CursorStatement::parse(part)?;
        let query = match &written {
            CursorStatement::Declare(_) => match statements(tokens)?.pop() {
                Some(query) if matches!(query.ast, ast::Statement::Query(_)) => Some(Box::new(query)),
                _ => {
                    let words = "syntax error: DECLARE CURSOR needs a query";
                    return Err(ParserError::ParserError(words.to_owned()));
                }
            },
            _ => None,
        };
        let cursor = Some(ParsedCursor { written, query, text: text_of(part) });
        Ok(Self { cursor, ..Self::plain(nothing()) })
    }

    fn of_prepare(part: &[TokenWithSpan]) -> Result<Self, ParserError> {
        let (written, tokens) = PrepareStatement::parse(part)?;
        let statement = match statements(tokens)?.pop() {
            Some(own) if own.can_be_kept() => Box::new(own),
            _ => {
                let words = "syntax error: PREPARE keeps a query, INSERT, UPDATE, DELETE or MERGE";
                return Err(ParserError::ParserError(words.to_owned()));
            }
        };
        let prepare = Some(ParsedPrepare { written, statement, text: text_of(part) });
        Ok(Self { prepare, ..Self::plain(nothing()) })
    }

    /// Whether it can be kept by name.
    fn can_be_kept(&self) -> bool {
        matches!(
            self.ast,
            ast::Statement::Query(_)
                | ast::Statement::Insert(_)
                | ast::Statement::Update(_)
                | ast::Statement::Delete(_)
                | ast::Statement::Merge(_)
        )
    }
}

/// The text of the tokens of one statement.
fn text_of(part: &[TokenWithSpan]) -> String {
    part.iter().map(|token| token.token.to_string()).collect::<String>().trim().to_owned()
}

/// In the place of a statement that the parser does not know.
fn nothing() -> ast::Statement {
    ast::Statement::Discard { object_type: ast::DiscardObject::TEMP }
}

/// The statements of a text.
fn statements(tokens: Vec<TokenWithSpan>) -> Result<Vec<Parsed>, ParserError> {
    let parser = || Parser::new(&SqlDialect).with_recursion_limit(DEPTH_MAX);
    let is_plain = |token: &TokenWithSpan| {
        !is_upsert(token) && !UNKNOWN.iter().any(|word| latest_on::is_word(token, word))
    };
    if tokens.iter().all(is_plain)
        && !as_of::may_be_in(&tokens)
        && !undo::may_be_in(&tokens)
        && !dry_run::may_be_in(&tokens)
        && !partition_options::may_be_in(&tokens)
    {
        let statements = parser().with_tokens_with_locations(tokens).parse_statements()?;
        return Ok(statements.into_iter().map(|ast| Parsed::plain(select_into::rewritten(ast))).collect());
    }
    let mut statements = Vec::new();
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        if begins_copy(part) {
            statements.push(Parsed::of_copy(part)?);
            continue;
        }
        if begins_cursor_statement(part) {
            statements.push(Parsed::of_cursor(part)?);
            continue;
        }
        if begins_prepare(part) {
            statements.push(Parsed::of_prepare(part)?);
            continue;
        }
        if begins_sequence_statement(part) {
            statements.push(Parsed::of_sequence(part)?);
            continue;
        }
        let mut part = part.to_vec();
        let is_overriding = overriding::taken(&mut part)?;
        undo::rewrite(&mut part)?;
        let is_dry_run = dry_run::taken(&mut part)?;
        let first = part.iter_mut().find(|token| !matches!(token.token, Token::Whitespace(_)));
        let Some(first) = first.filter(|token| token.token != Token::EOF) else { continue };
        let is_upsert = is_upsert(first);
        if is_upsert {
            // The parser does not know the word: it reads INSERT in its place.
            let insert = Word { value: "INSERT".to_owned(), quote_style: None, keyword: Keyword::INSERT };
            *first = TokenWithSpan { token: Token::Word(insert), span: first.span };
        }
        let is_view = renames_view(&mut part);
        partition_options::reorder(&mut part);
        let as_of = as_of::taken(&mut part, DEPTH_MAX);
        let mut parser = parser().with_tokens_with_locations(part);
        for ast in parser.parse_statements()? {
            let as_of = as_of.clone();
            let plain = Parsed::plain(select_into::rewritten(ast));
            statements.push(Parsed { is_upsert, is_dry_run, is_view, is_overriding, as_of, ..plain });
        }
    }
    Ok(statements)
}

/// Whether a statement renames a view. The parser does not know that: it reads TABLE in the place of VIEW.
fn renames_view(tokens: &mut [TokenWithSpan]) -> bool {
    let is_rename = tokens.iter().any(|token| latest_on::is_word(token, "rename"));
    let mut words = tokens.iter_mut().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let (Some(first), Some(second)) = (words.next(), words.next()) else { return false };
    let is_it = is_rename && latest_on::is_word(first, "alter") && latest_on::is_word(second, "view");
    if is_it {
        let table = Word { value: "TABLE".to_owned(), quote_style: None, keyword: Keyword::TABLE };
        second.token = Token::Word(table);
    }
    is_it
}

fn is_distinct(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == Keyword::DISTINCT)
}

fn is_identity(token: &TokenWithSpan) -> bool {
    latest_on::is_word(token, "identity")
}

fn is_upsert(token: &TokenWithSpan) -> bool {
    latest_on::is_word(token, "upsert")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upsert_is_read_as_an_insert() {
        let text = "UPSERT INTO t VALUES (1); SELECT 'upsert'; upsert into t (a) select 2;";
        let statements = Statement::parse(text).unwrap();
        assert_eq!(statements.iter().map(|own| own.is_upsert).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(statements[0].shown(), "UPSERT INTO t VALUES (1)");
        assert_eq!(Statement::parse("UPSERT INTO").unwrap_err().code, SqlState::SYNTAX_ERROR);
        assert_eq!(Statement::parse(" ; ").unwrap().len(), 0);
    }

    #[test]
    fn copy_is_read_in_its_old_forms_too() {
        let shown =
            |text: &str| Statement::parse(text).map(|all| all[0].shown()).map_err(|error| error.position);
        for text in [
            "COPY t FROM STDIN",
            "copy binary t from stdin",
            "COPY binary FROM stdin",
            "copy a.b (c, \"D\") to stdout with (format csv, header match, force_quote *, null E'\\t')",
            "COPY t FROM STDIN USING DELIMITERS '|' CSV HEADER QUOTE AS '''' FORCE NOT NULL a, b ENCODING 'UTF8'",
            "COPY (SELECT ')' FROM (VALUES (1)) v) TO STDOUT CSV",
        ] {
            let parsed = Statement::parse(&format!("{text}; SELECT 1")).unwrap();
            assert_eq!((parsed.len(), shown(text)), (2, Ok(parsed[0].shown())), "{text}");
            assert!(parsed[0].copy.is_some() && parsed[1].copy.is_none());
        }
        assert_eq!(shown("SELECT copy FROM copy"), Ok("SELECT copy FROM copy".to_owned()));
        assert_eq!(shown("COPY t FROM STDIN nonsense"), Err(Some(19)));
        assert_eq!(shown("COPY (SELECT 1) FROM STDIN"), Err(Some(17)));
        assert_eq!(shown("COPY (SELECT 1"), Err(None));
    }

    #[test]
    fn undo_takes_a_number() {
        let shown = |text: &str| {
            let statements = Statement::parse(text)?;
            Ok::<Vec<String>, SqlError>(statements.iter().map(Statement::shown).collect())
        };
        let expected: Vec<String> =
            ["UNDO 17", "SELECT undo FROM t", "DRY RUN UNDO 3"].map(str::to_owned).into();
        assert_eq!(shown("undo 17; select undo from t; Dry Run /* only */ UNDO 3").unwrap(), expected);
        for text in ["UNDO", "UNDO x", "UNDO 1 2", "DRY RUN UNDO", "UNDO -1"] {
            let error = shown(text).unwrap_err();
            assert_eq!(error.code, SqlState::SYNTAX_ERROR, "{text}");
            assert!(error.message.contains("UNDO takes the number of a change"), "{text}: {error:?}");
        }
    }

    #[test]
    fn as_of_is_a_moment_only_at_the_end() {
        let moment = |text: &str| {
            let statements = Statement::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            statements.into_iter().map(|own| own.as_of.map(|own| own.to_string())).collect::<Vec<_>>()
        };
        let text = "SELECT 1 AS OF '2026-01-01'; select 2; SELECT 3 as of now() - interval '5 minutes' ;";
        let shown = moment(text);
        assert_eq!(shown, [Some("'2026-01-01'".into()), None, Some("now() - INTERVAL '5 minutes'".into())]);
        for text in
            ["SELECT 1 AS of", "SELECT a AS of, b FROM t", "SELECT a AS of FROM t", "SELECT a AS \"of\""]
        {
            assert_eq!(moment(text), [None], "{text}");
        }
        assert_eq!(moment("SELECT a AS of FROM t AS OF $1"), [Some("$1".into())]);
    }
}
