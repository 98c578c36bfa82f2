//! The directory tree of a simulated disk, and what of it a power cut leaves.
//!
//! A name is on disk only after a sync of its directory. Until then creating, renaming and removing may each be
//! undone, independently for unrelated names and in order for the same one; a rename is never half done.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::random::Random;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    File(u64),
}

impl Node {
    pub(super) fn file(&self) -> Option<u64> {
        match self {
            Self::Dir => None,
            Self::File(inode) => Some(*inode),
        }
    }
}

/// A change of names since the last sync of their directory.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Link(PathBuf, Node),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf),
}

pub(super) type Tree = BTreeMap<PathBuf, Node>;

/// Names as a running process sees them, and as the disk has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) seen: Tree,
    pub(super) durable: Tree,
    pending: Vec<NameChange>,
}

impl NameChange {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let (first, second) = match self {
            Self::Link(path, _) | Self::Unlink(path) => (path, None),
            Self::Rename(from, to) => (from, Some(to)),
        };
        std::iter::once(first.as_path()).chain(second.map(PathBuf::as_path))
    }

    fn apply(&self, tree: &mut Tree) {
        match self {
            Self::Link(path, node) => {
                tree.insert(path.clone(), *node);
            }
            Self::Unlink(path) => {
                tree.remove(path);
            }
            Self::Rename(from, to) => {
                if let Some(node) = tree.remove(from) {
                    tree.insert(to.clone(), node);
                }
            }
        }
    }
}

impl Names {
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.seen);
        self.pending.push(change);
    }

    /// Puts the names of one directory on disk. A rename out of another directory takes with it what happened
    /// before in that one: it cannot arrive without its source.
    pub(super) fn sync(&mut self, dir: &Path) {
        let mut dirs: HashSet<PathBuf> = HashSet::from([dir.to_path_buf()]);
        let mut synced = vec![false; self.pending.len()];
        for (index, change) in self.pending.iter().enumerate().rev() {
            if change.paths().any(|path| dirs.contains(parent(path))) {
                synced[index] = true;
                dirs.extend(change.paths().map(|path| parent(path).to_path_buf()));
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (change, synced) in pending.into_iter().zip(synced) {
            if synced {
                change.apply(&mut self.durable);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// Everything that has a name now or may have one after a power cut.
    pub(super) fn reachable(&self) -> impl Iterator<Item = Node> {
        let linked = self.pending.iter().filter_map(|change| match change {
            NameChange::Link(_, node) => Some(*node),
            NameChange::Unlink(_) | NameChange::Rename(..) => None,
        });
        self.seen.values().chain(self.durable.values()).copied().chain(linked)
    }

    /// The names after a power cut.
    pub(super) fn torn(&self, random: &mut Random) -> Tree {
        let mut tree = self.durable.clone();
        match random.up_to(3) {
            0 => {}
            1 => self.pending.iter().for_each(|change| change.apply(&mut tree)),
            2 => {
                let kept = random.up_to(self.pending.len());
                self.pending[..kept].iter().for_each(|change| change.apply(&mut tree));
            }
            _ => {
                let groups = self.groups();
                let mut left: HashMap<usize, usize> = HashMap::new();
                for &group in &groups {
                    *left.entry(group).or_default() += 1;
                }
                // Visited in the order of the changes, so that a seed always draws the same.
                let mut kept: HashMap<usize, usize> = HashMap::new();
                for (change, group) in self.pending.iter().zip(groups) {
                    let kept = kept.entry(group).or_insert_with(|| random.up_to(left[&group]));
                    if *kept > 0 {
                        *kept -= 1;
                        change.apply(&mut tree);
                    }
                }
            }
        }
        let whole = tree.clone();
        tree.retain(|path, _| {
            path.ancestors().skip(1).all(|dir| is_root(dir) || whole.get(dir) == Some(&Node::Dir))
        });
        tree
    }

    /// For each pending change the number of its group: changes of one name, and of names tied to it by renames,
    /// happen in order.
    fn groups(&self) -> Vec<usize> {
        let mut groups: Vec<usize> = (0..self.pending.len()).collect();
        let mut last: HashMap<&Path, usize> = HashMap::new();
        for (index, change) in self.pending.iter().enumerate() {
            for path in change.paths() {
                if let Some(earlier) = last.insert(path, index) {
                    let (from, to) = (groups[index], groups[earlier]);
                    groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
                }
            }
        }
        groups
    }
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The directories that always exist.
pub(super) fn is_root(dir: &Path) -> bool {
    dir.as_os_str().is_empty() || dir.parent().is_none()
}
