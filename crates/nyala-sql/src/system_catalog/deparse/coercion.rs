//! Values of one type where another is needed, as PostgreSQL converts them (`parse_coerce.c`).

use super::constant::Reading;
use super::node::{Kind, Node, TEXT, UNKNOWN, array_of, category, element_of};
use super::signatures::{CastMethod, Context, cast};

/// Types that stand for several: the first are those of arrays.
const ANY_ARRAYS: [u32; 2] = [2277, 5078];
const ANY_ELEMENTS: [u32; 4] = [2283, 2776, 5077, 5079];
/// Those of them that arrays are not.
const NO_ARRAYS: [u32; 2] = [2776, 5079];
/// Those that belong to ranges, multiranges and enumerations.
const OTHERS: [u32; 5] = [3831, 3500, 4537, 5080, 4538];
/// Whatever there is.
const ANY: u32 = 2276;

/// Whether a type stands for several.
pub(super) fn is_polymorphic(oid: u32) -> bool {
    ANY_ARRAYS.contains(&oid) || ANY_ELEMENTS.contains(&oid) || OTHERS.contains(&oid)
}

/// Whether values of types can be those of others.
pub(super) fn can_coerce(from: &[u32], to: &[u32], context: Context) -> bool {
    let each = from.iter().zip(to).all(|(from, to)| {
        from == to
            || *to == ANY
            || is_polymorphic(*to)
            || *from == UNKNOWN
            || way(*from, *to, context).is_some()
    });
    each && are_consistent(from, to)
}

/// Whether types that stand for several stand for the same everywhere.
fn are_consistent(from: &[u32], to: &[u32]) -> bool {
    // Those of the newer family may differ if one can become the other.
    for (array, element, is_loose) in [(2277, [2283, 2776], false), (5078, [5077, 5079], true)] {
        let mut chosen = None;
        for (from, to) in from.iter().zip(to).filter(|(from, _)| **from != UNKNOWN) {
            let of = match *to {
                to if to == array => match element_of(*from) {
                    Some(own) => own,
                    None => return false,
                },
                to if NO_ARRAYS.contains(&to) && element_of(*from).is_some() => return false,
                to if element.contains(&to) => *from,
                to if OTHERS.contains(&to) => return false,
                _ => continue,
            };
            let fits = |chosen: u32| chosen == of || (is_loose && category(chosen).0 == category(of).0);
            if !chosen.is_none_or(fits) {
                return false;
            }
            chosen = Some(of);
        }
    }
    true
}

/// How values of a type become those of another.
pub(super) fn way(from: u32, to: u32, context: Context) -> Option<CastMethod> {
    if from == to {
        return Some(CastMethod::Relabel);
    }
    if let Some((least, way)) = cast(from, to) {
        return (context >= least).then_some(way);
    }
    if let (Some(from), Some(to)) = (element_of(from), element_of(to))
        && way(from, to, context).is_some()
    {
        return Some(CastMethod::Relabel);
    }
    let is_text = |oid| category(oid).0 == "S";
    let goes_through_text =
        (context >= Context::Assignment && is_text(to)) || (context == Context::Explicit && is_text(from));
    goes_through_text.then_some(CastMethod::Relabel)
}

/// A value as one of a type without a modifier.
pub(super) fn coerced(node: Node, to: u32, context: Context, reading: &Reading) -> Option<Node> {
    let from = node.oid();
    if from == to || to == ANY {
        return Some(node);
    }
    if is_polymorphic(to) {
        // What a literal is depends on more than it.
        return (from != UNKNOWN).then_some(node);
    }
    if let (UNKNOWN, Node::Constant { text, .. }) = (from, &node) {
        let text = match text {
            Some(text) => Some(reading.read(text, to)?),
            None => None,
        };
        return Some(Node::Constant { text, kind: Kind::of(to) });
    }
    let way = way(from, to, context)?;
    Some(cast_of(node, Kind::of(to), context == Context::Explicit, way))
}

/// A value as one of a type with a modifier.
pub(super) fn coerced_to(node: Node, to: Kind, context: Context, reading: &Reading) -> Option<Node> {
    let is_another = node.oid() != to.oid;
    let mut node = coerced(node, to.oid, context, reading)?;
    if node.modifier() == to.modifier {
        return Some(node);
    }
    if to.modifier < 0 {
        return Some(cast_of(node, to, context == Context::Explicit, CastMethod::Relabel));
    }
    // Of two steps only the second is shown.
    if let Node::Cast { is_implicit, .. } = &mut node
        && is_another
    {
        *is_implicit = true;
    }
    Some(cast_of(node, to, context == Context::Explicit, CastMethod::Function))
}

fn cast_of(node: Node, kind: Kind, is_explicit: bool, way: CastMethod) -> Node {
    let by_function = way == CastMethod::Function;
    Node::Cast { inner: Box::new(node), kind, is_implicit: !is_explicit, by_function }
}

/// The type that values have in common where one of them is chosen.
pub(super) fn common_type<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Option<u32> {
    let types: Vec<u32> = nodes.into_iter().map(Node::oid).collect();
    let mut chosen = *types.first()?;
    if chosen != UNKNOWN && types.iter().all(|own| *own == chosen) {
        return Some(chosen);
    }
    for next in types.into_iter().skip(1).filter(|own| *own != UNKNOWN) {
        if next == chosen {
            continue;
        }
        if chosen == UNKNOWN {
            chosen = next;
        } else if category(next).0 != category(chosen).0 {
            return None;
        } else if !category(chosen).1
            && way(chosen, next, Context::Implicit).is_some()
            && way(next, chosen, Context::Implicit).is_none()
        {
            chosen = next;
        }
    }
    Some(if chosen == UNKNOWN { TEXT } else { chosen })
}

/// Values as those of their common type.
pub(super) fn unified(nodes: Vec<Node>, to: u32, reading: &Reading) -> Option<Vec<Node>> {
    nodes.into_iter().map(|node| coerced(node, to, Context::Implicit, reading)).collect()
}

/// An array of values.
pub(super) fn array(elements: Vec<Node>, of: u32, context: Context, reading: &Reading) -> Option<Node> {
    let elements = elements.into_iter().map(|own| coerced(own, of, context, reading));
    Some(Node::Array { elements: elements.collect::<Option<_>>()?, result: array_of(of)? })
}
