//! The newest values. Servers scan forwards only, so slices of time are read, the newest first, and each only for groups that
//! have no value yet.

use nyala_core::store::aggregate::Selected;
use nyala_core::store::{AggregateFunction, AggregateRequest, PartialAggregate, PartialAggregates};

/// Whether a request wants only the newest values of its whole time.
pub(crate) fn suffices(request: &AggregateRequest) -> bool {
    let mut functions = request.measures.iter().map(|measure| measure.function);
    request.windows.count() == 1 && functions.all(|function| function == AggregateFunction::Last)
}

/// The request for the series whose groups lack a value; `None`: every group has all of them.
pub(super) fn rest(request: &AggregateRequest, states: &PartialAggregates) -> Option<AggregateRequest> {
    let lacks = |group: u32| {
        states.measures.iter().any(|state| match state {
            PartialAggregate::Selected(Selected { series, .. }) => series[group as usize].is_none(),
            _ => unreachable!("newest values are selected"),
        })
    };
    let series = request.series.iter().filter(|(_, group)| lacks(*group)).copied();
    let rest = AggregateRequest { series: series.collect(), ..request.clone() };
    (!rest.series.is_empty()).then_some(rest)
}
