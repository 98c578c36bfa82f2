//! Warns about conditions that probably mean something else: `WHERE host = "a"` compares a tag with a field called `a`, and
//! no row satisfies it.
//!
//! InfluxDB gives no warning. nyala adds one to the same answer.

use super::rewritten::RewrittenSource;
use super::types::type_in_measurement;
use crate::influxql::{BinaryOperator, Expr, VarRef, literal};
use nyala_db::quoted;

/// A warning about a name in a condition that is compared with another name and is no tag or field of any source. There is
/// none without a source, or with inner queries, which may have columns of any name.
pub(super) fn of_condition(condition: Option<&Expr>, sources: &[RewrittenSource]) -> Option<String> {
    let inner = sources.iter().find_map(|source| match source {
        RewrittenSource::Subquery(inner) => inner.hint.clone(),
        RewrittenSource::Measurement(..) => None,
    });
    inner.or_else(|| of_own(condition?, sources))
}

fn of_own(condition: &Expr, sources: &[RewrittenSource]) -> Option<String> {
    let mut found: Option<(&VarRef, &VarRef)> = None;
    condition.walk(&mut |part| {
        if let Expr::Binary(binary) = part
            && binary.op.precedence() == BinaryOperator::COMPARISON_PRECEDENCE
            && let (Expr::VarRef(left), Expr::VarRef(right)) = (&binary.lhs, &binary.rhs)
        {
            // Types were resolved before: a name without a type is unknown.
            for (unknown, other) in [(right, left), (left, right)] {
                if found.is_none() && unknown.data_type.is_none() && !is_known(unknown, sources) {
                    found = Some((unknown, other));
                }
            }
        }
        true
    });
    let (unknown, other) = found?;
    let name = quoted(&unknown.name);
    Some(format!(
        "{name} is no tag or field here, so nothing is equal to it; a text is written in single quotes: {} = {}",
        quoted(&other.name),
        literal(&unknown.name),
    ))
}

/// Whether a name is a field or tag at any time.
fn is_known(reference: &VarRef, sources: &[RewrittenSource]) -> bool {
    let knows = |source: &RewrittenSource| match source {
        RewrittenSource::Measurement(measurement, _) => {
            type_in_measurement(measurement, &measurement.fields(), &reference.name).is_some()
        }
        RewrittenSource::Subquery(_) => true,
    };
    sources.is_empty() || sources.iter().any(knows)
}
