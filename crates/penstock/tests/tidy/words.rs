//! Phrases that make a sentence hard to follow, in every text that people read.

use std::fs;

use crate::{files, require_none, root, shown};

/// Each phrase is a sequence of whole words, in any case.
const FORBIDDEN: &[&[&str]] = &[
    &["so", "many"],
    &["so", "long"],
    &["to", "who"],
    &["for", "who"],
    &["any", "more"],
    &["he"],
    &["his"],
    &["him"],
];

/// Extensions of files that people read, and names of files without one.
const READ_BY_PEOPLE: &[&str] = &[
    "Makefile", "conf", "css", "html", "js", "json", "lua", "md", "mjs", "py", "rs", "service", "sh", "sql",
    "svelte", "toml", "ts", "txt", "yaml", "yml",
];
/// Files that tools write.
const WRITTEN_BY_TOOLS: &[&str] = &["package-lock.json", "schema.d.ts"];
/// Databases hold the checksums of the migrations that have run, so not even a comment in them can change.
const FROZEN: &str = "records/migrations/";
/// This file has to name what it forbids.
const THIS_FILE: &str = "tests/tidy/words.rs";

/// What may stand between two words of a phrase, besides white space: the beginning of a line of a comment,
/// of a list or of a quotation.
const LINE_BEGINNINGS: &str = "/!*#->\\";

/// A word, its line, and whether it follows the word before directly.
struct Word<'a> {
    text: &'a str,
    line: usize,
    follows: bool,
}

fn is_in_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let (mut line, mut end) = (1, 0);
    let mut rest = text;
    while let Some(start) = rest.find(is_in_word) {
        let gap = &rest[..start];
        let length = rest[start..].find(|letter| !is_in_word(letter)).unwrap_or(rest.len() - start);
        line += gap.matches('\n').count();
        let follows = end > 0
            && gap.contains(char::is_whitespace)
            && gap.chars().all(|letter| letter.is_whitespace() || LINE_BEGINNINGS.contains(letter));
        words.push(Word { text: &rest[start..start + length], line, follows });
        end = start + length;
        rest = &rest[end..];
    }
    words
}

/// The line and the phrase of each forbidden phrase.
fn hard_to_follow(text: &str) -> Vec<(usize, String)> {
    let words = words(text);
    let begins = |words: &[Word<'_>], phrase: &[&str]| {
        words.len() >= phrase.len()
            && words.iter().zip(phrase).all(|(word, wanted)| word.text.eq_ignore_ascii_case(wanted))
            && words.iter().take(phrase.len()).skip(1).all(|word| word.follows)
    };
    let found = |start: usize| {
        let phrase = FORBIDDEN.iter().find(|phrase| begins(&words[start..], phrase))?;
        Some((words[start].line, phrase.join(" ")))
    };
    (0..words.len()).filter_map(found).collect()
}

#[test]
fn sentences_are_easy_to_follow() {
    let texts = files(&root(), READ_BY_PEOPLE);
    assert!(texts.len() > 100, "the texts were not found");
    let is_ours = |name: &str| {
        !name.ends_with(THIS_FILE)
            && !name.contains(FROZEN)
            && !WRITTEN_BY_TOOLS.iter().any(|written| name.ends_with(written))
    };
    let texts = texts.iter().map(|file| (shown(file), file)).filter(|(name, _)| is_ours(name));
    require_none(texts.flat_map(|(name, file)| {
        let found = hard_to_follow(&fs::read_to_string(file).unwrap());
        found.into_iter().map(move |(line, phrase)| format!("{name}:{line}: \"{phrase}\""))
    }));
}

#[test]
fn a_forbidden_phrase_is_found() {
    let lines = |text: &str| hard_to_follow(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(lines("So many people, so\n    /// long a queue, and he's in it"), [1, 1, 2]);
    assert_eq!(lines("not\nany more. Give it to who\n# asks, for his order; tell HIM"), [2, 2, 3, 3]);
    let fine =
        "The others; this, whose, white; she, her; so, many; to whom; any_more; 他 he_is the:he2 history";
    assert_eq!(lines(fine), [0; 0]);
}
