//! `waiting_room_bytes_per_person`: a million people take a ticket before the opening; how much the server
//! grows for each of them.

use std::{net::SocketAddr, time::Duration};

use anyhow::ensure;
use penstock_rush::{api::SaleOffer, connection::HttpAnswer};
use serde_json::json;

use crate::{
    bench::{Bench, FAR_FUTURE},
    load::{self, LoadOptions, LoadScript, TapeCall, TapeReader},
    places::Places,
    report::BenchFigure,
    server::{MeasuredServer, ensure_only, ensure_told},
};

const PEOPLE: u64 = 1_000_000;
const QUICK_PEOPLE: u64 = 100_000;
/// People who come first and don't count. They make the server set up connections, buffers and the
/// allocator's reserves.
const EARLY_PEOPLE: u64 = 50_000;
const CONNECTIONS: usize = 256;
const BYTES_LIMIT: f64 = 16.0;
/// Tickets that are looked up afterwards.
const LOOKS: usize = 20_000;

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let people = if bench.options.quick { QUICK_PEOPLE } else { PEOPLE };
    bench.say(&format!("{people} tickets, after {EARLY_PEOPLE} that don't count"));
    let server = MeasuredServer::start(bench, None, &[])?;
    let gate = json!({"challenge": "none", "waiting_room": true});
    let offer = SaleOffer {
        units: 1_000,
        opens_at: Some(FAR_FUTURE.to_owned()),
        gate: Some(gate),
        ..SaleOffer::default()
    };
    let sale = server.api.publish(&offer)?;
    let path = format!("/api/v1/sales/{sale}/tickets");
    let call = TapeCall::bare("POST", &path);
    let options = LoadOptions::new(server.api.address, CONNECTIONS);
    // Half as many again, for those who are told to try again.
    let tape = server.calls(&call, u64::MAX, ((EARLY_PEOPLE + people) * 3 / 2) as usize)?;
    let queue = TicketQueue { reader: tape.once(), left: 0, given: 0, tickets: Vec::new() };

    let (queue, _) = take_tickets(&options, queue, EARLY_PEOPLE)?;
    let before_bytes = server.resident_bytes()?;
    let (queue, busy) = take_tickets(&options, queue, people)?;
    let after_bytes = server.resident_bytes()?;
    let given = queue.given - EARLY_PEOPLE;
    let per_person = after_bytes.saturating_sub(before_bytes) as f64 / given as f64;
    bench.say(&format!(
        "resident: {} MiB before, {} MiB after {given} tickets: {per_person:.1} bytes a person; {busy} told to wait",
        before_bytes >> 20,
        after_bytes >> 20,
    ));
    let looks = bench.undisturbed(Places::ANYWHERE, |_| look(server.api.address, &path, &queue.tickets))?;
    server.stop()?;
    Ok(BenchFigure::of(&[per_person], "bytes")
        .limit(BYTES_LIMIT)
        .detail("people", given)
        .detail("resident_before_bytes", before_bytes)
        .detail("resident_after_bytes", after_bytes)
        .detail("told_to_wait", busy)
        .detail("look_p50_us", looks.as_micros() as u64))
}

/// People who come for a ticket. Some are told that the server is busy, and leave.
struct TicketQueue {
    reader: TapeReader,
    /// How many are still to come.
    left: u64,
    given: u64,
    tickets: Vec<String>,
}

impl LoadScript for TicketQueue {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        self.left = self.left.checked_sub(1)?;
        self.reader.next_request()
    }

    fn answered(&mut self, _number: u64, answer: &HttpAnswer<'_>) {
        if answer.status == 201 {
            self.given += 1;
            if self.tickets.len() < LOOKS {
                self.tickets.extend(ticket_in(answer.body));
            }
        }
    }
}

/// The ticket's text, by a scan: a parse would be the generator's greatest cost.
fn ticket_in(body: &[u8]) -> Option<String> {
    let body = std::str::from_utf8(body).ok()?;
    let (_, rest) = body.split_once("\"ticket\":\"")?;
    rest.split_once('"').map(|(ticket, _)| ticket.to_owned())
}

/// Runs until `people` more have a ticket. Also returns how many were told to come again.
fn take_tickets(
    options: &LoadOptions,
    mut queue: TicketQueue,
    people: u64,
) -> anyhow::Result<(TicketQueue, u64)> {
    let goal = queue.given + people;
    let mut busy = 0;
    while queue.given < goal {
        queue.left = goal - queue.given;
        let outcome = load::run(options, queue)?;
        ensure_told(&outcome, 201, &["busy"])?;
        busy += outcome.total.code("busy");
        queue = outcome.script;
    }
    Ok((queue, busy))
}

/// Requests of different lengths, one after the other.
struct TicketLooks {
    requests: std::vec::IntoIter<Vec<u8>>,
    current: Vec<u8>,
}

impl LoadScript for TicketLooks {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        self.current = self.requests.next()?;
        Some((0, &self.current))
    }
}

/// How long it takes to learn one's place: one connection asks for one ticket after the other.
fn look(address: SocketAddr, path: &str, tickets: &[String]) -> anyhow::Result<(Duration, String)> {
    ensure!(!tickets.is_empty(), "no answer had a ticket in it");
    let request =
        |ticket: &String| format!("GET {path}/{ticket} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    let requests: Vec<Vec<u8>> = tickets.iter().map(request).collect();
    let script = TicketLooks { requests: requests.into_iter(), current: Vec::new() };
    let outcome = load::run(&LoadOptions::new(address, 1), script)?;
    ensure_only(&outcome, 200)?;
    let median = outcome.measured.latency().quantile(0.5);
    let line = format!("a look at one's place takes {} µs, median of {}", median.as_micros(), tickets.len());
    Ok((median, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_found_in_its_answer() {
        assert_eq!(ticket_in(br#"{"ticket":"12.abc","number":12}"#).as_deref(), Some("12.abc"));
        assert_eq!(ticket_in(br#"{"code":"busy"}"#), None);
    }
}
