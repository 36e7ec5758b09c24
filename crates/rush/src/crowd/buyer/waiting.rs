//! What a buyer in the waiting room does with its place.

use super::{
    super::{
        Moment,
        answers::{self, BuyerReply, TicketPlace},
    },
    Buyer, BuyerCall, BuyerState, Next, PLACE_SECONDS, Scene,
};

/// The time between two looks long before the opening. A ticket that is silent for 15 seconds is taken for
/// abandoned.
const EARLY_PLACE_SECONDS: [f64; 2] = [8.0, 12.0];
/// How long a buyer waits to be let in, counted from coming or from the opening, whichever is later.
pub(super) const MAX_WAITING_SECONDS: f64 = 900.0;

impl Buyer {
    pub(super) fn told_place(&mut self, reply: &BuyerReply<'_>, scene: &mut Scene<'_>) -> Next {
        let Some((ticket, place)) = answers::place(reply.body) else { return self.leave(scene) };
        self.ticket = ticket;
        match place {
            TicketPlace::Waiting if self.has_waited_too_long(scene.now) => self.lose_patience(scene),
            TicketPlace::Waiting => {
                let far = scene.now.plus_seconds(EARLY_PLACE_SECONDS[1]) < Moment::OPENING;
                let at = if scene.now < Moment::OPENING && !far {
                    Moment::OPENING.plus_seconds(self.random.f64())
                } else {
                    scene.now.plus_seconds(self.between(if far {
                        EARLY_PLACE_SECONDS
                    } else {
                        PLACE_SECONDS
                    }))
                };
                self.ask_at(at, BuyerCall::Place, scene)
            }
            TicketPlace::Admitted => {
                if !scene.terms.gate.pass_required {
                    self.admit(scene);
                }
                self.pass_gate(scene)
            }
            TicketPlace::SoldOut => {
                self.state = BuyerState::Asking(BuyerCall::Place);
                self.told_sold_out(scene)
            }
            TicketPlace::TurnOver => self.renew(BuyerCall::Ticket, scene),
            TicketPlace::Closed => self.turned_away(scene),
        }
    }

    fn has_waited_too_long(&self, now: Moment) -> bool {
        let since = self.course.came_at.max(Moment::OPENING);
        now > since.plus_seconds(MAX_WAITING_SECONDS)
    }
}
