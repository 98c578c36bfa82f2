//! Regular expressions take no more memory than they are charged with, however much text is searched.
#![cfg(target_os = "linux")]

use nyala_query::influxql::Regex;
use std::convert::Infallible;

/// The memory of this process, bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("of memory too");
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes << 10
}

#[test]
fn searching_takes_no_more_than_was_charged() {
    const EXPRESSIONS: usize = 64;
    const REST_BYTES: usize = 4 << 20;
    let mut number = 1_u32;
    let text: Vec<u8> = std::iter::repeat_with(|| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"ab"[(number >> 31) as usize]
    })
    .take(200_000)
    .collect();
    let (mut charged, mut regexes) = (0, Vec::new());
    let before = resident_bytes();
    for number in 0..EXPRESSIONS {
        // Its automaton has a state for each of the last 17 letters, whatever they are.
        let regex = Regex::new(&format!("(a|b)*a(a|b){{16}}{number}")).unwrap();
        let charge = |bytes| {
            charged += bytes;
            Ok::<(), Infallible>(())
        };
        regex.compile_charged(charge).unwrap();
        assert!(!regex.compile().unwrap().is_match(&text));
        regexes.push(regex);
    }
    let taken = resident_bytes().saturating_sub(before);
    assert!(taken <= charged + REST_BYTES, "{taken} bytes taken, {charged} charged");
}
