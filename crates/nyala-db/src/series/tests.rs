use super::*;

fn index(sets: &[&[(&str, &str)]]) -> SeriesIndex {
    let mut index = SeriesIndex::default();
    for tags in sets {
        index.insert(tags);
    }
    index
}

fn selected(index: &SeriesIndex, filter: TagFilter) -> Vec<u32> {
    index.select(&filter).into_iter().collect()
}

#[test]
fn a_tag_set_has_one_id() {
    let mut index = index(&[&[("host", "a")], &[("host", "b"), ("region", "x")], &[]]);
    assert_eq!(index.insert(&[("host", "a")]), (SeriesId(0), false));
    assert_eq!(index.insert(&[] as &[(&str, &str)]), (SeriesId(2), false));
    assert_eq!(index.insert(&[("region", "x")]), (SeriesId(3), true));
    assert_eq!(index.tags_of(SeriesId(1)), vec![("host".into(), "b".into()), ("region".into(), "x".into())]);
    assert_eq!(index.value_of(SeriesId(0), "region"), "");
}

#[test]
fn conditions_treat_an_absent_tag_as_empty() {
    let index = index(&[&[("host", "a")], &[("host", "b"), ("region", "x")], &[("region", "y")]]);
    let equal = |key: &str, value: &str| TagFilter::Equal(key.into(), value.into());
    let not_equal = |key: &str, value: &str| TagFilter::NotEqual(key.into(), value.into());
    let matches = |key: &str, regex| TagFilter::Matches(key.into(), Regex::new(regex).unwrap());
    let matches_not = |key: &str, regex| TagFilter::MatchesNot(key.into(), Regex::new(regex).unwrap());
    assert_eq!(selected(&index, equal("host", "a")), vec![0]);
    assert_eq!(selected(&index, equal("host", "")), vec![2]);
    assert_eq!(selected(&index, equal("nothing", "")), vec![0, 1, 2]);
    assert_eq!(selected(&index, not_equal("host", "a")), vec![1, 2]);
    assert_eq!(selected(&index, not_equal("region", "")), vec![1, 2]);
    assert_eq!(selected(&index, matches("region", "^[xy]$")), vec![1, 2]);
    assert_eq!(selected(&index, matches("region", "x|^$")), vec![0, 1]);
    assert_eq!(selected(&index, matches_not("region", "x")), vec![0, 2]);
    assert_eq!(selected(&index, TagFilter::And(vec![equal("host", "b"), equal("region", "x")])), vec![1]);
    assert_eq!(selected(&index, TagFilter::Or(vec![equal("host", "a"), equal("region", "y")])), vec![0, 2]);
}

#[test]
fn a_removed_series_leaves_no_trace_and_its_id_is_not_used_again() {
    let mut index = index(&[&[("host", "a")], &[("host", "b")]]);
    index.remove(&[1].into());
    assert_eq!(index.values_of("host", index.all()), vec!["a"]);
    assert_eq!(index.find(&[("host", "b")]), None);
    assert_eq!(index.insert(&[("host", "b")]), (SeriesId(2), true));
    assert_eq!(selected(&index, TagFilter::Equal("host".into(), "b".into())), vec![2]);
}

#[test]
fn groups_are_ordered_by_their_values() {
    let index =
        index(&[&[("host", "b")], &[("host", "a"), ("region", "x")], &[("host", "b"), ("region", "x")], &[]]);
    let groups = index.group(index.all(), &["host".to_owned()]);
    let values: Vec<Vec<&str>> = (0..3).map(|group| groups.values.of(group).collect()).collect();
    assert_eq!((groups.values.len(), values), (3, vec![vec![""], vec!["a"], vec!["b"]]));
    let members: Vec<_> = groups.members.iter().map(|(id, group)| (id.0, *group)).collect();
    assert_eq!(members, vec![(0, 2), (1, 1), (2, 2), (3, 0)]);
}

