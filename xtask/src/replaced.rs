//! Names that were replaced and must not come back.
//!
//! Most names are forbidden in one crate only: a word that is wrong in one place may be right in another.

use crate::banned::BANNED;
use crate::tokens;
use proc_macro2::TokenTree;

/// Complaints about identifiers in `text`, a file of the crate `name`, that have a replacement.
pub(crate) fn check(name: &str, shown: &str, text: &str, complaints: &mut Vec<String>) {
    check_against(BANNED, name, shown, text, complaints);
}

fn check_against(
    banned: &[(&str, &str, &str)],
    name: &str,
    shown: &str,
    text: &str,
    complaints: &mut Vec<String>,
) {
    let entries: Vec<_> = banned.iter().filter(|(crate_name, ..)| [name, "*"].contains(crate_name)).collect();
    if entries.is_empty() {
        return;
    }
    let tokens = match tokens::all(text) {
        Ok(tokens) => tokens,
        Err(error) => return complaints.push(format!("{shown}: {error}")),
    };
    for token in tokens {
        let TokenTree::Ident(ident) = token else { continue };
        if let Some((_, old, new)) = entries.iter().find(|(_, old, _)| ident == old) {
            let line = ident.span().start().line;
            complaints.push(format!("{shown}:{line}: {old} is called {new} now"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_found_as_whole_words_of_code_in_their_crate() {
        let banned = [("nyala-db", "Rooms", "BufferPool"), ("nyala-db", "told", "seed"), ("*", "x", "y")];
        let text =
            "//! Rooms\nuse x::Rooms;\n// told\nfn f(told: &str) -> Roomsize {\n    g!(Rooms, \"told\")\n}\n";
        let complaints = |name| {
            let mut complaints = Vec::new();
            check_against(&banned, name, "x.rs", text, &mut complaints);
            complaints
        };
        assert_eq!(complaints("nyala"), ["x.rs:2: x is called y now"]);
        assert_eq!(
            complaints("nyala-db"),
            [
                "x.rs:2: x is called y now",
                "x.rs:2: Rooms is called BufferPool now",
                "x.rs:4: told is called seed now",
                "x.rs:5: Rooms is called BufferPool now"
            ]
        );
    }

    #[test]
    fn no_name_is_replaced_by_one_that_is_forbidden_there() {
        for (name, old, new) in BANNED {
            let words = new.split(|character: char| !character.is_alphanumeric() && character != '_');
            for word in words {
                let again =
                    BANNED.iter().any(|(other, banned, _)| [*name, "*"].contains(other) && *banned == word);
                assert!(!again, "{name}: {old} -> {new}");
            }
        }
    }
}
