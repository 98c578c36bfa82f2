//! Random bodies: the parser, new and used, compared with the naive one.

use crate::{Reader, naive};
use nyala_db::ingest::{LineLimits, ParseOptions, Precision};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const NOW_NS: i64 = 1_234_567_890_123_456_789;

fn text(choices: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(choices).prop_map(str::to_owned)
}

fn measurement() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => text(&["m", "cpu"]),
        1 => text(&["a\\,b", "a\\ b", "a\\=b", "a=b", "a\"b", "a\\\\", "a\\\\ b", "", " m", "#m", "a\\\nb", "é"]),
    ]
}

fn tag() -> impl Strategy<Value = String> {
    let key =
        prop_oneof![8 => text(&["a", "b", "c"]), 1 => text(&["a\\,b", "c\\ d", "e\\=f", "", "x\\", "\"t"])];
    let value =
        prop_oneof![8 => text(&["1", "2", "x"]), 1 => text(&["", "=v", "a\\ b", "\\", "y\\\\", "q\"", "é"])];
    (key, value).prop_map(|(key, value)| format!(",{key}={value}"))
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|value| format!("{value}i")),
        (-999_i64..1_000).prop_map(|value| format!("{value}i")),
        any::<u64>().prop_map(|value| format!("{value}u")),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| value.to_string()),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| format!("{value:e}")),
        (-99_999_i64..100_000, 0..8_usize)
            .prop_map(|(value, digits)| format!("{:.digits$}", value as f64 / 1e3)),
        "-?[0-9]{0,20}(\\.[0-9]{0,20})?(e[+-]?[0-9]{0,3})?[iu]?",
        text(&[
            "t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE", "tRUE", "yes", "nan", "+1"
        ]),
        text(&[
            "\"\"",
            "\"a b,c=d\"",
            "\"q\\\"\"",
            "\"\\\\\"",
            "\"\\\\\\\"\"",
            "\"a\nb\"",
            "\"\\n\"",
            "\"a\"b\"",
            "\"a"
        ]),
    ]
}

fn field() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        12 => text(&["f", "g", "usage_guest_nice", "a_name_longer_than_the_thirty_two_bytes_of_words"]),
        1 => text(&["", "a\\,b", "a\\ b", "a\\=b", "a\\\\", "q\"", "h\\", "a b", "a,b", "é"]),
    ];
    (name, value()).prop_map(|(name, value)| format!("{name}={value}"))
}

fn time() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0_i64..10).prop_map(|time| format!(" {}", 1_451_606_400_000_000_000 + time)),
        2 => any::<i64>().prop_map(|time| format!(" {time}")),
        2 => Just(String::new()),
        1 => text(&[" ", " -", " x", " 1 ", " 1 2", "  1", " 1\t", " 99999999999999999999", " 0001", " 1.0"]),
    ]
}

fn line() -> impl Strategy<Value = String> {
    (measurement(), vec(tag(), 0..3), text(&[" ", " ", " ", " ", "  ", " \t"]), vec(field(), 1..4), time())
        .prop_map(|(measurement, tags, blank, fields, time)| {
            format!("{measurement}{}{blank}{}{time}", tags.concat(), fields.join(","))
        })
}

/// Rows that differ only in values and times, as a real client sends them.
fn regular_lines() -> impl Strategy<Value = Vec<String>> {
    let integers = vec((0..4_u8, -5_000_i64..5_000, 0..1_000_i64), 1..40);
    (integers, prop_oneof![Just("i"), Just(".5"), Just("u"), Just("")]).prop_map(|(rows, suffix)| {
        let row = |(host, value, time): &(u8, i64, i64)| {
            format!("cpu,host=h{host} usage_user={value}{suffix},up=t,name=\"n{value}\" {time}")
        };
        rows.iter().map(row).collect()
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        2 => vec(line(), 0..8).prop_flat_map(|lines| vec(select(if lines.is_empty() { vec![String::new()] } else { lines }), 0..20)),
        2 => regular_lines(),
        1 => (regular_lines(), line(), 0..10_usize).prop_map(|(mut lines, odd, at)| {
            lines.insert(at.min(lines.len()), odd);
            lines
        }),
    ];
    let joined = (text, text_end()).prop_map(|(lines, end)| (lines.join("\n") + &end).into_bytes()).boxed();
    prop_oneof![
        4 => joined.clone(),
        // One byte is changed somewhere.
        2 => (joined, any::<proptest::sample::Index>(), select(b"\\\"\n ,=#\0\t1i-.\xff".to_vec())).prop_map(|(mut body, at, byte)| {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = byte;
            }
            body
        }),
        1 => vec(select(b"mft01. ,,==\"\\\n\n#i-e\t".to_vec()), 0..60),
        1 => vec(any::<u8>(), 0..60),
    ]
}

fn text_end() -> impl Strategy<Value = String> {
    text(&["", "\n", "\r\n", "\n\n", "\n#"])
}

fn precision() -> impl Strategy<Value = Precision> {
    use Precision::*;
    prop_oneof![4 => Just(Nanosecond), 1 => select(vec![Microsecond, Millisecond, Second, Minute, Hour])]
}

fn check(reader: &mut Reader, body: &[u8], options: ParseOptions) {
    let (expected, refused) = naive::read(body, options.precision.unit_ns(), NOW_NS);
    let (rows, request) = reader.read(body, options);
    assert_eq!(rows, expected, "{}", String::from_utf8_lossy(body));
    assert_eq!(request.errors().count(), refused, "{}", String::from_utf8_lossy(&request.errors().text()));
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn the_parser_agrees_with_the_naive_parser(bodies in vec(body(), 1..4), precision in precision()) {
        let options = ParseOptions { precision, now_ns: NOW_NS, ..ParseOptions::default() };
        let mut used = Reader::new();
        for body in &bodies {
            check(&mut Reader::new(), body, options);
            check(&mut used, body, options);
        }
        // Again, now that every series and shape is known.
        for body in bodies.iter().rev() {
            check(&mut used, body, options);
        }
    }

    #[test]
    fn small_batches_hold_the_same_rows(bodies in vec(body(), 1..3), max_columns in 1..6_usize, max_rows in 1..9_usize) {
        let limits = LineLimits { max_columns, max_rows, ..LineLimits::default() };
        let options = ParseOptions { now_ns: NOW_NS, limits, ..ParseOptions::default() };
        let mut used = Reader::new();
        for body in &bodies {
            check(&mut used, body, options);
        }
    }
}

#[test]
fn columns_of_the_last_body_do_not_appear_in_the_next() {
    let mut used = Reader::new();
    let bodies = [
        "m a=1,b=2 1",
        "m a=3 1",
        "m b=4i 1\nm a=5 2",
        "m a=1,b=2 1",
        "m b=1,a=\"x\" 1",
        "m a=1,b=2,c=3 1",
        // As many fields as columns, but all of them the same field.
        "m a=1,a=2,a=3 1",
    ];
    for body in bodies {
        check(&mut used, body.as_bytes(), ParseOptions { now_ns: NOW_NS, ..ParseOptions::default() });
    }
}
