//! The records on real databases: the same tests on a SQLite file and on a MariaDB server. One program, so that it links
//! once.

#![cfg(test)]
#![allow(clippy::duplicate_mod, reason = "the same tests run on each database")]

mod database;

mod sqlite {
    use crate::database::SqliteFile as Database;

    #[path = "../audit.rs"]
    mod audit;
    #[path = "../catalogue.rs"]
    mod catalogue;
    #[path = "../dead_letters.rs"]
    mod dead_letters;
    #[path = "../leases.rs"]
    mod leases;
    #[path = "../orders.rs"]
    mod orders;
    #[path = "../people.rs"]
    mod people;
    #[path = "../pictures.rs"]
    mod pictures;
    #[path = "../rooms.rs"]
    mod rooms;
    #[path = "../secrets.rs"]
    mod secrets;
    #[path = "../settled.rs"]
    mod settled;
    #[path = "../settlement.rs"]
    mod settlement;
    #[path = "../shop.rs"]
    mod shop;
    #[path = "../stock.rs"]
    mod stock;
    #[path = "../waitlist.rs"]
    mod waitlist;

    mod file;
}

mod mariadb {
    use crate::database::MariaDbDatabase as Database;

    #[path = "../audit.rs"]
    mod audit;
    #[path = "../catalogue.rs"]
    mod catalogue;
    #[path = "../dead_letters.rs"]
    mod dead_letters;
    #[path = "../leases.rs"]
    mod leases;
    #[path = "../orders.rs"]
    mod orders;
    #[path = "../people.rs"]
    mod people;
    #[path = "../pictures.rs"]
    mod pictures;
    #[path = "../rooms.rs"]
    mod rooms;
    #[path = "../secrets.rs"]
    mod secrets;
    #[path = "../settled.rs"]
    mod settled;
    #[path = "../settlement.rs"]
    mod settlement;
    #[path = "../shop.rs"]
    mod shop;
    #[path = "../stock.rs"]
    mod stock;
    #[path = "../waitlist.rs"]
    mod waitlist;

    mod server;
}
