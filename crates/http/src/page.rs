//! A page of a list, as answers have it and as the document describes it.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, Ref, RefOr, Schema,
        schema::{SchemaType, Type},
    },
};

use crate::wire::{ItemView, OrderView, SaleView};

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    /// Give it as `after` to get the next page; empty on the last.
    pub(crate) next: Option<String>,
}

pub(crate) type ItemPage = Page<ItemView>;
pub(crate) type SalePage = Page<SaleView>;
pub(crate) type OrderPage = Page<OrderView>;

/// By hand, so that what is on a page has its own name in the document, and generated clients a type for it.
impl<T: ToSchema> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let data = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let next = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some("Give it as `after` to get the next page; null on the last."));
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
