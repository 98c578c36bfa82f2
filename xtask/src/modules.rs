//! The modules of a crate, and where the paths in their code lead.
//!
//! Only names are resolved, no types: a path is followed through `crate`, `self`, `super`, modules, `use` and globs until
//! it leaves the modules that the code stands in. Code under `#[cfg(test)]` and files named `tests.rs` do not count.
//! A method call names no module, so it is no reference.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Ident, ImplItem, Item, ItemMod, ItemUse, Lit, Meta, UseTree};

/// Longer chains of `use` that name each other are taken for a loop.
const HOPS_MAX: usize = 16;

/// A module by the names on the way from the crate's root to it.
pub(crate) type ModulePath = Vec<String>;

/// The modules of one crate and all paths that their code names.
#[derive(Default)]
pub(crate) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
    references: Vec<Reference>,
    /// Files that could not be read or parsed.
    pub(crate) complaints: Vec<String>,
}

#[derive(Default)]
struct Module {
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    /// What `use` brings in: the name here, and the paths behind it.
    imports: BTreeMap<String, Vec<ModulePath>>,
    globs: Vec<ModulePath>,
}

/// A path that stands in the code of a module.
struct Reference {
    module: ModulePath,
    path: ModulePath,
    place: Place,
}

/// A line of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
}

/// One module refers to a sibling.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) parent: ModulePath,
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Crate {
    /// The crate whose root is `file`, which is `lib.rs` or `main.rs`.
    pub(crate) fn read(file: &Path) -> Crate {
        let mut read = Crate::default();
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let mut reader =
            Reader { read: &mut read, module: Vec::new(), file: PathBuf::new(), folder, depth: 0 };
        reader.read_file(file.to_owned());
        read
    }

    /// Every edge between siblings, with the places of its references.
    pub(crate) fn edges(&self) -> BTreeMap<Edge, BTreeSet<Place>> {
        let mut edges: BTreeMap<Edge, BTreeSet<Place>> = BTreeMap::new();
        for Reference { module, path, place } in &self.references {
            if let Some(edge) = self.follow(module, module, path, 0) {
                edges.entry(edge).or_default().insert(place.clone());
            }
        }
        edges
    }

    /// Where `path`, written in `scope`, leaves the way from the root to `origin`. `scope` is on that way.
    fn follow(&self, origin: &[String], scope: &[String], path: &[String], hops: usize) -> Option<Edge> {
        let (mut scope, mut path) = start(scope, path);
        loop {
            let (name, rest) = path.split_first()?;
            let module = self.modules.get(scope)?;
            if module.children.contains(name) {
                if origin.get(scope.len()) != Some(name) {
                    let from = origin.get(scope.len())?.clone();
                    return Some(Edge { parent: scope.to_vec(), from, to: name.clone() });
                }
                (scope, path) = (&origin[..=scope.len()], rest);
                continue;
            }
            let behind = self.behind(scope, name, hops)?;
            return behind.into_iter().find_map(|target| {
                self.follow(origin, scope, &[target.as_slice(), rest].concat(), hops + 1)
            });
        }
    }

    /// The paths that `name` stands for in `scope`, if it came there by `use`.
    fn behind(&self, scope: &[String], name: &str, hops: usize) -> Option<Vec<ModulePath>> {
        let module = self.modules.get(scope)?;
        if module.items.contains(name) || hops > HOPS_MAX {
            return None;
        }
        if let Some(paths) = module.imports.get(name) {
            return Some(paths.clone());
        }
        let has_name = |glob: &&ModulePath| {
            self.absolute(scope, glob, hops + 1).is_some_and(|found| self.has(&found, name, hops + 1))
        };
        let globs = module.globs.iter().filter(has_name);
        Some(globs.map(|glob| [glob.as_slice(), &[name.to_owned()]].concat()).collect())
    }

    /// The module that `path`, written in `scope`, names.
    fn absolute(&self, scope: &[String], path: &[String], hops: usize) -> Option<ModulePath> {
        let (scope, path) = start(scope, path);
        let mut found = scope.to_vec();
        for (index, name) in path.iter().enumerate() {
            if self.modules.get(&found)?.children.contains(name) {
                found.push(name.clone());
                continue;
            }
            let rest = &path[index + 1..];
            return self
                .behind(&found, name, hops)?
                .into_iter()
                .find_map(|target| self.absolute(&found, &[target.as_slice(), rest].concat(), hops + 1));
        }
        Some(found)
    }

    fn has(&self, module: &[String], name: &str, hops: usize) -> bool {
        let Some(found) = self.modules.get(module) else { return false };
        found.children.contains(name)
            || found.items.contains(name)
            || self.behind(module, name, hops).is_some_and(|paths| !paths.is_empty())
    }
}

/// Takes `crate`, `self` and `super` off the beginning of `path`: the module to go on from, and the rest.
fn start<'a>(scope: &'a [String], path: &'a [String]) -> (&'a [String], &'a [String]) {
    let (mut scope, mut path) = (scope, path);
    while let Some((first, rest)) = path.split_first() {
        scope = match first.as_str() {
            "crate" => &[],
            "self" => scope,
            "super" => &scope[..scope.len().saturating_sub(1)],
            _ => break,
        };
        path = rest;
    }
    (scope, path)
}

