//! Parses the text of a query into statements. A short text is parsed by the connection's thread, a long one in the
//! thread pool, and the memory of its statements is charged.

use super::super::Context;
use super::super::params::Params;
use super::super::response::{Failure, failure, status_of};
use hyper::StatusCode;
use nyala_core::{Error, span};
use nyala_db::users::Principal;
use nyala_exec::QueryMemory;
use nyala_query::influxql::{self, Regex, Statement};
use nyala_query::statement::authorize;

/// The longest text that the connection's thread parses: some hundred microseconds.
const SHORT_BYTES: usize = 16 << 10;
/// About the most memory of a parsed word or separator: half a field of a SELECT.
const TOKEN_BYTES: usize = 96;

/// A query and the values of its parameters.
pub(super) struct QueryText<'a> {
    query: &'a str,
    values: &'a str,
    database: &'a str,
}

impl<'a> QueryText<'a> {
    pub(super) fn of(params: &'a Params) -> Result<Self, Failure> {
        match params.get("q").trim() {
            "" => Err(failure(StatusCode::BAD_REQUEST, "missing required parameter \"q\"")),
            query => Ok(Self { query, values: params.get("params"), database: params.get("db") }),
        }
    }

    /// Whether the connection's thread may parse and plan it.
    pub(super) fn is_short(&self) -> bool {
        self.query.len() + self.values.len() <= SHORT_BYTES
    }

    /// Its statements, if the user may execute them.
    pub(super) async fn statements(
        &self,
        context: &Context,
        principal: &Principal,
        memory: &QueryMemory,
    ) -> Result<Vec<Statement>, Failure> {
        let broken = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the query was aborted");
        let (statements, regexes) = if self.is_short() {
            span!("parse").in_scope(|| self.parsed(principal))?
        } else {
            // The text itself is kept for SHOW QUERIES.
            let text_bytes = self.query.len() + self.values.len();
            let parsed_bytes = TOKEN_BYTES * (tokens(self.query) + tokens(self.values));
            memory
                .charge(text_bytes + parsed_bytes)
                .map_err(|error| refused(error, "the text of the query is too long"))?;
            let [query, values, database] = [self.query, self.values, self.database].map(str::to_owned);
            let principal = principal.clone();
            let parsed = context.work.spawn(async move {
                QueryText { query: &query, values: &values, database: &database }.parsed(&principal)
            });
            parsed.await.map_err(broken)??
        };
        if !regexes.is_empty() {
            let memory = memory.clone();
            let made = context.work.spawn(async move { compile_regexes(&regexes, &memory) });
            made.await.map_err(broken)??;
        }
        Ok(statements)
    }

    fn parsed(&self, principal: &Principal) -> Result<(Vec<Statement>, Vec<Regex>), Failure> {
        let invalid = |words: String| failure(StatusCode::BAD_REQUEST, words);
        let bound = match self.values {
            "" => influxql::Params::default(),
            json => influxql::Params::from_json(json).map_err(invalid)?,
        };
        let (statements, regexes) = influxql::parse_query_and_regexes(self.query, &bound)
            .map_err(|error| invalid(format!("error parsing query: {error}")))?;
        authorize(&statements, principal, self.database)
            .map_err(|words| failure(StatusCode::FORBIDDEN, format!("error authorizing query: {words}")))?;
        Ok((statements, regexes))
    }
}

/// Compiles regular expressions; one that is too large is an error of its statement.
fn compile_regexes(regexes: &[Regex], memory: &QueryMemory) -> Result<(), Failure> {
    let words = "the query has too many or too large regular expressions";
    regexes.iter().try_for_each(|regex| {
        regex.compile_charged(|bytes| memory.charge(bytes)).map_err(|error| refused(error, words))
    })
}

fn refused(error: Error, words: &str) -> Failure {
    let error = error.context(words);
    failure(status_of(&error), error.to_string())
}

/// About how many parts a parsed text has: words, and separators in lists.
fn tokens(text: &str) -> usize {
    let mut in_word = false;
    let begins = |byte: u8| {
        let was_in_word = std::mem::replace(&mut in_word, byte.is_ascii_alphanumeric() || byte == b'_');
        in_word && !was_in_word || matches!(byte, b',' | b';' | b'(' | b'"' | b'\'')
    };
    text.bytes().map(begins).filter(|begins| *begins).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_separators_are_counted() {
        let cases = [("", 0), ("SELECT a_b,c", 4), ("a = 'b'", 4), (&"x".repeat(1_000), 1), (",,,", 3)];
        for (text, count) in cases {
            assert_eq!(tokens(text), count, "{text}");
        }
    }
}
