use super::*;

const TOLERANCE: Tolerance = Tolerance { share: 1e-9, absolute: 0.0 };

/// An answer with a series `m,h=a` of these columns and rows.
fn answer(columns: &str, rows: &str) -> String {
    format!(
        r#"{{"results":[{{"series":[{{"name":"m","tags":{{"h":"a"}},"columns":[{columns}],"values":[{rows}]}}]}}]}}"#
    )
}

fn differences(influxdb: &str, nyala: &str) -> Differences {
    let read = |body| Answer::read(body).unwrap();
    compare(&read(influxdb.as_bytes()), &read(nyala.as_bytes()), TOLERANCE, 10)
}

fn of_rows(influxdb: &str, nyala: &str) -> Differences {
    let columns = r#""time","v","s""#;
    differences(&answer(columns, influxdb), &answer(columns, nyala))
}

/// Each difference on a line.
fn shown(differences: &Differences) -> Vec<String> {
    differences.listed.iter().map(|difference| serde_json::to_string(difference).unwrap()).collect()
}

#[test]
fn a_changed_value_and_rows_that_lack_are_named() {
    let found =
        of_rows(r#"[1,1,"x"],[2,2,"x"],[3,3,"x"],[5,5,null]"#, r#"[1,1,"x"],[2,7,"x"],[4,4,"x"],[5,5,null]"#);
    assert_eq!(found.outcome, Outcome::Different);
    assert_eq!(
        shown(&found),
        [
            r#"{"kind":"value","series":"m,h=a","time":"1970-01-01T00:00:00.000000002Z","column":"v","influxdb":2,"nyala":7}"#,
            r#"{"kind":"missing_row","series":"m,h=a","time":"1970-01-01T00:00:00.000000003Z","influxdb":{"v": 3, "s": "x"}}"#,
            r#"{"kind":"extra_row","series":"m,h=a","time":"1970-01-01T00:00:00.000000004Z","nyala":{"v": 4, "s": "x"}}"#,
        ]
    );
    // The places are for who asks for more.
    assert_eq!(found.listed[0].place.as_ref().map(|place| place.1), Some(2));
}

#[test]
fn floats_may_differ_a_little_and_integers_may_not() {
    let outcome = |a: &str, b: &str| of_rows(&format!(r#"[1,{a},"x"]"#), &format!(r#"[1,{b},"x"]"#)).outcome;
    assert_eq!(outcome("0.30000000000000004", "0.3"), Outcome::Close);
    assert_eq!(outcome("1e3", "1000"), Outcome::Equal);
    assert_eq!(outcome("3", "3.0000000000001"), Outcome::Close);
    assert_eq!(outcome("0.1", "0.1001"), Outcome::Different);
    assert_eq!(outcome("-0.1", "0.1"), Outcome::Different);
    assert_eq!(outcome("9007199254740993", "9007199254740992"), Outcome::Different);
    assert_eq!(outcome("0", "null"), Outcome::Different);
    assert_eq!(outcome("1", r#""1""#), Outcome::Different);
    assert_eq!(outcome(r#""\u0041""#, r#""A""#), Outcome::Equal);
}

#[test]
fn another_order_is_no_difference_of_rows() {
    let found = of_rows(r#"[1,1,"x"],[1,2,"y"],[2,2,"z"]"#, r#"[2,2,"z"],[1,2,"y"],[1,1,"x"]"#);
    assert_eq!((found.outcome, found.listed.len()), (Outcome::Order, 0));
    let found = differences(
        &answer(r#""time","v","s""#, r#"[1,1,"x"]"#),
        &answer(r#""time","s","v""#, r#"[1,"x",1]"#),
    );
    assert_eq!((found.outcome, found.listed.len()), (Outcome::Order, 0));
    // Of rows with the same time the equal ones belong together.
    let found = of_rows(r#"[1,1,"x"],[1,2,"y"],[1,3,"z"]"#, r#"[1,3,"z"],[1,1,"x"]"#);
    assert_eq!(found.counts, BTreeMap::from([(Kind::MissingRow, 1)]));
}

#[test]
fn rows_without_a_time_are_there_or_not() {
    let names = |rows: &str| answer(r#""name""#, rows);
    assert_eq!(differences(&names(r#"["a"],["b"]"#), &names(r#"["b"],["a"]"#)).outcome, Outcome::Order);
    let found = differences(&names(r#"["a"],["b"]"#), &names(r#"["b"],["c"]"#));
    assert_eq!(
        shown(&found),
        [
            r#"{"kind":"missing_row","series":"m,h=a","influxdb":{"name": "a"}}"#,
            r#"{"kind":"extra_row","series":"m,h=a","nyala":{"name": "c"}}"#,
        ]
    );
}

#[test]
fn series_columns_and_errors_that_only_one_has() {
    let one = answer(r#""time","v""#, "[1,1],[2,2]");
    let nothing = r#"{"results":[{"statement_id":0}]}"#;
    assert_eq!(
        shown(&differences(&one, nothing)),
        [
            r#"{"kind":"missing_series","series":"m,h=a","time":"1970-01-01T00:00:00.000000001Z","influxdb":2}"#
        ]
    );
    assert_eq!(differences(nothing, &one).counts, BTreeMap::from([(Kind::ExtraSeries, 1)]));
    let other = answer(r#""time","w""#, "[1,1],[2,2]");
    assert_eq!(
        shown(&differences(&one, &other)),
        [r#"{"kind":"columns","series":"m,h=a","influxdb":["time","v"],"nyala":["time","w"]}"#]
    );
    let error = |words: &str| format!(r#"{{"results":[{{"error":"{words}"}}]}}"#);
    assert_eq!(differences(&error("no"), &error("no")).outcome, Outcome::Equal);
    let found = differences(&error("no"), &one);
    assert_eq!(
        (found.outcome, shown(&found)),
        (Outcome::Error, vec![r#"{"kind":"error","influxdb":"no"}"#.to_owned()])
    );
}

#[test]
fn differences_are_counted_beyond_those_that_are_listed() {
    let rows =
        |value: u32| (0..50).map(|row| format!(r#"[{row},{value},"x"]"#)).collect::<Vec<_>>().join(",");
    let found = of_rows(&rows(1), &rows(2));
    assert_eq!((found.listed.len(), found.counts), (10, BTreeMap::from([(Kind::Value, 50)])));
}
