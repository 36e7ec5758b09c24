//! Reads JSON strictly: only an object passes for an object, no field may come twice, and errors name the
//! path of a field and say in words what is wrong. Serde alone takes `[1]` for `{"quantity":1}`, and talks
//! about the program's types.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeSeed, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
        Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

/// Any JSON. Keeps the fields of an object as they came, so that a duplicate is noticed.
#[derive(Debug)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Natural(u64),
    Negative(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Natural(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Negative(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Fraction(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Tree::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = object.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Object(fields))
    }
}

/// A value that does not match the expected type, and its path.
#[derive(Debug)]
pub(super) struct Misfit {
    /// From the inside out.
    path: Vec<String>,
    pub(super) message: String,
}

impl Misfit {
    fn new(message: impl Into<String>) -> Self {
        Self { path: Vec::new(), message: message.into() }
    }

    fn within(mut self, name: impl Into<String>) -> Self {
        self.path.push(name.into());
        self
    }

    /// For example `regular_price.amount`.
    pub(super) fn field(&self) -> String {
        if self.path.is_empty() {
            return "body".to_owned();
        }
        self.path.iter().rev().map(String::as_str).collect::<Vec<_>>().join(".")
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("has to be {}", in_words(&expected.to_string())))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("has to be {}", in_words(&expected.to_string())))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("has to be one of {}", expected.join(", ")))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("is unknown; the fields are {}", expected.join(", "))).within(field)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new("is missing").within(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new("appears twice").within(field)
    }
}

/// Translates serde's name of a type into words.
fn in_words(expected: &str) -> String {
    let nonzero = expected.strip_prefix("a nonzero ");
    let most = match nonzero.unwrap_or(expected) {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" => u64::MAX,
        "a string" => return "a text".to_owned(),
        "a boolean" => return "true or false".to_owned(),
        "a map" => return "an object".to_owned(),
        "a sequence" => return "a list".to_owned(),
        "f32" | "f64" => return "a number".to_owned(),
        other if other.starts_with("struct ") => return "an object".to_owned(),
        other => return other.to_owned(),
    };
    format!("a whole number from {} to {most}", u8::from(nonzero.is_some()))
}

impl Tree {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Natural(value) => Unexpected::Unsigned(*value),
            Self::Negative(value) => Unexpected::Signed(*value),
            Self::Fraction(value) => Unexpected::Float(*value),
            Self::Text(text) => Unexpected::Str(text),
            Self::List(_) => Unexpected::Seq,
            Self::Object(_) => Unexpected::Map,
        }
    }
}

impl<'de> Deserializer<'de> for &'de Tree {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Natural(value) => visitor.visit_u64(*value),
            Tree::Negative(value) => visitor.visit_i64(*value),
            Tree::Fraction(value) => visitor.visit_f64(*value),
            Tree::Text(text) => visitor.visit_borrowed_str(text),
            Tree::List(elements) => visitor.visit_seq(Elements { rest: elements, number: 0 }),
            Tree::Object(fields) => visitor.visit_map(Fields { rest: fields, value: None }),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self {
            Tree::Object(_) => self.deserialize_any(visitor),
            other => Err(Misfit::invalid_type(other.unexpected(), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self {
            Tree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self {
            Tree::Text(text) => visitor.visit_enum(StrDeserializer::new(text)),
            _ => Err(Misfit::new("has to be a text")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Elements<'de> {
    rest: &'de [Tree],
    number: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        let Some((element, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        self.number += 1;
        seed.deserialize(element).map(Some).map_err(|misfit| misfit.within((self.number - 1).to_string()))
    }
}

struct Fields<'de> {
    rest: &'de [(String, Tree)],
    /// The field whose name was returned last.
    value: Option<&'de (String, Tree)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        let Some((field, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        self.value = Some(field);
        seed.deserialize(field.0.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let (name, value) = self.value.take().ok_or_else(|| Misfit::new("has to be an object"))?;
        seed.deserialize(value).map_err(|misfit| misfit.within(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        inner: Inner,
        many: Option<Vec<Inner>>,
        flag: Option<bool>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        count: u32,
        #[serde(default)]
        name: String,
    }

    fn read(json: &str) -> Result<Outer, (String, String)> {
        let tree: Tree = serde_json::from_str(json).unwrap();
        Outer::deserialize(&tree).map_err(|misfit| (misfit.field(), misfit.message))
    }

    #[test]
    fn json_of_the_expected_shape_is_read() {
        let one = |name: &str| Inner { count: 1, name: name.to_owned() };
        let read = read(r#"{"many":[{"count":1}],"inner":{"name":"a[","count":1},"flag":null}"#).unwrap();
        assert_eq!(read, Outer { inner: one("a["), many: Some(vec![one("")]), flag: None });
    }

    #[test]
    fn errors_name_the_path_and_say_in_words_what_is_wrong() {
        for (json, field, message) in [
            ("[{\"count\":1}]", "body", "has to be an object"),
            ("null", "body", "has to be an object"),
            ("7", "body", "has to be an object"),
            (r#"{"inner":[1]}"#, "inner", "has to be an object"),
            (r#"{"inner":{"count":1},"many":[[1]]}"#, "many.0", "has to be an object"),
            (r#"{"inner":{"count":1},"many":{}}"#, "many", "has to be a list"),
            (r#"{"inner":{"count":-1}}"#, "inner.count", "has to be a whole number from 0 to 4294967295"),
            (r#"{"inner":{"count":1.5}}"#, "inner.count", "has to be a whole number from 0 to 4294967295"),
            (r#"{"inner":{"count":null}}"#, "inner.count", "has to be a whole number from 0 to 4294967295"),
            (r#"{"inner":{"count":1,"name":1}}"#, "inner.name", "has to be a text"),
            (r#"{"inner":{"count":1},"flag":"no"}"#, "flag", "has to be true or false"),
            (r#"{"inner":{}}"#, "inner.count", "is missing"),
            (r#"{"inner":{"count":1,"count":1}}"#, "inner.count", "appears twice"),
            (r#"{"inner":{"size":1}}"#, "inner.size", "is unknown; the fields are count, name"),
        ] {
            assert_eq!(read(json), Err((field.to_owned(), message.to_owned())), "{json}");
        }
    }
}
