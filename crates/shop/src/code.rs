//! Why something is refused: the stable names that clients, counters and the live view share. Each has a page
//! that explains it. Which refusal gets which code, and what HTTP makes of it, is the transport's business.

macro_rules! codes {
    ($($variant:ident = $name:literal, $title:literal;)*) => {
        /// Why a request was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($variant,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// The page that explains it, in Markdown.
            pub const fn page(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../../docs/errors/", $name, ".md")),)*
                }
            }
        }
    };
}

codes! {
    MalformedJson = "malformed_json", "The body is not JSON";
    BadRequest = "bad_request", "The request can't be understood";
    IdempotencyKeyRequired = "idempotency_key_required", "The Idempotency-Key header is missing";
    IdempotencyKeyInvalid = "idempotency_key_invalid", "The Idempotency-Key header is malformed";
    Unauthorized = "unauthorized", "You are not signed in";
    BadCredentials = "bad_credentials", "Phone number and password don't match";
    Forbidden = "forbidden", "You may not do this";
    CrossSite = "cross_site", "The request comes from another site";
    ChallengeFailed = "challenge_failed", "The challenge is not solved";
    NotAdmitted = "not_admitted", "It is not your turn";
    PassRequired = "pass_required", "This sale needs a pass";
    PassInvalid = "pass_invalid", "The pass is not valid for this order";
    NotFound = "not_found", "There is nothing here";
    ItemNotFound = "item_not_found", "There is no such item";
    SaleNotFound = "sale_not_found", "There is no such sale";
    OrderNotFound = "order_not_found", "There is no such order";
    TicketNotFound = "ticket_not_found", "There is no such ticket";
    NotWaiting = "not_waiting", "You are not on the waitlist";
    DeadLetterNotFound = "dead_letter_not_found", "There is no such dead letter";
    MethodNotAllowed = "method_not_allowed", "This address has no such method";
    RequestTimeout = "request_timeout", "The request did not arrive in time";
    SoldOut = "sold_out", "The sale is sold out";
    LimitReached = "limit_reached", "The limit per buyer is reached";
    NotOpen = "not_open", "The sale has not opened yet";
    Paused = "paused", "The sale is paused";
    Closed = "closed", "The sale is closed";
    NotSoldOut = "not_sold_out", "The sale is not sold out";
    WaitlistFull = "waitlist_full", "The waitlist is full";
    PassesExhausted = "passes_exhausted", "No more passes for now";
    NotGated = "not_gated", "The sale does not ask for this";
    HoldExpired = "hold_expired", "The hold is over";
    RefundDue = "refund_due", "The payment has to be refunded";
    AlreadyPaid = "already_paid", "The order is paid";
    PhoneTaken = "phone_taken", "The phone number has an account already";
    NotPublished = "not_published", "The sale is still a draft";
    AlreadyPublished = "already_published", "The sale is no longer a draft";
    DeadLetterStuck = "dead_letter_stuck", "The dead letter still can't be settled";
    BodyTooLarge = "body_too_large", "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", "The body is of the wrong type";
    InvalidRequest = "invalid_request", "The request has values that can't be used";
    IdempotencyKeyReused = "idempotency_key_reused", "The Idempotency-Key belongs to another order";
    OtpInvalid = "otp_invalid", "The one-time code is not valid";
    RateLimited = "rate_limited", "Too many requests";
    Internal = "internal", "Something went wrong here";
    Busy = "busy", "Too many requests are waiting";
    Unavailable = "unavailable", "This can't be answered at the moment";
}
