//! Buyers and bots that are told by hand what happens to them.

use std::sync::Arc;

use crate::{scenario::Mix, token::TokenSigner};

use super::{
    super::{
        codes::CodeReader,
        terms::{BuyerAccount, BuyerIdentity, GateSteps},
    },
    setback::{MAX_BREAKS, MAX_RENEWALS, MAX_TRIES},
    waiting::MAX_WAITING_SECONDS,
    *,
};

const EVERYTHING: GateSteps = GateSteps { challenge: true, waiting_room: true, pass_required: true };

struct Stage {
    terms: CrowdTerms,
    findings: Findings,
    codes: CodeReader,
    now: Moment,
    buyer: Buyer,
}

/// A person who would like to buy and pay at once.
fn stage(gate: GateSteps, change: impl FnOnce(&mut Mix)) -> Stage {
    let mut mix = Mix { looks: 0.0, pays: 1.0, cancels: 0.0, thinks_seconds: [1.0, 1.0], ..Mix::default() };
    change(&mut mix);
    let identity =
        BuyerIdentity::Jwt { signer: Arc::new(TokenSigner::lasting(b"secret")), prefix: "test-".to_owned() };
    let terms = CrowdTerms {
        gate,
        mix,
        hold_seconds: 60.0,
        burst_seconds: 2.0,
        buyers: 100,
        seed: 7,
        key_prefix: "rush-7-".to_owned(),
        identity,
    };
    Stage {
        terms,
        findings: Findings::default(),
        codes: CodeReader::new(),
        now: Moment::from_seconds(-10.0),
        buyer: Buyer::default(),
    }
}

impl Stage {
    fn come(&mut self, who: Who, in_burst: bool) -> Next {
        self.buyer.become_new(who, in_burst, &self.terms);
        self.step(BuyerEvent::Came)
    }

    /// A person of number 3 who comes after the opening.
    fn come_late(&mut self) -> Next {
        self.now = Moment::from_seconds(5.0);
        self.come(Who { number: 3, is_bot: false }, false)
    }

    fn step(&mut self, event: BuyerEvent<'_>) -> Next {
        let (now, due_at) = (self.now, self.now);
        let mut scene = Scene { now, due_at, terms: &self.terms, findings: &mut self.findings };
        self.buyer.step(event, &mut scene)
    }

    fn answer(&mut self, status: u16, body: &str) -> Next {
        self.answer_after(status, body, None)
    }

    fn answer_after(&mut self, status: u16, body: &str, retry_after_seconds: Option<u32>) -> Next {
        let code = self.codes.read(body.as_bytes());
        self.step(BuyerEvent::Answered(&BuyerReply {
            status,
            code,
            retry_after_seconds,
            body: body.as_bytes(),
        }))
    }

