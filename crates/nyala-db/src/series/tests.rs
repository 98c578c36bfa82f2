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
    index.remove(SeriesId(1));
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
