//! `/metrics`: the figures of a node or a worker, and their names.

mod exposition;
mod process;

use std::sync::{Arc, atomic::Ordering::Relaxed};

use axum::{extract::State, response::Response};
use hyper::HeaderMap;
use penstock_ledger::{BATCH_SIZE_BOUNDS, Health};
use penstock_shop::{
    Code, SettlementView, Shop,
    gate::Reason,
    live::WorkerFigures,
    ports::{FigureValue, NodePart},
    tally::{ConnectionEnd, Group, LATENCY_BOUNDS_MICROSECONDS, OUTCOMES, Outcome},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder},
    metrics::{MetricType, exemplar::Exemplar},
    registry::{Registry, Unit},
};

use self::{exposition::Format, process::Process};
use crate::contract::problem::Problem;

type Labels = [(&'static str, String); 1];
type Written = Result<(), std::fmt::Error>;

/// Get metrics for Prometheus
///
/// In OpenMetrics if the client asks for it, as Prometheus does; otherwise in the text format 0.0.4.
#[utoipa::path(get, path = "/metrics", tag = "operation",
    responses((status = 200, content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(crate) async fn metrics(State(shop): State<Arc<Shop>>, headers: HeaderMap) -> Result<Response, Problem> {
    written(Figures(shop), &headers).await
}

async fn written(figures: impl Collector, headers: &HeaderMap) -> Result<Response, Problem> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(figures));
    if let Some(process) = Process::read().await {
        registry.register_collector(Box::new(process));
    }
    Format::asked_for(headers).respond(&registry).map_err(|_| Code::Internal.into())
}

/// The metrics of a settlement worker, which serves nothing else.
pub(crate) async fn worker_metrics(
    State(worker): State<WorkerFigures>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    written(OfWorker(worker), &headers).await
}

#[derive(Debug)]
struct OfWorker(WorkerFigures);

impl Collector for OfWorker {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Written {
        build(&mut encoder)?;
        settlement(&(self.0.settlement)(), &mut encoder)?;
        parts(&self.0.name, &self.0.parts, &mut encoder)
    }
}

/// Reads all figures when they are requested.
#[derive(Debug)]
struct Figures(Arc<Shop>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Written {
        build(&mut encoder)?;
        self.requests(&mut encoder)?;
        self.latencies(&mut encoder)?;
        self.connections(&mut encoder)?;
        self.ledger(&mut encoder)?;
        self.gate(&mut encoder)?;
        settlement(&(self.0.options.settlement)(), &mut encoder)?;
        self.catalogue(&mut encoder)?;
        parts(&self.0.options.node, &self.0.options.parts, &mut encoder)
    }
}

impl Figures {
    fn requests(&self, encoder: &mut DescriptorEncoder) -> Written {
        let help = "Requests by outcome: every request counts exactly once";
        let mut by_label = family(encoder, "penstock_requests", help, MetricType::Counter)?;
        for outcome in 0..OUTCOMES {
            let count: u64 = self.0.tallies.iter().map(|tally| tally.outcomes[outcome].load(Relaxed)).sum();
            let labels: Labels = [("code", Outcome::name(outcome).to_owned())];
            by_label.encode_family(&labels)?.encode_counter(&count, None::<&Exemplar<Labels, u64>>)?;
        }
        Ok(())
    }

    fn latencies(&self, encoder: &mut DescriptorEncoder) -> Written {
        let help = "Time from a request's head to its answer, by kind of call; claims refused without the ledger are not timed";
        let name = "penstock_request_duration_seconds";
        let mut by_label = family(encoder, name, help, MetricType::Histogram)?;
        for group in Group::ALL {
            let mut counts = [0; LATENCY_BOUNDS_MICROSECONDS.len() + 1];
            let mut microseconds = 0;
            for latency in self.0.tallies.iter().map(|tally| &tally.latencies[group as usize]) {
                microseconds += latency.microseconds.load(Relaxed);
                for (count, bucket) in counts.iter_mut().zip(&latency.buckets) {
                    *count += bucket.load(Relaxed);
                }
            }
            let bounds = LATENCY_BOUNDS_MICROSECONDS.map(|bound| bound as f64 / 1_000_000.0);
            let labels: Labels = [("group", group.as_str().to_owned())];
            by_label.encode_family(&labels)?.encode_histogram(
                microseconds as f64 / 1_000_000.0,
                counts.iter().sum(),
                &buckets(&bounds, &counts),
                None::<&std::collections::HashMap<usize, Exemplar<Labels, f64>>>,
            )?;
        }
        Ok(())
    }

    fn connections(&self, encoder: &mut DescriptorEncoder) -> Written {
        let tallies = &self.0.tallies;
        let ended = |end: ConnectionEnd| -> u64 {
            tallies.iter().map(|tally| tally.connection_ends[end as usize].load(Relaxed)).sum()
        };
        // The ends first, so that connections that open meanwhile can't make the difference negative.
        let ends = ConnectionEnd::ALL.map(|end| (end, ended(end)));
        let opened: u64 = tallies.iter().map(|tally| tally.connections_opened.load(Relaxed)).sum();
        let open = opened.saturating_sub(ends.iter().map(|(_, count)| count).sum());
        gauge(encoder, "penstock_connections_open", "Connections that are open", &open)?;
        let unread: usize = tallies.iter().map(|tally| tally.unread_bytes.load(Relaxed)).sum();
        let help = "Memory that waits for clients to read their answers; see http.max_unread_mebibytes";
        gauge(encoder, "penstock_unread_bytes", help, &(unread as u64))?;
        let help = "Accepted connections that have ended, by the way they ended: each counts exactly once";
        let mut by_label = family(encoder, "penstock_connections", help, MetricType::Counter)?;
        for (end, count) in ends {
            let labels: Labels = [("end", end.as_str().to_owned())];
            by_label.encode_family(&labels)?.encode_counter(&count, None::<&Exemplar<Labels, u64>>)?;
        }
        Ok(())
    }

    fn ledger(&self, encoder: &mut DescriptorEncoder) -> Written {
        let stats = self.0.ledger.stats();
        let is_ready = u64::from(self.0.ledger.health() == Health::Ready);
        gauge(encoder, "penstock_ledger_ready", "1 if the ledger can decide", &is_ready)?;
        let depth = self.0.ledger.queue_depth() as u64;
        gauge(encoder, "penstock_ledger_queue_depth", "Requests that wait for the ledger's writer", &depth)?;
        counter(encoder, "penstock_ledger_batches", "Batches decided and made durable", stats.batches)?;
        counter(encoder, "penstock_ledger_commands", "Commands decided", stats.commands)?;
        let help = "Commands answered unavailable because their commit failed";
        counter(encoder, "penstock_ledger_failed_commands", help, stats.failed_commands)?;
        let help = "Time spent deciding and waiting for durability";
        counter(encoder, "penstock_ledger_commit_seconds", help, stats.commit_time.as_secs_f64())?;
        let help = "Commands decided together";
        let mut sizes = family(encoder, "penstock_ledger_batch_size", help, MetricType::Histogram)?;
        sizes.encode_histogram(
            stats.commands as f64,
            stats.batch_sizes.iter().sum(),
            &buckets(&BATCH_SIZE_BOUNDS.map(|bound| bound as f64), &stats.batch_sizes),
            None::<&std::collections::HashMap<usize, Exemplar<Labels, f64>>>,
        )
    }

    fn gate(&self, encoder: &mut DescriptorEncoder) -> Written {
        let gate = &self.0.gate;
        let figures = self.0.gate_figures();
        let help = "Claims that are being decided";
        gauge(encoder, "penstock_in_flight", help, &gate.in_flight.count())?;
        let help = "How many claims may be decided at once, on all servers that decide; follows the measured latency";
        gauge(encoder, "penstock_in_flight_limit", help, &gate.in_flight.limit())?;
        let help = "Requests that the gate turned away, by reason; `penstock_requests` has them by code";
        let mut by_label = family(encoder, "penstock_gate_refusals", help, MetricType::Counter)?;
        for reason in Reason::ALL {
            let labels: Labels = [("reason", reason.as_str().to_owned())];
            let count = gate.turned_away.read(*reason);
            by_label.encode_family(&labels)?.encode_counter(&count, None::<&Exemplar<Labels, u64>>)?;
        }
        let help = "Zero bits that a proof of work has to begin with at the moment";
        let bits = gate.challenges.difficulty(self.0.now());
        gauge(encoder, "penstock_challenge_difficulty", help, &u64::from(bits))?;
        counter(
            encoder,
            "penstock_passes_issued",
            "Passes given out, over all sales",
            figures.passes_issued,
        )?;
        let help = "Passes that buyers hold: neither used nor expired";
        gauge(encoder, "penstock_passes_live", help, &figures.passes_live)?;
        counter(encoder, "penstock_tickets", "Tickets given out, over all waiting rooms", figures.tickets)?;
        let help = "People who are present and whose turn has not come, over all waiting rooms";
        gauge(encoder, "penstock_tickets_waiting", help, &figures.waiting)?;
        let help = "Tickets whose turn has come and that have no pass yet";
        gauge(encoder, "penstock_tickets_pending", help, &figures.pending)
    }
}

impl Figures {
    fn catalogue(&self, encoder: &mut DescriptorEncoder) -> Written {
        let stats = &self.0.catalogue.stats;
        let help = "Look-ups of items and sales by level and outcome: this node's memory, \
             the cache that nodes share, the records";
        let mut by_label = family(encoder, "penstock_catalogue_lookups", help, MetricType::Counter)?;
        for (level, outcome, count) in [
            ("local", "hit", &stats.local_hits),
            ("local", "miss", &stats.local_misses),
            ("shared", "hit", &stats.shared_hits),
            ("shared", "miss", &stats.shared_misses),
            ("shared", "failure", &stats.shared_failures),
            ("records", "load", &stats.records_loads),
            ("records", "failure", &stats.records_failures),
        ] {
            let labels = [("level", level), ("outcome", outcome)];
            let count = count.load(Relaxed);
            by_label.encode_family(&labels)?.encode_counter(&count, None::<&Exemplar<Labels, u64>>)?;
        }
        Ok(())
    }
}

fn settlement(view: &SettlementView, encoder: &mut DescriptorEncoder) -> Written {
    gauge(encoder, "penstock_settlement_position", "The last settled decision", &view.position)?;
    let help = "Decisions that are not settled yet";
    gauge(encoder, "penstock_settlement_lag_decisions", help, &view.lag_decisions)?;
    let help = "Age of the oldest decision that is not settled yet";
    gauge(encoder, "penstock_settlement_lag_seconds", help, &view.lag_seconds)?;
    counter(encoder, "penstock_settlement_retries", "Settlements that had to be tried again", view.retries)?;
    let help = "Decisions put aside because they could not be settled";
    counter(encoder, "penstock_settlement_dead_letters", help, view.dead_letters)?;
    let help =
        "Decisions that would have sold a unit that does not exist, or one too many to a buyer; alert on any";
    counter(encoder, "penstock_settlement_violations", help, view.violations)?;
    let help = "Streams taken over from a settler that had stopped";
    counter(encoder, "penstock_settlement_takeovers", help, view.takeovers)?;
    let help = "Streams whose history differs from the one that was settled";
    counter(encoder, "penstock_settlement_diverged", help, view.diverged)?;
    counter(encoder, "penstock_expired_holds", "Holds released because nobody paid", view.expired)
}

fn parts(node: &str, parts: &[Arc<dyn NodePart>], encoder: &mut DescriptorEncoder) -> Written {
    if !node.is_empty() {
        let help = "Always 1; the name of this node";
        let mut by_label = family(encoder, "penstock_node", help, MetricType::Gauge)?;
        by_label.encode_family(&[("node", node)])?.encode_gauge(&1_u64)?;
    }
    if parts.is_empty() {
        return Ok(());
    }
    let help = "1 if the part of the cluster works; `/readyz` says what is wrong";
    let mut by_label = family(encoder, "penstock_part_ready", help, MetricType::Gauge)?;
    for part in parts {
        let is_ready = u64::from(part.trouble().is_none());
        by_label.encode_family(&[("part", part.name())])?.encode_gauge(&is_ready)?;
    }
    for figure in parts.iter().flat_map(|part| part.figures()) {
        match figure.value {
            FigureValue::Gauge(value) => gauge(encoder, figure.name, figure.help, &value)?,
            FigureValue::Counter(value) => counter(encoder, figure.name, figure.help, value)?,
        }
    }
    Ok(())
}

/// Always 1; its labels say what is running.
fn build(encoder: &mut DescriptorEncoder) -> Written {
    let help = "Always 1; the version of Penstock";
    let mut info = family(encoder, "penstock_build_info", help, MetricType::Gauge)?;
    info.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?.encode_gauge(&1_u64)
}

/// A metric, given its full name. OpenMetrics needs the unit separately.
fn family<'s>(
    encoder: &'s mut DescriptorEncoder,
    name: &'s str,
    help: &str,
    kind: MetricType,
) -> Result<MetricEncoder<'s>, std::fmt::Error> {
    static UNITS: [(&str, Unit); 2] = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];
    let split = UNITS.iter().find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, unit)));
    match split {
        Some((stem, unit)) => encoder.encode_descriptor(stem, help, Some(unit), kind),
        None => encoder.encode_descriptor(name, help, None, kind),
    }
}

fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: &impl EncodeGaugeValue) -> Written {
    family(encoder, name, help, MetricType::Gauge)?.encode_gauge(value)
}

/// `_total` is appended to its name.
fn counter(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: impl EncodeCounterValue,
) -> Written {
    let mut metric = family(encoder, name, help, MetricType::Counter)?;
    metric.encode_counter(&value, None::<&Exemplar<Labels, u64>>)
}

/// Counts per bucket with their upper bounds. The encoder adds them up itself.
fn buckets(bounds: &[f64], counts: &[u64]) -> Vec<(f64, u64)> {
    bounds.iter().copied().chain([f64::INFINITY]).zip(counts.iter().copied()).collect()
}