    fn refuse(&mut self, status: u16, code: &str) -> Next {
        self.answer(status, &format!(r#"{{"status":{status},"code":"{code}"}}"#))
    }

    fn accept(&mut self, order: &str) -> Next {
        self.answer(201, &format!(r#"{{"id":"{order}","quantity":1,"state":"held"}}"#))
    }

    /// Waits as long as `next` says; returns the seconds and the next step.
    fn wait(&mut self, next: Next) -> (f64, Next) {
        let Next::Wait(until) = next else { panic!("{next:?}") };
        let seconds = until.since(self.now).as_secs_f64();
        self.now = until;
        (seconds, self.step(BuyerEvent::Woke))
    }

    fn key(&self) -> String {
        self.buyer.key(&self.terms)
    }

    fn end(&self) -> End {
        self.findings.promised.last().unwrap().end
    }
}

#[test]
fn a_buyer_of_the_burst_looks_and_presses_after_the_opening() {
    let mut stage = stage(GateSteps::default(), |mix| mix.looks = 1.0);
    assert_eq!(stage.come(Who { number: 3, is_bot: false }, true), Next::Send(BuyerCall::Look));
    assert!(!stage.buyer.token.is_empty(), "the token is made before it is needed");
    let next = stage.answer(200, "{}");
    let (seconds, next) = stage.wait(next);
    assert_eq!(next, Next::Send(BuyerCall::Order));
    assert!((10.0..=12.0).contains(&seconds), "{seconds}");
    let next = stage.accept("o1");
    let (seconds, next) = stage.wait(next);
    assert_eq!((seconds.round(), next), (1.0, Next::Send(BuyerCall::Pay)));
    assert_eq!(stage.end(), End::Unknown);
    assert_eq!(stage.answer(200, r#"{"id":"o1","state":"paid"}"#), Next::Leave);
    assert_eq!(stage.end(), End::Paid);
    assert_eq!((stage.findings.served, stage.findings.left_unanswered), (1, 0));
}

#[test]
fn a_gate_is_passed_step_by_step() {
    let mut stage = stage(EVERYTHING, |_| {});
    assert_eq!(stage.come(Who { number: 3, is_bot: false }, true), Next::Send(BuyerCall::Ticket));
    let next = stage.answer(201, r#"{"ticket":"t1","state":"waiting"}"#);
    let (seconds, next) = stage.wait(next);
    assert!(
        (10.0..=11.0).contains(&seconds),
        "the first look is just after the opening, not after {seconds} s"
    );
    assert_eq!(next, Next::Send(BuyerCall::Place));
    let next = stage.answer(200, r#"{"ticket":"t1","state":"waiting","reason":null}"#);
    let (seconds, next) = stage.wait(next);
    assert!((1.0..=2.0).contains(&seconds), "{seconds}");
    assert_eq!(next, Next::Send(BuyerCall::Place));
    assert_eq!(stage.answer(200, r#"{"ticket":"t1","state":"admitted"}"#), Next::Send(BuyerCall::Challenge));
    let puzzle = Puzzle { salt: "s".to_owned(), difficulty: 9 };
    let body = r#"{"id":"c1","kind":"pow","salt":"s","difficulty":9}"#;
    assert_eq!(stage.answer(201, body), Next::Solve(puzzle));
    assert_eq!(stage.step(BuyerEvent::Solved(17)), Next::Send(BuyerCall::Pass));
    assert_eq!(stage.answer(201, r#"{"pass":"p1"}"#), Next::Send(BuyerCall::Order));
    let buyer = &stage.buyer;
    assert_eq!((&*buyer.ticket, &*buyer.challenge, buyer.answer, &*buyer.pass), ("t1", "c1", 17, "p1"));
    assert_eq!(stage.findings.admitted, 1);
}

#[test]
fn a_challenge_is_solved_before_the_opening() {
    let mut stage = stage(GateSteps { challenge: true, waiting_room: false, pass_required: true }, |_| {});
    assert_eq!(stage.come(Who { number: 3, is_bot: false }, true), Next::Send(BuyerCall::Challenge));
    stage.answer(201, r#"{"id":"c1","salt":"s","difficulty":9}"#);
    let next = stage.step(BuyerEvent::Solved(17));
    let (seconds, next) = stage.wait(next);
    assert!((10.0..=12.0).contains(&seconds), "{seconds}");
    assert_eq!(next, Next::Send(BuyerCall::Pass));
}

#[test]
fn an_account_signs_in_first() {
    let mut stage = stage(GateSteps::default(), |_| {});
    let account = BuyerAccount { phone: "+9991".to_owned(), password: "word".to_owned() };
    stage.terms.identity = BuyerIdentity::Accounts([account].into());
    assert_eq!(stage.come_late(), Next::Send(BuyerCall::SignIn));
    assert_eq!(stage.answer(201, r#"{"token":"session","account":{}}"#), Next::Send(BuyerCall::Order));
    assert_eq!(stage.buyer.token, "session");
}

#[test]
fn busy_is_retried_after_the_given_wait_with_the_same_key() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.come_late();
    let key = stage.key();
    let next = stage.answer_after(503, r#"{"code":"busy"}"#, Some(4));
    let (seconds, next) = stage.wait(next);
    assert!((4.0..=6.0).contains(&seconds), "{seconds}");
    assert_eq!((next, stage.key()), (Next::Send(BuyerCall::Order), key));
    assert_eq!(stage.findings.repeated, 1);
}

#[test]
fn a_buyer_who_hears_busy_too_often_gives_up() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.come_late();
    let mut times = 0;
    loop {
        times += 1;
        let next = stage.refuse(429, "rate_limited");
        if next == Next::Leave {
            break;
        }
        stage.wait(next);
    }
    assert_eq!(times, MAX_TRIES + 1);
    assert_eq!((stage.findings.gave_up, stage.findings.left_unanswered), (1, 1));
    assert!(stage.findings.doubtful.is_empty(), "nothing was done, and the answers said so");
}

#[test]
fn an_order_that_is_never_answered_stays_in_doubt() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.come_late();
    let key = stage.key();
    for _ in 0..MAX_BREAKS {
        let next = stage.step(BuyerEvent::Unanswered);
        assert_eq!(stage.wait(next).1, Next::Send(BuyerCall::Order));
    }
    assert_eq!(stage.step(BuyerEvent::Unanswered), Next::Leave);
    let doubtful = &stage.findings.doubtful[0];
    assert_eq!((doubtful.buyer, &doubtful.key, &doubtful.token), (3, &key, &stage.buyer.token));
    assert_eq!(stage.findings.unanswered, 0, "it counts once, among the doubtful ones");
}

#[test]
fn an_answer_after_a_broken_connection_ends_the_doubt() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.come_late();
    let next = stage.step(BuyerEvent::Unanswered);
    stage.wait(next);
    assert_eq!(stage.refuse(409, "sold_out"), Next::Leave);
    assert!(stage.findings.doubtful.is_empty());
    assert_eq!(stage.findings.last_first_answer_at, Some(stage.now));
}

#[test]
fn giving_up_after_unavailable_leaves_a_doubt() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.come_late();
    let next = stage.refuse(503, "unavailable");
    stage.wait(next);
    loop {
        let next = stage.refuse(503, "busy");
        if next == Next::Leave {
            break;
        }
        stage.wait(next);
    }
    assert_eq!(stage.findings.doubtful.len(), 1);
}

#[test]
fn a_buyer_who_is_told_sold_out_comes_back_with_another_key() {
    let mut stage =
        stage(GateSteps::default(), |mix| (mix.comes_back, mix.comes_back_after_seconds) = (2, 10.0));
    stage.come_late();
    let mut keys = vec![stage.key()];
    for _ in 0..2 {
        let next = stage.refuse(409, "sold_out");
        let (seconds, next) = stage.wait(next);
        assert!((8.0..=12.0).contains(&seconds), "{seconds}");
        assert_eq!(next, Next::Send(BuyerCall::Order));
        keys.push(stage.key());
    }
    assert_eq!(stage.refuse(409, "sold_out"), Next::Leave);
    keys.dedup();
    assert_eq!(keys.len(), 3);
    assert_eq!(stage.findings.repeated, 0);
}

#[test]
fn a_sale_that_is_not_open_by_the_servers_clock_is_asked_again_soon() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.come_late();
    let next = stage.refuse(409, "not_open");
    let (seconds, next) = stage.wait(next);
    assert!(seconds < 0.1, "{seconds}");
    assert_eq!(next, Next::Send(BuyerCall::Order));
}

#[test]
fn an_impatient_buyer_presses_before_the_opening_and_again_after_it() {
    let mut stage = stage(GateSteps::default(), |mix| mix.presses_early = 1.0);
    let next = stage.come(Who { number: 3, is_bot: false }, true);
    let (_, mut next) = stage.wait(next);
    assert!(stage.now < Moment::OPENING);
    while stage.now < Moment::OPENING {
        assert_eq!(next, Next::Send(BuyerCall::Order));
        let refused = stage.refuse(409, "not_open");
        next = stage.wait(refused).1;
    }
    assert_eq!(next, Next::Send(BuyerCall::Order));
    assert_eq!(stage.findings.gave_up, 0);
}

#[test]
fn a_double_click_has_one_order() {
    let mut stage = stage(GateSteps::default(), |mix| mix.double_clicks = 1.0);
    assert_eq!(stage.come_late(), Next::SendTwice(BuyerCall::Order));
    assert_eq!(stage.refuse(503, "busy"), Next::Listen);
    assert!(matches!(stage.accept("o1"), Next::Wait(_)));
    assert_eq!((stage.findings.promised.len(), stage.findings.repeated), (1, 1));

    stage.findings = Findings::default();
    assert_eq!(stage.come_late(), Next::SendTwice(BuyerCall::Order));
    assert_eq!(stage.accept("o1"), Next::Listen);
    assert!(matches!(stage.accept("o1"), Next::Wait(_)));
    assert_eq!(stage.findings.promised.len(), 1);
    assert!(stage.findings.contradictions.is_empty());
}

#[test]
fn two_orders_for_one_key_are_a_contradiction() {
    let mut stage = stage(GateSteps::default(), |mix| mix.double_clicks = 1.0);
    stage.come_late();
    stage.accept("o1");
    stage.accept("o2");
    let [contradiction] = &stage.findings.contradictions[..] else { panic!("not one") };
    assert!(contradiction.contains("o1") && contradiction.contains("o2"), "{contradiction}");
    assert_eq!(stage.findings.promised.len(), 2, "both were promised");
}

#[test]
fn an_expired_pass_is_replaced_but_not_for_ever() {
    let mut stage = stage(GateSteps { challenge: false, waiting_room: false, pass_required: true }, |_| {});
    assert_eq!(stage.come_late(), Next::Send(BuyerCall::Pass));
    for _ in 0..MAX_RENEWALS {
        assert_eq!(stage.answer(201, r#"{"pass":"p"}"#), Next::Send(BuyerCall::Order));
        assert_eq!(stage.refuse(403, "pass_invalid"), Next::Send(BuyerCall::Pass));
        assert!(stage.buyer.pass.is_empty());
    }
    stage.answer(201, r#"{"pass":"p"}"#);
    assert_eq!(stage.refuse(403, "pass_invalid"), Next::Leave);
}

#[test]
fn a_late_payer_may_get_the_money_back() {
    let mut stage = stage(GateSteps::default(), |mix| (mix.pays, mix.pays_late) = (0.0, 1.0));
    stage.come_late();
    let next = stage.accept("o1");
    let (seconds, next) = stage.wait(next);
    assert!(seconds > 60.0, "{seconds}");
    assert_eq!(next, Next::Send(BuyerCall::Pay));
    stage.findings.expire(stage.now);
    assert_eq!(stage.findings.fresh.held, 0, "the hold is over");
    assert_eq!(stage.refuse(409, "refund_due"), Next::Leave);
    assert_eq!((stage.end(), stage.findings.fresh.held), (End::Refund, 0));
}

#[test]
fn a_cancelled_order_belongs_to_nobody() {
    let mut stage = stage(GateSteps::default(), |mix| (mix.pays, mix.cancels) = (0.0, 1.0));
    stage.come_late();
    let next = stage.accept("o1");
    assert_eq!(stage.wait(next).1, Next::Send(BuyerCall::Cancel));
    assert_eq!(stage.answer(200, "{}"), Next::Leave);
    assert_eq!((stage.end(), stage.findings.fresh.held), (End::Cancelled, 0));
}

/// Lets a bot attack until it leaves; every order is refused. Its orders as (token, key, pass).
fn attacks(stage: &mut Stage, mut next: Next) -> Vec<(String, String, String)> {
    let mut orders = Vec::new();
    while next != Next::Leave {
        next = match next {
            Next::Send(BuyerCall::Order) => {
                orders.push((stage.buyer.token.clone(), stage.key(), stage.buyer.pass.clone()));
                stage.refuse(409, "limit_reached")
            }
            Next::Send(BuyerCall::Pass) => stage.refuse(403, "challenge_failed"),
            Next::Wait(_) => stage.wait(next).1,
            other => panic!("{other:?}"),
        };
    }
    orders
}

fn different<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn a_hammering_bot_has_a_new_key_each_time_and_never_waits() {
    let mut stage = stage(EVERYTHING, |_| {});
    stage.now = Moment::from_seconds(1.0);
    let next = stage.come(Who { number: 1, is_bot: true }, false);
    let began = stage.now;
    let orders = attacks(&mut stage, next);
    assert!((20..=50).contains(&orders.len()), "{}", orders.len());
    assert_eq!(different(orders.iter().map(|(_, key, _)| key)), orders.len());
    assert_eq!(stage.now, began);
    assert_eq!(stage.findings.left_unanswered, 0, "bots are not people");
}

#[test]
fn a_skipping_bot_has_no_pass_or_a_made_up_one() {
    let mut stage = stage(EVERYTHING, |_| {});
    stage.now = Moment::from_seconds(1.0);
    let next = stage.come(Who { number: 0, is_bot: true }, false);
    let orders = attacks(&mut stage, next);
    let without = orders.iter().filter(|(_, _, pass)| pass.is_empty()).count();
    assert!(without > 0 && without < orders.len(), "{without} of {}", orders.len());
}

#[test]
fn a_replaying_bot_uses_one_pass_for_all_and_under_another_name() {
    let mut stage = stage(GateSteps { challenge: false, waiting_room: false, pass_required: true }, |_| {});
    stage.now = Moment::from_seconds(1.0);
    assert_eq!(stage.come(Who { number: 2, is_bot: true }, false), Next::Send(BuyerCall::Pass));
    let next = stage.answer(201, r#"{"pass":"honest"}"#);
    let orders = attacks(&mut stage, next);
    assert!(orders.len() > 3);
    assert!(orders.iter().all(|(_, _, pass)| pass == "honest"));
    assert_eq!(different(orders.iter().map(|(token, _, _)| token)), 2);
}

#[test]
fn a_bot_that_gets_a_unit_is_reported_behind_the_people() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.now = Moment::from_seconds(1.0);
    stage.come(Who { number: 1, is_bot: true }, false);
    stage.accept("o1");
    assert_eq!(stage.findings.promised[0].buyer, 101);
    assert_eq!((stage.findings.served, stage.findings.bots_served), (0, 1));
}

#[test]
fn the_same_seed_makes_a_buyer_behave_the_same() {
    let life = |number| {
        let mut stage = stage(GateSteps::default(), |mix| mix.thinks_seconds = [0.0, 9.0]);
        stage.now = Moment::from_seconds(5.0);
        stage.come(Who { number, is_bot: false }, false);
        stage.accept("o1")
    };
    assert_eq!(life(4), life(4));
    assert_ne!(life(4), life(5));
}

#[test]
fn a_payment_that_is_refused_while_the_hold_lasts_is_remembered() {
    for (code, end) in
        [("hold_expired", End::Refused), ("refund_due", End::Refused), ("nonsense", End::Refused)]
    {
        let mut stage = stage(GateSteps::default(), |_| {});
        stage.come_late();
        let next = stage.accept("o1");
        assert_eq!(stage.wait(next).1, Next::Send(BuyerCall::Pay));
        assert_eq!(stage.refuse(409, code), Next::Leave);
        assert_eq!(stage.end(), end, "{code}");
    }
}

#[test]
fn a_payment_after_the_hold_is_rightly_refused() {
    let mut stage = stage(GateSteps::default(), |mix| mix.thinks_seconds = [61.0, 61.0]);
    stage.come_late();
    let next = stage.accept("o1");
    stage.wait(next);
    stage.refuse(409, "refund_due");
    assert_eq!(stage.end(), End::Refund);
}

#[test]
fn a_payment_that_never_succeeds_is_refused_or_unanswered() {
    for (status, end, unanswered) in [(429, End::Refused, 0), (503, End::Unknown, 1)] {
        let mut stage = stage(GateSteps::default(), |_| {});
        stage.come_late();
        let next = stage.accept("o1");
        let mut next = stage.wait(next).1;
        while next != Next::Leave {
            let refused = stage.refuse(status, "busy");
            next = if refused == Next::Leave { refused } else { stage.wait(refused).1 };
        }
        assert_eq!((stage.end(), stage.findings.unanswered), (end, unanswered), "{status}");
        assert_eq!(stage.findings.gave_up, 0, "a buyer with a unit has not given up");
    }
}

#[test]
fn a_bot_that_may_not_pay_is_a_finding_too() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.now = Moment::from_seconds(1.0);
    stage.come(Who { number: 1, is_bot: true }, false);
    for number in 0.. {
        if stage.accept(&format!("o{number}")) == Next::Send(BuyerCall::Pay) {
            break;
        }
    }
    stage.refuse(409, "hold_expired");
    assert!(stage.findings.promised.iter().any(|promised| promised.end == End::Refused));
}

#[test]
fn an_order_and_a_refusal_for_one_key_are_a_contradiction() {
    let mut stage = stage(GateSteps::default(), |mix| mix.double_clicks = 1.0);
    stage.come_late();
    stage.accept("o1");
    stage.refuse(409, "sold_out");
    assert_eq!(stage.findings.contradictions.len(), 1);

    stage.findings = Findings::default();
    stage.come_late();
    stage.accept("o1");
    stage.refuse(429, "rate_limited");
    assert!(stage.findings.contradictions.is_empty(), "that says nothing about the order");
}

#[test]
fn an_order_after_a_look_is_due_when_the_look_was() {
    let mut stage = stage(GateSteps::default(), |mix| mix.looks = 1.0);
    assert_eq!(stage.come_late(), Next::Send(BuyerCall::Look));
    let came_at = stage.now;
    stage.now = came_at.plus_seconds(9.0);
    assert_eq!(stage.answer(200, "{}"), Next::Send(BuyerCall::Order));
    assert_eq!(stage.buyer.due_at, came_at);
    let next = stage.accept("o1");
    assert_eq!(stage.wait(next).1, Next::Send(BuyerCall::Pay));
    assert_eq!(stage.buyer.due_at, stage.now, "thinking was the buyer's own choice");
}

#[test]
fn no_press_is_due_before_the_chosen_moment() {
    let mut stage = stage(GateSteps::default(), |mix| mix.looks = 1.0);
    assert_eq!(stage.come(Who { number: 3, is_bot: false }, true), Next::Send(BuyerCall::Look));
    stage.now = Moment::from_seconds(20.0);
    assert_eq!(stage.answer(200, "{}"), Next::Send(BuyerCall::Order));
    assert_eq!(stage.buyer.due_at, stage.buyer.press_at);
}

#[test]
fn a_lost_request_keeps_its_first_due_time() {
    let mut stage = stage(GateSteps::default(), |_| {});
    stage.come_late();
    let came_at = stage.now;
    stage.now = came_at.plus_seconds(30.0);
    let next = stage.step(BuyerEvent::Unanswered);
    stage.wait(next);
    assert_eq!(stage.buyer.due_at, came_at);
    let next = stage.answer_after(503, r#"{"code":"busy"}"#, Some(4));
    stage.wait(next);
    assert_eq!(stage.buyer.due_at, stage.now, "the server asked for this wait");
}

#[test]
fn nobody_waits_for_a_turn_for_ever() {
    let mut stage = stage(EVERYTHING, |_| {});
    assert_eq!(stage.come_late(), Next::Send(BuyerCall::Ticket));
    let began = stage.now;
    let body = r#"{"ticket":"t1","state":"waiting"}"#;
    let mut next = stage.answer(201, body);
    while next != Next::Leave {
        assert_eq!(stage.wait(next).1, Next::Send(BuyerCall::Place));
        assert!(stage.now.since(began).as_secs_f64() < MAX_WAITING_SECONDS + 10.0);
        next = stage.answer(200, body);
    }
    assert_eq!((stage.findings.gave_up, stage.findings.left_unanswered), (1, 1));
}

#[test]
fn a_challenge_that_nobody_can_solve_is_not_begun() {
    let mut stage = stage(GateSteps { challenge: true, waiting_room: false, pass_required: true }, |_| {});
    assert_eq!(stage.come_late(), Next::Send(BuyerCall::Challenge));
    assert_eq!(stage.answer(201, r#"{"id":"c1","salt":"s","difficulty":33}"#), Next::Leave);
    assert_eq!(stage.findings.gave_up, 1);
}

#[test]
fn bots_that_skip_the_gate_are_counted_separately() {
    for (number, by_skipping) in [(0, 1), (1, 1), (2, 0)] {
        let mut stage = stage(GateSteps::default(), |_| {});
        stage.now = Moment::from_seconds(1.0);
        stage.come(Who { number, is_bot: true }, false);
        stage.accept("o1");
        let findings = &stage.findings;
        assert_eq!((findings.bots_served, findings.bots_served_by_skipping), (1, by_skipping), "{number}");
    }
}
