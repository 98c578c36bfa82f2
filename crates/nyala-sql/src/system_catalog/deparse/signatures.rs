//! The operators, functions and casts of PostgreSQL, with the numbers of the types that they take and give.
//!
//! Which one of several a name means depends on all of them ([`resolution`](super::resolution)), so the files list those for
//! types that no column has, too: they are what `pg_operator`, `pg_proc` and `pg_cast` of a PostgreSQL 15 say, `pg_proc` of the
//! names that expressions use here. A line of `definitions/operators.txt` is name, left type or 0, right type, result; one of
//! `definitions/calls.txt` name, types of arguments, result, type of what may be repeated or 0, how many arguments may be
//! missing; one of `definitions/casts.txt` the two types, where it is used and how it works.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What an operator or a function takes and gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) arguments: Vec<u32>,
    pub(super) result: u32,
    /// The type of what the last argument may be repeated as, or 0.
    pub(super) variadic: u32,
    /// How many of the last arguments may be missing.
    pub(super) defaults: usize,
}

/// Where a cast may be used: in later places those of the earlier ones, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Context {
    /// Wherever another type is needed.
    Implicit,
    /// Where a value is stored.
    Assignment,
    /// Where somebody writes it.
    Explicit,
}

/// How a cast works, as far as it matters for its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CastMethod {
    /// By a function.
    Function,
    /// The value is the same, or goes through its text.
    Relabel,
}

type Named = HashMap<&'static str, Vec<Signature>>;

static OPERATORS: LazyLock<Named> = LazyLock::new(|| {
    let mut named = Named::new();
    for line in include_str!("../definitions/operators.txt").lines() {
        // A name may have bars itself.
        let mut parts = line.rsplitn(4, '|');
        let mut number = || parts.next().and_then(|own| own.parse().ok()).expect("the file has numbers here");
        let (result, right, left): (u32, u32, u32) = (number(), number(), number());
        let name = parts.next().expect("a line begins with a name");
        let arguments = if left == 0 { vec![right] } else { vec![left, right] };
        named.entry(name).or_default().push(Signature { arguments, result, variadic: 0, defaults: 0 });
    }
    named
});

static CALLS: LazyLock<Named> = LazyLock::new(|| {
    let mut named = Named::new();
    for line in include_str!("../definitions/calls.txt").lines() {
        let parts: Vec<&'static str> = line.split('|').collect();
        let number = |own: &str| own.parse::<u32>().expect("the file has numbers here");
        let arguments: Vec<u32> = parts[1].split_whitespace().map(number).collect();
        let (result, variadic, defaults) = (number(parts[2]), number(parts[3]), number(parts[4]) as usize);
        named.entry(parts[0]).or_default().push(Signature { arguments, result, variadic, defaults });
    }
    named
});

static CASTS: LazyLock<HashMap<(u32, u32), (Context, CastMethod)>> = LazyLock::new(|| {
    let cast = |line: &'static str| {
        let parts: Vec<&'static str> = line.split('|').collect();
        let number = |place: usize| parts[place].parse::<u32>().expect("the file has numbers here");
        let context = match parts[2] {
            "i" => Context::Implicit,
            "a" => Context::Assignment,
            _ => Context::Explicit,
        };
        let way = if parts[3] == "f" { CastMethod::Function } else { CastMethod::Relabel };
        ((number(0), number(1)), (context, way))
    };
    include_str!("../definitions/casts.txt").lines().map(cast).collect()
});

/// The operators with a name that have so many operands.
pub(super) fn operators(name: &str, operands: usize) -> Vec<Signature> {
    let all = OPERATORS.get(name).map_or(&[][..], Vec::as_slice);
    all.iter().filter(|own| own.arguments.len() == operands).cloned().collect()
}

/// The functions with a name that can be called with so many arguments, each with as many types.
pub(super) fn functions(name: &str, count: usize) -> Vec<Signature> {
    let all = CALLS.get(name).map_or(&[][..], Vec::as_slice);
    let called = |own: &Signature| {
        let mut own = own.clone();
        let declared = own.arguments.len();
        if own.variadic != 0 && declared <= count {
            own.arguments.resize(count, own.variadic);
            own.arguments[declared - 1] = own.variadic;
            return Some(own);
        }
        if own.variadic != 0 || count > declared || count + own.defaults < declared {
            return None;
        }
        own.arguments.truncate(count);
        Some(own)
    };
    all.iter().filter_map(called).collect()
}

/// How values of a type become those of another, if there is a cast of its own for them.
pub(super) fn cast(from: u32, to: u32) -> Option<(Context, CastMethod)> {
    CASTS.get(&(from, to)).copied()
}
