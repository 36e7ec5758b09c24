//! Brings the feed into the records, and expires holds.
