//! One word, one type: a public type name stands once in the whole workspace.

use std::collections::BTreeMap;

use syn::{Item, Visibility};

use crate::{
    require_none, shown,
    source::{self, Module},
};

/// Names that more than one type has, and why.
const SHARED: &[(&str, &str)] = &[];

/// The names of the types that other modules can see.
fn public_types(module: &Module) -> Vec<String> {
    let named = |item: &Item| {
        let (visibility, name) = match item {
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Union(item) => (&item.vis, &item.ident),
            _ => return None,
        };
        (!matches!(visibility, Visibility::Inherited)).then(|| name.to_string())
    };
    module.items.iter().filter_map(named).collect()
}

/// Each name that stands in more than one of the places.
fn repeated(places: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, place) in places {
        by_name.entry(name).or_default().push(place);
    }
    by_name.retain(|name, places| places.len() > 1 && !SHARED.iter().any(|(shared, _)| shared == name));
    by_name.iter().map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[test]
fn a_public_type_name_stands_once() {
    let modules: Vec<Module> =
        source::crates().iter().flat_map(|folder| source::targets(folder)).flatten().collect();
    let places = modules
        .iter()
        .flat_map(|module| public_types(module).into_iter().map(|name| (name, shown(&module.file))));
    require_none(repeated(places));
}

#[test]
fn a_repeated_type_name_is_found() {
    let text = "pub struct A; pub(crate) enum B {} mod c { pub(super) trait A {} pub type D = u8; struct B; }
        #[cfg(test)] mod tests { pub struct D; }";
    let modules = source::parsed(text);
    let places =
        modules.iter().flat_map(|module| public_types(module).into_iter().map(|name| (name, String::new())));
    assert_eq!(repeated(places), ["A: , "]);
}
