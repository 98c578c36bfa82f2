//! Shards of several files, tombstones and a log are read as a naive model of InfluxDB reads them.

mod support;

use nyala_influxdb::DamageList;
use nyala_influxdb::directory::{self, ShardFiles};
use nyala_influxdb::shard::{FieldValues, RowTarget, read_shard};
use nyala_influxdb::values::{Kind, Points, Strings, Values};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One value as text, which compares like the value.
type Cell = String;
/// Key of the value, time.
type Model = BTreeMap<(Vec<u8>, i64), Cell>;

/// What happens to a shard, in this order: it is written to files or to the log, and points are deleted.
#[derive(Debug, Clone)]
enum Event {
    File(Vec<(usize, Vec<i64>)>),
    Log(usize, Vec<i64>),
    Delete(usize, i64, i64),
}

const KEYS: [&[u8]; 5] =
    [b"cpu,host=a#!~#f1", b"cpu,host=a#!~#f2", b"cpu,host=a#!~#text", b"cpu,host=a-1#!~#f1", b"mem#!~#on"];

fn values(key: usize, times_ns: &[i64], salt: i64) -> Points {
    let numbers = times_ns.iter().map(|time_ns| time_ns * 1000 + salt);
    let values = match key {
        0 | 3 => Values::Float(numbers.map(|number| number as f64).collect()),
        1 => Values::Integer(numbers.collect()),
        2 => {
            let mut strings = Strings::default();
            numbers.for_each(|number| strings.push(format!("text {number}").as_bytes()));
            Values::String(strings)
        }
        _ => Values::Boolean(numbers.map(|number| number % 2 == 0).collect()),
    };
    Points { times_ns: times_ns.to_vec(), values }
}

fn cell(values: &Values, index: usize) -> Cell {
    match values {
        Values::Float(values) => format!("{:?}", values[index]),
        Values::Integer(values) => format!("{}i", values[index]),
        Values::Unsigned(values) => format!("{}u", values[index]),
        Values::Boolean(values) => format!("{}", values[index]),
        Values::String(values) => format!("{:?}", String::from_utf8_lossy(values.get(index))),
    }
}

fn times() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::btree_set(0..60_i64, 1..12).prop_map(|times| times.into_iter().collect())
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let file = prop::collection::btree_map(0..KEYS.len(), times(), 1..4)
        .prop_map(|keys| Event::File(keys.into_iter().collect()));
    let log = (0..KEYS.len(), times()).prop_map(|(key, times)| Event::Log(key, times));
    let delete = (0..KEYS.len(), 0..60_i64, 0..20_i64)
        .prop_map(|(key, first, more)| Event::Delete(key, first, first + more));
    prop::collection::vec(prop_oneof![file, log, delete], 1..10)
}

/// Writes a shard, and returns what it has.
fn write(root: &Path, events: &[Event]) -> Model {
    let (data, wal) = (root.join("data/db/rp/1"), root.join("wal/db/rp/1"));
    fs::create_dir_all(&data).unwrap();
    fs::create_dir_all(&wal).unwrap();
    let (mut in_files, mut in_log): (Model, Model) = Default::default();
    let mut deletions: Vec<Vec<(&[u8], i64, i64)>> = Vec::new();
    let mut entries = Vec::new();
    for (salt, event) in events.iter().enumerate() {
        match event {
            Event::File(keys) => {
                let mut content: BTreeMap<Vec<u8>, Vec<Points>> = BTreeMap::new();
                for (key, times_ns) in keys {
                    // Blocks of four points.
                    let blocks =
                        times_ns.chunks(4).map(|times_ns| values(*key, times_ns, salt as i64)).collect();
                    content.insert(KEYS[*key].to_vec(), blocks);
                    let points = values(*key, times_ns, salt as i64);
                    for (index, time_ns) in times_ns.iter().enumerate() {
                        in_files.insert((KEYS[*key].to_vec(), *time_ns), cell(&points.values, index));
                    }
                }
                deletions.push(Vec::new());
                fs::write(data.join(format!("{:09}-000000001.tsm", deletions.len())), support::tsm(&content))
                    .unwrap();
            }
            Event::Log(key, times_ns) => {
                let points = values(*key, times_ns, salt as i64);
                entries.push((1, support::written(KEYS[*key], &points)));
                for (index, time_ns) in times_ns.iter().enumerate() {
                    in_log.insert((KEYS[*key].to_vec(), *time_ns), cell(&points.values, index));
                }
            }
            Event::Delete(key, first, last) => {
                deletions.iter_mut().for_each(|file| file.push((KEYS[*key], *first, *last)));
                entries.push((3, support::deleted(*first, *last, &[KEYS[*key]])));
                for model in [&mut in_files, &mut in_log] {
                    model.retain(|(own, time_ns), _| own != KEYS[*key] || !(first..=last).contains(&time_ns));
                }
            }
        }
    }
    for (index, deletions) in deletions.iter().enumerate().filter(|(_, deletions)| !deletions.is_empty()) {
        let name = format!("{:09}-000000001.tombstone", index + 1);
        fs::write(data.join(name), support::tombstones(deletions)).unwrap();
    }
    let half = entries.len() / 2;
    fs::write(wal.join("_00001.wal"), support::segment(&entries[..half])).unwrap();
    fs::write(wal.join("_00002.wal"), support::segment(&entries[half..])).unwrap();
    in_files.extend(in_log);
    in_files
}

#[derive(Default)]
struct Collected {
    cells: Model,
    bytes: u64,
}

