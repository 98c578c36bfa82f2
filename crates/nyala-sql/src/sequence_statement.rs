//! `CREATE SEQUENCE`, `ALTER SEQUENCE`, and the identity of a column in `ALTER TABLE`: the parser knows the first only with
//! its options in one order, and the others not at all.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser_dialect::SqlDialect;
use crate::relation::declared_type::declared_type;
use crate::token_reader::{TokenReader, is_word};
use datafusion::sql::sqlparser::ast::{self, ObjectName};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nyala_db::relations::{DeclaredType, Identity};

/// A statement about a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SequenceStatement {
    Create {
        name: ObjectName,
        is_temporary: bool,
        if_not_exists: bool,
        options: SequenceOptions,
    },
    Alter {
        name: ObjectName,
        if_exists: bool,
        options: SequenceOptions,
    },
    Rename {
        name: ObjectName,
        if_exists: bool,
        to: String,
    },
    /// `ALTER TABLE … ALTER COLUMN … ADD GENERATED …`, `SET GENERATED …` or `DROP IDENTITY`.
    Column {
        table: ObjectName,
        column: String,
        change: IdentityChange,
    },
}

/// What becomes of the identity of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IdentityChange {
    Add { identity: Identity, options: SequenceOptions },
    Set { identity: Option<Identity>, options: SequenceOptions },
    Drop { if_exists: bool },
}

/// What a statement says of a sequence. The outer level is `None` if it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SequenceOptions {
    pub(crate) declared_type: Option<DeclaredType>,
    pub(crate) start: Option<i64>,
    pub(crate) increment: Option<i64>,
    pub(crate) minimum: Option<Option<i64>>,
    pub(crate) maximum: Option<Option<i64>>,
    pub(crate) cache: Option<i64>,
    pub(crate) cycles: Option<bool>,
    /// From where numbers begin again, and whether it is the start.
    pub(crate) restart: Option<Option<i64>>,
    /// The table and the column that it belongs to.
    pub(crate) owner: Option<Option<(ObjectName, String)>>,
    /// Its name, if it is that of a column.
    pub(crate) name: Option<ObjectName>,
}

/// What a temporary sequence is called.
const TEMPORARY: [&str; 2] = ["temp", "temporary"];

/// Whether tokens are those of such a statement.
pub(crate) fn begins_sequence_statement(tokens: &[TokenWithSpan]) -> bool {
    let mut words =
        tokens.iter().map(|token| &token.token).filter(|own| !matches!(own, Token::Whitespace(_)));
    let (Some(first), Some(second)) = (words.next(), words.next()) else { return false };
    if is_word(second, "sequence") {
        return is_word(first, "create") || is_word(first, "alter");
    }
    if is_word(first, "create") && TEMPORARY.iter().any(|word| is_word(second, word)) {
        return words.next().is_some_and(|third| is_word(third, "sequence"));
    }
    if !(is_word(first, "alter") && is_word(second, "table")) {
        return false;
    }
    let words: Vec<&Token> = words.collect();
    let follow = |a: &str, b: &str| words.windows(2).any(|pair| is_word(pair[0], a) && is_word(pair[1], b));
    follow("add", "generated")
        || follow("set", "generated")
        || follow("drop", "identity")
        || words.iter().any(|word| is_word(word, "restart"))
}

impl SequenceStatement {
    /// Reads the tokens of one statement.
    pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Self, ParserError> {
        let dialect = SqlDialect;
        let mut reader = TokenReader(Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec()));
        let statement = if reader.takes("create") {
            let is_temporary = TEMPORARY.iter().any(|word| reader.takes(word));
            reader.expect("sequence")?;
            let if_not_exists = reader.takes("if");
            if if_not_exists {
                reader.expect("not")?;
                reader.expect("exists")?;
            }
            let name = reader.0.parse_object_name(false)?;
            let mut options = SequenceOptions::default();
            while options.read(&mut reader)? {}
            Self::Create { name, is_temporary, if_not_exists, options }
        } else {
            reader.expect("alter")?;
            match reader.takes("sequence") {
                true => Self::of_alter(&mut reader)?,
                false => Self::of_column(&mut reader)?,
            }
        };
        reader.end()?;
        Ok(statement)
    }

    fn of_alter(reader: &mut TokenReader<'_>) -> Result<Self, ParserError> {
        let if_exists = takes_if_exists(reader)?;
        let name = reader.0.parse_object_name(false)?;
        if reader.takes("rename") {
            reader.expect("to")?;
            return Ok(Self::Rename { name, if_exists, to: reader.name()? });
        }
        let mut options = SequenceOptions::default();
        while options.read(reader)? {}
        if options == SequenceOptions::default() {
            return Err(reader.unexpected());
        }
        Ok(Self::Alter { name, if_exists, options })
    }

    fn of_column(reader: &mut TokenReader<'_>) -> Result<Self, ParserError> {
        reader.expect("table")?;
        takes_if_exists(reader)?;
        reader.takes("only");
        let table = reader.0.parse_object_name(false)?;
        reader.expect("alter")?;
        reader.takes("column");
        let column = reader.name()?;
        let change = if reader.takes("add") {
            let identity = generated(reader)?;
            reader.expect("as")?;
            reader.expect("identity")?;
            let mut options = SequenceOptions::default();
            if reader.0.consume_token(&Token::LParen) {
                while options.read(reader)? {}
                reader.0.expect_token(&Token::RParen)?;
            }
            IdentityChange::Add { identity, options }
        } else if reader.takes("drop") {
            reader.expect("identity")?;
            IdentityChange::Drop { if_exists: takes_if_exists(reader)? }
        } else {
            let (mut identity, mut options) = (None, SequenceOptions::default());
            loop {
                if reader.takes("set") {
                    if is_word(&reader.0.peek_token().token, "generated") {
                        identity = Some(generated(reader)?);
                    } else if !options.read(reader)? {
                        return Err(reader.unexpected());
                    }
                } else if !(is_word(&reader.0.peek_token().token, "restart") && options.read(reader)?) {
                    break;
                }
            }
            IdentityChange::Set { identity, options }
        };
        Ok(Self::Column { table, column, change })
    }
}

