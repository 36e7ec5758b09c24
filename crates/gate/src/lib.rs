//! Who may try: the latch that refuses what can't succeed, and limits. No I/O, no clock; sees only the domain.

mod accepted_keys;
mod draw;
mod keys;
mod latch;
mod limits;
mod numbers;
mod pace;
mod room_state;
mod shedding;
mod ticket;
mod turns;
mod waiting_room;

pub use draw::{DRAW_ALGORITHM, Draw, commitment};
pub use keys::KeyRing;
pub use latch::{Latch, QuickRefusal};
pub use limits::{AddressKey, KeyedLimit, LimitOptions, SingleLimit, TooMany};
pub use room_state::{RoomState, Uncertain};
pub use shedding::{InFlight, Shedding, SheddingOptions};
pub use ticket::{Ticket, issue_ticket, read_ticket, ticket_number};
pub use waiting_room::{DrawView, GoneReason, RoomFigures, RoomOptions, Standing, TicketState, WaitingRoom};
