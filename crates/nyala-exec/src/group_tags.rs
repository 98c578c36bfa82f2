//! The tags of result series; all groups of a measurement share one store of texts.

use nyala_db::series::GroupValues;
use std::fmt;
use std::sync::Arc;

/// The tags of one group, by key; empty values included.
#[derive(Clone)]
pub struct GroupTags {
    all: Arc<AllTags>,
    group: u32,
}

struct AllTags {
    keys: Vec<String>,
    values: Arc<GroupValues>,
}

impl GroupTags {
    /// The tags of all groups with these values.
    pub fn of_groups(keys: &[String], values: Arc<GroupValues>) -> impl Iterator<Item = Self> {
        let groups = values.len() as u32;
        let all = Arc::new(AllTags { keys: keys.to_vec(), values });
        (0..groups).map(move |group| Self { all: all.clone(), group })
    }

    /// The tags of a single group.
    pub fn of<'a>(keys: &[String], values: impl Iterator<Item = &'a str>) -> Self {
        let mut own = GroupValues::of_keys(keys.len());
        own.push(values);
        Self { all: Arc::new(AllTags { keys: keys.to_vec(), values: Arc::new(own) }), group: 0 }
    }

    /// No tags.
    pub fn none() -> Self {
        Self::of(&[], std::iter::empty())
    }

    /// The number of tags.
    pub fn len(&self) -> usize {
        self.all.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.keys.is_empty()
    }

    /// Keys and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.all.keys.iter().map(String::as_str).zip(self.all.values.of(self.group as usize))
    }

    /// The value of a tag, if it is one of these.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(own, _)| *own == key).map(|(_, value)| value)
    }
}

impl FromIterator<(String, String)> for GroupTags {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(tags: I) -> Self {
        let (keys, values): (Vec<String>, Vec<String>) = tags.into_iter().unzip();
        Self::of(&keys, values.iter().map(String::as_str))
    }
}

impl PartialEq for GroupTags {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.all, &other.all) && self.group == other.group {
            return true;
        }
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for GroupTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_with_equal_texts_are_equal() {
        let keys = ["a".to_owned(), "b".to_owned()];
        let mut values = GroupValues::of_keys(2);
        [["x", ""], ["x", "y"], ["x", ""]].iter().for_each(|group| values.push(group.iter().copied()));
        let all: Vec<GroupTags> = GroupTags::of_groups(&keys, Arc::new(values)).collect();
        assert!(all[0] == all[2] && all[0] != all[1]);
        assert_eq!((all[1].get("b"), all[1].get("c"), all[1].len()), (Some("y"), None, 2));
        assert_eq!(all[1], keys.iter().cloned().zip(["x".to_owned(), "y".to_owned()]).collect());
        assert!(GroupTags::none().is_empty() && GroupTags::none() != all[0]);
    }
}
