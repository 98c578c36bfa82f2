//! DECLARE, FETCH, MOVE and CLOSE, as PostgreSQL's grammar has them: the parser knows other forms of them.

use super::movement::{ALL, Movement};
use crate::parser_dialect::SqlDialect;
use crate::token_reader::TokenReader;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A statement about a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CursorStatement {
    /// Makes a cursor for a query, which the caller knows.
    Declare(Declared),
    /// Moves, and shows the rows on the way.
    Fetch { cursor: String, movement: Movement },
    /// Moves.
    Move { cursor: String, movement: Movement },
    /// Forgets a cursor; `None`: all of them.
    Close { cursor: Option<String> },
}

/// A cursor as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) cursor: String,
    /// Whether it outlives its transaction.
    pub(crate) is_holdable: bool,
    /// Whether rows are wanted in their binary forms.
    pub(crate) is_binary: bool,
    /// Whether it must be able to go back.
    pub(crate) scrolls: bool,
    /// Whether it must not.
    pub(crate) is_forward_only: bool,
}

/// Whether tokens are those of a statement about a cursor.
pub(crate) fn begins_cursor_statement(tokens: &[TokenWithSpan]) -> bool {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    first.is_some_and(|first| {
        ["declare", "fetch", "move", "close"]
            .iter()
            .any(|word| crate::token_reader::is_word(&first.token, word))
    })
}

impl CursorStatement {
    /// Reads the tokens of one statement. Returns it with the tokens of the query that it declares.
    pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<(Self, Vec<TokenWithSpan>), ParserError> {
        let dialect = SqlDialect;
        let mut reader = TokenReader(Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec()));
        if reader.takes("declare") {
            let declared = declared(&mut reader)?;
            // The parser has counted what is left without what is between the tokens.
            let place = reader.place();
            let query = tokens.iter().position(|token| token.span.start == place).unwrap_or(tokens.len());
            return Ok((Self::Declare(declared), tokens[query..].to_vec()));
        }
        let statement = if reader.takes("close") {
            let cursor = if reader.takes("all") { None } else { Some(reader.name()?) };
            Self::Close { cursor }
        } else {
            let is_move = reader.takes("move");
            if !is_move {
                reader.expect("fetch")?;
            }
            let movement = movement(&mut reader)?;
            let _ = reader.takes("from") || reader.takes("in");
            let cursor = reader.name()?;
            if is_move { Self::Move { cursor, movement } } else { Self::Fetch { cursor, movement } }
        };
        reader.end()?;
        Ok((statement, Vec::new()))
    }
}

/// `name [BINARY] [[NO] SCROLL] … CURSOR [WITH|WITHOUT HOLD] FOR`
fn declared(reader: &mut TokenReader<'_>) -> Result<Declared, ParserError> {
    let mut declared = Declared {
        cursor: reader.name()?,
        is_holdable: false,
        is_binary: false,
        scrolls: false,
        is_forward_only: false,
    };
    loop {
        if reader.takes("binary") {
            declared.is_binary = true;
        } else if reader.takes("scroll") {
            declared.scrolls = true;
        } else if reader.takes("no") {
            reader.expect("scroll")?;
            declared.is_forward_only = true;
        } else if !reader.takes("insensitive") && !reader.takes("asensitive") {
            break;
        }
    }
    reader.expect("cursor")?;
    if reader.takes("with") {
        reader.expect("hold")?;
        declared.is_holdable = true;
    } else if reader.takes("without") {
        reader.expect("hold")?;
    }
    reader.expect("for")?;
    Ok(declared)
}

