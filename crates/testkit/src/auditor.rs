//! An auditor that knows only what clients saw, the public API and the command line. It shares no code with
//! the crates that it audits.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{ClientAnswer, CommandRun, Merchant, Penstock};

const SETTLEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A claim that some client sent, and the answers to it.
#[derive(Clone, Debug)]
struct Sent {
    buyer: String,
    quantity: u64,
    /// The order in the first 201; every other 201 has to name the same order.
    order: Option<String>,
    /// A verdict was seen, so the claim is no longer under way.
    decided: bool,
}

/// Collects what clients saw.
#[derive(Clone, Debug, Default)]
pub struct Auditor {
    /// By sale and idempotency key; the tests never share a key between buyers.
    claims: BTreeMap<(String, String), Sent>,
    /// Orders whose payment, or cancellation, was answered 200.
    paid: BTreeSet<String>,
    cancelled: BTreeSet<String>,
    /// How often buyers joined a sale's waitlist. Each time may have led to an order that nobody claimed.
    joined: BTreeMap<String, usize>,
    /// Orders that were found by people on a waitlist, with the sale and buyer of each.
    offered: BTreeMap<String, (String, String)>,
    findings: Vec<String>,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditVerdict {
    /// Distinct orders that clients were promised.
    pub promised: usize,
    /// Orders the server knows.
    pub orders: usize,
    /// Everything that does not add up.
    pub findings: Vec<String>,
}

impl AuditVerdict {
    pub fn assert_clean(&self) {
        assert!(self.findings.is_empty(), "the audit found:\n  {}", self.findings.join("\n  "));
    }
}

impl Auditor {
    /// A claim is about to be sent. Sending it again changes nothing.
    pub fn sends(&mut self, sale: &str, buyer: &str, quantity: u32, key: &str) {
        let sent = Sent { buyer: buyer.to_owned(), quantity: quantity.into(), order: None, decided: false };
        self.claims.entry((sale.to_owned(), key.to_owned())).or_insert(sent);
    }

    /// Takes in the answer to a claim. Returns the order if there is one.
    pub fn saw(&mut self, sale: &str, key: &str, answer: &ClientAnswer) -> Option<String> {
        let claim = (sale.to_owned(), key.to_owned());
        if answer.status != 201 {
            if let Some(sent) = self.claims.get_mut(&claim) {
                sent.decided |= answer.status == 409;
            }
            if answer.status >= 500 && answer.status != 503 {
                self.findings.push(format!("{} for key {key}: {}", answer.status, answer.text()));
            }
            return None;
        }
        let body = answer.json();
        let order = body["id"].as_str().unwrap_or_default().to_owned();
        match self.claims.get_mut(&claim) {
            None => self.findings.push(format!("an answer to key {key}, which nobody sent")),
            Some(sent) => {
                sent.decided = true;
                if body["quantity"].as_u64() != Some(sent.quantity) {
                    self.findings.push(format!("order {order} has another quantity than was asked for"));
                }
                if *sent.order.get_or_insert_with(|| order.clone()) != order {
                    self.findings.push(format!("duplicated: key {key} got a second order {order}"));
                }
            }
        }
        Some(order)
    }

    pub fn saw_payment(&mut self, order: &str) {
        self.paid.insert(order.to_owned());
    }

    pub fn saw_cancellation(&mut self, order: &str) {
        self.cancelled.insert(order.to_owned());
    }

    /// A buyer is about to join the waitlist of a sale.
    pub fn joins(&mut self, sale: &str) {
        *self.joined.entry(sale.to_owned()).or_default() += 1;
    }

    /// A buyer on a waitlist has found this order.
    pub fn saw_offer(&mut self, sale: &str, buyer: &str, order: &str) {
        let owner = (sale.to_owned(), buyer.to_owned());
        if *self.offered.entry(order.to_owned()).or_insert_with(|| owner.clone()) != owner {
            self.findings.push(format!("duplicated: order {order} was offered to {buyer} and somebody else"));
        }
    }

    /// Adds what another thread's clients saw.
    pub fn merge(&mut self, other: Self) {
        for (key, sent) in other.claims {
            let known =
                self.claims.entry(key.clone()).or_insert_with(|| Sent { order: None, ..sent.clone() });
            known.decided |= sent.decided;
            if let Some(order) = sent.order
                && *known.order.get_or_insert_with(|| order.clone()) != order
            {
                self.findings.push(format!("duplicated: key {} got a second order {order}", key.1));
            }
        }
        self.paid.extend(other.paid);
        self.cancelled.extend(other.cancelled);
        for (sale, joined) in other.joined {
            *self.joined.entry(sale).or_default() += joined;
        }
        for (order, (sale, buyer)) in other.offered {
            self.saw_offer(&sale, &buyer, &order);
        }
        self.findings.extend(other.findings);
    }

