//! Packets of collectd: parts, types, signatures, encryption, and any bytes at all.

mod shown;

use nyala_inputs::Refused;
use nyala_inputs::collectd::{Protection, Reader, Types, passwords};
use proptest::prelude::*;
use shown::shown;

const TYPES: &str = "# a comment
load  shortterm:GAUGE:0:5000, midterm:GAUGE:0:5000, longterm:GAUGE:0:5000
cpu\tvalue:DERIVE:0:U
total value:COUNTER:U:U
old value:ABSOLUTE:0:U
wrong value:GAUGE:0
";

fn reader(protection_min: Protection, joins_values: bool) -> Reader {
    let mut types = Types::default();
    assert_eq!(types.add(TYPES).as_deref(), Some("wrong value:GAUGE:0"));
    assert_eq!(types.count(), 4);
    Reader { types, protection_min, joins_values }
}

fn part(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 4).expect("short");
    [&kind.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
}

fn text(kind: u16, text: &str) -> Vec<u8> {
    part(kind, format!("{text}\0").as_bytes())
}

fn values(values: &[(u8, [u8; 8])]) -> Vec<u8> {
    let mut payload = u16::try_from(values.len()).expect("few").to_be_bytes().to_vec();
    payload.extend(values.iter().map(|(kind, _)| kind));
    values.iter().for_each(|(_, bytes)| payload.extend(bytes));
    part(6, &payload)
}

fn gauge(value: f64) -> (u8, [u8; 8]) {
    (1, value.to_le_bytes())
}

/// A packet of some load, one value of which is not a number.
fn load() -> Vec<u8> {
    [
        text(0, "web1"),
        part(1, &1_500_000_000_u64.to_be_bytes()),
        part(7, &10_u64.to_be_bytes()),
        text(2, "load"),
        text(4, "load"),
        values(&[gauge(0.5), gauge(f64::NAN), gauge(2.0)]),
    ]
    .concat()
}

fn read(reader: &Reader, packet: &[u8]) -> (Vec<String>, Result<(), Refused>) {
    let mut points = Vec::new();
    let mut password = |user: &str| passwords("# x:y\n admin : admin\n").get(user).cloned();
    let end = reader.read(packet, &mut password, &mut |point| {
        points.push(point.map_or_else(|refused| refused.to_string(), |point| shown(&point)));
    });
    (points, end)
}

#[test]
fn values_are_points_or_fields() {
    let (points, end) = read(&reader(Protection::None, false), &load());
    assert_eq!(end, Ok(()));
    assert_eq!(
        points,
        [
            "load_shortterm,host=web1,type=load value=0.5 1500000000000000000",
            "the value is not a finite number",
            "load_longterm,host=web1,type=load value=2 1500000000000000000",
        ]
    );
    let (points, _) = read(&reader(Protection::None, true), &load());
    assert_eq!(points, ["load,host=web1,type=load shortterm=0.5,longterm=2 1500000000000000000"]);
}

#[test]
fn identifiers_hold_until_the_next_and_values_have_the_type_of_their_file() {
    // 2^30 is a second; half of 2^-30 seconds more are rounded up to a nanosecond.
    let time = ((1_500_000_000_u64 << 30) + (1 << 29) + 1).to_be_bytes();
    let packet = [
        load(),
        text(2, "cpu"),
        text(3, "0"),
        part(8, &time),
        text(4, "cpu"),
        text(5, "idle"),
        values(&[(2, (-7_i64).to_be_bytes())]),
        values(&[(0, u64::MAX.to_be_bytes())]),
        values(&[gauge(-1.9)]),
        text(4, "total"),
        text(5, ""),
        values(&[(0, u64::MAX.to_be_bytes())]),
        text(4, "old"),
        values(&[(3, 5_u64.to_be_bytes())]),
        part(0x100, b"a notification\0"),
        text(4, "nowhere"),
        values(&[gauge(1.0)]),
        text(4, "load"),
        values(&[gauge(1.0)]),
    ]
    .concat();
    let (points, end) = read(&reader(Protection::None, false), &packet);
    assert_eq!(end, Ok(()));
    let cpu = "cpu_value,host=web1,instance=0,type";
    let time = 1_500_000_000_500_000_001_u64;
    assert_eq!(
        points[3..],
        [
            format!("{cpu}=cpu,type_instance=idle value=-7 {time}"),
            format!("{cpu}=cpu,type_instance=idle value=-1 {time}"),
            format!("{cpu}=cpu,type_instance=idle value=-1 {time}"),
            format!("{cpu}=total value=18446744073709552000 {time}"),
            format!("{cpu}=old value=5 {time}"),
            "the type is unknown".to_owned(),
            "a type has another number of values in types.db".to_owned(),
        ]
    );
}

#[test]
fn broken_packets_are_refused_from_there_on() {
    let whole = load();
    for length in 1..whole.len() {
        let (points, end) = read(&reader(Protection::None, false), &whole[..length]);
        assert!(
            points.is_empty() && (end.is_err() || whole[length..].starts_with(&[0])),
            "{length}: {end:?}"
        );
    }
    let packet = [load(), values(&[(9, [0; 8])]), load()].concat();
    let (points, end) = read(&reader(Protection::None, false), &packet);
    assert_eq!((points.len(), end), (3, Err(Refused::Invalid("a value of an unknown type"))));
    let (points, _) =
        read(&reader(Protection::None, false), &[text(4, "cpu"), values(&[(2, [0; 8])])].concat());
    assert_eq!(points, ["values of no plugin"]);
}

/// What collectd's own library signs and encrypts is tested with packets of collectd (`crates/nyala/tests/inputs`). This vector is
/// from `crypto_test.go` of collectd.org/network.
const SIGNED: [u8; 41] =
    *b"\x02\x00\x00\x29\xcd\xa5\x9a\x37\xb0\x81\xc2\x31\x24\x2a\x6d\xbd\xfb\x44\xdb\xd7\x41\x2a\xf4\x29\
\x83\xde\xa5\x11\x96\xd2\xe9\x30\x21\xae\xc5\x45admin";

#[test]
fn only_what_is_protected_enough_is_taken() {
    let (points, end) = read(&reader(Protection::Sign, false), &load());
    assert_eq!((points, end), (vec![Refused::NotAuthentic.to_string()], Ok(())));
    // The signature is right, and what is signed is no part.
    let (_, end) = read(&reader(Protection::None, false), &[&SIGNED[..], b"collectd"].concat());
    assert_eq!(end, Err(Refused::Invalid("a part is longer than its packet")));
    for packet in [
        [&SIGNED[..], b"collectD"].concat(),
        [&SIGNED[..36], b"nobody", b"collectd"].concat(),
        part(0x210, &[&[0, 5][..], b"admin", &[0; 16 + 20 + 8]].concat()),
        part(0x210, &[&[0, 5][..], b"nobod", &[0; 16 + 20 + 8]].concat()),
    ] {
        let (points, end) = read(&reader(Protection::None, false), &packet);
        assert!(points.is_empty() && end.is_err(), "{end:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        kind in prop::sample::select(vec![0_u16, 1, 4, 6, 8, 0x200, 0x210]),
        types in ".{0,40}",
    ) {
        drop(Types::default().add(&types));
        for packet in [bytes.clone(), [load(), part(kind, &bytes)].concat()] {
            drop(read(&reader(Protection::None, false), &packet));
        }
    }
}