impl SequenceOptions {
    /// Those that the parser has read of a column.
    pub(crate) fn of(written: &[ast::SequenceOptions]) -> SqlResult<Self> {
        let number = |written: &ast::Expr| {
            let text = written.to_string().replace(' ', "");
            text.parse::<i64>().map_err(|_| {
                SqlError::new(SqlState::SYNTAX_ERROR, format!("{written} is no number of a sequence"))
            })
        };
        let bound = |written: &Option<ast::Expr>| written.as_ref().map(number).transpose().map(Some);
        let mut options = Self::default();
        for option in written {
            match option {
                ast::SequenceOptions::IncrementBy(own, _) => options.increment = Some(number(own)?),
                ast::SequenceOptions::MinValue(own) => options.minimum = bound(own)?,
                ast::SequenceOptions::MaxValue(own) => options.maximum = bound(own)?,
                ast::SequenceOptions::StartWith(own, _) => options.start = Some(number(own)?),
                ast::SequenceOptions::Cache(own) => options.cache = Some(number(own)?),
                ast::SequenceOptions::Cycle(no) => options.cycles = Some(!no),
            }
        }
        Ok(options)
    }

    /// Reads an option; false if there is none.
    fn read(&mut self, reader: &mut TokenReader<'_>) -> Result<bool, ParserError> {
        let is_twice = if reader.takes("as") {
            let written = reader.0.parse_data_type()?;
            let declared = declared_type(&written).unwrap_or(DeclaredType::Text);
            self.declared_type.replace(declared).is_some()
        } else if reader.takes("increment") {
            reader.takes("by");
            self.increment.replace(number(reader)?).is_some()
        } else if reader.takes("minvalue") {
            self.minimum.replace(Some(number(reader)?)).is_some()
        } else if reader.takes("maxvalue") {
            self.maximum.replace(Some(number(reader)?)).is_some()
        } else if reader.takes("start") {
            reader.takes("with");
            self.start.replace(number(reader)?).is_some()
        } else if reader.takes("cache") {
            self.cache.replace(number(reader)?).is_some()
        } else if reader.takes("cycle") {
            self.cycles.replace(true).is_some()
        } else if reader.takes("no") {
            if reader.takes("minvalue") {
                self.minimum.replace(None).is_some()
            } else if reader.takes("maxvalue") {
                self.maximum.replace(None).is_some()
            } else {
                reader.expect("cycle")?;
                self.cycles.replace(false).is_some()
            }
        } else if reader.takes("restart") {
            let has_with = reader.takes("with");
            let from = reader.integer()?;
            if has_with && from.is_none() {
                return Err(reader.unexpected());
            }
            self.restart.replace(from).is_some()
        } else if reader.takes("owned") {
            reader.expect("by")?;
            let mut name = reader.0.parse_object_name(false)?;
            let owner = match name.0.pop() {
                Some(column) if !name.0.is_empty() => Some((name, last_name(column.to_string()))),
                Some(none) if none.to_string().eq_ignore_ascii_case("none") => None,
                _ => {
                    return Err(ParserError::ParserError(
                        "syntax error: OWNED BY takes table.column, or NONE".to_owned(),
                    ));
                }
            };
            self.owner.replace(owner).is_some()
        } else if reader.takes("sequence") {
            reader.expect("name")?;
            let name = reader.0.parse_object_name(false)?;
            self.name.replace(name).is_some()
        } else {
            return Ok(false);
        };
        match is_twice {
            true => {
                Err(ParserError::ParserError("syntax error: conflicting or redundant options".to_owned()))
            }
            false => Ok(true),
        }
    }
}

