//! The kinds of token InfluxQL is made of, and its keywords.
//!
//! Keywords are matched without regard to case. `TIME`, `FILL`, `TZ`, `FUTURE` and `PAST` are no keywords: the
//! grammar recognises them as identifiers in the places where they mean something, so that they stay usable as
//! names without quotes.

use super::expr::BinaryOperator;

macro_rules! kinds {
    ($($name:ident $text:literal,)* ; keywords $($keyword:ident $keyword_text:literal,)*) => {
        /// What a token is. The text of identifiers and literals travels beside it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($name,)* $($keyword,)* }

        impl Kind {
            /// How error messages name the kind when the token has no text of its own.
            pub(crate) fn text(self) -> &'static str {
                match self { $(Kind::$name => $text,)* $(Kind::$keyword => $keyword_text,)* }
            }
        }

        /// Every keyword with its canonical (upper case) text, sorted by that text.
        const KEYWORDS: &[(&str, Kind)] = &[$(($keyword_text, Kind::$keyword),)*];
    };
}

kinds! {
    Illegal "ILLEGAL",
    EndOfInput "EOF",
    Whitespace "WS",
    Comment "",
    Identifier "IDENT",
    BoundParameter "",
    Number "NUMBER",
    Integer "",
    DurationValue "DURATIONVAL",
    String "STRING",
    BadString "BADSTRING",
    BadEscape "BADESCAPE",
    Regex "REGEX",
    BadRegex "",
    Plus "+",
    Minus "-",
    Star "*",
    Slash "/",
    Percent "%",
    Ampersand "&",
    Pipe "|",
    Caret "^",
    Equal "=",
    NotEqual "!=",
    EqualRegex "=~",
    NotEqualRegex "!~",
    Less "<",
    LessOrEqual "<=",
    Greater ">",
    GreaterOrEqual ">=",
    LeftParenthesis "(",
    RightParenthesis ")",
    Comma ",",
    Colon ":",
    DoubleColon "::",
    Semicolon ";",
    Dot ".",
    ; keywords
    All "ALL",
    Alter "ALTER",
    Analyze "ANALYZE",
    And "AND",
    Any "ANY",
    As "AS",
    Asc "ASC",
    Begin "BEGIN",
    By "BY",
    Cardinality "CARDINALITY",
    Continuous "CONTINUOUS",
    Create "CREATE",
    Database "DATABASE",
    Databases "DATABASES",
    Default "DEFAULT",
    Delete "DELETE",
    Desc "DESC",
    Destinations "DESTINATIONS",
    Diagnostics "DIAGNOSTICS",
    Distinct "DISTINCT",
    Drop "DROP",
    Duration "DURATION",
    End "END",
    Every "EVERY",
    Exact "EXACT",
    Explain "EXPLAIN",
    False "FALSE",
    Field "FIELD",
    For "FOR",
    From "FROM",
    Grant "GRANT",
    Grants "GRANTS",
    Group "GROUP",
    Groups "GROUPS",
    In "IN",
    Inf "INF",
    Insert "INSERT",
    Into "INTO",
    Key "KEY",
    Keys "KEYS",
    Kill "KILL",
    Limit "LIMIT",
    Measurement "MEASUREMENT",
    Measurements "MEASUREMENTS",
    Name "NAME",
    Offset "OFFSET",
    On "ON",
    Or "OR",
    Order "ORDER",
    Password "PASSWORD",
    Policies "POLICIES",
    Policy "POLICY",
    Privileges "PRIVILEGES",
    Queries "QUERIES",
    Query "QUERY",
    Read "READ",
    Replication "REPLICATION",
    Resample "RESAMPLE",
    Retention "RETENTION",
    Revoke "REVOKE",
    Select "SELECT",
    Series "SERIES",
    Set "SET",
    Shard "SHARD",
    Shards "SHARDS",
    Show "SHOW",
    Slimit "SLIMIT",
    Soffset "SOFFSET",
    Stats "STATS",
    Subscription "SUBSCRIPTION",
    Subscriptions "SUBSCRIPTIONS",
    Tag "TAG",
    To "TO",
    True "TRUE",
    User "USER",
    Users "USERS",
    Values "VALUES",
    Where "WHERE",
    With "WITH",
    Write "WRITE",
}

const LONGEST_KEYWORD: usize = 13;

/// For each initial letter, the part of [`KEYWORDS`] that starts with it.
const BY_INITIAL: [(u8, u8); 26] = {
    let mut table = [(0u8, 0u8); 26];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let letter = (KEYWORDS[index].0.as_bytes()[0] - b'A') as usize;
        if table[letter].1 == 0 {
            table[letter].0 = index as u8;
        }
        table[letter].1 = index as u8 + 1;
        index += 1;
    }
    table
};

/// The keyword that `word` spells in any case, if it does.
pub(crate) fn keyword(word: &str) -> Option<Kind> {
    let initial = word.as_bytes().first()?.to_ascii_uppercase();
    if word.len() > LONGEST_KEYWORD || !initial.is_ascii_uppercase() {
        return None;
    }
    let (start, end) = BY_INITIAL[(initial - b'A') as usize];
    KEYWORDS[start as usize..end as usize]
        .iter()
        .find(|(text, _)| text.eq_ignore_ascii_case(word))
        .map(|(_, kind)| *kind)
}

impl Kind {
    /// The operator that the token stands for between two expressions.
    pub(crate) fn binary_operator(self) -> Option<BinaryOperator> {
        Some(match self {
            Kind::Plus => BinaryOperator::Add,
            Kind::Minus => BinaryOperator::Subtract,
            Kind::Star => BinaryOperator::Multiply,
            Kind::Slash => BinaryOperator::Divide,
            Kind::Percent => BinaryOperator::Modulo,
            Kind::Ampersand => BinaryOperator::BitwiseAnd,
            Kind::Pipe => BinaryOperator::BitwiseOr,
            Kind::Caret => BinaryOperator::BitwiseXor,
            Kind::And => BinaryOperator::And,
            Kind::Or => BinaryOperator::Or,
            Kind::Equal => BinaryOperator::Equal,
            Kind::NotEqual => BinaryOperator::NotEqual,
            Kind::EqualRegex => BinaryOperator::Matches,
            Kind::NotEqualRegex => BinaryOperator::NotMatches,
            Kind::Less => BinaryOperator::Less,
            Kind::LessOrEqual => BinaryOperator::LessOrEqual,
            Kind::Greater => BinaryOperator::Greater,
            Kind::GreaterOrEqual => BinaryOperator::GreaterOrEqual,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        assert!(KEYWORDS.is_sorted_by_key(|(text, _)| *text));
        assert_eq!(KEYWORDS.iter().map(|(text, _)| text.len()).max(), Some(LONGEST_KEYWORD));
        for (text, kind) in KEYWORDS {
            assert_eq!(keyword(text), Some(*kind));
            assert_eq!(keyword(&text.to_lowercase()), Some(*kind));
        }
        for name in ["", "_", "time", "fill", "tz", "future", "selectx", "ÄND", "9"] {
            assert_eq!(keyword(name), None);
        }
    }
}