/// Walks the files of a crate from its root.
struct Reader<'a> {
    read: &'a mut Crate,
    module: ModulePath,
    file: PathBuf,
    /// Where files of children of the current module lie.
    folder: PathBuf,
    /// How many items that are no modules are around: what `use` brings into a function stays there.
    depth: usize,
}

impl Reader<'_> {
    fn read_file(&mut self, file: PathBuf) {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        match text.and_then(|text| syn::parse_file(&text).map_err(|error| error.to_string())) {
            Ok(parsed) => {
                let outer = std::mem::replace(&mut self.file, file);
                self.read.modules.entry(self.module.clone()).or_default();
                parsed.items.iter().for_each(|item| self.visit_item(item));
                self.file = outer;
            }
            Err(error) => self.read.complaints.push(format!("{}: {error}", file.display())),
        }
    }

    fn current(&mut self) -> &mut Module {
        self.read.modules.entry(self.module.clone()).or_default()
    }

    fn refer(&mut self, path: ModulePath, span: Span) {
        let place = Place { file: self.file.clone(), line: span.start().line };
        self.read.references.push(Reference { module: self.module.clone(), path, place });
    }

    fn import(&mut self, mut path: ModulePath, name: Option<String>, span: Span) {
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if self.depth == 0 {
            match name {
                Some(name) if name == "self" => {
                    let name = path.last().cloned().unwrap_or_default();
                    self.current().imports.entry(name).or_default().push(path.clone());
                }
                Some(name) => self.current().imports.entry(name).or_default().push(path.clone()),
                None => self.current().globs.push(path.clone()),
            }
        }
        self.refer(path, span);
    }

    fn imports(&mut self, prefix: &[String], tree: &UseTree) {
        let join = |ident: &Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.imports(&join(&path.ident), &path.tree),
            UseTree::Name(name) => {
                self.import(join(&name.ident), Some(name.ident.to_string()), name.ident.span());
            }
            UseTree::Rename(rename) => {
                self.import(join(&rename.ident), Some(rename.rename.to_string()), rename.ident.span());
            }
            UseTree::Glob(glob) => self.import(prefix.to_vec(), None, glob.star_token.spans[0]),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.imports(prefix, tree)),
        }
    }

    /// Paths of two names and more within the tokens of a macro, `a::{b, c}` too.
    fn scan(&mut self, prefix: &[String], tokens: TokenStream) {
        let (mut path, mut colons, mut at) = (Vec::new(), 0, Span::call_site());
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.finish(&mut path, at);
                        path = prefix.to_vec();
                        at = ident.span();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    let grouped = colons == 2 && group.delimiter() == Delimiter::Brace;
                    let prefix = if grouped { std::mem::take(&mut path) } else { Vec::new() };
                    self.finish(&mut path, at);
                    colons = 0;
                    self.scan(&prefix, group.stream());
                }
                _ => {
                    self.finish(&mut path, at);
                    colons = 0;
                }
            }
        }
        self.finish(&mut path, at);
    }

    fn finish(&mut self, path: &mut ModulePath, span: Span) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.refer(path, span);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = head(item);
        if attributes.iter().any(is_test) {
            return;
        }
        if let (Some(name), 0) = (name, self.depth) {
            let name = name.to_string();
            self.current().items.insert(name);
        }
        match item {
            Item::Mod(module) => self.visit_item_mod(module),
            Item::Use(import) => self.visit_item_use(import),
            item => {
                self.depth += 1;
                visit::visit_item(self, item);
                self.depth -= 1;
            }
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_none() && name == "tests" {
            return;
        }
        self.current().children.insert(name.clone());
        let folder = self.folder.join(&name);
        let outer = std::mem::replace(&mut self.folder, folder);
        self.module.push(name);
        if let Some((_, items)) = &module.content {
            self.current();
            items.iter().for_each(|item| self.visit_item(item));
        } else {
            let files = [self.folder.with_extension("rs"), self.folder.join("mod.rs")];
            let mut file = files.iter().find(|file| file.exists()).unwrap_or(&files[0]).clone();
            if let Some(named) = module.attrs.iter().find_map(path_attribute) {
                file = self.file.with_file_name(named);
                self.folder = file.with_file_name("");
            }
            self.read_file(file);
        }
        self.module.pop();
        self.folder = outer;
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if import.leading_colon.is_none() {
            self.imports(&[], &import.tree);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !attributes.iter().any(is_test) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (&path.leading_colon, path.segments.first()) {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.refer(names, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.scan(&[], tokens.clone());
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

/// Whether the attribute keeps what it stands before out of a build without tests.
fn is_test(attribute: &Attribute) -> bool {
    let condition = attribute.path().is_ident("cfg").then(|| attribute.parse_args::<Meta>());
    match condition {
        Some(Ok(Meta::Path(path))) => path.is_ident("test"),
        Some(Ok(Meta::List(list))) if list.path.is_ident("all") => {
            list.tokens.into_iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "test"))
        }
        _ => false,
    }
}

/// The file that `#[path = "…"]` names.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(file), .. }) => Some(file.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The attributes of an item, and the name it has in its module if it is no module and no import.
fn head(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::ForeignMod(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        Item::Mod(item) => (&item.attrs, None),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}