    /// Distinct orders that clients were promised in a sale.
    pub fn promised(&self, sale: &str) -> BTreeSet<&str> {
        let of_sale = self.claims.iter().filter(|((known, _), _)| known == sale);
        of_sale.filter_map(|(_, sent)| sent.order.as_deref()).collect()
    }

    /// Waits for settlement, then compares what clients saw with what the API and `penstock audit` say.
    pub fn verify(&self, penstock: &Penstock) -> AuditVerdict {
        let data = penstock.data().display().to_string();
        let audit = || penstock.run(&["audit", "--json", "--data", &data]);
        self.verify_with(&mut Merchant::of(penstock), audit)
    }

    /// The same for any kind of shop: `merchant` talks to it, `audit` runs `penstock audit --json` on it.
    pub fn verify_with(
        &self,
        merchant: &mut Merchant,
        audit: impl Fn() -> anyhow::Result<CommandRun>,
    ) -> AuditVerdict {
        let mut verdict = AuditVerdict { findings: self.findings.clone(), ..AuditVerdict::default() };
        let report = settled_report(audit, &mut verdict.findings);
        let sales: BTreeSet<&str> = self.claims.keys().map(|(sale, _)| sale.as_str()).collect();
        for sale in sales {
            self.verify_sale(sale, merchant, &mut verdict);
        }
        if report["ok"] != Value::Bool(true) {
            verdict.findings.push(format!("penstock audit: {report:#}"));
        }
        verdict
    }

    fn verify_sale(&self, sale: &str, merchant: &mut Merchant, verdict: &mut AuditVerdict) {
        let (status, orders) = quiet_view(sale, merchant);
        let by_id: BTreeMap<&str, &Value> =
            orders.iter().filter_map(|order| Some((order["id"].as_str()?, order))).collect();
        verdict.orders += by_id.len();
        verdict.promised += self.promised(sale).len();
        let findings = &mut verdict.findings;
        if by_id.len() != orders.len() {
            findings.push(format!("duplicated: {} rows for {} orders of {sale}", orders.len(), by_id.len()));
        }
        check_units(sale, &status, &orders, findings);
        self.check_promises(sale, &by_id, findings);
        self.check_offers(sale, &by_id, findings);
        self.check_buyers(sale, &status, &orders, findings);
    }

    /// Every 201 has become an order, in a state that agrees with the later answers.
    fn check_promises(&self, sale: &str, orders: &BTreeMap<&str, &Value>, findings: &mut Vec<String>) {
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for ((_, key), sent) in self.claims.iter().filter(|((known, _), _)| known == sale) {
            let Some(id) = sent.order.as_deref() else { continue };
            if let Some(other) = owners.insert(id, key) {
                findings.push(format!("duplicated: keys {key} and {other} both got order {id}"));
            }
            let Some(order) = orders.get(id) else {
                findings.push(format!("lost: order {id} was answered 201 and does not exist"));
                continue;
            };
            if order["quantity"].as_u64() != Some(sent.quantity) {
                findings.push(format!("order {id} has another quantity than was promised: {order}"));
            }
            let state = order["state"].as_str().unwrap_or_default();
            let contradicted = (self.paid.contains(id) && state != "paid")
                || (self.cancelled.contains(id) && state != "cancelled");
            if contradicted {
                findings.push(format!("lost: order {id} is {state}, which is not what was answered"));
            }
        }
    }

    fn offers(&self, sale: &str) -> impl Iterator<Item = (&str, &str)> {
        let of_sale = self.offered.iter().filter(move |(_, (known, _))| known == sale);
        of_sale.map(|(order, (_, buyer))| (order.as_str(), buyer.as_str()))
    }

    /// Every offered order exists and was promised to nobody else.
    fn check_offers(&self, sale: &str, orders: &BTreeMap<&str, &Value>, findings: &mut Vec<String>) {
        let promised = self.promised(sale);
        for (order, buyer) in self.offers(sale) {
            if !orders.contains_key(order) {
                findings.push(format!("lost: order {order} was offered to {buyer} and does not exist"));
            }
            if promised.contains(order) {
                findings.push(format!("duplicated: order {order} was offered to {buyer} and is a claim's"));
            }
        }
    }

