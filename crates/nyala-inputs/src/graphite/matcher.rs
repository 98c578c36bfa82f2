//! Which template a path has: a tree of filters, part by part.
//!
//! A part that is named goes before `*`, and there is no way back: if the named branch ends without a template, the path has the
//! default template although a branch of `*` would fit. So InfluxDB does it.

use super::template::Template;
use std::collections::BTreeMap;

/// Templates by their filters.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    root: Node,
    default: Template,
}

#[derive(Debug, Clone, Default)]
struct Node {
    named: BTreeMap<String, Node>,
    any: Option<Box<Node>>,
    template: Option<Template>,
}

impl Matcher {
    pub(super) fn new(default: Template) -> Self {
        Self { root: Node::default(), default }
    }

    /// Adds a template. One without a filter is the default.
    pub(super) fn add(&mut self, filter: &str, template: Template) -> Result<(), String> {
        if filter.is_empty() {
            self.default = template;
            return Ok(());
        }
        let mut node = &mut self.root;
        for part in filter.split('.') {
            if part.is_empty() || (part.contains('*') && part != "*") {
                return Err(format!("the filter {filter:?} has a part that is neither a name nor *"));
            }
            node = match part {
                "*" => {
                    let inherited = node.template.clone();
                    node.any.get_or_insert_with(|| Box::new(Node { template: inherited, ..Node::default() }))
                }
                name => node.named.entry(name.to_owned()).or_default(),
            };
        }
        node.template = Some(template);
        Ok(())
    }

    pub(super) fn template_of(&self, path: &str) -> &Template {
        let mut node = &self.root;
        for part in path.split('.') {
            node = match (node.named.get(part), &node.any) {
                (Some(named), _) => named,
                (None, Some(any)) => any,
                (None, None) => break,
            };
        }
        node.template.as_ref().unwrap_or(&self.default)
    }
}
