//! A page for each error code: an HTML page in the shop's look for people in a browser, the Markdown source
//! for everybody else.

use std::{collections::HashMap, sync::LazyLock};

use axum::{
    extract::Path,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONTENT_TYPE, HeaderValue, VARY},
};
use penstock_shop::Code;
use pulldown_cmark::{Event, Options, Parser, Tag, html};

use super::policy::{guard_page, guard_part, never_guess};
use crate::contract::{accept::AcceptedKinds, problem::Problem};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// It is Markdown, but browsers save that type instead of showing it.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
/// The colours and fonts of the shop, and the styles that only these pages need.
const STYLE: &str =
    concat!(include_str!("../../../../web/src/ui/theme.css"), include_str!("error_pages.css"));

const INDEX: &str = "README";
const INDEX_TITLE: &str = "Error codes";
const INDEX_TEXT: &str = include_str!("../../../../docs/errors/README.md");

/// All pages by name, built once.
static PAGES: LazyLock<HashMap<&'static str, Page>> = LazyLock::new(|| {
    let codes = Code::ALL.iter().map(|code| (code.as_str(), Page::new(code.title(), code.page())));
    codes.chain([(INDEX, Page::new(INDEX_TITLE, INDEX_TEXT))]).collect()
});

struct Page {
    text: &'static str,
    html: Bytes,
}

impl Page {
    fn new(title: &str, text: &'static str) -> Self {
        let mut content = String::with_capacity(2 * text.len());
        let parser = Parser::new_ext(text, Options::ENABLE_TABLES).map(|event| match event {
            // On a small screen only a wide table scrolls sideways, not the whole page.
            Event::Start(Tag::Table(columns)) => {
                vec![Event::Html("<div class=\"table\">".into()), Event::Start(Tag::Table(columns))]
            }
            Event::End(end @ pulldown_cmark::TagEnd::Table) => {
                vec![Event::End(end), Event::Html("</div>".into())]
            }
            event => vec![event],
        });
        html::push_html(&mut content, parser.flatten());
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n\
             <title>{title} · Penstock</title>\n<link rel=\"icon\" href=\"/favicon.svg\" type=\"image/svg+xml\" />\n\
             <link rel=\"stylesheet\" href=\"/errors/style.css\" />\n</head>\n<body>\n\
             <header><a href=\"/\">Penstock</a><nav><a href=\"/errors/\">Error codes</a><a href=\"/docs\">API</a></nav></header>\n\
             <main>\n{content}</main>\n</body>\n</html>\n"
        );
        Self { text, html: page.into() }
    }

    fn respond(&self, headers: &HeaderMap) -> Response {
        let accepted = AcceptedKinds::of(headers);
        let wants = |kind| accepted.named(kind, None);
        let is_for_a_person = wants("text/html") > wants("text/plain").max(wants("text/markdown"));
        let mut response = if is_for_a_person {
            let mut response = ([(CONTENT_TYPE, HTML)], self.html.clone()).into_response();
            guard_page(response.headers_mut());
            response
        } else {
            let mut response = ([(CONTENT_TYPE, TEXT)], self.text).into_response();
            never_guess(response.headers_mut());
            response
        };
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        response
    }
}

fn page(name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    PAGES.get(name).map(|page| page.respond(headers)).ok_or(Code::NotFound.into())
}

pub(crate) async fn index(headers: HeaderMap) -> Result<Response, Problem> {
    page(INDEX, &headers)
}

pub(crate) async fn of_code(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    page(name.strip_suffix(".md").unwrap_or(&name), &headers)
}

pub(crate) async fn style() -> Response {
    let mut response = ([(CONTENT_TYPE, CSS)], STYLE).into_response();
    guard_part(response.headers_mut());
    response
}
