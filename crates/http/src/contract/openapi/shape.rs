//! Adds what client generators need and the derived schemas can't express.

use utoipa::openapi::{
    Components, Discriminator, OpenApi, Ref, RefOr, Schema,
    path::Operation,
    request_body::RequestBody,
    schema::{AllOf, Object, OneOf, OneOfBuilder, SchemaType, Type},
};

/// The audit's differences: the fields that all have in common, and those of each kind.
const DIFFERENCE: &str = "Difference";
const FINDING: &str = "Finding";
const KIND: &str = "kind";

pub(super) fn finish(document: &mut OpenApi) {
    if let Some(components) = &mut document.components {
        name_kinds(components);
    }
}

/// A public call says so explicitly; otherwise its security would look forgotten. An optional body may be
/// left out, but not be `null`.
pub(super) fn finish_call(operation: &mut Operation) {
    operation.security.get_or_insert_default();
    for parameter in operation.parameters.iter_mut().flatten() {
        // An optional header or query argument is left out; it can't be `null`.
        if let RefOr::T(parameter) = parameter
            && let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema
            && let SchemaType::Array(types) = &mut object.schema_type
        {
            types.retain(|kind| *kind != Type::Null);
            if let [only] = types.as_slice() {
                object.schema_type = SchemaType::Type(only.clone());
            }
        }
    }
    if let Some(RefOr::T(body)) = operation.request_body.as_mut().filter(|body| is_optional(body)) {
        for content in body.content.values_mut() {
            if let RefOr::T(content) = content
                && let Some(schema) = content.schema.as_mut().and_then(without_null)
            {
                content.schema = Some(schema);
            }
        }
    }
}

fn is_optional(body: &RefOr<RequestBody>) -> bool {
    matches!(body, RefOr::T(body) if body.required != Some(utoipa::openapi::Required::True))
}

/// The schema beside `null`, if this is a choice between the two.
fn without_null(schema: &mut RefOr<Schema>) -> Option<RefOr<Schema>> {
    let RefOr::T(Schema::OneOf(OneOf { items, .. })) = schema else { return None };
    items.iter().find(|item| !is_null(item)).cloned()
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
}

/// Gives each kind of difference a named schema with all its fields, and says which field tells them apart.
/// Derived, they would be forty anonymous objects inside another.
fn name_kinds(components: &mut Components) {
    let Some(RefOr::T(Schema::OneOf(OneOf { items: kinds, .. }))) = components.schemas.remove(FINDING) else {
        return;
    };
    let Some(RefOr::T(Schema::AllOf(AllOf { items: parts, description, .. }))) =
        components.schemas.remove(DIFFERENCE)
    else {
        return;
    };
    let common = parts.iter().find_map(object);
    let mut difference = OneOfBuilder::new().description(description);
    let mut discriminator = Discriminator::new(KIND);
    for kind in kinds.iter().filter_map(object) {
        let Some(word) = word_of(kind) else { continue };
        let name = format!("{DIFFERENCE}{}", capitalised(&word));
        let mut whole = kind.clone();
        if let Some(common) = common {
            whole.properties.extend(common.properties.clone());
            whole.required.extend(common.required.clone());
        }
        whole.title = Some(name.clone());
        let reference = Ref::from_schema_name(&name);
        discriminator.mapping.insert(word, reference.ref_location.clone());
        difference = difference.item(reference);
        components.schemas.insert(name, RefOr::T(Schema::Object(whole)));
    }
    let difference = difference.discriminator(Some(discriminator)).build();
    components.schemas.insert(DIFFERENCE.to_owned(), RefOr::T(Schema::OneOf(difference)));
}

fn object(schema: &RefOr<Schema>) -> Option<&Object> {
    match schema {
        RefOr::T(Schema::Object(object)) => Some(object),
        _ => None,
    }
}

/// The only value of the field for its kind.
fn word_of(kind: &Object) -> Option<String> {
    let words = object(kind.properties.get(KIND)?)?.enum_values.as_ref()?;
    words.first()?.as_str().map(str::to_owned)
}

/// Turns `order_state` into `OrderState`.
fn capitalised(word: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    word.split('_').filter_map(capital).collect()
}
