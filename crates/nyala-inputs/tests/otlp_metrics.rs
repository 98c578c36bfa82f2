//! Metrics of OpenTelemetry: the points of both forms, limits, and any bytes at all.
//!
//! What they should be is the schema telegraf-prometheus-v1 of InfluxData's otel2influx.

mod shown;

use nyala_core::ErrorKind;
use nyala_inputs::Point;
use nyala_inputs::otlp::{Refusals, read_binary, read_json};
use proptest::prelude::*;
use shown::shown;

const REQUEST: &str = r#"{"resourceMetrics":[{
  "resource":{"attributes":[
    {"key":"service.name","value":{"stringValue":"shop"}},
    {"key":"replica","value":{"intValue":"3"}},
    {"key":"same","value":{"stringValue":"resource"}},
    {"key":"","value":{"stringValue":"no key"}}]},
  "scopeMetrics":[{"scope":{"name":"lib","version":"1.2","attributes":[{"key":"same","value":{"stringValue":"scope"}}]},
    "schemaUrl":"x","metrics":[
    {"name":"temperature","unit":"C","gauge":{"dataPoints":[
      {"timeUnixNano":"1500000000000000001","asDouble":21.5,"attributes":[
        {"key":"same","value":{"stringValue":"point"}},{"key":"ok","value":{"boolValue":true}},
        {"key":"list","value":{"arrayValue":{"values":[{"stringValue":"a"},{"intValue":1},{"doubleValue":0.5},{}]}}},
        {"key":"map","value":{"kvlistValue":{"values":[{"key":"b","value":{"boolValue":false}},{"key":"a","value":{}}]}}},
        {"key":"bytes","value":{"bytesValue":"AQID"}},{"key":"tiny","value":{"doubleValue":1e-7}}]},
      {"timeUnixNano":2,"asDouble":"NaN"},
      {"timeUnixNano":3,"asInt":"7","flags":1}]}},
    {"name":"requests","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[
      {"startTimeUnixNano":"5","timeUnixNano":"6","asInt":"9007199254740993"}]}},
    {"name":"delta","sum":{"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA","isMonotonic":true,"dataPoints":[
      {"timeUnixNano":"6","asInt":1}]}},
    {"name":"latency","histogram":{"aggregationTemporality":2,"dataPoints":[
      {"timeUnixNano":"7","count":"6","sum":12.5,"min":0.25,"max":9,"bucketCounts":["1","2","3"],"explicitBounds":[0.5,10]},
      {"timeUnixNano":"8","count":"6","bucketCounts":["1"],"explicitBounds":[1,2,3]},
      {"timeUnixNano":"9","count":"6","bucketCounts":["1","1"],"explicitBounds":[2,1]}]}},
    {"name":"exponential","exponentialHistogram":{"dataPoints":[{"timeUnixNano":"7"}]}},
    {"name":"quantiles","summary":{"dataPoints":[
      {"timeUnixNano":"0","count":"2","sum":3,"quantileValues":[
        {"quantile":0.5,"value":1},{"quantile":0.99,"value":2},{"quantile":1,"value":"NaN"}]}]}}
  ]}]}]}"#;

