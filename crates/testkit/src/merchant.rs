//! What a merchant does through the admin calls: items, sales, publishing, restocking.

use serde_json::{Value, json};

use crate::{AnswerLost, Client, ClientAnswer, Penstock};

/// The admin token with which every server of the tests is started.
pub const ADMIN_TOKEN: &str = "admin-token-for-tests-only";

/// The terms of a sale that opens when it is published.
#[derive(Clone, Copy, Debug)]
pub struct OfferTerms {
    pub units: u32,
    pub limit_per_buyer: u32,
    pub hold_seconds: u32,
}

impl Default for OfferTerms {
    fn default() -> Self {
        Self { units: 100, limit_per_buyer: 1, hold_seconds: 600 }
    }
}

#[derive(Debug)]
pub struct Merchant {
    client: Client,
}

impl Merchant {
    pub fn of(penstock: &Penstock) -> Self {
        Self::with(penstock.admin())
    }

    /// A merchant in any shop that `client` reaches with the admin role.
    pub fn with(client: Client) -> Self {
        Self { client }
    }

    /// Creates an item and a sale of it, publishes it, and returns the sale's id.
    pub fn publish(&mut self, offer: OfferTerms) -> String {
        let sale = self.draft(offer);
        self.act(&sale, "publish", None);
        sale
    }

    /// Like `publish`, but `change` may edit the request first, such as to add a gate or a window.
    pub fn publish_with(&mut self, offer: OfferTerms, change: impl FnOnce(&mut Value)) -> String {
        let sale = self.draft_with(offer, change);
        self.act(&sale, "publish", None);
        sale
    }

    /// Creates an item and a sale of it without publishing it.
    pub fn draft(&mut self, offer: OfferTerms) -> String {
        self.draft_with(offer, |_| {})
    }

    fn draft_with(&mut self, offer: OfferTerms, change: impl FnOnce(&mut Value)) -> String {
        let item = self.item("A very good phone");
        let mut sale = json!({
            "item_id": item,
            "price": { "amount": "1999.00", "currency": "CNY" },
            "units": offer.units,
            "limit_per_buyer": offer.limit_per_buyer,
            "hold_seconds": offer.hold_seconds,
        });
        change(&mut sale);
        let created = expect(201, self.client.post("/api/v1/admin/sales", &sale));
        id_of(&created)
    }

    pub fn item(&mut self, title: &str) -> String {
        let item = json!({
            "title": title,
            "description": "For tests.",
            "regular_price": { "amount": "2999.00", "currency": "CNY" },
        });
        let created = expect(201, self.client.post("/api/v1/admin/items", &item));
        id_of(&created)
    }

    pub fn restock(&mut self, sale: &str, units: u32) -> Value {
        self.act(sale, "restock", Some(json!({ "units": units })))
    }

    /// Does `publish`, `pause`, `resume`, `close` or `restock`, and returns the sale afterwards.
    pub fn act(&mut self, sale: &str, verb: &str, body: Option<Value>) -> Value {
        let path = format!("/api/v1/admin/sales/{sale}/{verb}");
        let answer = match body {
            Some(body) => self.client.post(&path, &body),
            None => self.client.post_nothing(&path),
        };
        expect(200, answer)
    }

    pub fn sale(&mut self, sale: &str) -> Value {
        expect(200, self.client.get(&format!("/api/v1/sales/{sale}")))
    }

    /// All settled orders of a sale, in the form of the API.
    pub fn orders(&mut self, sale: &str) -> Vec<Value> {
        self.all(&format!("/api/v1/admin/orders?sale={sale}&limit=100"))
    }

    pub fn dead_letters(&mut self) -> Vec<Value> {
        self.all("/api/v1/admin/dead-letters?limit=100")
    }

    /// Reads all pages of a list.
    fn all(&mut self, path: &str) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut page_path = path.to_owned();
        loop {
            let mut page = expect(200, self.client.get(&page_path));
            if let Some(data) = page["data"].as_array_mut() {
                entries.append(data);
            }
            match page["next"].as_str() {
                Some(cursor) => page_path = format!("{path}&after={cursor}"),
                None => return entries,
            }
        }
    }
}

fn expect(status: u16, answer: Result<ClientAnswer, AnswerLost>) -> Value {
    let answer = answer.unwrap_or_else(|lost| panic!("no answer: {lost:?}"));
    assert_eq!(answer.status, status, "{}", answer.text());
    answer.json()
}

fn id_of(created: &Value) -> String {
    created["id"].as_str().unwrap_or_else(|| panic!("no id in {created}")).to_owned()
}
