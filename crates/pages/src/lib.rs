//! The files of the shop and the console as `make web` built them, inside the binary, so that it needs no
//! other files. It does not know how they are sent.

use penstock_http::PageFile;

include!(concat!(env!("OUT_DIR"), "/files.rs"));