impl RowTarget for Collected {
    type Error = std::convert::Infallible;

    fn rows(
        &mut self,
        series: &[u8],
        times_ns: &[i64],
        fields: &[FieldValues<'_>],
    ) -> Result<(), Self::Error> {
        assert!(times_ns.is_sorted_by(|left, right| left < right));
        for field in fields {
            let mut index = field.range.start;
            for (row, time_ns) in times_ns.iter().enumerate() {
                if field.present.is_none_or(|present| present[row]) {
                    let key = [series, b"#!~#", field.field].concat();
                    let before = self.cells.insert((key, *time_ns), cell(field.values, index));
                    assert_eq!(before, None, "a value came twice");
                    index += 1;
                }
            }
            assert_eq!(index, field.range.end);
        }
        Ok(())
    }

    fn read(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

fn shard(root: &Path) -> ShardFiles {
    directory::shards(root).unwrap().remove(0)
}

fn read(root: &Path, times_ns: std::ops::RangeInclusive<i64>) -> (Collected, DamageList) {
    let (mut damage, mut collected) = (DamageList::default(), Collected::default());
    let Ok(()) = read_shard(&shard(root), times_ns, root, &mut damage, &mut collected);
    (collected, damage)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_newest_value_counts_and_deleted_ones_do_not(events in events(), from in 0..60_i64, length in 0..60_i64) {
        let root = tempfile::tempdir().unwrap();
        let model = write(root.path(), &events);
        let (collected, damage) = read(root.path(), i64::MIN..=i64::MAX);
        prop_assert_eq!(damage.listed, vec![]);
        prop_assert_eq!(&collected.cells, &model);
        let range = from..=from + length;
        let within: Model = model.into_iter().filter(|((_, time_ns), _)| range.contains(time_ns)).collect();
        prop_assert_eq!(read(root.path(), range).0.cells, within);
    }

    #[test]
    fn damaged_files_never_panic(events in events(), file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &events);
        let own = shard(root.path());
        let files: Vec<_> = own.files.iter().chain(&own.log).collect();
        let path = file.get(&files);
        let mut bytes = fs::read(path).unwrap();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if cut {
                bytes.truncate(at);
            }
            fs::write(path, bytes).unwrap();
        }
        read(root.path(), i64::MIN..=i64::MAX);
    }
}

#[test]
fn a_block_with_a_wrong_checksum_is_named_and_the_others_are_read() {
    let root = tempfile::tempdir().unwrap();
    let times_ns: Vec<i64> = (0..8).collect();
    write(root.path(), &[Event::File(vec![(0, times_ns.clone()), (1, times_ns)])]);
    let path = &shard(root.path()).files[0];
    let mut bytes = fs::read(path).unwrap();
    // In the first block: behind the header and the checksum.
    bytes[12] ^= 1;
    fs::write(path, bytes).unwrap();
    let (collected, damage) = read(root.path(), i64::MIN..=i64::MAX);
    assert_eq!((damage.count, &damage.listed[0].file, damage.listed[0].offset), (1, path, 5));
    assert!(damage.listed[0].message.contains("checksum"), "{}", damage.listed[0]);
    assert_eq!(collected.cells.len(), 12);
}

#[test]
fn floats_of_the_log_that_are_no_numbers_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    let wal = root.path().join("wal/db/rp/1");
    fs::create_dir_all(&wal).unwrap();
    let values = Values::Float(vec![f64::NAN, 1.5, f64::INFINITY]);
    let points = Points { times_ns: vec![1, 2, 3], values };
    let entries = [(1, support::written(KEYS[0], &points))];
    fs::write(wal.join("_00001.wal"), support::segment(&entries)).unwrap();
    let (collected, damage) = read(root.path(), i64::MIN..=i64::MAX);
    assert_eq!(collected.cells, Model::from([((KEYS[0].to_vec(), 2), "1.5".to_owned())]));
    assert_eq!(damage.count, 1);
    assert!(damage.listed[0].message.contains("2 floats"), "{}", damage.listed[0]);
}

#[test]
fn a_log_that_is_larger_than_memory_for_it_is_moved_to_a_file() {
    let root = tempfile::tempdir().unwrap();
    let wal = root.path().join("wal/db/rp/1");
    fs::create_dir_all(&wal).unwrap();
    // Strings of 200 kB: some 400 MB are counted for them.
    let text = vec![b'x'; 200_000];
    let key = |number: i64| format!("cpu,host={}#!~#text", number % 10).into_bytes();
    let mut points = Points::new(Kind::String);
    let mut model = Model::new();
    let mut entries = Vec::new();
    for number in 0..1000 {
        let (key, time_ns) = (key(number), number % 700);
        points.clear();
        points.times_ns.push(time_ns);
        let Values::String(strings) = &mut points.values else { unreachable!() };
        strings.push(&[&text[..], number.to_string().as_bytes()].concat());
        model.insert((key.clone(), time_ns), cell(&points.values, 0));
        entries.push((1, support::written(&key, &points)));
        if number == 803 {
            entries.push((3, support::deleted(50, 150, &[&key])));
            model.retain(|(own, time_ns), _| *own != key || !(50..=150).contains(time_ns));
        }
    }
    fs::write(wal.join("_00001.wal"), support::segment(&entries)).unwrap();
    let (collected, damage) = read(root.path(), i64::MIN..=i64::MAX);
    assert_eq!(damage.listed, []);
    assert!(collected.cells == model, "{} values of {}", collected.cells.len(), model.len());
}
