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
        let of_types: &[Vec<penstock_shop::Code>] =
            &[$(<$of as $crate::contract::refusals::Refuses>::codes(),)*];
        let of_handler: &[penstock_shop::Code] = &[$($(penstock_shop::Code::$code,)+)?];
        let codes = of_types.iter().flatten().chain(of_handler);
        codes.map(|code| code.as_str()).collect::<Vec<_>>()
    }};
}
pub(crate) use refusals;
