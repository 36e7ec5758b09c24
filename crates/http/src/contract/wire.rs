//! The shapes of the API contract: money, times, items, sales and orders.

use std::{cell::RefCell, fmt::Write as _};

use penstock_domain::{GateTerms, Money, Order, SaleId, Timestamp};
use penstock_gate::{DRAW_ALGORITHM, DrawView};
use penstock_records::{Account, Item, SaleRow};
use penstock_shop::storefront::{OrderForm, SaleFacts, Scribe, WrittenSale};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::contract::words::{GateChallengeWord, OrderStateWord, SaleStateWord};

/// A moment in RFC 3339, UTC, with milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rfc3339(pub(crate) Timestamp);

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:.3}", self.moment())
    }
}

/// Without fractions of a second.
const SECOND_BYTES: usize = "2027-01-15T08:00:00".len();
/// The number of seconds remembered as text. A prime, so that an order's beginning and its end rarely share a
/// slot.
const REMEMBERED_SECONDS: usize = 61;

thread_local! {
    static SECONDS: RefCell<[(i64, [u8; SECOND_BYTES]); REMEMBERED_SECONDS]> =
        const { RefCell::new([(i64::MIN, [0; SECOND_BYTES]); REMEMBERED_SECONDS]) };
}

impl Rfc3339 {
    /// Moments beyond the year 9999 can't be written. The parser accepts none.
    fn moment(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0.as_millis()).unwrap_or(jiff::Timestamp::MAX)
    }

    /// Appends the moment. Thousands of answers share the same seconds, so only the fractions are written
    /// each time.
    pub(crate) fn write(self, text: &mut Vec<u8>) {
        let millis = self.moment().as_millisecond();
        let (second, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
        SECONDS.with_borrow_mut(|seconds| {
            let place = second.rem_euclid(REMEMBERED_SECONDS as i64) as usize;
            let Some(known) = seconds.get_mut(place) else { return };
            if known.0 != second {
                let whole = self.to_string();
                match whole.as_bytes().split_first_chunk() {
                    Some((start, fraction)) if fraction.len() == ".000Z".len() => *known = (second, *start),
                    // The year does not have four digits.
                    _ => return text.extend_from_slice(whole.as_bytes()),
                }
            }
            let digit = |place: i64| b'0' + (millis / place % 10) as u8;
            text.extend_from_slice(&known.1);
            text.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z']);
        });
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads an RFC 3339 moment; any offset is accepted.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, &'static str> {
    let moment: jiff::Timestamp =
        text.parse().map_err(|_| "has to be a time in RFC 3339, such as 2026-11-11T12:00:00Z")?;
    Ok(Timestamp::from_millis(moment.as_millisecond()))
}

/// An amount of money.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Money)]
pub(crate) struct MoneyView {
    /// A number with the currency's decimals.
    #[schema(example = "1999.00", pattern = r"^[0-9]+(\.[0-9]{1,3})?$")]
    pub(crate) amount: String,
    /// An ISO 4217 code that is in use.
    #[schema(example = "CNY", pattern = "^[A-Z]{3}$")]
    pub(crate) currency: String,
}

impl From<Money> for MoneyView {
    fn from(money: Money) -> Self {
        Self { amount: money.amount(), currency: money.currency.as_str().to_owned() }
    }
}

/// A product.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Item)]
pub(crate) struct ItemView {
    id: String,
    title: String,
    description: String,
    picture: Option<String>,
    regular_price: MoneyView,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
}

impl std::fmt::Debug for Rfc3339 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

impl From<&Item> for ItemView {
    fn from(item: &Item) -> Self {
        Self {
            id: item.id.to_string(),
            title: item.title.clone(),
            description: item.description.clone(),
            picture: item.picture.clone(),
            regular_price: item.regular_price.into(),
            created_at: Rfc3339(item.created_at),
        }
    }
}

/// The item of a sale.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SaleItem {
    id: String,
    title: String,
    description: String,
    picture: Option<String>,
}

