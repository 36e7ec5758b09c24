//! The modules inside a crate do not use each other in circles: of two siblings at any level, one stands above
//! the other.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::{ImplItem, Item, ItemUse, Macro, Path, UseTree, visit::Visit};

use crate::{
    require_none,
    source::{self, Module},
};

type ModulePath = Vec<String>;
/// Which siblings each module uses, and a place where it does so.
type Uses = BTreeMap<ModulePath, BTreeMap<ModulePath, String>>;

/// The paths that a module's code mentions and that can lead to another module.
#[derive(Default)]
struct Mentioned(Vec<Vec<String>>);

impl Mentioned {
    fn add_use(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| before.iter().cloned().chain([name]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.add_use(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.0.push(with(name.ident.to_string())),
            UseTree::Rename(name) => self.0.push(with(name.ident.to_string())),
            UseTree::Glob(_) => self.0.push(before.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(before, tree)),
        }
    }

    /// Adds a path of an expression or a type if it says where it begins.
    fn add_path(&mut self, path: Vec<String>) {
        if path.first().is_some_and(|first| ["crate", "self", "super"].contains(&first.as_str())) {
            self.0.push(path);
        }
    }

    /// The arguments of a macro are not parsed, so paths are recognised by their tokens.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.add_path(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(name) => path.push(name.to_string()),
                        TokenTree::Group(group) => self.add_tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.add_path(path);
    }
}

impl<'ast> Visit<'ast> for Mentioned {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_use(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        self.add_path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.add_tokens(item.tokens.clone());
        syn::visit::visit_macro(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let for_tests = matches!(item, ImplItem::Fn(function) if source::is_for_tests(&function.attrs));
        if !for_tests {
            syn::visit::visit_impl_item(self, item);
        }
    }
}

/// The module that a path in `from` leads to, or leads into.
fn target(from: &[String], path: &[String], known: &BTreeSet<&ModulePath>) -> ModulePath {
    let mut target = from.to_vec();
    let mut rest = path;
    match path.first().map(String::as_str) {
        Some("crate") => (target, rest) = (Vec::new(), &path[1..]),
        Some("self") => rest = &path[1..],
        _ => {}
    }
    while rest.first().is_some_and(|first| first == "super") {
        target.pop();
        rest = &rest[1..];
    }
    target.extend(rest.iter().cloned());
    while !known.contains(&target) && !target.is_empty() {
        target.pop();
    }
    target
}

fn uses(modules: &[Module]) -> Uses {
    let known: BTreeSet<&ModulePath> = modules.iter().map(|module| &module.path).collect();
    let mut uses = Uses::new();
    for module in modules {
        let mut mentioned = Mentioned::default();
        module.items.iter().for_each(|item: &Item| mentioned.visit_item(item));
        for path in mentioned.0 {
            let target = target(&module.path, &path, &known);
            let shared = module.path.iter().zip(&target).take_while(|(one, other)| one == other).count();
            // Otherwise one is inside the other.
            if shared < module.path.len() && shared < target.len() {
                let place = format!("{} has {}", module.path.join("::"), path.join("::"));
                let of_sibling = uses.entry(module.path[..=shared].to_vec()).or_default();
                of_sibling.entry(target[..=shared].to_vec()).or_insert(place);
            }
        }
    }
    uses
}

/// Every module that can be reached from `start`.
fn reached(start: &ModulePath, uses: &Uses) -> BTreeSet<ModulePath> {
    let mut found = BTreeSet::new();
    let mut left = vec![start];
    while let Some(module) = left.pop() {
        for used in uses.get(module).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(used.clone()) {
                left.push(used);
            }
        }
    }
    found
}

/// The uses that are part of a cycle, one line each.
fn cycles(modules: &[Module]) -> Vec<String> {
    let uses = uses(modules);
    let reached: BTreeMap<&ModulePath, _> =
        uses.keys().map(|module| (module, reached(module, &uses))).collect();
    let leads_back =
        |from: &ModulePath, to: &ModulePath| reached.get(to).is_some_and(|all| all.contains(from));
    let edges = uses.iter().flat_map(|(from, used)| used.iter().map(move |(to, place)| (from, to, place)));
    edges
        .filter(|(from, to, _)| leads_back(from, to))
        .map(|(from, to, place)| format!("{} uses {}: {place}", from.join("::"), to.join("::")))
        .collect()
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let of_crate = |folder: &std::path::PathBuf| -> Vec<String> {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let found = source::targets(folder).iter().flat_map(|modules| cycles(modules)).collect::<Vec<_>>();
        found.into_iter().map(|cycle| format!("{name}: {cycle}")).collect()
    };
    require_none(source::crates().iter().flat_map(of_crate));
}

#[test]
fn a_cycle_of_modules_is_found() {
    let found = |text: &str| cycles(&source::parsed(text)).len();
    assert_eq!(found("mod a { use super::b::B; } mod b { pub struct B; }"), 0);
    assert_eq!(found("mod a { use super::b::B; } mod b { use crate::a; }"), 2);
    assert_eq!(found("mod a { fn f() { crate::b::g() } } mod b { fn g(x: super::a::X) {} }"), 2);
    assert_eq!(
        found("mod a { fn f() { format!(\"{}\", crate::b::G) } } mod b { use crate::{a::{self}}; }"),
        2
    );
    assert_eq!(found("mod a { use crate::b; } mod b { use crate::c; } mod c { use crate::a as other; }"), 3);
    assert_eq!(found("mod a { mod b { use super::c; } mod c { use super::b::*; } }"), 2, "inside a module");
    assert_eq!(found("mod a { mod b { use crate::c::d; } } mod c { mod d { use crate::a::b; } }"), 2);
    assert_eq!(found("mod a { use super::b; } mod b { #[cfg(test)] mod tests { use crate::a; } }"), 0);
    assert_eq!(found("use a::A; mod a { use super::B; mod b { use super::A; } } struct B;"), 0, "parents");
}
