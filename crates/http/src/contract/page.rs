//! A page of a list, in answers and in the OpenAPI document.

use std::{borrow::Cow, convert::Infallible};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use hyper::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, Ref, RefOr, Schema,
        schema::{SchemaType, Type},
    },
};

use crate::contract::{
    answer::APPLICATION_JSON,
    wire::{ItemView, OrderView, SaleView},
};

/// How much of a large page is built at once.
const PIECE_BYTES: usize = 16 << 10;

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    /// Send it as `after` to get the next page; empty on the last.
    pub(crate) next: Option<String>,
}

pub(crate) type ItemPage = Page<ItemView>;
pub(crate) type SalePage = Page<SaleView>;
pub(crate) type OrderPage = Page<OrderView>;

/// A page of entries that are already JSON and were made for this answer.
pub(crate) fn whole(entries: Vec<Vec<u8>>, next: Option<String>) -> Response {
    let entries = entries.into_iter().map(|entry| move |body: &mut Vec<u8>| body.extend_from_slice(&entry));
    let body = Pieces::new(entries, next, usize::MAX).next().unwrap_or_default();
    ([(CONTENT_TYPE, APPLICATION_JSON)], body).into_response()
}

/// A page of shared entries, each given as a function that writes it. The page is built while the client
/// reads it, so that a page of two megabytes takes no more memory than a small one, however many clients do
/// not read theirs.
pub(crate) fn streamed<W>(entries: impl Iterator<Item = W> + Send + 'static, next: Option<String>) -> Response
where
    W: FnOnce(&mut Vec<u8>) + Send + 'static,
{
    let mut pieces = Pieces::new(entries, next, PIECE_BYTES);
    let first = pieces.next().unwrap_or_default();
    let body = match pieces.next() {
        None => Body::from(first),
        Some(second) => {
            let pieces = [first, second].into_iter().chain(pieces);
            Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)))
        }
    };
    ([(CONTENT_TYPE, APPLICATION_JSON)], body).into_response()
}

/// The JSON of a page, in pieces of about this many bytes.
struct Pieces<I> {
    entries: I,
    next: Option<String>,
    piece_bytes: usize,
    /// The text before the next entry; None after the last.
    before_next: Option<&'static [u8]>,
}

impl<I> Pieces<I> {
    fn new(entries: I, next: Option<String>, piece_bytes: usize) -> Self {
        Self { entries, next, piece_bytes, before_next: Some(b"{\"data\":[") }
    }
}

impl<W: FnOnce(&mut Vec<u8>), I: Iterator<Item = W>> Iterator for Pieces<I> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::new();
        for write in &mut self.entries {
            let before = piece.len();
            piece.extend_from_slice(self.before_next?);
            let begun = piece.len();
            write(&mut piece);
            if piece.len() == begun {
                // It is no longer on show.
                piece.truncate(before);
                continue;
            }
            self.before_next = Some(b",");
            if piece.len() >= self.piece_bytes {
                return Some(piece);
            }
        }
        let before_end = self.before_next.take()?;
        piece.extend_from_slice(if before_end == b"," { b"" } else { before_end });
        let next = self.next.take().map_or("null".to_owned(), |next| format!("\"{next}\""));
        piece.extend_from_slice(format!("],\"next\":{next}}}").as_bytes());
        Some(piece)
    }
}

/// Written by hand, so that the entries keep their named schema in the document, and generated clients have a
/// type for them.
impl<T: ToSchema> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let data = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let next = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some("Send it as `after` to get the next page; null on the last."));
        let page = ObjectBuilder::new().property("data", data).required("data");
        page.property("next", next).required("next").description(Some("A page of a list.")).into()
    }
}

impl<T: ToSchema> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Page", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(entries: &[&'static str], next: Option<&str>, piece_bytes: usize) -> Vec<String> {
        let entries =
            entries.iter().map(|entry| |body: &mut Vec<u8>| body.extend_from_slice(entry.as_bytes()));
        let pieces = Pieces::new(entries, next.map(str::to_owned), piece_bytes);
        pieces.map(|piece| String::from_utf8(piece).unwrap_or_default()).collect()
    }

    #[test]
    fn a_page_is_the_same_json_in_one_piece_and_in_many() {
        assert_eq!(pieces(&[], None, 1), [r#"{"data":[],"next":null}"#]);
        assert_eq!(pieces(&["", ""], None, 1), [r#"{"data":[],"next":null}"#]);
        assert_eq!(pieces(&["1", "", "2"], Some("x"), 100), [r#"{"data":[1,2],"next":"x"}"#]);
        assert_eq!(pieces(&["", "1", "", "2"], Some("x"), 1), [r#"{"data":[1"#, ",2", r#"],"next":"x"}"#]);
    }
}
