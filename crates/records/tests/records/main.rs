//! The records on a real SQLite file. One program, so that it links once.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod dead_letters;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod people;
#[cfg(test)]
mod settlement;
#[cfg(test)]
mod shop;
