//! The records on a real SQLite file. One program, so that it links once.

mod audit;
mod catalogue;
mod dead_letters;
mod orders;
mod people;
mod settlement;
mod shop;