/// The points of a request, and what was refused.
fn points(
    read: impl FnOnce(&mut dyn FnMut(Point<'_>) -> nyala_core::Result<()>) -> nyala_core::Result<Refusals>,
) -> (Vec<String>, nyala_core::Result<Refusals>) {
    let mut points = Vec::new();
    let refusals = read(&mut |point| {
        points.push(shown(&point));
        Ok(())
    });
    (points, refusals)
}

fn of_json(text: &str) -> (Vec<String>, nyala_core::Result<Refusals>) {
    points(|take| read_json(text.as_bytes(), take))
}

fn of_binary(bytes: &[u8]) -> (Vec<String>, nyala_core::Result<Refusals>) {
    points(|take| read_binary(bytes, take))
}

#[test]
fn data_points_become_points_of_the_schema() {
    let (points, refusals) = of_json(REQUEST);
    let tags = ",otel.library.name=lib,otel.library.version=1.2,replica=3,same=scope,service.name=shop";
    assert_eq!(
        points,
        [
            "temperature,bytes=AQID,list=[\"a\",1,0.5,null],map={\"a\":null,\"b\":false},ok=true,otel.library.name=lib,\
             otel.library.version=1.2,replica=3,same=point,service.name=shop,tiny=1e-7 gauge=21.5 1500000000000000001"
                .to_owned(),
            format!("requests{tags} counter=9007199254740993i,start_time_unix_nano=5i 6"),
            format!("delta{tags} gauge=1i 6"),
            format!("latency{tags} count=6,sum=12.5,min=0.25,max=9,0.5=1,10=3,+Inf=6 7"),
            format!("quantiles{tags} count=2,sum=3,0.5=1,0.99=2 now"),
        ]
    );
    let words = "metric \"temperature\": the value is not a finite number".to_owned();
    assert_eq!(refusals.expect("read"), Refusals { data_points: 5, words, not_a_number: 1 });
}

/// A field of a message: a length and bytes.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut out);
    prost::encoding::encode_varint(bytes.len() as u64, &mut out);
    [&out[..], bytes].concat()
}

fn fixed(number: u32, bytes: [u8; 8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::SixtyFourBit, &mut out);
    [&out[..], &bytes].concat()
}

fn varint(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::Varint, &mut out);
    prost::encoding::encode_varint(value, &mut out);
    out
}

fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    [field(1, key.as_bytes()), field(2, value)].concat()
}

/// A request of one metric: the number of its kind, and what it has.
fn request(kind: u32, data: &[u8]) -> Vec<u8> {
    let metric = [field(kind, data), field(1, b"m")].concat();
    let scope = [field(1, b"lib"), field(3, &attribute("s", &field(1, b"t")))].concat();
    // The resource comes after what belongs to it.
    let resource = field(1, &attribute("r", &varint(3, u64::MAX)));
    let resource_metrics = [field(2, &[field(2, &metric), field(1, &scope)].concat()), field(1, &resource)];
    field(1, &resource_metrics.concat())
}

