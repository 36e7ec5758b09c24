//! One buyer as a state machine. Each step gets an event and its time, and returns what the buyer does next.
//! It sends nothing itself and reads no clock.

mod bot;
mod purchase;
mod setback;
#[cfg(test)]
mod tests;
mod waiting;

use fastrand::Rng;

use super::{
    Moment,
    answers::{self, BuyerReply, Puzzle},
    findings::{End, Findings},
    terms::{CrowdTerms, Who},
};

/// The earliest that an impatient buyer presses before the opening.
const MAX_HASTE_SECONDS: f64 = 1.5;
/// The time between two looks at one's place.
const PLACE_SECONDS: [f64; 2] = [1.0, 2.0];
/// The most bits of a proof of work that a buyer tries to find. More would take an hour or longer.
const MAX_DIFFICULTY_BITS: u8 = 32;
/// The earliest that a challenge is solved before the opening. An earlier one would have expired by then.
const CHALLENGE_AHEAD_SECONDS: f64 = 60.0;

/// A buyer's request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuyerCall {
    SignIn,
    Look,
    Ticket,
    /// Asks where the ticket stands.
    Place,
    Challenge,
    Pass,
    Order,
    Pay,
    Cancel,
}

impl BuyerCall {
    pub(super) fn names_buyer(self) -> bool {
        !matches!(self, Self::SignIn | Self::Look | Self::Place)
    }

    pub(super) fn is_post(self) -> bool {
        !matches!(self, Self::Look | Self::Place)
    }
}

/// What a buyer sees of the world, and where it writes its findings.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) now: Moment,
    /// When the current event was due. Under load, people come and wake a little late.
    pub(super) due_at: Moment,
    pub(super) terms: &'a CrowdTerms,
    pub(super) findings: &'a mut Findings,
}

/// What has happened to a buyer.
#[derive(Clone, Copy, Debug)]
pub(super) enum BuyerEvent<'a> {
    Came,
    /// The wait is over.
    Woke,
    Answered(&'a BuyerReply<'a>),
    /// The connection broke, or nothing came for too long.
    Unanswered,
    Solved(u64),
}

/// What the buyer does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Send(BuyerCall),
    /// The same request on two connections at once.
    SendTwice(BuyerCall),
    Wait(Moment),
    Solve(Puzzle),
    /// Waits: another answer is still to come.
    Listen,
    Leave,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BuyerState {
    #[default]
    Coming,
    /// A request is due or under way.
    Asking(BuyerCall),
    WaitingForOpening,
    Solving,
    /// A bot between two attempts.
    Attacking,
}

/// A person, or one of the ways in which bots cheat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BuyerRole {
    #[default]
    Person,
    /// Orders without a pass or with a forged one, and hands in forged answers.
    Skips,
    /// Orders back to back, whatever it is told.
    Hammers,
    /// Gets one pass honestly and uses it for everything.
    Replays,
}

/// How it has gone for a buyer so far.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    /// Answers to the current request that are still to come.
    awaited: u32,
    tries: u32,
    breaks: u32,
    renewals: u32,
    returns: u32,
    /// Orders begun, each with its own key.
    orders: u32,
    sent_with_key: u32,
    /// An order under this key may have been accepted without the buyer knowing.
    in_doubt: bool,
    /// When the current key was first used: no hold of it can have begun before.
    key_since: Moment,
    came_at: Moment,
    /// The request after this wait repeats the last one and keeps its due time.
    keeps_due: bool,
    had_answer: bool,
    has_unit: bool,
    pays_late: bool,
    /// The index of the order among the findings.
    promised: usize,
    /// Attempts that a bot has left.
    attempts: u32,
}

#[derive(Debug)]
pub(super) struct Buyer {
    pub(super) who: Who,
    pub(super) role: BuyerRole,
    pub(super) state: BuyerState,
    pub(super) token: String,
    pub(super) ticket: String,
    pub(super) challenge: String,
    pub(super) answer: u64,
    pub(super) pass: String,
    /// The id of the order accepted under the current key; empty if none was.
    pub(super) order: String,
    /// The buyer has come and not left yet.
    pub(super) is_here: bool,
    /// When the current request was due. A request that follows another without a wait keeps that one's due
    /// time, so that a stalled server can't hide time in the request before.
    pub(super) due_at: Moment,
    random: Rng,
    in_burst: bool,
    press_at: Moment,
    course: Course,
}

impl Default for Buyer {
    fn default() -> Self {
        Self {
            who: Who::default(),
            role: BuyerRole::default(),
            state: BuyerState::default(),
            token: String::new(),
            ticket: String::new(),
            challenge: String::new(),
            answer: 0,
            pass: String::new(),
            order: String::new(),
            is_here: false,
            due_at: Moment::OPENING,
            random: Rng::with_seed(0),
            in_burst: false,
            press_at: Moment::OPENING,
            course: Course::default(),
        }
    }
}

