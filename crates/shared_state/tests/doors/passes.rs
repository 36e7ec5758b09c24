//! Passes, used challenges and used turns.

use penstock_gate::{ChallengeOptions, Challenges, KeyRing, Presented, late_after_millis};
use penstock_shop::gate::DoorRefusal;

use super::*;

/// Asks all three nodes at once and collects the answers.
async fn ask_all(
    nodes: &[Arc<dyn Door>],
    applicants: impl Fn(usize) -> Vec<Applicant>,
) -> Vec<Result<Timestamp, DoorRefusal>> {
    let asked = nodes
        .iter()
        .enumerate()
        .flat_map(|(node, door)| applicants(node).into_iter().map(move |applicant| door.pass(applicant)));
    join_all(asked).await
}

#[tokio::test]
async fn there_are_never_more_live_passes_than_the_factor_allows_on_all_nodes_together() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    let (before, now) = (shop.calls(), shop.now());
    let crowd =
        |node: usize| (0..1_000).map(|person| applicant(&format!("{node}/{person}"), 100, now)).collect();
    let answers = ask_all(&nodes, crowd).await;
    let granted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(granted, 300);
    assert!(answers.iter().flatten().all(|deadline| *deadline == now.plus_seconds(PASS_SECONDS)));
    assert!(answers.iter().all(|answer| answer.is_ok() || *answer == Err(DoorRefusal::Exhausted)));
    let calls = shop.calls() - before;
    assert!(calls <= 30, "{calls} calls for 3,000 people");
}

#[tokio::test]
async fn passes_that_nobody_uses_make_room_on_all_nodes_when_they_are_late() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    for bot in ["ann", "bob", "cat"] {
        nodes[0].pass(applicant(bot, 1, shop.now())).await.unwrap();
    }
    shop.pass_millis(late_after_millis(PASS_SECONDS) - 1);
    assert_eq!(nodes[1].pass(applicant("dan", 1, shop.now())).await, Err(DoorRefusal::Exhausted));
    shop.pass_millis(1);
    assert!(nodes[1].pass(applicant("dan", 1, shop.now())).await.is_ok());
    assert!(nodes[2].pass(applicant("ann", 1, shop.now())).await.is_ok(), "it is good until its deadline");
    assert_eq!(shop.live_passes(), 4);
}

#[tokio::test]
async fn a_buyer_gets_the_same_pass_on_every_node_until_it_is_over() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    let deadline = nodes[0].pass(applicant("ann", 1, shop.now())).await.unwrap();
    shop.pass_millis(1_000);
    // Nothing is left for others, but she has this one already.
    assert_eq!(nodes[1].pass(applicant("ann", 0, shop.now())).await, Ok(deadline));
    assert_eq!(nodes[1].pass(applicant("bob", 0, shop.now())).await, Err(DoorRefusal::Exhausted));
    shop.set(deadline);
    assert_eq!(nodes[2].pass(applicant("ann", 0, shop.now())).await, Err(DoorRefusal::Exhausted));
    assert!(nodes[2].pass(applicant("ann", 1, shop.now())).await.is_ok());
}

#[tokio::test]
async fn an_order_on_one_node_makes_room_for_a_pass_on_another() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    for buyer in ["ann", "bob", "cat"] {
        nodes[0].pass(applicant(buyer, 1, shop.now())).await.unwrap();
    }
    assert_eq!(nodes[1].pass(applicant("dan", 1, shop.now())).await, Err(DoorRefusal::Exhausted));
    // Told twice, as after a retry.
    nodes[2].used(&BuyerId::from_stored("ann"), shop.now(), 7, shop.now());
    nodes[2].used(&BuyerId::from_stored("ann"), shop.now(), 7, shop.now());
    until("the pass to be back", || (shop.live_passes() == 2).then_some(())).await;
    assert!(nodes[1].pass(applicant("dan", 1, shop.now())).await.is_ok());
    assert_eq!(nodes[1].pass(applicant("eve", 1, shop.now())).await, Err(DoorRefusal::Exhausted));
}

/// A challenge as each node examines it.
fn presented(nonce: u64, answer: &str, now: Timestamp) -> Presented {
    let challenges = Challenges::new(ChallengeOptions {
        lifetime_seconds: OPTIONS.challenge_seconds,
        min_bits: 1,
        max_bits: 1,
        easy_per_second: 1_000,
        max_used: 10,
        instance: 0,
    });
    let (keys, ann) = (KeyRing::new(&[7; 32], None), BuyerId::from_stored("ann"));
    let captcha = challenges.captcha(&keys, sale(), &ann, "KdM7x", nonce, now);
    challenges.present(&keys, sale(), &ann, &captcha.id, answer, now).unwrap()
}