fn movement(reader: &mut TokenReader<'_>) -> Result<Movement, ParserError> {
    // A cursor may be called like a direction: then nothing could follow.
    let is_name = matches!(reader.0.peek_nth_token(1).token, Token::EOF);
    if is_name || reader.takes("next") {
        return Ok(Movement::Forward(1));
    }
    if reader.takes("all") {
        return Ok(Movement::Forward(ALL));
    }
    let single = [
        ("prior", Movement::Backward(1)),
        ("first", Movement::Absolute(1)),
        ("last", Movement::Absolute(-1)),
    ];
    for (word, movement) in single {
        if reader.takes(word) {
            return Ok(movement);
        }
    }
    let to_row = [("absolute", Movement::Absolute as fn(i64) -> Movement), ("relative", Movement::Relative)];
    for (word, movement) in to_row {
        if reader.takes(word) {
            return reader.integer()?.map(movement).ok_or_else(|| reader.unexpected());
        }
    }
    let ways = [
        ("forward", Movement::forward as fn(i64) -> Movement, Movement::Forward(ALL)),
        ("backward", Movement::backward, Movement::Backward(ALL)),
    ];
    for (word, movement, all) in ways {
        if reader.takes(word) {
            return Ok(if reader.takes("all") { all } else { movement(reader.integer()?.unwrap_or(1)) });
        }
    }
    Ok(Movement::forward(reader.integer()?.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn parsed(text: &str) -> Result<(CursorStatement, String), String> {
        let tokens = Tokenizer::new(&SqlDialect, text).tokenize_with_location().unwrap();
        assert!(begins_cursor_statement(&tokens), "{text}");
        let (statement, query) = CursorStatement::parse(&tokens).map_err(|error| error.to_string())?;
        Ok((statement, query.iter().map(|token| token.token.to_string()).collect()))
    }

    #[test]
    fn the_forms_of_clients_are_read() {
        let (found, query) = parsed("DECLARE _psql_cursor NO SCROLL CURSOR FOR\nSELECT 1, 'x'").unwrap();
        let declared = Declared {
            cursor: "_psql_cursor".into(),
            is_holdable: false,
            is_binary: false,
            scrolls: false,
            is_forward_only: true,
        };
        assert_eq!((found, &*query), (CursorStatement::Declare(declared.clone()), "SELECT 1, 'x'"));
        let (found, _) =
            parsed("declare \"C\" insensitive binary scroll cursor with hold for select 1").unwrap();
        let expected = Declared {
            cursor: "C".into(),
            is_holdable: true,
            is_binary: true,
            scrolls: true,
            is_forward_only: false,
        };
        assert_eq!(found, CursorStatement::Declare(expected));
        let fetches = [
            ("FETCH FORWARD 1000 FROM c", Movement::Forward(1000)),
            ("fetch c", Movement::Forward(1)),
            ("fetch next from c", Movement::Forward(1)),
            ("fetch forward from c", Movement::Forward(1)),
            ("FETCH 5 IN c", Movement::Forward(5)),
            ("FETCH ALL c", Movement::Forward(ALL)),
            ("FETCH FORWARD ALL FROM \"c\"", Movement::Forward(ALL)),
            ("FETCH -1 FROM c", Movement::Backward(1)),
            ("FETCH 0 FROM c", Movement::Forward(0)),
            ("FETCH PRIOR FROM c", Movement::Backward(1)),
            ("FETCH BACKWARD 3 FROM c", Movement::Backward(3)),
            ("FETCH ABSOLUTE -2 FROM c", Movement::Absolute(-2)),
            ("FETCH BACKWARD ALL c", Movement::Backward(ALL)),
            ("FETCH FORWARD -2 FROM c", Movement::Backward(2)),
            ("FETCH BACKWARD -2 FROM c", Movement::Forward(2)),
            ("FETCH LAST IN c", Movement::Absolute(-1)),
            ("fetch relative +2 from c", Movement::Relative(2)),
        ];
        for (text, movement) in fetches {
            let (found, _) = parsed(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found, CursorStatement::Fetch { cursor: "c".into(), movement }, "{text}");
        }
        let moved = CursorStatement::Move { cursor: "c".into(), movement: Movement::Forward(ALL) };
        assert_eq!(parsed("MOVE ALL IN c").unwrap().0, moved);
        assert_eq!(parsed("CLOSE ALL").unwrap().0, CursorStatement::Close { cursor: None });
        assert_eq!(parsed("close c").unwrap().0, CursorStatement::Close { cursor: Some("c".into()) });
        for wrong in
            ["DECLARE c CURSOR SELECT 1", "FETCH", "FETCH FROM", "CLOSE", "CLOSE c d", "FETCH ABSOLUTE c"]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