impl Buyer {
    /// Turns this buyer into a new one, and keeps its buffers.
    pub(super) fn become_new(&mut self, who: Who, in_burst: bool, terms: &CrowdTerms) {
        (self.who, self.role, self.state) = (who, BuyerRole::of(who), BuyerState::default());
        for text in [&mut self.ticket, &mut self.challenge, &mut self.pass, &mut self.order] {
            text.clear();
        }
        terms.write_token(who, &mut self.token);
        self.random = Rng::with_seed(seed_of(who, terms.seed));
        let finger_seconds = self.random.f64() * terms.burst_seconds;
        let is_hasty = terms.mix.presses_early > 0.0 && self.random.f64() < terms.mix.presses_early;
        self.press_at = match (in_burst, is_hasty) {
            (true, true) => Moment::from_seconds(-self.random.f64() * MAX_HASTE_SECONDS),
            (true, false) => Moment::from_seconds(finger_seconds),
            (false, _) => Moment::OPENING,
        };
        (self.is_here, self.in_burst, self.course) = (true, in_burst, Course::default());
    }

    /// The key of the current order.
    pub(super) fn write_key(&self, terms: &CrowdTerms, key: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        key.extend_from_slice(terms.key_prefix.as_bytes());
        key.push(if self.who.is_bot { b'b' } else { b'p' });
        key.extend_from_slice(digits.format(self.who.number).as_bytes());
        key.push(b'-');
        key.extend_from_slice(digits.format(self.course.orders).as_bytes());
    }

    fn key(&self, terms: &CrowdTerms) -> String {
        let mut key = Vec::new();
        self.write_key(terms, &mut key);
        String::from_utf8(key).unwrap_or_default()
    }

    pub(super) fn step(&mut self, event: BuyerEvent<'_>, scene: &mut Scene<'_>) -> Next {
        if matches!(event, BuyerEvent::Came | BuyerEvent::Woke | BuyerEvent::Solved(_)) {
            let keeps_due = std::mem::take(&mut self.course.keeps_due);
            self.due_at = if keeps_due { self.due_at } else { scene.due_at };
        }
        match (event, self.state) {
            (BuyerEvent::Came, _) => self.come(scene),
            (BuyerEvent::Woke, BuyerState::Asking(call)) => self.ask(call, scene),
            (BuyerEvent::Woke, BuyerState::Attacking) => self.attack(scene),
            (BuyerEvent::Woke, _) => self.enter(scene),
            (BuyerEvent::Solved(answer), _) => {
                self.answer = answer;
                self.ask_at(self.press_at, BuyerCall::Pass, scene)
            }
            (BuyerEvent::Answered(reply), BuyerState::Asking(call)) => self.answered(call, reply, scene),
            (BuyerEvent::Unanswered, BuyerState::Asking(call)) => self.unanswered(call, scene),
            // Nothing was asked, so there is nothing to answer.
            (BuyerEvent::Answered(_) | BuyerEvent::Unanswered, _) => Next::Listen,
        }
    }

    /// Begins a new request: its counters start at zero.
    fn begin(&mut self, call: BuyerCall, scene: &mut Scene<'_>) -> Next {
        (self.course.tries, self.course.breaks) = (0, 0);
        self.ask(call, scene)
    }

    fn ask(&mut self, call: BuyerCall, scene: &mut Scene<'_>) -> Next {
        self.state = BuyerState::Asking(call);
        self.course.awaited = 1;
        if call == BuyerCall::Order {
            if self.course.sent_with_key == 0 {
                self.course.key_since = scene.now;
            }
            scene.findings.repeated += u64::from(self.course.sent_with_key > 0);
            self.course.sent_with_key += 1;
        }
        if matches!(call, BuyerCall::Pay | BuyerCall::Cancel) {
            scene.findings.set_end(self.course.promised, End::Unknown);
        }
        Next::Send(call)
    }

    fn ask_at(&mut self, at: Moment, call: BuyerCall, scene: &mut Scene<'_>) -> Next {
        if at <= scene.now {
            self.due_at = self.due_at.max(at);
            return self.begin(call, scene);
        }
        (self.course.tries, self.course.breaks) = (0, 0);
        self.state = BuyerState::Asking(call);
        Next::Wait(at)
    }

    fn between(&mut self, [least, most]: [f64; 2]) -> f64 {
        least + self.random.f64() * (most - least)
    }

    fn come(&mut self, scene: &mut Scene<'_>) -> Next {
        self.course.came_at = scene.now;
        if scene.terms.signs_in(self.who) {
            return self.begin(BuyerCall::SignIn, scene);
        }
        self.look_around(scene)
    }

    fn look_around(&mut self, scene: &mut Scene<'_>) -> Next {
        if !self.who.is_bot && self.random.f64() < scene.terms.mix.looks {
            return self.begin(BuyerCall::Look, scene);
        }
        self.prepare(scene)
    }