    /// No buyer exceeds the limit, and there are no orders that nobody can have asked for.
    fn check_buyers(&self, sale: &str, status: &Value, orders: &[Value], findings: &mut Vec<String>) {
        let claims = || self.claims.iter().filter(|((known, _), _)| known == sale).map(|(_, sent)| sent);
        let owners: BTreeMap<&str, &str> = claims()
            .filter_map(|sent| Some((sent.order.as_deref()?, sent.buyer.as_str())))
            .chain(self.offers(sale))
            .collect();
        let limit = status["limit_per_buyer"].as_u64().unwrap_or_default();
        let mut units: BTreeMap<&str, u64> = BTreeMap::new();
        let mut strangers = Vec::new();
        for order in orders {
            let id = order["id"].as_str().unwrap_or_default();
            match owners.get(id) {
                Some(buyer) => *units.entry(buyer).or_default() += active_units(order),
                None => strangers.push(id),
            }
        }
        for (buyer, units) in units.into_iter().filter(|(_, units)| *units > limit) {
            findings
                .push(format!("over the limit: {buyer} has {units} units of {sale}, the limit is {limit}"));
        }
        let undecided = claims().filter(|sent| !sent.decided).count();
        let joined = self.joined.get(sale).copied().unwrap_or_default();
        let waited = joined.saturating_sub(self.offers(sale).count());
        if strangers.len() > undecided + waited {
            let count = strangers.len();
            findings.push(format!(
                "duplicated: {count} orders of {sale} for {undecided} claims and {waited} on the waitlist: {strangers:?}"
            ));
        }
    }
}

/// `total = available + held + paid`.
fn check_units(sale: &str, status: &Value, orders: &[Value], findings: &mut Vec<String>) {
    let total = status["stock"]["total"].as_u64().unwrap_or_default();
    let available = status["stock"]["available"].as_u64().unwrap_or_default();
    let active: u64 = orders.iter().map(active_units).sum();
    if active > total {
        findings.push(format!("oversold: {active} of {total} units of {sale}"));
    }
    if available + active != total {
        findings
            .push(format!("{sale}: {total} units published, {available} available, {active} held or paid"));
    }
}

fn active_units(order: &Value) -> u64 {
    let active = matches!(order["state"].as_str(), Some("held" | "paid"));
    if active { order["quantity"].as_u64().unwrap_or_default() } else { 0 }
}

/// A sale and its orders at a moment when neither changed: holds may expire while we look.
fn quiet_view(sale: &str, merchant: &mut Merchant) -> (Value, Vec<Value>) {
    let stock = |status: &Value| status["stock"].clone();
    let deadline = Instant::now() + SETTLEMENT_TIMEOUT;
    loop {
        let before = merchant.sale(sale);
        let orders = merchant.orders(sale);
        let after = merchant.sale(sale);
        let mut findings = Vec::new();
        check_units(sale, &after, &orders, &mut findings);
        let quiet = stock(&before) == stock(&after) && findings.is_empty();
        if quiet || Instant::now() > deadline {
            return (after, orders);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The report of `penstock audit --json` once nothing is pending.
fn settled_report(audit: impl Fn() -> anyhow::Result<CommandRun>, findings: &mut Vec<String>) -> Value {
    let deadline = Instant::now() + SETTLEMENT_TIMEOUT;
    loop {
        let run = match audit() {
            Ok(run) => run,
            Err(error) => {
                findings.push(format!("penstock audit can't be run: {error}"));
                return Value::Null;
            }
        };
        let Ok(report) = serde_json::from_str::<Value>(&run.stdout) else {
            findings.push(format!("penstock audit exits {} and says {}", run.status, run.stderr));
            return Value::Null;
        };
        let ok = report["ok"] == Value::Bool(true);
        if ok != run.status.success() {
            findings
                .push(format!("penstock audit exits {} and says {}{}", run.status, run.stdout, run.stderr));
        }
        let settled = report["pending"].as_u64() == Some(0);
        if !ok || settled || Instant::now() > deadline {
            if ok && !settled {
                findings.push(format!("settlement does not catch up: {report}"));
            }
            return report;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn created(order: &str, quantity: u32) -> ClientAnswer {
        let body = json!({ "id": order, "quantity": quantity }).to_string().into_bytes();
        ClientAnswer { status: 201, headers: Vec::new(), body }
    }

    fn order(id: &str, quantity: u32, state: &str) -> Value {
        json!({ "id": id, "quantity": quantity, "state": state })
    }

    fn status(total: u32, available: u32) -> Value {
        json!({ "stock": { "total": total, "available": available }, "limit_per_buyer": 2 })
    }

    /// What the auditor says about a server that shows `orders`.
    fn findings(auditor: &Auditor, status: &Value, orders: &[Value]) -> String {
        let mut findings = auditor.findings.clone();
        let by_id = orders.iter().map(|order| (order["id"].as_str().unwrap(), order)).collect();
        check_units("s", status, orders, &mut findings);
        auditor.check_promises("s", &by_id, &mut findings);
        auditor.check_offers("s", &by_id, &mut findings);
        auditor.check_buyers("s", status, orders, &mut findings);
        findings.join("\n")
    }

    fn two_claims() -> Auditor {
        let mut auditor = Auditor::default();
        for (buyer, key, id) in [("a", "1", "s-0"), ("b", "2", "s-1")] {
            auditor.sends("s", buyer, 1, key);
            auditor.saw("s", key, &created(id, 1));
        }
        auditor
    }

    #[test]
    fn a_shop_that_adds_up_has_no_findings() {
        let orders = [order("s-0", 1, "held"), order("s-1", 1, "cancelled")];
        assert_eq!(findings(&two_claims(), &status(5, 4), &orders), "");
    }

    #[test]
    fn a_lost_order_is_found() {
        let found = findings(&two_claims(), &status(5, 4), &[order("s-0", 1, "held")]);
        assert!(found.contains("lost: order s-1"), "{found}");
    }

    #[test]
    fn a_lost_payment_is_found() {
        let mut auditor = two_claims();
        auditor.saw_payment("s-1");
        let orders = [order("s-0", 1, "held"), order("s-1", 1, "expired")];
        let found = findings(&auditor, &status(5, 4), &orders);
        assert!(found.contains("lost: order s-1 is expired"), "{found}");
    }

    #[test]
    fn units_that_do_not_exist_are_found() {
        let orders = [order("s-0", 1, "held"), order("s-1", 1, "paid")];
        let found = findings(&two_claims(), &status(1, 0), &orders);
        assert!(found.contains("oversold: 2 of 1 units"), "{found}");
        let found = findings(&two_claims(), &status(5, 4), &orders);
        assert!(found.contains("5 units published, 4 available, 2 held or paid"), "{found}");
    }

    #[test]
    fn duplicates_are_found() {
        let mut auditor = two_claims();
        auditor.saw("s", "1", &created("s-7", 1));
        assert!(auditor.findings[0].contains("key 1 got a second order s-7"), "{:?}", auditor.findings);
        let orders = [order("s-0", 1, "held"), order("s-1", 1, "held"), order("s-2", 1, "held")];
        let found = findings(&two_claims(), &status(5, 2), &orders);
        assert!(found.contains("duplicated: 1 orders of s for 0 claims and 0 on the waitlist"), "{found}");
        let mut auditor = two_claims();
        auditor.sends("s", "c", 1, "3");
        auditor.saw("s", "3", &created("s-1", 1));
        let found = findings(&auditor, &status(5, 3), &[order("s-0", 1, "held"), order("s-1", 1, "held")]);
        assert!(found.contains("both got order s-1"), "{found}");
    }

    #[test]
    fn a_claim_under_way_may_have_become_an_order() {
        let mut auditor = two_claims();
        auditor.sends("s", "c", 1, "3");
        let orders = [order("s-0", 1, "held"), order("s-1", 1, "held"), order("s-2", 1, "held")];
        assert_eq!(findings(&auditor, &status(5, 2), &orders), "");
    }

    #[test]
    fn a_person_on_the_waitlist_may_have_an_order_that_nobody_claimed() {
        let mut auditor = two_claims();
        let orders = [order("s-0", 1, "held"), order("s-1", 1, "held"), order("s-2", 1, "held")];
        auditor.joins("s");
        assert_eq!(findings(&auditor, &status(5, 2), &orders), "");
        auditor.saw_offer("s", "c", "s-2");
        assert_eq!(findings(&auditor, &status(5, 2), &orders), "");
        let more = [orders.as_slice(), &[order("s-3", 1, "held")]].concat();
        let found = findings(&auditor, &status(5, 1), &more);
        assert!(found.contains("duplicated: 1 orders of s for 0 claims and 0 on the waitlist"), "{found}");
    }

    #[test]
    fn an_offer_that_is_lost_or_belongs_to_another_buyer_is_found() {
        let mut auditor = two_claims();
        auditor.saw_offer("s", "c", "s-2");
        auditor.saw_offer("s", "d", "s-1");
        let orders = [order("s-0", 1, "held"), order("s-1", 1, "held")];
        let found = findings(&auditor, &status(5, 3), &orders);
        assert!(found.contains("lost: order s-2 was offered to c"), "{found}");
        assert!(found.contains("duplicated: order s-1 was offered to d and is a claim's"), "{found}");
        auditor.saw_offer("s", "e", "s-2");
        assert!(
            auditor.findings[0].contains("s-2 was offered to e and somebody else"),
            "{:?}",
            auditor.findings
        );
    }

    #[test]
    fn a_buyer_over_the_limit_is_found() {
        let mut auditor = Auditor::default();
        for (key, id) in [("1", "s-0"), ("2", "s-1")] {
            auditor.sends("s", "a", 2, key);
            auditor.saw("s", key, &created(id, 2));
        }
        let orders = [order("s-0", 2, "held"), order("s-1", 2, "paid")];
        let found = findings(&auditor, &status(5, 1), &orders);
        assert!(found.contains("over the limit: a has 4 units"), "{found}");
    }
}
