//! Adoption: a sale gets a new home after its server was replaced or restarted. `adoption` goes through the
//! steps, `settled` is what it asks the records, and `rebuilt` is a sale from the records in the form in which
//! Redis stores it.

mod adoption;
mod rebuilt;
mod settled;

pub use settled::{NothingSettled, Reconciled, Settled};

pub(crate) use adoption::Adoption;
