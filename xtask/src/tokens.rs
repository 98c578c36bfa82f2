//! The tokens of a source file in one row, without comments and, if asked for, without tests.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Every token of `text` in order; groups are opened, their delimiters left out.
pub(crate) fn all(text: &str) -> Result<Vec<TokenTree>, String> {
    let mut tokens = Vec::new();
    open(parse(text)?, false, &mut tokens);
    Ok(tokens)
}

/// As [`all`], without what stands behind `#[cfg(test)]`.
pub(crate) fn without_tests(text: &str) -> Result<Vec<TokenTree>, String> {
    let mut tokens = Vec::new();
    open(parse(text)?, true, &mut tokens);
    Ok(tokens)
}

/// The groups and other tokens of `text` as they are nested.
pub(crate) fn parse(text: &str) -> Result<TokenStream, String> {
    // Documentation becomes attributes, whose text must not be taken for that of the program.
    text.parse().map_err(|error: proc_macro2::LexError| error.to_string())
}

fn open(stream: TokenStream, skip_tests: bool, tokens: &mut Vec<TokenTree>) {
    let mut stream = stream.into_iter().peekable();
    while let Some(token) = stream.next() {
        let is_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        if is_hash {
            stream.next_if(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '!'));
            let attribute = stream.next_if(
                |token| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket),
            );
            let Some(TokenTree::Group(attribute)) = attribute else { continue };
            let text = attribute.stream().to_string();
            if skip_tests && text.replace(' ', "") == "cfg(test)" {
                skip_item(&mut stream);
            } else if !text.starts_with("doc =") {
                open(attribute.stream(), skip_tests, tokens);
            }
        } else if let TokenTree::Group(group) = &token {
            open(group.stream(), skip_tests, tokens);
        } else {
            tokens.push(token);
        }
    }
}

/// Goes behind the next braces or semicolon.
fn skip_item(stream: &mut impl Iterator<Item = TokenTree>) {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    stream.find(is_end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_left_out() {
        let text = "//! old\n/// old\nfn f() { g(\"old\") /* old */ }\n#[cfg(test)]\nmod tests { fn old() {} }\n#[old] fn h() {}";
        let shown =
            |tokens: Vec<TokenTree>| tokens.iter().map(TokenTree::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(shown(without_tests(text).unwrap()), "fn f g \"old\" old fn h");
        assert_eq!(shown(all(text).unwrap()), "fn f g \"old\" cfg test mod tests fn old old fn h");
        assert!(all("fn {").is_err());
    }
}