/// The units of a sale. Units that are not available are held or paid.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stock)]
pub(crate) struct StockView {
    total: u32,
    available: u32,
}

/// The checks that a buyer has to pass before ordering.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Gate)]
pub(crate) struct GateView {
    #[schema(value_type = GateChallengeWord)]
    challenge: &'static str,
    waiting_room: bool,
    pass_required: bool,
}

impl From<&GateTerms> for GateView {
    fn from(gate: &GateTerms) -> Self {
        Self {
            challenge: gate.challenge.as_str(),
            waiting_room: gate.waiting_room,
            pass_required: gate.pass_required,
        }
    }
}

/// The draw among the people who came before the opening; see `docs/draw.md`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Draw)]
pub(crate) struct DrawJson {
    #[schema(value_type = String)]
    algorithm: &'static str,
    /// The SHA-256 of the seed in hexadecimal, known before the opening.
    seed_sha256: String,
    /// The seed in hexadecimal, published at the opening.
    seed: Option<String>,
    /// How many tickets were drawn, known from the opening on.
    count: Option<u64>,
}

impl From<&DrawView> for DrawJson {
    fn from(draw: &DrawView) -> Self {
        Self {
            algorithm: DRAW_ALGORITHM,
            seed_sha256: hexadecimal(&draw.commitment),
            seed: draw.seed.as_ref().map(|seed| hexadecimal(seed)),
            count: draw.count,
        }
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Some units of an item, for sale at a price and in a time window.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Sale)]
pub(crate) struct SaleView {
    id: String,
    item: SaleItem,
    price: MoneyView,
    regular_price: MoneyView,
    /// Empty: open as soon as it is published.
    #[schema(value_type = Option<String>, format = DateTime)]
    opens_at: Option<Rfc3339>,
    /// Empty: open until it is closed by hand.
    #[schema(value_type = Option<String>, format = DateTime)]
    closes_at: Option<Rfc3339>,
    #[schema(value_type = SaleStateWord)]
    state: &'static str,
    stock: StockView,
    limit_per_buyer: u32,
    hold_seconds: u32,
    gate: GateView,
    /// The draw of the waiting room; missing without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    draw: Option<DrawJson>,
    /// How many people were on the waitlist some seconds ago. Somebody who joins now is probably one place
    /// behind them. Left out unless the sale is sold out or paused, and while the records are unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    waitlist: Option<u64>,
    // Last, because `write_sale` writes it into each answer.
    /// The server's clock when it answered; use it for countdowns.
    #[schema(value_type = String, format = DateTime)]
    server_time: Rfc3339,
}

/// Writes sales and orders as JSON.
#[derive(Clone, Copy, Debug)]
pub struct JsonScribe;

impl Scribe for JsonScribe {
    /// Up to the server's time, which is the only part that differs between answers.
    fn sale(&self, SaleFacts { row, item, status, state, draw, waitlist }: SaleFacts<'_>) -> WrittenSale {
        let (total, available) =
            status.map_or((row.units, row.units), |status| (status.total, status.available));
        let view = SaleView {
            id: row.id.to_string(),
            item: SaleItem {
                id: item.id.to_string(),
                title: item.title.clone(),
                description: item.description.clone(),
                picture: item.picture.clone(),
            },
            price: row.price.into(),
            regular_price: item.regular_price.into(),
            opens_at: row.opens_at.map(Rfc3339),
            closes_at: row.closes_at.map(Rfc3339),
            state: state.as_str(),
            stock: StockView { total, available },
            limit_per_buyer: row.limit_per_buyer,
            hold_seconds: row.hold_seconds,
            gate: (&row.gate).into(),
            draw: draw.map(DrawJson::from),
            waitlist,
            server_time: Rfc3339(Timestamp::from_millis(0)),
        };
        let mut text = serde_json::to_vec(&view).unwrap_or_default();
        // Weak, because bodies with the same tag differ in `server_time`.
        let tag = format!("W/\"{}\"", hexadecimal(&Sha256::digest(&text)[..12]));
        let any_time = format!("{}\"}}", view.server_time);
        text.truncate(text.len().saturating_sub(any_time.len()));
        WrittenSale { text, tag }
    }

