//! Colours of a statement that is typed: words of the language, texts, numbers and comments.

use crate::language::Language;
use crate::words::is_keyword;

const KEYWORD: &str = "\x1b[1m";
const TEXT: &str = "\x1b[32m";
const NUMBER: &str = "\x1b[36m";
const COMMENT: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// The text with colours.
pub(crate) fn highlighted(text: &str, language: Language) -> String {
    let mut coloured = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while !rest.is_empty() {
        let (length, colour) = token(rest, language);
        let (token, after) = rest.split_at(length);
        match colour {
            Some(colour) => {
                coloured.push_str(colour);
                coloured.push_str(token);
                coloured.push_str(PLAIN);
            }
            None => coloured.push_str(token),
        }
        rest = after;
    }
    coloured
}

/// The length of the first token, which is not empty, and its colour.
fn token(text: &str, language: Language) -> (usize, Option<&'static str>) {
    let first = text.chars().next().expect("it is not empty");
    let up_to = |end: Option<usize>| end.unwrap_or(text.len());
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    if text.starts_with("--") {
        return (up_to(text.find('\n')), Some(COMMENT));
    }
    if let Some(comment) = text.strip_prefix("/*") {
        return (up_to(comment.find("*/").map(|at| at + 4)), Some(COMMENT));
    }
    if first == '\'' {
        return (up_to(text[1..].find('\'').map(|at| at + 2)), Some(TEXT));
    }
    if first == '"' {
        return (up_to(text[1..].find('"').map(|at| at + 2)), None);
    }
    if first.is_ascii_digit() {
        let end = text.find(|letter: char| !is_of_word(letter) && letter != '.');
        return (up_to(end), Some(NUMBER));
    }
    if is_of_word(first) {
        let end = up_to(text.find(|letter| !is_of_word(letter)));
        return (end, is_keyword(&text[..end], language).then_some(KEYWORD));
    }
    (first.len_utf8(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_colours_and_nothing_is_lost() {
        let coloured = highlighted("select v1 from \"from\" where a='from 1' -- 1", Language::Sql);
        assert_eq!(
            coloured,
            "\x1b[1mselect\x1b[0m v1 \x1b[1mfrom\x1b[0m \"from\" \x1b[1mwhere\x1b[0m a=\x1b[32m'from 1'\x1b[0m \x1b[2m-- 1\x1b[0m"
        );
        for text in ["'", "\"", "/*", "é日'ü", "1.5e3", "--"] {
            let plain = [KEYWORD, TEXT, NUMBER, COMMENT, PLAIN]
                .iter()
                .fold(highlighted(text, Language::Sql), |text, colour| text.replace(colour, ""));
            assert_eq!(plain, text);
        }
    }
}
