//! Which of the operators or functions of a name is meant, as PostgreSQL decides (`func_select_candidate`).

use super::coercion::can_coerce;
use super::node::{UNKNOWN, category};
use super::signatures::{Context, Signature, functions, operators};

/// The operator that a name means between such types; one type is that of a prefix.
pub(super) fn operator(name: &str, given: &[u32]) -> Option<Signature> {
    let all = operators(name, given.len());
    // A literal in quotes is first taken for what the other operand is.
    let assumed: Vec<u32> = match *given {
        [UNKNOWN, right] => vec![right, right],
        [left, UNKNOWN] => vec![left, left],
        _ => given.to_vec(),
    };
    let exact = all.iter().find(|own| own.arguments == assumed);
    exact.cloned().or_else(|| best(all, given))
}

/// The function that a name means with arguments of such types.
pub(super) fn function(name: &str, given: &[u32]) -> Option<Signature> {
    let all = functions(name, given.len());
    let exact = all.iter().find(|own| own.arguments == given);
    exact.cloned().or_else(|| best(all, given))
}

/// Whether there is a function with arguments of just these types.
pub(super) fn is_exact(name: &str, given: &[u32]) -> bool {
    functions(name, given.len()).iter().any(|own| own.arguments == given)
}

fn best(mut all: Vec<Signature>, given: &[u32]) -> Option<Signature> {
    all.retain(|own| can_coerce(given, &own.arguments, Context::Implicit));
    if all.len() == 1 {
        return all.pop();
    }
    let known = || (0..given.len()).filter(|place| given[*place] != UNKNOWN);
    let exact = |own: &Signature| known().filter(|place| own.arguments[*place] == given[*place]).count();
    keep_most(&mut all, exact);
    if all.len() == 1 {
        return all.pop();
    }
    keep_most(&mut all, |own| {
        let fits = |place: &usize| {
            let (wanted, has) = (own.arguments[*place], given[*place]);
            wanted == has || category(wanted) == (category(has).0, true)
        };
        known().filter(fits).count()
    });
    if all.len() == 1 {
        return all.pop();
    }
    if !given.contains(&UNKNOWN) {
        return None;
    }
    keep_category(&mut all, given);
    if all.len() == 1 {
        return all.pop();
    }
    // All of them may be what the known ones are.
    let first = known().next().map(|place| given[place])?;
    if known().any(|place| given[place] != first) {
        return None;
    }
    let same = vec![first; given.len()];
    all.retain(|own| can_coerce(&same, &own.arguments, Context::Implicit));
    if all.len() == 1 { all.pop() } else { None }
}

/// Keeps those that fit best.
fn keep_most(all: &mut Vec<Signature>, matches: impl Fn(&Signature) -> usize) {
    let most = all.iter().map(&matches).max().unwrap_or(0);
    all.retain(|own| matches(own) == most);
}

/// Keeps those that take, for what is unknown, values of the category that all of them agree upon, or else texts.
fn keep_category(all: &mut Vec<Signature>, given: &[u32]) {
    let mut wanted = Vec::new();
    for place in (0..given.len()).filter(|place| given[*place] == UNKNOWN) {
        let categories = || all.iter().map(|own| category(own.arguments[place]));
        let Some((first, _)) = categories().next() else { return };
        let chosen = if categories().any(|(own, _)| own == "S") { "S" } else { first };
        if chosen != "S" && categories().any(|(own, _)| own != first) {
            return;
        }
        let has_preferred = categories().any(|(own, is_preferred)| own == chosen && is_preferred);
        wanted.push((place, chosen, has_preferred));
    }
    let fits = |own: &Signature| {
        wanted.iter().all(|(place, chosen, has_preferred)| {
            let (of, is_preferred) = category(own.arguments[*place]);
            of == *chosen && (is_preferred || !has_preferred)
        })
    };
    if all.iter().any(fits) {
        all.retain(fits);
    }
}