    fn order_form(&self, row: &SaleRow, item: &Item) -> OrderForm {
        order_form(row.id, item, row.price)
    }
}

/// Appends the whole body of a sale.
pub(crate) fn write_sale(sale: &WrittenSale, now: Timestamp, body: &mut Vec<u8>) {
    body.extend_from_slice(&sale.text);
    Rfc3339(now).write(body);
    body.extend_from_slice(b"\"}");
}

pub(crate) fn sale_body(sale: &WrittenSale, now: Timestamp) -> Vec<u8> {
    let mut body = Vec::with_capacity(sale.text.len() + 32);
    write_sale(sale, now, &mut body);
    body
}

/// Whether `If-None-Match` names this version of a sale. Compares weakly, as RFC 9110 requires.
pub(crate) fn is_known(sale: &WrittenSale, if_none_match: &[u8]) -> bool {
    if_none_match
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|tag| tag == b"*" || opaque(tag) == opaque(sale.tag.as_bytes()))
}

/// An entity tag without its weakness prefix.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The part of an order's JSON that all orders of a sale at this price share.
pub(crate) fn order_form(sale: SaleId, item: &Item, unit_price: Money) -> OrderForm {
    let item = OrderItem { id: item.id.to_string(), title: &item.title, picture: item.picture.as_deref() };
    let item = serde_json::to_string(&item).unwrap_or_default();
    let (amount, currency) = (unit_price.amount(), unit_price.currency.as_str());
    let price = format!(r#"{{"amount":"{amount}","currency":"{currency}"}}"#);
    let before_quantity = format!(r#"","sale_id":"{sale}","item":{item},"quantity":"#);
    let before_total = format!(r#","unit_price":{price},"total":{{"amount":""#);
    let before_state = format!(r#"","currency":"{currency}"}},"state":""#);
    let gaps = [before_quantity.len(), before_quantity.len() + before_total.len()];
    OrderForm { fixed: [&*before_quantity, &*before_total, &*before_state].concat(), gaps, unit_price }
}

#[derive(Debug, Serialize)]
struct OrderItem<'a> {
    id: String,
    title: &'a str,
    picture: Option<&'a str>,
}

/// Appends an order's JSON. This answer has to be fast.
pub(crate) fn write_order(form: &OrderForm, order: &Order, body: &mut Vec<u8>) {
    use std::io::Write as _;
    let [quantity_at, total_at] = form.gaps;
    let (before_total, before_state) = form.fixed.as_bytes().split_at(total_at);
    let (before_quantity, before_total) = before_total.split_at(quantity_at);
    // Writing into memory can't fail.
    let _ = write!(body, r#"{{"id":"{}"#, order.id);
    body.extend_from_slice(before_quantity);
    body.extend_from_slice(itoa::Buffer::new().format(order.quantity).as_bytes());
    body.extend_from_slice(before_total);
    body.extend_from_slice(form.unit_price.times(order.quantity).amount().as_bytes());
    body.extend_from_slice(before_state);
    body.extend_from_slice(order.state.as_str().as_bytes());
    body.extend_from_slice(br#"","created_at":""#);
    Rfc3339(order.created_at).write(body);
    body.extend_from_slice(br#"","pay_before":""#);
    Rfc3339(order.pay_before).write(body);
    body.extend_from_slice(br#"","paid_at":"#);
    match order.paid_at {
        Some(paid_at) => {
            body.push(b'"');
            Rfc3339(paid_at).write(body);
            body.push(b'"');
        }
        None => body.extend_from_slice(b"null"),
    }
    if order.refund_due {
        body.extend_from_slice(br#","refund_due":true"#);
    }
    body.push(b'}');
}

pub(crate) fn order_body(form: &OrderForm, order: &Order) -> Vec<u8> {
    let mut body = Vec::with_capacity(form.fixed.len() + 256);
    write_order(form, order, &mut body);
    body
}

/// An accepted claim as a buyer sees it.
// `write_order` writes it; this only documents and tests it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Order)]
pub(crate) struct OrderView {
    id: String,
    sale_id: String,
    item: OrderItemView,
    quantity: u32,
    unit_price: MoneyView,
    total: MoneyView,
    #[schema(value_type = OrderStateWord)]
    state: String,
    #[schema(format = DateTime)]
    created_at: String,
    /// The units are held until then.
    #[schema(format = DateTime)]
    pay_before: String,
    #[schema(format = DateTime)]
    paid_at: Option<String>,
    /// It was paid after the last unit was gone: the money goes back. Left out if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    refund_due: bool,
}

/// The item of an order.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = OrderItem)]
pub(crate) struct OrderItemView {
    id: String,
    title: String,
    picture: Option<String>,
}

/// A registered account.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Account)]
pub(crate) struct AccountView {
    id: String,
    #[schema(example = "+8613800138000", pattern = r"^\+?[1-9][0-9]{5,14}$")]
    phone: String,
    name: String,
    admin: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
}

impl From<&Account> for AccountView {
    fn from(account: &Account) -> Self {
        Self {
            id: account.id.to_string(),
            phone: account.phone.clone(),
            name: account.name.clone(),
            admin: account.admin,
            created_at: Rfc3339(account.created_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_domain::{BuyerId, ItemId, OrderId, OrderState};

    use super::*;

    fn item() -> Item {
        Item {
            id: ItemId::from_random(7),
            title: "Kettle \"Öl\" \u{1f600}".to_owned(),
            description: String::new(),
            picture: Some("/kettle.jpg".to_owned()),
            regular_price: Money::parse("59.90", "EUR").unwrap(),
            created_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn an_order_is_written_as_documented() {
        let price = Money::parse("19.99", "EUR").unwrap();
        let sale = SaleId::from_random(3);
        let form = order_form(sale, &item(), price);
        for (state, paid_at, refund_due) in [
            (OrderState::Held, None, false),
            (OrderState::Paid, Some(Timestamp::from_millis(5)), false),
            (OrderState::Expired, None, true),
        ] {
            let order = Order {
                id: OrderId { sale, number: 12 },
                buyer: BuyerId::of_subject("ann").unwrap(),
                quantity: 3,
                state,
                created_at: Timestamp::from_millis(1_800_000_000_123),
                pay_before: Timestamp::from_millis(1_800_000_900_123),
                paid_at,
                refund_due,
            };
            let body = order_body(&form, &order);
            let view: OrderView = serde_json::from_slice(&body).unwrap();
            assert_eq!(serde_json::to_string(&view).unwrap(), String::from_utf8(body).unwrap());
            assert_eq!(view.item.title, item().title);
            assert_eq!(view.total.amount, "59.97");
            assert_eq!(view.created_at, "2027-01-15T08:00:00.123Z");
            assert_eq!((view.paid_at.is_some(), view.refund_due), (paid_at.is_some(), refund_due));
        }
    }

    #[test]
    fn a_moment_is_appended_as_it_is_displayed() {
        let around = |millis: i64| [millis - 1, millis, millis + 1, millis + 999, millis + 61_000];
        let moments = [0, -62_167_219_200_000, 1_800_000_000_000, 253_402_300_799_000, i64::MAX - 61_000];
        for millis in moments.into_iter().flat_map(around).chain(moments.into_iter().flat_map(around)) {
            let moment = Rfc3339(Timestamp::from_millis(millis));
            let mut text = b">".to_vec();
            moment.write(&mut text);
            assert_eq!(String::from_utf8(text).unwrap(), format!(">{moment}"));
        }
    }

    #[test]
    fn times_are_read_with_any_offset() {
        assert_eq!(parse_time("1970-01-01T01:00:00+01:00"), Ok(Timestamp::from_millis(0)));
        assert_eq!(parse_time("1970-01-01T00:00:01.5Z"), Ok(Timestamp::from_millis(1500)));
        for text in ["", "tomorrow", "2026-11-11", "2026-11-11T12:00:00", "2026-13-11T12:00:00Z"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
