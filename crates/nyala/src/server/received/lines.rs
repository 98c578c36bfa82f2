//! Points in line protocol, in nanoseconds.

use super::counts::InputCounts;
use nyala_db::ingest::{LineValue, TAG_SPECIALS, push_measurement, push_text, push_value};
use nyala_inputs::{Point, Refused, Value};
use std::fmt::Write;

/// Points as lines.
#[derive(Default)]
pub(in crate::server) struct PointLines {
    /// The lines.
    pub(in crate::server) text: String,
    /// How many points they are.
    pub(in crate::server) points: u64,
}

impl PointLines {
    /// Adds a point, or counts and returns why it is none. `now_ns` is for points without a time.
    pub(in crate::server) fn add(
        &mut self,
        point: Result<Point<'_>, Refused>,
        now_ns: i64,
        counts: &InputCounts,
    ) -> Option<Refused> {
        let refused = point.and_then(|point| self.push(&point, now_ns)).err();
        match refused {
            None => self.points += 1,
            Some(refused) => counts.reject(refused.into(), 1),
        }
        refused
    }

    /// Adds a point, unless a name is empty.
    fn push(&mut self, point: &Point<'_>, now_ns: i64) -> Result<(), Refused> {
        let is_named = !point.measurement.is_empty()
            && point.tags.iter().all(|(key, value)| !key.is_empty() || value.is_empty())
            && point.fields.iter().all(|(name, _)| !name.is_empty());
        if !is_named {
            return Err(Refused::Invalid("a name is empty"));
        }
        let line = &mut self.text;
        push_measurement(line, &point.measurement);
        for (key, value) in point.tags.iter().filter(|(_, value)| !value.is_empty()) {
            line.push(',');
            push_text(line, key, TAG_SPECIALS);
            line.push('=');
            push_text(line, value, TAG_SPECIALS);
        }
        for (index, (name, value)) in point.fields.iter().enumerate() {
            line.push(if index == 0 { ' ' } else { ',' });
            push_text(line, name, TAG_SPECIALS);
            line.push('=');
            let value = match *value {
                Value::Float(value) => LineValue::Float(value),
                Value::Integer(value) => LineValue::Integer(value),
            };
            push_value(line, value);
        }
        let time_ns = point.time_ns.unwrap_or(now_ns);
        writeln!(line, " {time_ns}").expect("writing to memory does not fail");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_adds_a_line() {
        let point = |measurement: &'static str, field: &'static str| Point {
            measurement: measurement.into(),
            tags: vec![("a b".into(), "c\nd".into()), ("left out".into(), "".into())],
            fields: vec![(field.into(), Value::Float(1e300)), ("n".into(), Value::Integer(-1))],
            time_ns: None,
        };
        let (counts, mut lines) = (InputCounts::new("test"), PointLines::default());
        lines.add(Ok(point("#m,", "f=")), 7, &counts);
        lines.add(Ok(point("", "f")), 7, &counts);
        lines.add(Ok(point("m", "")), 7, &counts);
        assert_eq!(lines.text, "\\#m\\,,a\\ b=c\\ d f\\==1e300,n=-1i 7\n");
        assert_eq!(lines.points, 1);
    }
}