#[test]
fn both_forms_are_the_same() {
    let nested = field(5, &[field(1, &field(1, b"x")), field(1, &fixed(4, 0.5_f64.to_le_bytes()))].concat());
    let tags = "m,otel.library.name=lib,r=-1,s=t";
    let time = fixed(3, 9_u64.to_le_bytes());
    let gauge = [time.clone(), fixed(4, 1.5_f64.to_le_bytes()), field(7, &attribute("a", &nested))].concat();
    let (points, _) = of_binary(&request(5, &field(1, &gauge)));
    assert_eq!(points, ["m,a=[\"x\",0.5],otel.library.name=lib,r=-1,s=t gauge=1.5 9"]);
    let sum = [fixed(2, 1_u64.to_le_bytes()), time.clone(), fixed(6, (-7_i64).to_le_bytes())].concat();
    let counter = [field(1, &sum), varint(2, 2), varint(3, 1)].concat();
    assert_eq!(of_binary(&request(7, &counter)).0, [format!("{tags} counter=-7i,start_time_unix_nano=1i 9")]);
    assert_eq!(
        of_binary(&request(7, &field(1, &sum))).0,
        [format!("{tags} gauge=-7i,start_time_unix_nano=1i 9")]
    );
    let counts = [1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat();
    let histogram =
        [time.clone(), fixed(4, 3_u64.to_le_bytes()), field(6, &counts), fixed(7, 0.5_f64.to_le_bytes())];
    let (points, _) = of_binary(&request(9, &field(1, &histogram.concat())));
    assert_eq!(points, [format!("{tags} count=3,0.5=1,+Inf=3 9")]);
    let quantile = [fixed(1, 0.9_f64.to_le_bytes()), fixed(2, 4_f64.to_le_bytes())].concat();
    let summary = [time, fixed(4, 3_u64.to_le_bytes()), field(6, &quantile)].concat();
    let (points, _) = of_binary(&request(11, &field(1, &summary)));
    assert_eq!(points, [format!("{tags} count=3,sum=0,0.9=4 9")]);
    let (points, refusals) = of_binary(&request(10, &field(1, b"")));
    assert!(points.is_empty() && refusals.expect("read").words.contains("exponential histograms"));
}

#[test]
fn what_is_too_large_or_broken_is_refused() {
    let kind = |result: nyala_core::Result<Refusals>| result.map_err(|error| error.kind());
    let long = "x".repeat(65 << 10);
    let many: Vec<u8> =
        (0..1_025).flat_map(|number| field(7, &attribute(&number.to_string(), b""))).collect();
    let mut deep = field(1, b"x");
    (0..40).for_each(|_| deep = field(5, &field(1, &deep)));
    for point in
        [field(7, &attribute("a", &field(1, long.as_bytes()))), many, field(7, &attribute("a", &deep))]
    {
        let read = of_binary(&request(5, &field(1, &point))).1;
        assert_eq!(kind(read), Err(ErrorKind::Limit));
    }
    let counts = vec![0; 8 * 4_097];
    assert_eq!(kind(of_binary(&request(9, &field(1, &field(6, &counts)))).1), Err(ErrorKind::Limit));
    let json = |point: &str| {
        format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":"m","histogram":{{"dataPoints":[{point}]}}}}]}}]}}]}}"#
        )
    };
    let zeros = vec!["0"; 4_097].join(",");
    assert_eq!(kind(of_json(&json(&format!("{{\"bucketCounts\":[{zeros}]}}"))).1), Err(ErrorKind::Limit));
    let text = format!(r#"{{"attributes":[{{"key":"a","value":{{"stringValue":"{long}"}}}}]}}"#);
    assert_eq!(kind(of_json(&json(&text)).1), Err(ErrorKind::Limit));
    for wrong in
        ["", "[]", "{\"resourceMetrics\":1}", &json("1"), &json("{\"count\":\"x\"}"), &json("{\"count\":-1}")]
    {
        assert_eq!(kind(of_json(wrong).1), Err(ErrorKind::Invalid), "{wrong}");
    }
    let whole = request(5, &field(1, &fixed(4, [0; 8])));
    for length in 1..whole.len() {
        assert_eq!(kind(of_binary(&whole[..length]).1), Err(ErrorKind::Invalid), "{length}");
    }
    // A time that is no eight bytes, and a metric that is a number.
    assert_eq!(kind(of_binary(&request(5, &field(1, &varint(3, 1)))).1), Err(ErrorKind::Invalid));
    assert_eq!(kind(of_binary(&field(1, &field(2, &varint(2, 1)))).1), Err(ErrorKind::Invalid));
    // Nothing, and members that nobody knows.
    assert_eq!(of_binary(b"").1.expect("read"), Refusals::default());
    assert_eq!(of_json(r#"{"other":{},"resourceMetrics":null}"#).1.expect("read"), Refusals::default());
}

#[test]
fn an_attribute_without_a_value_is_no_tag_and_hides_the_one_around() {
    let scoped = |own: &str, scope: &str, resource: &str| {
        let attributes = |given: &str| {
            let pair = |pair: &str| {
                let (key, value) = pair.split_once('=').expect("a pair");
                format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#)
            };
            given.split_whitespace().map(pair).collect::<Vec<_>>().join(",")
        };
        let (own, scope, resource) = (attributes(own), attributes(scope), attributes(resource));
        of_json(&format!(
            r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{resource}]}},"scopeMetrics":[{{
                "scope":{{"attributes":[{scope}]}},"metrics":[{{"name":"m","gauge":{{"dataPoints":[
                    {{"attributes":[{own}],"asInt":1}},{{"asInt":2}}]}}}}]}}]}}]}}"#
        ))
        .0
    };
    assert_eq!(scoped("", "", ""), ["m gauge=1i now", "m gauge=2i now"]);
    assert_eq!(
        scoped("c= e=5 a=1", "b=s d= d=x f=", "a=r b=r c=r f=r z="),
        ["m,a=1,b=s,d=x,e=5 gauge=1i now", "m,a=r,b=s,c=r,d=x gauge=2i now"]
    );
    assert_eq!(scoped("a=1 a=2 a=", "a=s", "a=r"), ["m gauge=1i now", "m,a=s gauge=2i now"]);
}

