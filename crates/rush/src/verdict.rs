//! Were all promises kept? Compares what the buyers were told in a run with what the API says now. Trusts
//! neither the generator's counters nor the server's.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

use crate::{
    api::ShopApi,
    crowd::{Doubtful, End, Promised},
    report::{RehearsalVerdict, sentence},
};

/// The number of buyers whose orders are read at the same time.
const READERS: usize = 8;
/// The longest time to look again while units move, as when holds expire.
const MAX_LOOKING_SECONDS: u64 = 60;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);
/// How long a mismatch is looked at again: a proxy may keep the page of a sale for a second, and a node may
/// hear of the last order a moment late.
const OLD_PAGE_LIMIT: Duration = Duration::from_secs(5);
/// Reads are refused under load now and then, like any request.
const MAX_TRIES: u32 = 10;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// More findings than this help nobody.
const MAX_FINDINGS: usize = 20;

/// What the buyers were told in a run.
#[derive(Debug)]
pub struct Evidence<'a> {
    pub sale: &'a str,
    pub limit_per_buyer: u64,
    pub promised: &'a [Promised],
    /// Orders that were never answered; the server may have accepted them or not.
    pub doubtful: &'a [Doubtful],
    /// Keys that were first answered with an order, and then with another one or with a refusal.
    pub contradictions: &'a [String],
    /// Other requests that got no answer.
    pub unanswered: u64,
    /// Nobody else buys in this sale, so every unit can be accounted for.
    pub is_ours_alone: bool,
}

/// An order as the API shows it now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OrderSeen {
    id: String,
    state: String,
    quantity: u64,
}

impl OrderSeen {
    fn is_live(&self) -> bool {
        matches!(self.state.as_str(), "held" | "paid")
    }
}

/// One look at the sale and at the orders of every buyer who was promised one.
struct SaleLook {
    units: u64,
    available: u64,
    /// Units that moved while the orders were read, in the last look.
    moved: u64,
    /// The orders of each buyer, by token.
    orders: HashMap<String, Vec<OrderSeen>>,
}

impl SaleLook {
    /// Units that are held or paid.
    fn live(&self) -> u64 {
        self.orders.values().flatten().filter(|order| order.is_live()).map(|order| order.quantity).sum()
    }

    /// No unit is there that was not published and, in a sale of our own, none is missing.
    fn adds_up(&self, is_ours_alone: bool) -> bool {
        let accounted = self.live() + self.available;
        accounted == self.units || (accounted < self.units && !is_ours_alone)
    }
}

pub fn judge(api: &ShopApi, evidence: &Evidence<'_>) -> anyhow::Result<RehearsalVerdict> {
    let look = look_until_still(api, evidence)?;
    let mut verdict = compare(evidence, &look);
    if api.is_admin() {
        let audit = patiently(api, "/api/v1/admin/audit", Some(&api.admin_token))?;
        let ok = audit.get("ok").and_then(Value::as_bool);
        match ok {
            Some(true) => {}
            Some(false) => verdict.findings.push(format!("The server's audit does not add up: {audit}")),
            None => bail!("the server's audit was answered {audit}"),
        }
        verdict.audit = ok;
        verdict.checked.push("the server's own audit of ledger, stock log and orders".to_owned());
    }
    verdict.findings.truncate(MAX_FINDINGS);
    Ok(verdict)
}

