//! Orders as lines of CSV for a spreadsheet. It does not know where they come from or go.

use csv::{Terminator, Writer, WriterBuilder};
use penstock_domain::Timestamp;
use penstock_records::OrderRow;

use crate::contract::wire::Rfc3339;

/// Without it, spreadsheets take UTF-8 for an older encoding, and Chinese becomes gibberish.
const BYTE_ORDER_MARK: &str = "\u{feff}";

const HEADINGS: [&str; 13] = [
    "order",
    "sale",
    "item",
    "buyer",
    "quantity",
    "unit_price",
    "total",
    "currency",
    "state",
    "created_at",
    "pay_before",
    "paid_at",
    "refund_due",
];

/// A piece of a table.
pub(crate) struct OrderTable(Writer<Vec<u8>>);

impl OrderTable {
    /// The first piece, with the headings.
    pub(crate) fn begin() -> Self {
        let mut table = Self::in_front_of(BYTE_ORDER_MARK.into());
        table.line(&HEADINGS.map(str::to_owned));
        table
    }

    /// A later piece.
    pub(crate) fn go_on() -> Self {
        Self::in_front_of(Vec::new())
    }

    fn in_front_of(start: Vec<u8>) -> Self {
        Self(WriterBuilder::new().terminator(Terminator::CRLF).from_writer(start))
    }

    pub(crate) fn add(&mut self, row: &OrderRow, title: &str) {
        let order = &row.order;
        let moment = |moment: Timestamp| Rfc3339(moment).to_string();
        self.line(&[
            order.id.to_string(),
            order.id.sale.to_string(),
            harmless(title),
            harmless(order.buyer.as_str()),
            order.quantity.to_string(),
            row.unit_price.amount(),
            row.unit_price.times(order.quantity).amount(),
            row.unit_price.currency.as_str().to_owned(),
            order.state.as_str().to_owned(),
            moment(order.created_at),
            moment(order.pay_before),
            order.paid_at.map(moment).unwrap_or_default(),
            order.refund_due.to_string(),
        ]);
    }

    fn line(&mut self, cells: &[String; HEADINGS.len()]) {
        // Writing into memory can't fail, and all lines have the same number of cells.
        let _ = self.0.write_record(cells);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_default()
    }
}

/// Everything that may end a cell or a line: commas, semicolons, tabs and bars, depending on the country of
/// the spreadsheet. Quotes around a cell don't help: a spreadsheet with another separator sees them in the
/// middle of a cell, where they mean nothing.
const SEPARATORS: [char; 6] = [',', ';', '\t', '|', '\r', '\n'];

/// A cell that begins with one of these is a formula. Some programs also accept the full-width signs of East
/// Asia.
const FORMULA: [char; 11] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// The text with an apostrophe before every place where a formula could begin, whether a spreadsheet
/// separates cells by commas, semicolons, tabs or bars.
fn harmless(text: &str) -> String {
    text.split_inclusive(SEPARATORS).fold(String::with_capacity(text.len() + 1), |mut harmless, piece| {
        if piece.trim_start_matches('"').starts_with(FORMULA) {
            harmless.push('\'');
        }
        harmless + piece
    })
}

#[cfg(test)]
mod tests {
    use penstock_domain::{BuyerId, ItemId, Money, Order, OrderId, OrderState, SaleId};

    use super::*;

    fn row(buyer: &str) -> OrderRow {
        let sale = SaleId::from_random(3);
        OrderRow {
            order: Order {
                id: OrderId { sale, number: 12 },
                buyer: BuyerId::from_stored(buyer),
                quantity: 3,
                state: OrderState::Paid,
                created_at: Timestamp::from_millis(1_800_000_000_123),
                pay_before: Timestamp::from_millis(1_800_000_900_123),
                paid_at: None,
                refund_due: false,
            },
            unit_price: Money::parse("19.99", "EUR").unwrap(),
            item_id: ItemId::from_random(7),
        }
    }

    #[test]
    fn a_table_begins_with_its_mark_and_its_headings() {
        let mut table = OrderTable::begin();
        table.add(&row("ann"), "水壶, \"K\"");
        let text = String::from_utf8(table.finish()).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert!(lines[0].starts_with("\u{feff}order,sale,item,buyer,"), "{text}");
        assert!(
            lines[1].contains(",\"水壶, \"\"K\"\"\",ann,3,19.99,59.97,EUR,paid,2027-01-15T08:00:00.123Z,"),
            "{text}"
        );
        assert!(lines[1].ends_with(",2027-01-15T08:15:00.123Z,,false"), "{text}");
        assert_eq!((lines.len(), lines[2]), (3, ""));
        let mut rest = OrderTable::go_on();
        rest.add(&row("ann"), "Kettle");
        assert_eq!(rest.finish().split(|byte| *byte == b'\n').count(), 2, "headings come once");
    }

    #[test]
    fn no_cell_is_a_formula() {
        for start in FORMULA {
            let text = format!("{start}1+1");
            assert_eq!(harmless(&text), format!("'{text}"));
        }
        for text in ["", "Kettle", "a=b", "account:1", " =1", "Kettle; 2-pack, -20% off", "x;y", "a+b|c"] {
            assert_eq!(harmless(text), text);
        }
        assert_eq!(harmless("x;=1+1"), "x;'=1+1");
        assert_eq!(harmless("x,-1\t@SUM(A1)"), "x,'-1\t'@SUM(A1)");
        assert_eq!(harmless("x;\"=1+1\""), "x;'\"=1+1\"");
    }

    /// With commas, semicolons, tabs or bars, with quotes or without.
    #[test]
    fn a_line_has_no_formula_whichever_separator_splits_it() {
        let titles = [
            "x;=1+1",
            "x\t=1+1",
            "x,=1+1",
            "a\n=1+1",
            "a\r\n@x",
            ";=1+1",
            "x;\"=1+1\"",
            "x;\"\"+1",
            "\"=1",
            ";;-1|=2",
        ];
        for title in titles {
            let mut table = OrderTable::go_on();
            table.add(&row(&format!("shop:{title}")), title);
            let line = table.finish();
            for separator in [b',', b';', b'\t', b'|'] {
                for quoting in [true, false] {
                    let mut cells = csv::ReaderBuilder::new();
                    cells.delimiter(separator).quoting(quoting).flexible(true).has_headers(false);
                    for record in cells.from_reader(&*line).records() {
                        for cell in &record.unwrap() {
                            assert!(
                                !cell.trim_start_matches('"').starts_with(FORMULA),
                                "{title:?}: {cell:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_and_moments_stay_as_they_are() {
        let mut table = OrderTable::go_on();
        table.add(&row("=1+1"), "=1+1;=2");
        let line = String::from_utf8(table.finish()).unwrap();
        assert!(
            line.contains(",'=1+1;'=2,'=1+1,3,19.99,59.97,EUR,paid,2027-01-15T08:00:00.123Z,2027-"),
            "{line}"
        );
    }
}
