//! The functions that PostgreSQL and nyala both have, with PostgreSQL's own numbers (`definitions/functions.txt`), and those
//! that its types name: clients join them with types.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A function, with the types that it takes.
#[derive(Debug)]
pub(crate) struct BuiltinFunction {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    /// `f`unction, `a`ggregate, `w`indow function.
    pub(crate) kind: &'static str,
    /// `i`mmutable, `s`table, `v`olatile.
    pub(crate) volatility: &'static str,
    pub(crate) is_strict: bool,
    /// Whether it gives rows.
    pub(crate) gives_rows: bool,
    /// The type of what it gives.
    pub(crate) result: u32,
    /// The types of its arguments.
    pub(crate) arguments: Vec<u32>,
    /// The types of all its arguments, if some of them are results; their modes and names.
    pub(crate) all_arguments: Vec<u32>,
    pub(crate) modes: Vec<&'static str>,
    pub(crate) names: Vec<&'static str>,
    /// The type of the elements of the last argument if there may be any number of them, or 0.
    pub(crate) variadic: u32,
    /// How many of its arguments may be left out.
    pub(crate) defaults: i16,
}

/// All of them, in order of number.
pub(crate) static FUNCTIONS: LazyLock<Vec<BuiltinFunction>> =
    LazyLock::new(|| include_str!("definitions/functions.txt").lines().map(BuiltinFunction::read).collect());

static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static BuiltinFunction>>> = LazyLock::new(|| {
    let mut named: HashMap<&'static str, Vec<&'static BuiltinFunction>> = HashMap::new();
    FUNCTIONS.iter().for_each(|own| named.entry(own.name).or_default().push(own));
    named
});

impl BuiltinFunction {
    fn read(line: &'static str) -> Self {
        let parts: Vec<&'static str> = line.split('|').collect();
        let number = |place: usize| parts[place].parse().expect("the file has numbers here");
        let words = |place: usize| parts[place].split_whitespace();
        let numbers =
            |place| words(place).map(|own| own.parse().expect("the file has numbers here")).collect();
        Self {
            oid: number(0),
            name: parts[1],
            kind: parts[2],
            volatility: parts[3],
            is_strict: parts[4] == "t",
            gives_rows: parts[5] == "t",
            result: number(6),
            arguments: numbers(7),
            all_arguments: numbers(8),
            modes: words(9).collect(),
            names: words(10).collect(),
            variadic: number(11),
            defaults: parts[12].parse().expect("the file has numbers here"),
        }
    }

    /// The function with a number.
    pub(crate) fn of_oid(oid: u32) -> Option<&'static Self> {
        FUNCTIONS.binary_search_by_key(&oid, |own| own.oid).ok().map(|place| &FUNCTIONS[place])
    }

    /// The functions with a name.
    pub(crate) fn of_name(name: &str) -> &'static [&'static Self] {
        BY_NAME.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The name of a function, as a `regproc` is shown; `None` if there is no such function.
pub fn function_name(oid: u32) -> Option<&'static str> {
    match oid {
        0 => Some("-"),
        oid => BuiltinFunction::of_oid(oid).map(|own| own.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_catalog::builtin_type::TYPES;

    #[test]
    fn functions_are_in_order_and_those_of_types_are_among_them() {
        assert!(FUNCTIONS.is_sorted_by_key(|own| own.oid));
        assert_eq!(
            [function_name(0), function_name(750), function_name(1)],
            [Some("-"), Some("array_in"), None]
        );
        let named = TYPES.iter().flat_map(|own| own.functions);
        let missing: Vec<_> =
            named.filter(|name| *name != "-" && BuiltinFunction::of_name(name).is_empty()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
