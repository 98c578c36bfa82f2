//! Regular expressions, in the dialect of InfluxDB: Go's.
//!
//! The dialect differs in details from that of the `regex` crate: `\d`, `\w`, `\s` and `\b` mean ASCII, `\Q…\E` quotes, a `{`
//! that starts no repetition is a literal, and a flag may be before a repetition. `translate` checks a pattern as Go does,
//! with Go's messages, and translates it for the `regex` crate.

mod class;
mod flags;
mod translate;

use regex::bytes;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

/// A regular expression that was checked when it was parsed. Clones share the compiled form.
#[derive(Clone, Debug)]
pub struct Regex {
    source: String,
    /// The same pattern in the dialect of the `regex` crate.
    translated: String,
    compiled: Arc<OnceLock<Result<bytes::Regex, String>>>,
}

/// The most memory a compiled expression may take, in bytes.
const MAXIMUM_COMPILED_BYTES: usize = 10 << 20;
/// The limits that are tried for the compiled form, one after the other. Most expressions stay below the first.
const COMPILED_BYTES: [usize; 3] = [64 << 10, 1 << 20, MAXIMUM_COMPILED_BYTES];
/// The lazy automaton may take half as much as the compiled form, within these limits, bytes. It starts again when it
/// reaches its limit.
const AUTOMATON_BYTES: RangeInclusive<usize> = 32 << 10..=2 << 20;
/// The most automata of a query: it searches on two threads, forwards and backwards.
const AUTOMATA: usize = 4;

/// More than the deepest translation needs.
const COMPILED_DEPTH: u32 = 2_000;

impl Regex {
    /// Checks a pattern. The error is what InfluxDB answers.
    pub fn new(source: &str) -> Result<Regex, String> {
        let translated =
            translate::translate(source).map_err(|error| format!("error parsing regexp: {error}"))?;
        Ok(Regex { source: source.to_string(), translated, compiled: Arc::default() })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Compiles the expression; the first time this takes tens of microseconds or more. It matches bytes, so that values that
    /// are not UTF-8 can be matched too. Fails if the compiled form would be too large.
    pub fn compile(&self) -> Result<bytes::Regex, String> {
        self.compiled.get_or_init(|| self.compile_within(MAXIMUM_COMPILED_BYTES)).clone()
    }

    /// Compiles the expression, if it is not compiled. Before that, charges the memory of the compiled form and of searching.
    pub fn compile_charged<E>(&self, mut charge: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        let mut charged = 0;
        for bytes in COMPILED_BYTES {
            if self.compiled.get().is_some() {
                break;
            }
            let wanted = bytes + AUTOMATA * automaton_bytes(bytes);
            charge(wanted - charged)?;
            charged = wanted;
            let compiled = self.compile_within(bytes);
            if compiled.is_ok() || bytes == MAXIMUM_COMPILED_BYTES {
                // Another thread that compiled it meanwhile has the same result.
                let _ = self.compiled.set(compiled);
            }
        }
        Ok(())
    }

    /// Compiles it again, if the compiled form takes at most `size_limit` bytes.
    pub fn compile_within(&self, size_limit: usize) -> Result<bytes::Regex, String> {
        bytes::RegexBuilder::new(&self.translated)
            .size_limit(size_limit)
            .dfa_size_limit(automaton_bytes(size_limit))
            .nest_limit(COMPILED_DEPTH)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    format!("error parsing regexp: expression too large: `{}`", self.source)
                }
                error => error.to_string(),
            })
    }
}

