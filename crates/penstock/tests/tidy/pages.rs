//! The READMEs agree with each other and with the pictures, and links to a section find it.

use std::{collections::BTreeSet, fs, io, path::Path};

use crate::{require_none, root};

/// The code in a README: commands and their output, without comments.
fn shown_code(name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(name)).unwrap();
    // Every second part is between two fences; its first line names a language, or is empty.
    let blocks = text.split("```").skip(1).step_by(2);
    let code = |line: &str| line.split("  #").next().unwrap_or_default().trim_end().to_owned();
    blocks.flat_map(|block| block.lines().map(code).collect::<Vec<_>>()).collect()
}

#[test]
fn both_readmes_show_the_same_commands_and_pictures() {
    assert_eq!(shown_code("README.md"), shown_code("README.zh.md"));
    let headings = |name: &str| {
        let text = fs::read_to_string(root().join(name)).unwrap();
        text.lines().filter(|line| line.starts_with("## ")).count()
    };
    assert_eq!(headings("README.md"), headings("README.zh.md"));
    let pictures = |name: &str| {
        let text = fs::read_to_string(root().join(name)).unwrap();
        let named = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        named.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(pictures("README.md"), pictures("README.zh.md"));
    let mut shown = pictures("README.md");
    shown.sort();
    let images = fs::read_dir(root().join("docs/images")).unwrap();
    let name = |image: io::Result<fs::DirEntry>| image.unwrap().file_name().into_string().unwrap();
    let mut taken: Vec<_> = images.map(|image| format!("docs/images/{}", name(image))).collect();
    taken.sort();
    assert_eq!(shown, taken, "the READMEs show the pictures of docs/images, which `make screenshots` takes");
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let anchor = |heading: &str| -> String { heading.to_lowercase().chars().filter(kept).collect() };
    headings.map(|line| anchor(line.trim_start_matches('#').trim()).replace(' ', "-")).collect()
}

#[test]
fn links_to_a_section_find_it() {
    let mut pages = vec![root().join("README.md"), root().join("README.zh.md")];
    for folder in ["docs", "docs/adr"] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|file| file.unwrap().path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "md")));
    }
    let (mut found, mut broken) = (0, Vec::new());
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for (file, section) in links.filter_map(|link| link.split_once('#')) {
            if file.contains("://") {
                continue;
            }
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            found += 1;
            if !anchors(&target).contains(section) {
                broken.push(format!("{}: {file}#{section}", page.display()));
            }
        }
    }
    assert!(found > 3, "the links were not found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The files that ARCHITECTURE names: those of links from the root, those in code from a crate or the root.
fn named_files(text: &str) -> BTreeSet<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.filter(|link| !link.contains("://")).map(str::to_owned);
    // Every second part is between two backticks.
    let code = text.split('`').skip(1).step_by(2).map(str::trim);
    let is_file = |name: &&str| {
        let extensions = [".rs", ".ts", ".lua", ".svelte", ".conf"];
        name.contains('/')
            && !name.contains(['*', '…', ' '])
            && extensions.iter().any(|end| name.ends_with(end))
    };
    links.chain(code.filter(is_file).map(str::to_owned)).collect()
}

#[test]
fn the_files_that_the_architecture_names_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let names = named_files(&text);
    assert!(names.len() > 60, "the names were not found");
    let exists = |name: &&String| root().join(name).exists() || root().join("crates").join(name).exists();
    require_none(names.iter().filter(|name| !exists(name)));
    let sample = named_files("[a](crates/none/a.rs), `none/b.rs` and `Book::apply`");
    assert_eq!(sample.len(), 2);
    assert_eq!(sample.iter().filter(exists).count(), 0, "missing files are found");
}
