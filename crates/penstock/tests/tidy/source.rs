//! The modules of a crate as the compiler sees them, without those that only tests use.

use std::{
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, Item, Meta, Token, punctuated::Punctuated};

use crate::root;

/// A module with the items in it that are not for tests only.
pub(crate) struct Module {
    /// From the root of the crate, such as `["book", "waiting"]`.
    pub(crate) path: Vec<String>,
    pub(crate) file: PathBuf,
    pub(crate) items: Vec<Item>,
}

/// The folder of each crate of the workspace.
pub(crate) fn crates() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut crates: Vec<PathBuf> = folders.filter(|folder| folder.join("Cargo.toml").is_file()).collect();
    crates.sort();
    assert!(crates.len() > 5, "the crates were not found");
    crates
}

/// The modules of each program and library in a crate's folder.
pub(crate) fn targets(folder: &Path) -> Vec<Vec<Module>> {
    let source = folder.join("src");
    let mut roots = vec![source.join("lib.rs"), source.join("main.rs")];
    if let Ok(programs) = fs::read_dir(source.join("bin")) {
        let programs = programs.map(|entry| entry.unwrap().path());
        roots.extend(programs.map(|path| if path.is_dir() { path.join("main.rs") } else { path }));
    }
    roots.iter().filter(|root| root.is_file()).map(|root| modules(root)).collect()
}

fn modules(root: &Path) -> Vec<Module> {
    let mut found = Vec::new();
    add_file(root, root.parent().unwrap(), Vec::new(), &mut found);
    found
}

/// `children` is the folder in which the files of child modules are.
fn add_file(file: &Path, children: &Path, path: Vec<String>, found: &mut Vec<Module>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    add(parsed.items, file, children, path, found);
}

fn add(items: Vec<Item>, file: &Path, children: &Path, path: Vec<String>, found: &mut Vec<Module>) {
    let (modules, items): (Vec<Item>, Vec<Item>) = items
        .into_iter()
        .filter(|item| !is_for_tests(attributes(item)))
        .partition(|item| matches!(item, Item::Mod(_)));
    found.push(Module { path: path.clone(), file: file.to_owned(), items });
    for module in modules {
        let Item::Mod(module) = module else { continue };
        let name = module.ident.to_string();
        let path = path.iter().cloned().chain([name.clone()]).collect();
        let inside = children.join(&name);
        match module.content {
            Some((_, items)) => add(items, file, &inside, path, found),
            None => {
                let beside = children.join(format!("{name}.rs"));
                let file = if beside.is_file() { beside } else { inside.join("mod.rs") };
                add_file(&file, &inside, path, found);
            }
        }
    }
}

/// The modules of a crate that has only one file.
pub(crate) fn parsed(text: &str) -> Vec<Module> {
    let (file, mut found) = (Path::new("sample.rs"), Vec::new());
    add(syn::parse_file(text).unwrap().items, file, Path::new(""), Vec::new(), &mut found);
    found
}

pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args().is_ok_and(|meta| means_test(&meta))
        }
        _ => false,
    })
}

/// Whether a condition of `cfg` holds in tests only.
fn means_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
    match () {
        () if list.path.is_ident("all") => parts.iter().any(means_test),
        () if list.path.is_ident("any") => parts.iter().all(means_test),
        () => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[test]
fn what_only_tests_use_does_not_count() {
    let text =
        "struct Kept; #[cfg(test)] struct A; #[test] fn b() {} #[cfg(all(test, loom))] mod c { struct D; }
        #[cfg(not(test))] mod real { fn e() {} } #[cfg(any(test, loom))] fn f() {}";
    let modules = parsed(text);
    let found: Vec<(String, usize)> =
        modules.iter().map(|module| (module.path.join("::"), module.items.len())).collect();
    assert_eq!(found, [(String::new(), 2), ("real".to_owned(), 1)]);
}