#[tokio::test]
async fn of_all_who_use_a_challenge_at_once_on_all_nodes_one_succeeds() {
    let shop = Shop::open();
    let (nodes, now) = (shop.nodes().await, shop.now());
    let challenge = presented(1, "KdM7x", now);
    let crowd = |_| vec![Applicant { challenge: Some(challenge), ..applicant("ann", 100, now) }; 30];
    let answers = ask_all(&nodes, crowd).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| answer.is_ok() || *answer == Err(DoorRefusal::ChallengeFailed)));
    // The last moment at which it could be good.
    shop.pass_millis(i64::from(OPTIONS.challenge_seconds) * 1_000 - 1);
    let again = Applicant { challenge: Some(challenge), ..applicant("ann", 100, shop.now()) };
    assert_eq!(nodes[2].pass(again).await, Err(DoorRefusal::ChallengeFailed));
}

#[tokio::test]
async fn a_wrong_answer_uses_up_a_challenge_and_finding_no_pass_left_does_not() {
    let shop = Shop::open();
    let (nodes, now) = (shop.nodes().await, shop.now());
    let ask = |node: usize, challenge: Presented, available: u32| {
        nodes[node].pass(Applicant { challenge: Some(challenge), ..applicant("ann", available, now) })
    };
    let right = presented(2, "KdM7x", now);
    assert_eq!(ask(0, right, 0).await, Err(DoorRefusal::Exhausted));
    assert_eq!(ask(0, presented(1, "wrong", now), 1).await, Err(DoorRefusal::ChallengeFailed));
    assert_eq!(ask(1, presented(1, "KdM7x", now), 1).await, Err(DoorRefusal::ChallengeFailed));
    assert!(ask(2, right, 1).await.is_ok());
}

#[tokio::test]
async fn one_turn_gives_one_pass_on_any_node() {
    let shop = Shop::open();
    let (nodes, now) = (shop.nodes().await, shop.now());
    let ann = Applicant { number: Some(7), ..applicant("ann", 100, now) };
    let deadline = nodes[0].pass(ann.clone()).await.unwrap();
    assert_eq!(nodes[1].pass(ann.clone()).await, Ok(deadline), "as long as it is good");
    nodes[2].used(&ann.buyer, now, 2, now);
    until("the pass to be used", || (shop.live_passes() == 0).then_some(())).await;
    assert_eq!(nodes[1].pass(ann.clone()).await, Err(DoorRefusal::TurnUsed));
    assert!(nodes[1].pass(Applicant { number: Some(8), ..ann }).await.is_ok(), "a new turn is a new pass");
}

#[tokio::test]
async fn without_redis_everybody_hears_that_passes_are_unavailable() {
    let mut shop = Shop::open();
    let nodes = shop.nodes().await;
    shop.redis.pause().unwrap();
    let now = shop.now();
    let crowd =
        |node: usize| (0..1_000).map(|person| applicant(&format!("{node}/{person}"), 100, now)).collect();
    let answers = ask_all(&nodes, crowd).await;
    assert!(answers.iter().all(|answer| *answer == Err(DoorRefusal::Unavailable)));
    nodes[0].used(&BuyerId::from_stored("ann"), now, 2, now);
    shop.redis.resume().unwrap();
    assert!(nodes[0].pass(applicant("ann", 100_000, now)).await.is_ok());
}

#[tokio::test]
async fn a_node_that_slept_through_the_end_of_a_turn_gets_no_pass_for_it() {
    let shop = Shop::open();
    let node = shop.node("a").await;
    let now = shop.now();
    let turn_until = Some(now.plus_seconds(5));
    let ann = Applicant { number: Some(7), turn_until, ..applicant("ann", 100, now) };
    let bob = Applicant { number: Some(8), turn_until, ..applicant("bob", 100, now) };
    shop.pass_millis(5_500);
    assert!(node.pass(ann.clone()).await.is_ok(), "the request was in time and took a moment");
    shop.pass_millis(10_000);
    assert_eq!(node.pass(bob).await, Err(DoorRefusal::TurnOver));
    assert!(node.pass(ann).await.is_ok(), "a live pass is repeated");
}
