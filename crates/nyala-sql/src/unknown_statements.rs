//! Statements that PostgreSQL has and the parser does not know: an error names them, where it would say that the syntax is wrong.

/// What the parser says before a word that begins no statement, or behind CREATE and ALTER; and the words that do in PostgreSQL.
const KNOWN: [(&str, &str, &[&str]); 3] = [
    (
        "Expected: an SQL statement, found: ",
        "",
        &[
            "ABORT",
            "CHECKPOINT",
            "CLUSTER",
            "DO",
            "IMPORT",
            "LOAD",
            "REASSIGN",
            "REFRESH",
            "REINDEX",
            "SECURITY",
        ],
    ),
    (
        "Expected: an object type after CREATE, found: ",
        "CREATE ",
        &[
            "ACCESS",
            "AGGREGATE",
            "CAST",
            "CONVERSION",
            "EVENT",
            "FOREIGN",
            "GROUP",
            "LANGUAGE",
            "PUBLICATION",
            "RECURSIVE",
            "RULE",
            "STATISTICS",
            "SUBSCRIPTION",
            "TABLESPACE",
            "TEXT",
            "TRANSFORM",
            "UNLOGGED",
        ],
    ),
    (
        "Expected: one of VIEW or TYPE ",
        "ALTER ",
        &[
            "DATABASE",
            "DEFAULT",
            "DOMAIN",
            "EVENT",
            "EXTENSION",
            "GROUP",
            "LANGUAGE",
            "LARGE",
            "MATERIALIZED",
            "PROCEDURE",
            "PUBLICATION",
            "ROUTINE",
            "RULE",
            "STATISTICS",
            "SUBSCRIPTION",
            "SYSTEM",
            "TABLESPACE",
            "TEXT",
            "TRIGGER",
        ],
    ),
];

/// What a statement is called that the parser does not know, by what the parser says of it; `None` if PostgreSQL does not know it
/// either.
pub(crate) fn name_of(words: &str) -> Option<String> {
    let (_, before, known) = KNOWN.iter().find(|(said, ..)| words.starts_with(said))?;
    let (_, found) = words.split_once("found: ")?;
    let word = found.split_whitespace().next()?.to_ascii_uppercase();
    known.contains(&&*word).then(|| format!("{before}{word}"))
}