fn look_until_still(api: &ShopApi, evidence: &Evidence<'_>) -> anyhow::Result<SaleLook> {
    let mut buyers: Vec<&str> = evidence.promised.iter().map(|promise| promise.token.as_str()).collect();
    buyers.extend(evidence.doubtful.iter().map(|doubtful| doubtful.token.as_str()));
    buyers.sort_unstable();
    buyers.dedup();
    let began = Instant::now();
    loop {
        let before = StockLook::read(api, evidence.sale)?;
        let orders = read_orders(api, evidence.sale, &buyers)?;
        let after = StockLook::read(api, evidence.sale)?;
        let moved = before.available.abs_diff(after.available);
        // Units on offer in both looks can't belong to an order.
        let available = before.available.min(after.available);
        let look = SaleLook { units: after.units, available, moved, orders };
        let patience = if moved > 0 {
            after.holds_last()
        } else if look.adds_up(evidence.is_ours_alone) {
            Duration::ZERO
        } else {
            OLD_PAGE_LIMIT
        };
        if began.elapsed() >= patience {
            return Ok(look);
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

struct StockLook {
    units: u64,
    available: u64,
    hold_seconds: u64,
}

impl StockLook {
    fn read(api: &ShopApi, sale: &str) -> anyhow::Result<Self> {
        let sale = patiently(api, &format!("/api/v1/sales/{sale}"), None)?;
        let number = |pointer| sale.pointer(pointer).and_then(Value::as_u64);
        let both = number("/stock/total").zip(number("/stock/available"));
        let (units, available) = both.with_context(|| format!("a sale without stock: {sale}"))?;
        Ok(Self { units, available, hold_seconds: number("/hold_seconds").unwrap_or(MAX_LOOKING_SECONDS) })
    }

    /// The longest time until all holds of a crowd that has gone home are over, with some margin for the
    /// server.
    fn holds_last(&self) -> Duration {
        Duration::from_secs(self.hold_seconds.saturating_add(2).min(MAX_LOOKING_SECONDS))
    }
}

fn read_orders(
    api: &ShopApi,
    sale: &str,
    buyers: &[&str],
) -> anyhow::Result<HashMap<String, Vec<OrderSeen>>> {
    let part = buyers.len().div_ceil(READERS).max(1);
    thread::scope(|scope| {
        let read = |tokens: &[&str]| -> anyhow::Result<Vec<(String, Vec<OrderSeen>)>> {
            tokens.iter().map(|token| Ok(((*token).to_owned(), orders_of(api, sale, token)?))).collect()
        };
        let readers: Vec<_> = buyers.chunks(part).map(|tokens| scope.spawn(move || read(tokens))).collect();
        let mut orders = HashMap::with_capacity(buyers.len());
        for reader in readers {
            orders.extend(reader.join().map_err(|_| anyhow!("a reader of orders panicked"))??);
        }
        Ok(orders)
    })
}

/// All orders of one buyer in the sale.
fn orders_of(api: &ShopApi, sale: &str, token: &str) -> anyhow::Result<Vec<OrderSeen>> {
    let mut orders = Vec::new();
    let mut after = String::new();
    loop {
        let page = patiently(api, &format!("/api/v1/orders?limit=100{after}"), Some(token))?;
        for order in page.get("data").and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| order.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            if text("sale_id") == sale {
                let quantity = order.get("quantity").and_then(Value::as_u64).unwrap_or_default();
                orders.push(OrderSeen { id: text("id"), state: text("state"), quantity });
            }
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(orders),
        }
    }
}

/// Reads something that has to be there; `busy` and broken connections are tried again.
fn patiently(api: &ShopApi, path: &str, token: Option<&str>) -> anyhow::Result<Value> {
    let mut trouble = anyhow!("never asked");
    for _ in 0..MAX_TRIES {
        match api.ask("GET", path, token, None) {
            Ok(reply) if reply.status == 200 => return Ok(reply.body),
            Ok(reply) if matches!(reply.status, 429 | 503) => {
                trouble = anyhow!("GET {path} was answered {}", reply.in_words());
            }
            Ok(reply) => bail!("GET {path} was answered {}", reply.in_words()),
            Err(error) => trouble = error,
        }
        thread::sleep(TRY_AGAIN_AFTER);
    }
    Err(trouble)
}

fn compare(evidence: &Evidence<'_>, look: &SaleLook) -> RehearsalVerdict {
    let mut verdict = RehearsalVerdict::default();
    kept_promises(evidence, look, &mut verdict);
    nobody_twice(evidence, look, &mut verdict);
    within_limits(evidence, look, &mut verdict);
    units_conserved(evidence, look, &mut verdict);
    everybody_answered(evidence, &mut verdict);
    verdict
}

/// The verdict from the buyers' evidence alone, when the server can no longer be asked.
pub fn unchecked(evidence: &Evidence<'_>, error: &anyhow::Error) -> RehearsalVerdict {
    let mut verdict =
        RehearsalVerdict { unchecked: Some(format!("{error:#}")), ..RehearsalVerdict::default() };
    verdict.findings.push(sentence(format!("The outcome can't be checked: {error:#}")));
    verdict.duplicated = evidence.contradictions.len() as u64;
    verdict.findings.extend(evidence.contradictions.iter().cloned());
    everybody_answered(evidence, &mut verdict);
    verdict.findings.truncate(MAX_FINDINGS);
    verdict
}

fn everybody_answered(evidence: &Evidence<'_>, verdict: &mut RehearsalVerdict) {
    let orders = evidence.doubtful.len() as u64;
    verdict.unanswered = evidence.unanswered + orders;
    if verdict.unanswered > 0 {
        verdict.findings.push(format!(
            "{} requests were never answered, {orders} orders among them.",
            verdict.unanswered
        ));
    }
}

/// Checks that every promised order is there, in the state its buyer left it.
fn kept_promises(evidence: &Evidence<'_>, look: &SaleLook, verdict: &mut RehearsalVerdict) {
    for promise in evidence.promised {
        let orders = look.orders.get(&promise.token).map(Vec::as_slice).unwrap_or_default();
        let Some(order) = orders.iter().find(|order| order.id == promise.order) else {
            verdict.lost += 1;
            verdict.findings.push(format!("Order {} was accepted and is gone now.", promise.order));
            continue;
        };
        let may_be: &[&str] = match promise.end {
            End::Refused => {
                verdict.lost += 1;
                verdict.findings.push(format!(
                    "Order {} was accepted, and the server would not let its buyer pay or cancel it; it is {} now.",
                    promise.order, order.state
                ));
                continue;
            }
            End::Paid | End::PaidLate => &["paid"],
            End::Cancelled => &["cancelled"],
            End::Refund => &["expired", "cancelled"],
            End::WalkedAway => &["held", "expired"],
            End::Unknown => &["held", "paid", "expired", "cancelled"],
        };
        let state = order.state.as_str();
        if !may_be.contains(&state) || order.quantity != u64::from(promise.quantity) {
            verdict.lost += 1;
            verdict.findings.push(format!(
                "Order {} of {} units ended as {:?} for its buyer, and is now {} with {} units.",
                promise.order, promise.quantity, promise.end, state, order.quantity
            ));
        }
    }
    verdict.checked.push(format!("the orders of all {} buyers who got one", look.orders.len()));
}

/// Checks that no key has two orders, no order two buyers, and nobody an order that they did not ask for.
fn nobody_twice(evidence: &Evidence<'_>, look: &SaleLook, verdict: &mut RehearsalVerdict) {
    verdict.duplicated += evidence.contradictions.len() as u64;
    verdict.findings.extend(evidence.contradictions.iter().cloned());
    let mut owners: HashMap<&str, (&str, &str)> = HashMap::new();
    for promise in evidence.promised {
        let owner = (promise.token.as_str(), promise.key.as_str());
        if *owners.entry(&promise.order).or_insert(owner) != owner {
            verdict.duplicated += 1;
            verdict.findings.push(format!("Order {} was promised twice.", promise.order));
        }
    }
    let mut in_doubt: BTreeMap<&str, usize> = BTreeMap::new();
    for doubtful in evidence.doubtful {
        *in_doubt.entry(&doubtful.token).or_default() += 1;
    }
    let promised: HashSet<&str> = evidence.promised.iter().map(|promise| promise.order.as_str()).collect();
    for (token, orders) in &look.orders {
        let unknown: Vec<_> = orders.iter().filter(|order| !promised.contains(order.id.as_str())).collect();
        // A request whose answer was lost may have been accepted.
        let allowed = in_doubt.get(token.as_str()).copied().unwrap_or(0);
        for order in unknown.iter().skip(allowed) {
            verdict.duplicated += 1;
            verdict.findings.push(format!("Order {} is there, and nobody was told of it.", order.id));
        }
    }
}

fn within_limits(evidence: &Evidence<'_>, look: &SaleLook, verdict: &mut RehearsalVerdict) {
    for orders in look.orders.values() {
        let live: u64 = orders.iter().filter(|order| order.is_live()).map(|order| order.quantity).sum();
        let over = live.saturating_sub(evidence.limit_per_buyer);
        if over > 0 {
            verdict.over_limit += over;
            verdict
                .findings
                .push(format!("A buyer has {live} units; {} is the limit.", evidence.limit_per_buyer));
        }
    }
}

fn units_conserved(evidence: &Evidence<'_>, look: &SaleLook, verdict: &mut RehearsalVerdict) {
    let live = look.live();
    let SaleLook { units, available, moved, .. } = *look;
    if moved > 0 && !evidence.is_ours_alone {
        verdict.findings.push(format!(
            "Somebody else is buying: {moved} units came or went while the orders were read, so that units can't be \
             accounted for one by one."
        ));
    } else if moved > 0 {
        verdict.lost += moved;
        verdict.findings.push(format!(
            "Everybody has gone home and all holds are over, but {moved} units still came or went."
        ));
        return;
    }
    let accounted = live + available;
    if accounted > units {
        verdict.oversold += accounted - units;
        verdict.findings.push(format!(
            "{live} units are held or paid and {available} are on offer, but only {units} were published."
        ));
    } else if evidence.is_ours_alone && accounted < units {
        verdict.lost += units - accounted;
        verdict.findings.push(format!(
            "Of {units} units {live} are held or paid and {available} on offer; the rest is missing."
        ));
    }
    verdict.checked.push(format!("units: {units} published, {live} held or paid, {available} on offer"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(buyer: u64, order: &str, end: End) -> Promised {
        let (token, key) = (format!("token-{buyer}"), format!("key-{order}"));
        Promised { buyer, token, key, order: order.to_owned(), quantity: 1, end }
    }

    fn order(id: &str, state: &str) -> OrderSeen {
        OrderSeen { id: id.to_owned(), state: state.to_owned(), quantity: 1 }
    }

    fn look(available: u64, orders: &[(u64, &[OrderSeen])]) -> SaleLook {
        let orders = orders.iter().map(|(buyer, orders)| (format!("token-{buyer}"), orders.to_vec()));
        SaleLook { units: 3, available, moved: 0, orders: orders.collect() }
    }

    fn judged(promised: &[Promised], doubtful: &[Doubtful], look: &SaleLook) -> [u64; 5] {
        let evidence = Evidence {
            sale: "s",
            limit_per_buyer: 1,
            promised,
            doubtful,
            contradictions: &[],
            unanswered: 0,
            is_ours_alone: true,
        };
        let verdict = compare(&evidence, look);
        let counts =
            [verdict.oversold, verdict.lost, verdict.duplicated, verdict.over_limit, verdict.unanswered];
        assert_eq!(verdict.is_clean(), counts == [0; 5]);
        assert_eq!(verdict.is_clean(), verdict.findings.is_empty(), "{:?}", verdict.findings);
        counts
    }

    #[test]
    fn kept_promises_are_clean() {
        let promised = [promise(1, "a", End::Paid), promise(2, "b", End::WalkedAway)];
        let held = look(1, &[(1, &[order("a", "paid")]), (2, &[order("b", "held")])]);
        assert_eq!(judged(&promised, &[], &held), [0; 5]);
        let expired = look(2, &[(1, &[order("a", "paid")]), (2, &[order("b", "expired")])]);
        assert_eq!(judged(&promised, &[], &expired), [0; 5]);
    }

    #[test]
    fn an_order_that_vanished_or_was_taken_back_is_lost() {
        let promised = [promise(1, "a", End::Paid)];
        assert_eq!(judged(&promised, &[], &look(3, &[(1, &[])])), [0, 1, 0, 0, 0]);
        assert_eq!(judged(&promised, &[], &look(3, &[(1, &[order("a", "expired")])])), [0, 1, 0, 0, 0]);
    }

    #[test]
    fn more_units_than_were_published_are_oversold_and_fewer_are_lost() {
        let promised = [promise(1, "a", End::Paid), promise(2, "b", End::Paid)];
        let orders: [(u64, &[OrderSeen]); 2] = [(1, &[order("a", "paid")]), (2, &[order("b", "paid")])];
        assert_eq!(judged(&promised, &[], &look(2, &orders)), [1, 0, 0, 0, 0]);
        assert_eq!(judged(&promised, &[], &look(0, &orders)), [0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_second_order_is_a_duplicate_and_over_the_limit() {
        let promised = [promise(1, "a", End::Paid)];
        let twice = look(1, &[(1, &[order("a", "paid"), order("b", "held")])]);
        assert_eq!(judged(&promised, &[], &twice), [0, 0, 1, 1, 0]);
    }

    #[test]
    fn one_order_for_two_buyers_is_a_duplicate() {
        let promised = [promise(1, "a", End::Paid), promise(2, "a", End::Unknown)];
        let both = look(2, &[(1, &[order("a", "paid")])]);
        let [_, _, duplicated, _, _] = judged(&promised, &[], &both);
        assert_eq!(duplicated, 1);
    }

    #[test]
    fn an_unanswered_order_may_have_been_accepted_but_counts_as_unanswered() {
        let doubtful = [Doubtful { buyer: 1, token: "token-1".to_owned(), key: "key".to_owned() }];
        assert_eq!(judged(&[], &doubtful, &look(2, &[(1, &[order("a", "held")])])), [0, 0, 0, 0, 1]);
        assert_eq!(judged(&[], &doubtful, &look(3, &[(1, &[])])), [0, 0, 0, 0, 1]);
    }

    #[test]
    fn an_order_that_could_not_be_paid_is_lost() {
        let promised = [promise(1, "a", End::Refused)];
        assert_eq!(judged(&promised, &[], &look(2, &[(1, &[order("a", "held")])])), [0, 1, 0, 0, 0]);
        assert_eq!(judged(&promised, &[], &look(3, &[(1, &[order("a", "expired")])])), [0, 1, 0, 0, 0]);
    }

    fn two_unanswered_and(doubtful: &[Doubtful]) -> Evidence<'_> {
        Evidence {
            sale: "s",
            limit_per_buyer: 1,
            promised: &[],
            doubtful,
            contradictions: &[],
            unanswered: 2,
            is_ours_alone: true,
        }
    }

    #[test]
    fn a_server_that_can_not_be_asked_is_not_clean_and_hides_no_silence() {
        let doubtful = [Doubtful { buyer: 1, token: "token-1".to_owned(), key: "key".to_owned() }];
        let contradictions = ["Two orders for one key.".to_owned()];
        let evidence = Evidence { contradictions: &contradictions, ..two_unanswered_and(&doubtful) };
        let verdict = unchecked(&evidence, &anyhow!("connection refused"));
        assert_eq!((verdict.unanswered, verdict.duplicated), (3, 1));
        assert!(!verdict.is_clean() && verdict.findings[0].contains("connection refused"));
    }

    #[test]
    fn unanswered_orders_and_other_requests_are_counted_once_each() {
        let doubtful = [Doubtful { buyer: 1, token: "token-1".to_owned(), key: "key".to_owned() }];
        assert_eq!(compare(&two_unanswered_and(&doubtful), &look(3, &[(1, &[])])).unanswered, 3);
    }

    #[test]
    fn stock_that_moves_when_everybody_has_gone_is_a_finding() {
        let moving = SaleLook { moved: 1, ..look(1, &[(1, &[order("a", "paid"), order("b", "paid")])]) };
        let promised = [promise(1, "a", End::Paid), promise(1, "b", End::Paid)];
        let [_, lost, ..] = judged(&promised, &[], &moving);
        assert_eq!(lost, 1);
    }
}
