//! Settlement between a real embedded ledger and real SQLite records.

#[cfg(test)]
mod exactly_once;
#[cfg(test)]
mod shop;
#[cfg(test)]
mod trouble;