#[test]
fn attributes_without_values_cost_nothing_for_each_data_point() {
    let many = |number: u32, prefix: &str| -> Vec<u8> {
        (0..1_000).flat_map(|key| field(number, &attribute(&format!("{prefix}{key}"), b""))).collect()
    };
    let gauge = field(1, &fixed(6, [0; 8])).repeat(300_000);
    let metrics = field(2, &[field(1, b"m"), field(5, &gauge)].concat());
    let scope = field(1, &many(3, "s"));
    let request = field(1, &[field(1, &many(1, "r")), field(2, &[scope, metrics].concat())].concat());
    let mut points = 0;
    let read = read_binary(&request, &mut |point| {
        points += 1;
        assert!(point.tags.is_empty());
        Ok(())
    });
    assert_eq!((read.expect("read"), points), (Refusals::default(), 300_000));
    // As many scopes of a resource with tags, of which no data point is one.
    let tagged: Vec<u8> =
        (0..1_000).flat_map(|key| field(1, &attribute(&key.to_string(), &varint(3, 1)))).collect();
    let scopes = field(2, &field(2, &[field(1, b"m"), field(5, &field(1, b""))].concat())).repeat(300_000);
    let refused = of_binary(&field(1, &[field(1, &tagged), scopes].concat())).1.expect("read");
    assert_eq!(refused.data_points, 300_000);
}

#[test]
fn of_the_same_quantile_the_last_value_counts() {
    let quantile = |quantile: f64, value: f64| {
        field(6, &[fixed(1, quantile.to_le_bytes()), fixed(2, value.to_le_bytes())].concat())
    };
    let summary = |quantiles: &[(f64, f64)]| -> Vec<u8> {
        field(1, &quantiles.iter().flat_map(|(at, value)| quantile(*at, *value)).collect::<Vec<_>>())
    };
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let given = [
        (0.5, 1.0),
        (f64::NAN, 1.0),
        (0.9, 2.0),
        (0.5, 3.0),
        (other_nan, 4.0),
        (0.9, f64::NAN),
        (0.0, 5.0),
        (-0.0, 6.0),
    ];
    assert_eq!(
        of_binary(&request(11, &summary(&given))).0,
        ["m,otel.library.name=lib,r=-1,s=t count=0,sum=0,0.5=3,NaN=4,0=5,-0=6 now"]
    );
    let many: Vec<(f64, f64)> = (0..4_096).map(|number| (f64::from(number), 1.0)).collect();
    let mut points = 0;
    let read = read_binary(&request(11, &summary(&many).repeat(100)), &mut |point| {
        points += 1;
        assert_eq!(point.fields.len(), 4_098);
        Ok(())
    });
    assert_eq!((read.expect("read"), points), (Refusals::default(), 100));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60), at in 0_usize..2_000) {
        drop(of_binary(&bytes));
        drop(of_binary(&request(7, &field(1, &bytes))));
        drop(of_binary(&request(9, &field(1, &bytes))));
        // A document with some bytes replaced.
        let mut json = REQUEST.as_bytes().to_vec();
        let end = (at + bytes.len()).min(json.len());
        json.splice(at.min(end)..end, bytes);
        drop(points(|take| read_json(&json, take)));
    }
}
