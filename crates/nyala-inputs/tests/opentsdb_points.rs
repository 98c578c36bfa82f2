//! OpenTSDB: lines, JSON, and any text at all.

use nyala_inputs::opentsdb::{Line, parse_line, read_json};
use nyala_inputs::{Point, Refused, Value};
use proptest::prelude::*;

fn shown(point: &Point<'_>) -> String {
    let tags: String = point.tags.iter().map(|(key, value)| format!(",{key}={value}")).collect();
    let [(field, Value::Float(value))] = &point.fields[..] else { panic!("one float: {point:?}") };
    format!("{}{tags} {field}={value} {}", point.measurement, point.time_ns.expect("a time"))
}

#[test]
fn lines_become_points() {
    for (line, wanted) in [
        ("put sys.cpu 1356998400 42.5 host=a cpu=0", "sys.cpu,host=a,cpu=0 value=42.5 1356998400000000000"),
        ("put m 1356998400123 -1", "m value=-1 1356998400123000000"),
        ("put m 1356998400 1 a=1 a=2", "m,a=2 value=1 1356998400000000000"),
        ("version", "version"),
        ("put m 1356998400 x", "the value is no number"),
        ("put m 1356998400 NaN", "the value is not a finite number"),
        ("put m 12 1", "the time has neither ten digits nor thirteen"),
        ("put m 135699840x 1", "the time is no number"),
        ("put m 1356998400", "a line is: put metric time value tag=value …"),
        ("stats", "a line is: put metric time value tag=value …"),
        ("", "a line is: put metric time value tag=value …"),
    ] {
        let words = match parse_line(line) {
            Ok(Line::Version) => "version".to_owned(),
            Ok(Line::Put { point, wrong_tags: 0 }) => shown(&point),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => refused.to_string(),
        };
        assert_eq!(words, wanted, "{line}");
    }
    let Ok(Line::Put { point, wrong_tags: 3 }) = parse_line("put m 1356998400 1 a b= =c d=e=f") else {
        panic!("three tags are wrong");
    };
    assert_eq!(shown(&point), "m,d=e=f value=1 1356998400000000000");
}

fn points(text: &str) -> (Vec<String>, Result<(), String>) {
    let mut points = Vec::new();
    let read = read_json(text.as_bytes(), |point: Result<Point<'_>, Refused>| {
        points.push(point.map_or_else(|refused| refused.to_string(), |point| shown(&point)));
    });
    (points, read)
}

#[test]
fn json_is_a_point_or_several() {
    let one = r#" {"metric":"m","timestamp":1356998400,"value":1,"tags":{"a":"b","a":"c\u0064"},"other":[]}"#;
    let (read, end) = points(one);
    assert_eq!((read, end), (vec!["m,a=cd value=1 1356998400000000000".to_owned()], Ok(())));
    let (read, end) = points(
        r#"[{"metric":"m","timestamp":1356998400123,"value":-1.5},{"metric":"n","timestamp":9223372036854775807,"value":1}]"#,
    );
    assert_eq!(read, ["m value=-1.5 1356998400123000000", "the time is out of range"]);
    assert_eq!(end, Ok(()));
    for wrong in ["", "1", "[1]", "{}", "[{}", r#"{"metric":"m","timestamp":1,"value":"x"}"#, "[] x"] {
        assert!(points(wrong).1.is_err(), "{wrong}");
    }
    let tags: Vec<String> = (0..257).map(|number| format!("\"{number}\":\"\"")).collect();
    let many = format!(r#"{{"metric":"m","timestamp":1,"value":1,"tags":{{{}}}}}"#, tags.join(","));
    assert!(points(&many).1.expect_err("too many").contains("at most 256 tags"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(line in ".*", json in "[\\[\\]{}\":,a-z0-9.-]{0,60}") {
        drop(parse_line(&line));
        drop(parse_line(&format!("put m 1356998400 1 {line}")));
        drop(points(&json));
    }
}