    /// Does what can be done before the opening.
    fn prepare(&mut self, scene: &mut Scene<'_>) -> Next {
        let is_early = self.in_burst && scene.now < self.press_at;
        let is_honest = matches!(self.role, BuyerRole::Person | BuyerRole::Replays);
        if !is_early || (is_honest && scene.terms.gate.waiting_room) {
            return self.enter(scene);
        }
        if is_honest && scene.terms.gate.challenge {
            let ahead_seconds = CHALLENGE_AHEAD_SECONDS * (1.0 - self.random.f64() / 2.0);
            return self.ask_at(Moment::OPENING.plus_seconds(-ahead_seconds), BuyerCall::Challenge, scene);
        }
        self.state = BuyerState::WaitingForOpening;
        Next::Wait(self.press_at)
    }

    /// Takes the first step towards the order.
    fn enter(&mut self, scene: &mut Scene<'_>) -> Next {
        self.due_from_press(scene.now);
        match self.role {
            BuyerRole::Skips | BuyerRole::Hammers => self.attack(scene),
            BuyerRole::Person | BuyerRole::Replays
                if scene.terms.gate.waiting_room && self.ticket.is_empty() =>
            {
                self.begin(BuyerCall::Ticket, scene)
            }
            BuyerRole::Person | BuyerRole::Replays => self.pass_gate(scene),
        }
    }

    /// Nothing on the way to the order is due before the buyer wanted to press, however long ago the page was
    /// looked at.
    fn due_from_press(&mut self, now: Moment) {
        if self.press_at <= now {
            self.due_at = self.due_at.max(self.press_at);
        }
    }

    fn pass_gate(&mut self, scene: &mut Scene<'_>) -> Next {
        if scene.terms.gate.challenge {
            return self.begin(BuyerCall::Challenge, scene);
        }
        if scene.terms.gate.pass_required {
            return self.begin(BuyerCall::Pass, scene);
        }
        self.press(scene)
    }

    fn press(&mut self, scene: &mut Scene<'_>) -> Next {
        if self.role != BuyerRole::Person {
            return self.attack(scene);
        }
        self.due_from_press(scene.now);
        let is_first = self.course.sent_with_key == 0 && self.course.returns == 0;
        let next = self.begin(BuyerCall::Order, scene);
        if is_first && self.random.f64() < scene.terms.mix.double_clicks {
            self.course.awaited = 2;
            self.course.sent_with_key += 1;
            scene.findings.repeated += 1;
            return Next::SendTwice(BuyerCall::Order);
        }
        next
    }

    fn answered(&mut self, call: BuyerCall, reply: &BuyerReply<'_>, scene: &mut Scene<'_>) -> Next {
        self.course.awaited = self.course.awaited.saturating_sub(1);
        if call == BuyerCall::Order {
            return self.ordered(reply, scene);
        }
        if !reply.is_yes() {
            return self.refused(call, reply, scene);
        }
        match call {
            BuyerCall::SignIn => match answers::session(reply.body) {
                Some(token) => {
                    self.token.push_str(&token);
                    self.look_around(scene)
                }
                None => self.leave(scene),
            },
            BuyerCall::Look => self.prepare(scene),
            BuyerCall::Ticket | BuyerCall::Place => self.told_place(reply, scene),
            BuyerCall::Challenge => match answers::puzzle(reply.body) {
                Some((_, puzzle)) if puzzle.difficulty > MAX_DIFFICULTY_BITS => self.lose_patience(scene),
                Some((challenge, puzzle)) => {
                    self.challenge = challenge;
                    self.state = BuyerState::Solving;
                    Next::Solve(puzzle)
                }
                None => self.leave(scene),
            },
            BuyerCall::Pass => match answers::pass(reply.body) {
                Some(pass) => {
                    self.pass = pass;
                    self.admit(scene);
                    self.press(scene)
                }
                None => self.leave(scene),
            },
            BuyerCall::Pay | BuyerCall::Cancel => self.settled(call, scene),
            BuyerCall::Order => Next::Listen,
        }
    }

    fn admit(&mut self, scene: &mut Scene<'_>) {
        scene.findings.admitted += 1;
        scene.findings.fresh.admitted += 1;
    }

    fn first_answer(&mut self, scene: &mut Scene<'_>) {
        if !self.course.had_answer && !self.who.is_bot {
            scene.findings.first_answer(scene.now);
        }
        self.course.had_answer = true;
    }

    /// The next order gets another key.
    fn new_order(&mut self) {
        self.course.orders += 1;
        self.course.sent_with_key = 0;
        self.course.in_doubt = false;
        self.order.clear();
    }

    fn leave(&mut self, scene: &mut Scene<'_>) -> Next {
        if self.course.in_doubt {
            self.doubt(scene);
        }
        scene.findings.left_unanswered += u64::from(!self.course.had_answer && !self.who.is_bot);
        Next::Leave
    }
}

fn seed_of(who: Who, seed: u64) -> u64 {
    // Neighbours must not behave alike; the generator mixes its seed only a little.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let number = who.number.wrapping_mul(2).wrapping_add(u64::from(who.is_bot));
    seed.wrapping_add(number.wrapping_add(1).wrapping_mul(SPREAD))
}
