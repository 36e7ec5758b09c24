//! Which codes a call can answer. Whatever can refuse a request says which codes it has, beside its code; each
//! handler names what can refuse its requests, and the document follows from that.

use penstock_shop::Code;

/// Something that can refuse a request: an extractor, or an operation by its refusals.
pub(crate) trait Refuses {
    fn codes() -> Vec<Code>;
}

/// The extension in which handlers say it until the document is finished.
pub(crate) const REFUSALS: &str = "x-refusals";

/// The names of the codes of some types, and of codes that only this handler has.
macro_rules! refusals {
    ($($of:ty),* $(; $($code:ident),+)?) => {{
        #[allow(unused_mut, reason = "not every handler names both")]
        let mut codes: Vec<penstock_shop::Code> = Vec::new();
        $(codes.extend(<$of as $crate::contract::refusals::Refuses>::codes());)*
        $($(codes.push(penstock_shop::Code::$code);)+)?
        codes.iter().map(|code| code.as_str()).collect::<Vec<_>>()
    }};
}
pub(crate) use refusals;
