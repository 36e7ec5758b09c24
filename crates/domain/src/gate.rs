//! What a sale asks of a buyer before an order. This is what the merchant configured; the gate applies it.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChallengeKind {
    #[default]
    None,
    /// A proof of work.
    Pow,
    /// A picture to read, or a proof of work for people who can't see it.
    Captcha,
}

impl ChallengeKind {
    pub const ALL: [Self; 3] = [Self::None, Self::Pow, Self::Captcha];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pow => "pow",
            Self::Captcha => "captcha",
        }
    }
}

/// What a buyer has to pass before ordering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateTerms {
    pub challenge: ChallengeKind,
    pub waiting_room: bool,
    /// Always true where there is a challenge or a waiting room, because both lead to a pass.
    pub pass_required: bool,
}
