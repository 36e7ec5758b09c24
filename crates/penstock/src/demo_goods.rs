//! What the demo sells: three items with pictures and a sale of each, created through the API as any merchant
//! would.

use anyhow::Context as _;
use penstock_rush::api::{ShopApi, text};
use serde_json::{Value, json};

use crate::clock;

/// An item, and the terms of its sale. All prices are in CNY.
pub(crate) struct Good {
    pub(crate) title: &'static str,
    description: &'static str,
    picture: &'static [u8],
    regular_price: &'static str,
    pub(crate) price: &'static str,
    pub(crate) units: u32,
    limit_per_buyer: u32,
    window: Window,
    is_gated: bool,
}

enum Window {
    Always,
    /// Opens this many seconds from now, and closes this many seconds later.
    Soon(u32, u32),
}

/// Opens in half a minute, with nothing before it: the printed commands buy it.
pub(crate) const PHONE: Good = Good {
    title: "Phone X",
    description: "The phone everybody wants, at half the usual price.",
    picture: include_bytes!("../demo/phone.webp"),
    regular_price: "3999.00",
    price: "1999.00",
    units: 100,
    limit_per_buyer: 2,
    window: Window::Soon(30, 3600),
    is_gated: false,
};

/// Open at once, behind a waiting room and a proof of work.
pub(crate) const HEADPHONES: Good = Good {
    title: "Headphones Q",
    description: "They hear nothing but the music.",
    picture: include_bytes!("../demo/headphones.webp"),
    regular_price: "899.00",
    price: "449.00",
    units: 50,
    limit_per_buyer: 1,
    window: Window::Always,
    is_gated: true,
};

/// On regular sale.
pub(crate) const KETTLE: Good = Good {
    title: "Kettle K",
    description: "Boils before you have found the cups.",
    picture: include_bytes!("../demo/kettle.webp"),
    regular_price: "249.00",
    price: "199.00",
    units: 500,
    limit_per_buyer: 5,
    window: Window::Always,
    is_gated: false,
};

/// Puts items back on sale whose sale is over, and returns the sale of the phone. The sale published last is
/// shown first.
pub(crate) fn put_on_sale(api: &ShopApi) -> anyhow::Result<Value> {
    let (sales, items) = (list(api, "/api/v1/sales")?, list(api, "/api/v1/items")?);
    let ensure = |good: &Good| {
        let still_on = |sale: &&Value| {
            sale["item"]["title"] == good.title
                && matches!(sale["state"].as_str(), Some("scheduled" | "open"))
        };
        match sales.iter().find(still_on) {
            Some(sale) => Ok(sale.clone()),
            None => good.publish(api, &items),
        }
    };
    ensure(&KETTLE)?;
    ensure(&HEADPHONES)?;
    ensure(&PHONE)
}

fn list(api: &ShopApi, path: &str) -> anyhow::Result<Vec<Value>> {
    let page = api.call("GET", &format!("{path}?limit=100"), None, 200)?;
    Ok(page["data"].as_array().cloned().unwrap_or_default())
}

impl Good {
    fn publish(&self, api: &ShopApi, items: &[Value]) -> anyhow::Result<Value> {
        let now = clock::now();
        let (opens_at, closes_at) = match self.window {
            Window::Always => (None, None),
            Window::Soon(opens_in_seconds, open_for_seconds) => {
                let opens_at = now.plus_seconds(opens_in_seconds);
                (Some(opens_at), Some(opens_at.plus_seconds(open_for_seconds)))
            }
        };
        let challenge = if self.is_gated { "pow" } else { "none" };
        let draft = json!({
            "item_id": self.item(api, items)?,
            "price": { "amount": self.price, "currency": "CNY" },
            "units": self.units,
            "limit_per_buyer": self.limit_per_buyer,
            "opens_at": opens_at.map(clock::rfc3339),
            "closes_at": closes_at.map(clock::rfc3339),
            "hold_seconds": 900,
            "gate": { "challenge": challenge, "waiting_room": self.is_gated },
        });
        let draft = api.call("POST", "/api/v1/admin/sales", Some(&draft), 201)?;
        api.call("POST", &format!("/api/v1/admin/sales/{}/publish", text(&draft, "id")?), None, 200)
    }

    /// The id of the item. Creates the item if there is none, and adds its picture if it has none.
    fn item(&self, api: &ShopApi, known: &[Value]) -> anyhow::Result<String> {
        let known = known.iter().find(|item| item["title"] == self.title);
        if let Some(item) = known.filter(|item| item["picture"].is_string()) {
            return text(item, "id");
        }
        let picture = api.upload("/api/v1/admin/pictures", "image/webp", self.picture)?;
        let picture = text(&picture, "picture").context("the uploaded picture has no address")?;
        if let Some(item) = known {
            let path = format!("/api/v1/admin/items/{}", text(item, "id")?);
            return text(&api.call("PATCH", &path, Some(&json!({ "picture": picture })), 200)?, "id");
        }
        let item = json!({
            "title": self.title,
            "description": self.description,
            "picture": picture,
            "regular_price": { "amount": self.regular_price, "currency": "CNY" },
        });
        text(&api.call("POST", "/api/v1/admin/items", Some(&item), 201)?, "id")
    }
}
