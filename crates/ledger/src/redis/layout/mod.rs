//! What the ledger stores in Redis: the names of the keys (`keys`), a sale's own hash (`sale_hash`), the
//! packed forms of everything else (`codec`), and the epochs of a sale's history (`lineage`). No connection
//! is needed here. The scripts write and read the same forms; a test in `codec` compares both.

mod codec;
mod keys;
mod lineage;
mod sale_hash;

pub use keys::Keys;

pub(crate) use codec::{
    Damaged, FeedEntry, FoundSale, NodeMessage, PAGE, epoch_of_version, keys_of_buyer, number, pack_buyer,
    pack_message, pack_names, pack_terms, pack_waiter, position_of_version, put_claim, text, unpack_counts,
    unpack_entry, unpack_message, unpack_order, unpack_place, unpack_terms, unpack_waiter,
};
pub(crate) use lineage::Lineage;
pub(crate) use sale_hash::{SALE_FIELDS, SaleHash};