/// Puts the options of identities into the order in which the parser reads them.
pub(crate) fn in_order(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut from = 0;
    while let Some(found) = (from..tokens.len()).find(|place| is_word(&tokens[*place].token, "identity")) {
        from = found + 1;
        let open = (from..tokens.len()).find(|place| !is_blank(&tokens[*place]));
        let Some(open) = open.filter(|open| tokens[*open].token == Token::LParen) else { continue };
        let Some(close) = (open..tokens.len()).find(|place| tokens[*place].token == Token::RParen) else {
            break;
        };
        // What stands before them, such as a name, is no option.
        let (mut before, mut options) = (Vec::new(), Vec::<(usize, Vec<TokenWithSpan>)>::new());
        let mut follows_no = false;
        for token in &tokens[open + 1..close] {
            let place = OPTIONS.iter().position(|word| is_word(&token.token, word));
            match place {
                Some(place) if !follows_no => options.push((place, vec![token.clone()])),
                _ if is_word(&token.token, "no") => options.push((usize::MAX, vec![token.clone()])),
                _ => match options.last_mut() {
                    Some((known, option)) => {
                        *known = (*known).min(place.unwrap_or(usize::MAX));
                        option.push(token.clone());
                    }
                    None => before.push(token.clone()),
                },
            }
            follows_no = is_word(&token.token, "no") || follows_no && is_blank(token);
        }
        options.sort_by_key(|(place, _)| *place);
        let ordered = before.into_iter().chain(options.into_iter().flat_map(|(_, option)| option));
        tokens.splice(open + 1..close, ordered);
    }
    tokens
}

/// The words with which options begin, in the order in which the parser reads them.
const OPTIONS: [&str; 6] = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];

/// Whether a type is one of whole numbers.
pub(crate) fn is_whole(declared: DeclaredType) -> bool {
    matches!(declared, DeclaredType::Int2 | DeclaredType::Int4 | DeclaredType::Int8)
}

fn generated(reader: &mut TokenReader<'_>) -> Result<Identity, ParserError> {
    reader.expect("generated")?;
    if reader.takes("always") {
        return Ok(Identity::Always);
    }
    reader.expect("by")?;
    reader.expect("default")?;
    Ok(Identity::ByDefault)
}

fn takes_if_exists(reader: &mut TokenReader<'_>) -> Result<bool, ParserError> {
    let is_there = reader.takes("if");
    if is_there {
        reader.expect("exists")?;
    }
    Ok(is_there)
}

fn number(reader: &mut TokenReader<'_>) -> Result<i64, ParserError> {
    reader.integer()?.ok_or_else(|| reader.unexpected())
}

/// A part of a name, in small letters unless it is in quotes.
fn last_name(part: String) -> String {
    match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => part.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn parse(text: &str) -> Result<SequenceStatement, ParserError> {
        let tokens = Tokenizer::new(&SqlDialect, text).tokenize_with_location().unwrap();
        assert!(begins_sequence_statement(&tokens), "{text}");
        SequenceStatement::parse(&tokens)
    }

    #[test]
    fn options_come_in_any_order() {
        let text = "create sequence public.s as integer start with 5 increment by -2 no minvalue maxvalue 9 cache 1 \
                    owned by public.\"T\".\"Id\" no cycle";
        let SequenceStatement::Create { options, .. } = parse(text).unwrap() else { panic!("{text}") };
        assert_eq!((options.start, options.increment, options.cycles), (Some(5), Some(-2), Some(false)));
        assert_eq!((options.minimum, options.maximum), (Some(None), Some(Some(9))));
        let (table, column) = options.owner.unwrap().unwrap();
        assert_eq!((table.to_string(), column), ("public.\"T\"".to_owned(), "Id".to_owned()));
        for text in ["CREATE SEQUENCE s CACHE 1 CACHE 2", "ALTER SEQUENCE s", "ALTER SEQUENCE s START"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_of_identities_are_put_in_order() {
        let ordered = |text: &str| {
            let tokens = Tokenizer::new(&SqlDialect, text).tokenize_with_location().unwrap();
            in_order(tokens).iter().map(|own| own.token.to_string()).collect::<String>()
        };
        let text = "id int generated always as identity (start with 5 no cycle no minvalue increment by 2), identity int";
        let expected = ["(increment by 2no minvalue start with 5 no cycle )", ", identity int"].concat();
        assert_eq!(ordered(text), format!("id int generated always as identity {expected}"));
        assert_eq!(ordered("select identity (1)"), "select identity (1)");
    }

    #[test]
    fn columns_get_and_lose_an_identity() {
        let change = |text: &str| match parse(text) {
            Ok(SequenceStatement::Column { change, .. }) => change,
            other => panic!("{text}: {other:?}"),
        };
        let text =
            "ALTER TABLE ONLY t ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME x START 3)";
        let IdentityChange::Add { identity, options } = change(text) else { panic!("{text}") };
        assert_eq!((identity, options.start), (Identity::Always, Some(3)));
        let text = "alter table t alter id set generated by default restart with 7";
        let IdentityChange::Set { identity, options } = change(text) else { panic!("{text}") };
        assert_eq!((identity, options.restart), (Some(Identity::ByDefault), Some(Some(7))));
        let text = "alter table t alter id drop identity if exists";
        assert_eq!(change(text), IdentityChange::Drop { if_exists: true });
    }
}
