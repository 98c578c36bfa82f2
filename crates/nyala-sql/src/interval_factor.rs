//! An interval many times, or a part of it.

use arrow_array::types::IntervalMonthDayNano;

const DAYS_OF_MONTH: f64 = 30.0;
const DAY_SECONDS: f64 = 86_400.0;

/// A part of an interval; `None`: out of range.
pub(crate) fn part(span: IntervalMonthDayNano, count: f64) -> Option<IntervalMonthDayNano> {
    times(span, 1.0 / count)
}

/// As PostgreSQL computes it: what is left of a month becomes days, what is left of a day time. `None`: out of range.
pub(crate) fn times(span: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    let whole = |value: f64| (value.abs() < f64::from(i32::MAX)).then_some(value as i32);
    let in_us = |value: f64| (value * 1e6).round() / 1e6;
    let months = whole(f64::from(span.months) * factor)?;
    let mut days = whole(f64::from(span.days) * factor)?;
    let of_month = in_us((f64::from(span.months) * factor - f64::from(months)) * DAYS_OF_MONTH);
    let of_day = f64::from(span.days) * factor - f64::from(days) + (of_month - of_month.trunc());
    let mut seconds = in_us(of_day * DAY_SECONDS);
    if seconds.abs() >= DAY_SECONDS {
        days = days.checked_add(whole(seconds / DAY_SECONDS)?)?;
        seconds %= DAY_SECONDS;
    }
    days = days.checked_add(whole(of_month)?)?;
    let us = ((span.nanoseconds as f64 / 1e3) * factor + seconds * 1e6).round();
    // Anything longer is not of use: it would be no time of nyala.
    (us.abs() < i64::MAX as f64 / 1e3).then(|| IntervalMonthDayNano::new(months, days, us as i64 * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_to_the_next_unit() {
        let span = IntervalMonthDayNano::new;
        assert_eq!(times(span(1, 0, 0), 1.5), Some(span(1, 15, 0)));
        assert_eq!(times(span(0, 1, 0), 0.5), Some(span(0, 0, 43_200_000_000_000)));
        assert_eq!(
            times(span(0, 0, 1_000_000_000), 1_709_287_200.0).unwrap().nanoseconds,
            1_709_287_200_000_000_000
        );
        assert_eq!(times(span(i32::MAX, 0, 0), 2.0), None);
    }
}