/// Tag sets with one tag of their own, two shared tags, and keys that not all of them have.
fn pod(number: u32) -> Vec<(&'static str, String)> {
    let mut tags = vec![("container", format!("{:016x}", number.wrapping_mul(0x9e37_79b9)))];
    if number.is_multiple_of(3) {
        tags.push(("namespace", format!("n{}", number % 50)));
    }
    tags.push(("node", format!("node-{}", number / 40)));
    tags
}

#[test]
fn removed_series_take_no_memory() {
    let mut index = SeriesIndex::default();
    for number in 0..10_000 {
        index.insert(&pod(number));
    }
    let full = index.memory_bytes();
    // After many insertions and removals, memory is that of the series that exist.
    for hour in 1..100_u32 {
        for number in 0..1000 {
            index.insert(&pod(10_000 + hour * 1000 + number));
        }
        let gone: RoaringBitmap = index.all().iter().take(1000).collect();
        index.remove(&gone);
        assert_eq!(index.len(), 10_000);
        let bytes = index.memory_bytes();
        assert!(bytes < full + full / 2, "hour {hour}: {bytes} bytes, {full} at first");
    }
    // A few series of each page are left.
    let gone: RoaringBitmap =
        index.all().iter().enumerate().filter(|(at, _)| at % 10 > 0).map(|(_, id)| id).collect();
    index.remove(&gone);
    assert_eq!(index.len(), 1000);
    let bytes = index.memory_bytes();
    assert!(bytes < full / 6, "a tenth is left: {bytes} bytes, {full} at first");
    let next = index.next_id();
    index.remove(&index.all().clone());
    assert!(index.memory_bytes() < 2000, "{} bytes of nothing", index.memory_bytes());
    assert_eq!(index.insert(&pod(1)), (next, true));
}

#[test]
fn an_index_equals_a_list_of_its_series_after_any_removals() {
    let mut index = SeriesIndex::default();
    let mut known: std::collections::BTreeMap<u32, Tags> = Default::default();
    let tags_of = |number: u32| -> Tags {
        pod(number % 900).into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    };
    for round in 0..200_u32 {
        for number in round * 37..round * 37 + 60 {
            let (id, new) = index.insert(&tags_of(number));
            assert_eq!(new, known.insert(id.0, tags_of(number)).is_none());
        }
        let gone: RoaringBitmap = known.keys().copied().filter(|id| (id * 7 + round) % 11 < 2).collect();
        index.remove(&gone);
        gone.iter().for_each(|id| drop(known.remove(&id)));
        assert!(index.all().iter().eq(known.keys().copied()));
        for (id, tags) in &known {
            assert_eq!((&index.tags_of(SeriesId(*id)), index.find(tags)), (tags, Some(SeriesId(*id))));
        }
        for key in ["container", "namespace", "node", "none"] {
            let mut values: Vec<_> = known
                .values()
                .flatten()
                .filter(|(own, _)| own == key)
                .map(|(_, value)| value.clone())
                .collect();
            values.sort_unstable();
            values.dedup();
            assert_eq!(index.values_of(key, index.all()), values);
            let value = values.first().cloned().unwrap_or_default();
            let has =
                |tags: &Tags| tags.iter().find(|(own, _)| own == key).map_or("", |(_, value)| value) == value;
            let expected: Vec<u32> = known.iter().filter(|(_, tags)| has(tags)).map(|(id, _)| *id).collect();
            assert_eq!(selected(&index, TagFilter::Equal(key.into(), value)), expected);
        }
    }
}

#[test]
fn unused_keys_are_removed() {
    let mut index = SeriesIndex::default();
    index.insert(&[("host", "a")]);
    let gone: RoaringBitmap =
        (0..1000).map(|number| index.insert(&[(format!("key{number}"), "x")]).0.0).collect();
    let full = index.memory_bytes();
    index.remove(&gone);
    assert!(index.memory_bytes() < full / 10);
    assert_eq!(index.tags_of(SeriesId(0)), vec![("host".to_owned(), "a".to_owned())]);
    assert_eq!(index.insert(&[("host", "b")]), (SeriesId(1001), true));
}
