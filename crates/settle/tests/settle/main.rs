//! Settlement between real ledgers and real records.

#[cfg(test)]
mod exactly_once;
#[cfg(test)]
mod market;
#[cfg(test)]
mod shop;
#[cfg(test)]
mod silence;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod workers;
