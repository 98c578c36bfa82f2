//! Lines of Graphite: templates, values, times, and any text at all.

use nyala_inputs::graphite::Parser;
use nyala_inputs::{Refused, Value};
use proptest::prelude::*;

/// What a line becomes, as `measurement,tag=value field=value time`.
fn shown(templates: &[&str], separator: &str, line: &str) -> String {
    let parser = Parser::new(templates, separator).expect("templates");
    match parser.parse(line) {
        Err(refused) => refused.to_string(),
        Ok(point) => {
            let tags: String = point.tags.iter().map(|(key, value)| format!(",{key}={value}")).collect();
            let time = point.time_ns.map_or("now".to_owned(), |time_ns| time_ns.to_string());
            let [(field, Value::Float(value))] = &point.fields[..] else { panic!("one float: {point:?}") };
            format!("{}{tags} {field}={value} {time}", point.measurement)
        }
    }
}

#[test]
fn templates_say_what_the_parts_of_a_path_are() {
    for (templates, line, wanted) in [
        (&[][..], "servers.a.cpu.load 11 1435077219", "servers.a.cpu.load value=11 1435077219000000000"),
        (&[".host.measurement*"], "servers.a.cpu.load 1.5 1", "cpu_load,host=a value=1.5 1000000000"),
        (&["measurement.measurement.field*"], "a.b.c.d 1 1", "a_b c_d=1 1000000000"),
        (&["region.region.measurement"], "eu.west.m 1 1", "m,region=eu_west value=1 1000000000"),
        (&["x.measurement* dc=a,rack=b"], "k.m.n 1 1", "m_n,dc=a,rack=b,x=k value=1 1000000000"),
        (&["*.load host.measurement*", "cpu.* measurement*"], "a.load 1 1", "load,host=a value=1 1000000000"),
        (&["a.b .measurement", "*.c measurement."], "a.c 1 1", "a.c value=1 1000000000"),
        (&["field.measurement"], ".m 1 1", "m value=1 1000000000"),
        (&["host.measurement"], "alone 1 1", "alone,host=alone value=1 1000000000"),
    ] {
        assert_eq!(shown(templates, "_", line), wanted, "{line}");
    }
}

#[test]
fn values_and_times() {
    for (line, wanted) in [
        ("m 1e3", "m value=1000 now"),
        ("m 1 -1", "m value=1 now"),
        ("m\t-1  1.5 ", "m value=-1 1500000000"),
        ("m 1 -1.5", "m value=1 -500000000"),
        ("m nan 1", "the value is not a finite number"),
        ("m inf 1", "the value is not a finite number"),
        ("m x 1", "the value is no number"),
        ("m 1 x", "the time is no number"),
        ("m 1 nan", "the time is out of range"),
        ("m 1 2147472001", "the time is out of range"),
        ("m 1 2147472000", "m value=1 2147472000000000000"),
        ("m 1 1435077219000", "the time is out of range"),
        ("m", "a line is: path value [time]"),
        ("m 1 2 3", "a line is: path value [time]"),
        ("", "a line is: path value [time]"),
    ] {
        assert_eq!(shown(&[], ".", line), wanted, "{line:?}");
    }
    let parser = Parser::new::<&str>(&[], ".").expect("no templates");
    assert_eq!(parser.parse("m NaN 1"), Err(Refused::NotANumber));
}

#[test]
fn wrong_templates_are_named() {
    for (templates, words) in [
        (&["host"][..], "has no measurement"),
        (&["measurement*.field*"], "has both"),
        (&["a b c d"], "is not of the form"),
        (&[""], "is not of the form"),
        (&["measurement a="], "is not of the form tag=value"),
        (&["a* measurement"], "neither a name nor *"),
        (&["a..b measurement"], "neither a name nor *"),
        (&["a measurement", "a host.measurement"], "two templates have the filter"),
    ] {
        let error = Parser::new(templates, ".").expect_err("wrong");
        assert!(error.contains(words), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_point_or_refused(line in ".*", path in "[a-z*.]{0,12}", filter in "[a-c.*]{0,6}") {
        let templates = [format!("{filter} host.measurement.field*"), "*.a measurement*".to_owned()];
        let Ok(parser) = Parser::new(&templates, ".") else { return Ok(()) };
        for line in [line, format!("{path} 1 2")] {
            if let Ok(point) = parser.parse(&line) {
                prop_assert!(!point.measurement.is_empty() && !point.fields[0].0.is_empty());
            }
        }
    }
}
