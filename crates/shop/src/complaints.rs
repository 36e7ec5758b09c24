//! What is wrong with a request's values, by field.

use std::borrow::Cow;

use serde::Serialize;

/// A value of a request that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    pub field: Cow<'static, str>,
    pub message: Cow<'static, str>,
}

/// A request with values that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub Vec<FieldError>);

/// Collects everything that is wrong with a body, so that it is reported at once.
#[derive(Debug, Default)]
pub struct Complaints(Vec<FieldError>);

impl Complaints {
    pub fn require(&mut self, fine: bool, field: &'static str, message: impl Into<Cow<'static, str>>) {
        if !fine {
            self.0.push(FieldError { field: field.into(), message: message.into() });
        }
    }

    /// Passes a valid value on and notes an invalid one.
    pub fn take<T, E: ToString>(&mut self, field: &'static str, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.require(false, field, error.to_string())).ok()
    }

    /// For people who read a sentence instead of JSON.
    pub fn as_sentence(&self) -> Result<(), String> {
        let complaints = self.0.iter().map(|error| format!("the {} {}", error.field, error.message));
        let sentence = complaints.collect::<Vec<_>>().join("; ");
        if sentence.is_empty() { Ok(()) } else { Err(sentence) }
    }

    pub fn check(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid(self.0)) }
    }
}