/// The limit of an automaton, for the limit of the compiled form.
fn automaton_bytes(size_limit: usize) -> usize {
    (size_limit / 2).clamp(*AUTOMATON_BYTES.start(), *AUTOMATON_BYTES.end())
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Regex {}

impl std::hash::Hash for Regex {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::Regex;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let regex = Regex::new(pattern).unwrap().compile().unwrap();
        for text in matching {
            assert!(regex.is_match(text.as_bytes()), "/{pattern}/ should match {text:?}");
        }
        for text in other {
            assert!(!regex.is_match(text.as_bytes()), "/{pattern}/ should not match {text:?}");
        }
    }

    #[test]
    fn patterns_match_as_in_go() {
        check("^host_\\d+$", &["host_1", "host_123"], &["host_", "xhost_1", "host_١", "host_1\n"]);
        check("\\w\\s", &["a ", "_\t", "0\r"], &["é ", "a\u{a0}", "a\u{b}"]);
        check("\\W", &["é", " "], &["a_0"]);
        check("[^\\W\\d]", &["a", "_"], &["1", "é"]);
        check("[\\D]", &["a", "é"], &["1"]);
        check("é\\b", &["éa"], &["é", "é "]);
        check("a\\Bé", &[], &["aé"]);
        check("\\Bé", &["é", "éé"], &["aé"]);
        check("a\\Q.*\\E+b", &["a.*b", "a.***b"], &["a.b"]);
        check("\\Qa.b", &["a.b"], &["axb"]);
        check("x{a}{,2}{", &["x{a}{,2}{"], &["x"]);
        check("a{2,3}b", &["aab", "aaab"], &["ab"]);
        check("(?i)straße", &["STRAßE"], &["strasse"]);
        check("a(?i)b|c", &["ab", "aB", "C"], &["Ab", "A"]);
        check("(?i:a)b", &["Ab"], &["AB"]);
        check("a(?i)*b", &["b", "aaB"], &["x"]);
        check("a*(?i)*b", &["b", "aaB"], &["x"]);
        check("(?i)[a-c]x", &["Bx", "cX"], &["Dx"]);
        check("(?i)[^a]", &["b"], &["A", "a"]);
        check("(?s)a.b", &["a\nb"], &[]);
        check("a.b", &["aéb"], &["a\nb"]);
        check("(?m)^a$", &["b\na\nc"], &["ba"]);
        check("^a$", &["a"], &["b\na\nc"]);
        check("[]a]", &["]", "a"], &["b"]);
        check("[^]a]", &["b", "\n"], &["]"]);
        check("[a-]", &["-", "a"], &["b"]);
        check("[+--]", &[",", "-"], &["."]);
        check("[[:alpha:][:^digit:]]", &["a", "é"], &["1"]);
        check("[a&&b]", &["a", "&", "b"], &["c"]);
        check("[[a]]", &["[]", "a]"], &["a"]);
        check("[a~~b&&c]", &["~", "&", "c"], &["!"]);
        check("\\pL\\p{Greek}\\PL\\p{^Greek}", &["aα1a"], &["aa1a"]);
        check("[\\p{Lu}\\P{L}]", &["A", "1"], &["a"]);
        check("\\x41\\x{42}\\103\\0", &["ABC\0"], &[]);
        check("\\_\\<\\>\\-\\ \\\"", &["_<>- \""], &[]);
        check("#x y", &["#x y"], &["xy"]);
        check("a|", &["", "b"], &[]);
        check("()*a", &["a"], &["b"]);
        check("^*a", &["ba"], &["b"]);
        check("(?P<n>a)(?<n>b)(c)", &["abc"], &[]);
        check("\\x{d800}|a", &["a"], &["b"]);
        check("[\\x{d800}-\\x{dfff}]|a", &["a"], &["b"]);
        check("(?U)a+?", &["a"], &[]);
        check("\\a\\f\\n\\r\\t\\v", &["\u{7}\u{c}\n\r\t\u{b}"], &[]);
        check("(?i-s:A.)", &["ab"], &["a\n"]);
        check("/", &["/"], &[]);
    }

    #[test]
    fn errors_are_those_of_go() {
        let deep = "(".repeat(1_000) + &")".repeat(1_000);
        for (pattern, message) in [
            ("*", "missing argument to repetition operator: `*`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("(?i)+?", "missing argument to repetition operator: `+?`"),
            ("({2}", "missing argument to repetition operator: `{2}`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{2}{3}?", "invalid nested repetition operator: `{2}{3}?`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{2,99999999999}", "invalid repeat count: `{2,99999999999}`"),
            ("((a{100}){100})", "invalid repeat count: `{100}`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("a[b", "missing closing ]: `[b`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("[[:x:]]", "invalid character class range: `[:x:]`"),
            ("\\p{Klingon}", "invalid character class range: `\\p{Klingon}`"),
            ("\\p{Greek", "invalid character class range: `\\p{Greek`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("\\8", "invalid escape sequence: `\\8`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("\\C", "invalid escape sequence: `\\C`"),
            ("\\x4", "invalid escape sequence: `\\x4`"),
            ("\\x{}", "invalid escape sequence: `\\x{}`"),
            ("\\x{110000}", "invalid escape sequence: `\\x{110000`"),
            ("[\\b]", "invalid escape sequence: `\\b`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
            ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
            ("(?i-:a)", "invalid or unsupported Perl syntax: `(?i-:`"),
            ("(?", "invalid or unsupported Perl syntax: `(?`"),
            (&deep, &format!("expression nests too deeply: `{deep}`")),
        ] {
            let expected = format!("error parsing regexp: {message}");
            assert_eq!(Regex::new(pattern).map(|_| ()), Err(expected), "/{pattern}/");
        }
        assert!(Regex::new("(\\pL{1000})\\pL{1000}").unwrap().compile().unwrap_err().contains("too large"));
    }
}
