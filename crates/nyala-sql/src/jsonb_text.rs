//! Writes values of `jsonb` as PostgreSQL does: blanks behind commas and colons, members by the length of their names and then
//! by their bytes, the last of those with one name.
//!
//! Each letter is read once and copied once more at most, however deep it lies: a value is written in the order that it was read
//! in, and a second pass moves the members of objects that had another order.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::json_text::{DEPTH_MAX, decoded, is_blank, next_part, push_quoted};
use std::collections::BTreeMap;
use std::ops::Range;

/// A value of JSON as `jsonb` writes it.
///
/// # Errors
/// It has a text that `decoded` refuses, or is too deep.
pub(crate) fn normal(json: &str) -> SqlResult<String> {
    let mut written = Written { text: String::with_capacity(json.len()), disordered: BTreeMap::new() };
    written.push(json.trim_start_matches(is_blank), 0)?;
    Ok(written.in_order())
}

/// A value in the order in which it was read.
struct Written {
    text: String,
    /// Objects whose members belong in another order, by the places where they begin.
    disordered: BTreeMap<usize, Disordered>,
}

struct Disordered {
    /// Where its members are, in the order in which they belong.
    members: Vec<Range<usize>>,
    end: usize,
}

struct Member {
    name: String,
    place: Range<usize>,
}

impl Member {
    fn order(&self) -> (usize, &str) {
        (self.name.len(), &self.name)
    }
}

impl Written {
    /// Appends the value at the beginning of a text; returns what is behind it. What is no JSON ends early.
    fn push<'a>(&mut self, json: &'a str, depth: usize) -> SqlResult<&'a str> {
        if depth > DEPTH_MAX {
            let message = format!("a value of jsonb may be {DEPTH_MAX} levels deep");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        match json.as_bytes().first() {
            Some(b'{') => self.push_object(&json[1..], depth),
            Some(b'[') => self.push_array(&json[1..], depth),
            _ => {
                let mut rest = json;
                let Some(plain) = next_part(&mut rest) else { return Ok("") };
                match plain.starts_with('"') {
                    true => push_quoted(&mut self.text, &decoded(plain)?),
                    false => self.text.push_str(plain),
                }
                Ok(rest)
            }
        }
    }

    /// The same for what is behind the bracket of an array.
    fn push_array<'a>(&mut self, elements: &'a str, depth: usize) -> SqlResult<&'a str> {
        self.text.push('[');
        let mut rest = elements.trim_start_matches(is_blank);
        while !rest.is_empty() && !rest.starts_with(']') {
            rest = self.push(rest, depth + 1)?.trim_start_matches(is_blank);
            let Some(next) = rest.strip_prefix(',') else { break };
            self.text.push_str(", ");
            rest = next.trim_start_matches(is_blank);
        }
        self.text.push(']');
        Ok(rest.strip_prefix(']').unwrap_or_default())
    }

    /// The same for what is behind the bracket of an object.
    fn push_object<'a>(&mut self, members: &'a str, depth: usize) -> SqlResult<&'a str> {
        let begin = self.text.len();
        self.text.push('{');
        let mut written = Vec::new();
        let mut rest = members.trim_start_matches(is_blank);
        while rest.starts_with('"') {
            let Some(name) = next_part(&mut rest) else { break };
            let name = decoded(name)?;
            let start = self.text.len();
            push_quoted(&mut self.text, &name);
            self.text.push_str(": ");
            let value = rest.trim_start_matches(is_blank).strip_prefix(':').unwrap_or_default();
            rest = self.push(value.trim_start_matches(is_blank), depth + 1)?.trim_start_matches(is_blank);
            written.push(Member { name, place: start..self.text.len() });
            let Some(next) = rest.strip_prefix(',') else { break };
            self.text.push_str(", ");
            rest = next.trim_start_matches(is_blank);
        }
        self.text.push('}');
        self.note_order(begin, written);
        Ok(rest.strip_prefix('}').unwrap_or_default())
    }

    /// Notes in which order the members of an object belong, if that is another one.
    fn note_order(&mut self, begin: usize, mut members: Vec<Member>) {
        if members.is_sorted_by(|one, next| one.order() < next.order()) {
            return;
        }
        // Members with one name keep their order, so the last of them stays last.
        members.sort_by(|one, other| one.order().cmp(&other.order()));
        let is_last = |place: &usize| {
            let next = members.get(place + 1);
            next.is_none_or(|next| next.name != members[*place].name)
        };
        let members = (0..members.len()).filter(is_last).map(|place| members[place].place.clone()).collect();
        self.disordered.insert(begin, Disordered { members, end: self.text.len() });
    }

    fn in_order(self) -> String {
        if self.disordered.is_empty() {
            return self.text;
        }
        let mut ordered = String::with_capacity(self.text.len());
        self.copy(0..self.text.len(), &mut ordered);
        ordered
    }

    /// Appends a part, with the members of its objects in order.
    fn copy(&self, part: Range<usize>, ordered: &mut String) {
        let mut copied = part.start;
        while let Some((begin, object)) = self.disordered.range(copied..part.end).next() {
            ordered.push_str(&self.text[copied..*begin]);
            ordered.push('{');
            for (number, member) in object.members.iter().enumerate() {
                ordered.push_str(if number == 0 { "" } else { ", " });
                self.copy(member.clone(), ordered);
            }
            ordered.push('}');
            copied = object.end;
        }
        ordered.push_str(&self.text[copied..part.end]);
    }
}

#[cfg(test)]
mod tests {
    use super::normal;
    use crate::error::SqlState;
    use crate::json_text::DEPTH_MAX;

    #[test]
    fn values_are_written_as_jsonb() {
        let cases = [
            (r#" {"bb":1,"a" : [1,2 ], "b":{}} "#, r#"{"a": [1, 2], "b": {}, "bb": 1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a": 2}"#),
            (
                r#"{"b":{"d":{},"c":[{"f":1,"e":2}]},"a":{"b":3,"a":4}}"#,
                r#"{"a": {"a": 4, "b": 3}, "b": {"c": [{"e": 2, "f": 1}], "d": {}}}"#,
            ),
            (
                r#"[{"a":{"z":1,"y":2},"a":{"x":3,"w":4},"a":5}, {"a":{"z":1,"y":2}}]"#,
                r#"[{"a": 5}, {"a": {"y": 2, "z": 1}}]"#,
            ),
            (r#"["\u00e4\n\/", [ ] , [[ ]]]"#, "[\"ä\\n/\", [], [[]]]"),
            ("null", "null"),
        ];
        for (text, expected) in cases {
            assert_eq!(normal(text).expect("it is JSON"), expected, "{text}");
        }
    }

    #[test]
    fn values_of_any_depth_are_ordered_or_refused() {
        let nested = |levels: usize, begin: &str, end: &str| {
            format!("{}1{}", begin.repeat(levels), end.repeat(levels))
        };
        let deep = normal(&nested(DEPTH_MAX, r#"{"b":"#, r#","a":2}"#)).expect("it is not too deep");
        assert_eq!(deep, nested(DEPTH_MAX, r#"{"a": 2, "b": "#, "}"));
        for levels in [DEPTH_MAX + 1, 100_000] {
            let error = normal(&nested(levels, "[", "]")).expect_err("it is too deep");
            assert_eq!(error.code, SqlState::STATEMENT_TOO_COMPLEX);
        }
    }
}
