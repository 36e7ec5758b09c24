//! Decides which requests may try to buy. It holds the latch, which refuses claims that can't succeed, the
//! limits, challenges and passes, and the waiting room with its draw. It has no I/O and no clock, and knows
//! only the domain.

mod accepted_keys;
mod blocks;
mod calls;
mod captcha;
mod challenge;
mod challenge_id;
mod demand;
mod draw;
mod event_rate;
mod head_gate;
mod keys;
mod latch;
mod latest;
mod limits;
mod line;
mod numbers;
mod pace;
mod pass;
mod pass_share;
mod presence;
mod room_state;
mod shedding;
mod steady_time;
mod sync;
mod ticket;
mod turns;
mod uptake;
mod used;
mod waiting_room;

pub use self::captcha::{Picture, Pictures};
pub use blocks::Blocks;
pub use challenge::{
    CaptchaChallenge, ChallengeOptions, ChallengeRefusal, Challenges, MAX_ANSWER_BYTES, Presented,
    ProofOfWork, solves,
};
pub use draw::{DRAW_ALGORITHM, Draw, commitment};
pub use head_gate::{HeadGate, HeadGateOptions, HeadGateRefusal};
pub use keys::KeyRing;
pub use latch::{Latch, QuickRefusal};
pub use limits::{AddressKey, KeyedLimit, LimitOptions, SingleLimit, TooMany};
pub use line::Line;
pub use pass::{PassRefusal, check_pass, issue_pass};
pub use pass_share::{LivePasses, late_after_millis, late_pass_millis};
pub use presence::{GENERATION_MILLIS, There, Told};
pub use room_state::RoomState;
pub use shedding::{InFlight, Shedding, SheddingOptions};
pub use ticket::{Ticket, issue_ticket, read_ticket, ticket_number};
pub use turns::{Part, TurnStep};
pub use uptake::{BUYER, LATE, LEAST_FRESH, Uptake};
pub use waiting_room::{
    DrawView, GoneReason, RoomFigures, RoomOptions, RoomView, Standing, TicketState, Totals, WaitingRoom,
};
