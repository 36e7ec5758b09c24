//! Sales and orders as readers get them, written once per sale and read by millions. The storefront keeps what was
//! written with the sale; how it is written is the transport's business.

use penstock_domain::{Money, SaleState, SaleStatus};
use penstock_gate::DrawView;
use penstock_records::{Item, SaleRow};

/// Everything that is known of a sale.
#[derive(Clone, Copy, Debug)]
pub struct SaleFacts<'a> {
    pub row: &'a SaleRow,
    pub item: &'a Item,
    /// From the ledger; a draft has none.
    pub status: Option<&'a SaleStatus>,
    pub state: SaleState,
    pub draw: Option<&'a DrawView>,
    /// The number of people on the waitlist, if it is known.
    pub waitlist: Option<u64>,
}

/// A sale, written up to the part that differs between two readers.
#[derive(Debug)]
pub struct WrittenSale {
    pub text: Vec<u8>,
    /// Names this version of the sale.
    pub tag: String,
}

/// The parts that are the same in every order of a sale, in one string: with a thousand sales, each string is one
/// that is in no processor cache.
#[derive(Debug)]
pub struct OrderForm {
    pub fixed: String,
    /// Where the quantity and the total belong.
    pub gaps: [usize; 2],
    pub unit_price: Money,
}

/// Writes sales and orders.
pub trait Scribe: Send + Sync + 'static {
    fn sale(&self, facts: SaleFacts<'_>) -> WrittenSale;

    fn order_form(&self, row: &SaleRow, item: &Item) -> OrderForm;
}
