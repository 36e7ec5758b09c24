//! The words that the contract uses for states, kinds and roles, as schemas. The answers themselves have
//! plain strings.

use std::borrow::Cow;

use penstock_domain::{ChallengeKind, OrderState, SaleState};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident as $schema:literal: $description:literal = $words:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    let words = ObjectBuilder::new().schema_type(Type::String).enum_values(Some($words));
                    words.description(Some($description)).into()
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    $schema.into()
                }
            }
        )*
    };
}

words! {
    SaleStateWord as "SaleState": "The state of a sale."
        = SaleState::ALL.map(SaleState::as_str);
    OrderStateWord as "OrderState": "The state of an order."
        = OrderState::ALL.map(OrderState::as_str);
    GateChallengeWord as "GateChallenge": "What a buyer has to solve before a pass."
        = ChallengeKind::ALL.map(ChallengeKind::as_str);
    ChallengeKindWord as "ChallengeKind": "A proof of work, or a picture to read."
        = [ChallengeKind::Pow, ChallengeKind::Captcha].map(ChallengeKind::as_str);
    RoleWord as "Role": "What a caller may do."
        = ["buyer", "admin"];
    TicketStateWord as "TicketState": "Whether a ticket's turn is still to come, has come, or is gone."
        = ["waiting", "admitted", "gone"];
    GoneReasonWord as "GoneReason": "Why a ticket is gone: `sold_out` (it may come back), `turn_over` (take a new ticket) or `closed`."
        = ["sold_out", "turn_over", "closed"];
    DecisionWord as "DecisionKind": "What the ledger decided."
        = [
            "published", "restocked", "paused", "resumed", "closed", "held", "paid", "released", "refund_due", "joined", "left",
        ];
    ReadinessWord as "ReadinessStatus": "Whether a node can sell."
        = ["ready", "not ready"];
}
