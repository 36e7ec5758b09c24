//! Which server is master: of everything (one server, or Sentinel), or of some slots (Cluster). Each server
//! answers what it knows; the newest answer counts.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{InfoDict, Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use crate::{
    error::{LinkError, answered},
    server::{CallKind, ServerConnections},
};

const SLOTS: u16 = 16_384;

/// How long the other servers have for a newer answer, once one has answered.
const GRACE: Duration = Duration::from_millis(50);

/// The slot of a key. Only the text between its first braces counts, unless it is empty.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key).as_bytes()) % SLOTS
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    /// First slot, last slot and address, in order.
    ranges: Vec<(u16, u16, Arc<str>)>,
    replicas: Vec<Arc<str>>,
    /// Slots that have moved since the servers were asked.
    moved: BTreeMap<u16, Arc<str>>,
    /// Grows with every change: an answer with a higher epoch is newer.
    pub(crate) epoch: u64,
}

impl Topology {
    pub(crate) fn one(master: &str) -> Self {
        Self { ranges: vec![(0, SLOTS - 1, master.into())], ..Self::default() }
    }

    pub(crate) fn master_of(&self, slot: u16) -> Option<&Arc<str>> {
        if let Some(master) = self.moved.get(&slot) {
            return Some(master);
        }
        let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, address) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(address)
    }

    pub(crate) fn masters(&self) -> Vec<Arc<str>> {
        let mut masters: Vec<_> =
            self.ranges.iter().map(|(.., address)| address).chain(self.moved.values()).cloned().collect();
        masters.sort_unstable();
        masters.dedup();
        masters
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<str>> {
        self.masters().into_iter().chain(self.replicas.iter().cloned()).collect()
    }

    /// A copy in which one slot has a new master.
    pub(crate) fn with(&self, slot: u16, master: &str) -> Self {
        let mut copy = self.clone();
        copy.moved.insert(slot, master.into());
        copy
    }
}

pub(crate) async fn ask_sentinels(
    sentinels: &[Arc<ServerConnections>],
    master: &str,
    known_epoch: u64,
    deadline: Instant,
) -> Result<Topology, LinkError> {
    let mut question = redis::pipe();
    question.cmd("SENTINEL").arg("MASTER").arg(master);
    ask(sentinels, &question, known_epoch, deadline, |sentinel, values| {
        let fields: HashMap<String, String> = answered(&sentinel.address, values.into_iter().next())?;
        let missing = |name: &str| LinkError::refused(&sentinel.address, format!("no {name} in the answer"));
        let field = |name: &str| fields.get(name).ok_or_else(|| missing(name));
        let address = address(field("ip")?, field("port")?);
        let epoch = field("config-epoch")?.parse().unwrap_or(0);
        Ok(Topology { epoch, ..Topology::one(&address) })
    })
    .await
}

/// Asks the cluster's nodes which of them have which slots.
pub(crate) async fn ask_cluster(
    nodes: &[Arc<ServerConnections>],
    known_epoch: u64,
    deadline: Instant,
) -> Result<Topology, LinkError> {
    let mut question = redis::pipe();
    question.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    ask(nodes, &question, known_epoch, deadline, |node, values| {
        let mut values = values.into_iter();
        let info: InfoDict = answered(&node.address, values.next())?;
        let epoch: u64 = info.get("cluster_current_epoch").unwrap_or(0);
        // A node that has lost the others keeps an outdated map.
        let sees_the_cluster = info.get::<String>("cluster_state").is_some_and(|state| state == "ok");
        let topology = slots(&node.address, answered(&node.address, values.next())?)?;
        Ok(Topology { epoch: epoch * 2 + u64::from(sees_the_cluster), ..topology })
    })
    .await
}

/// `CLUSTER SLOTS`: first slot, last slot, the master, its replicas.
fn slots(asked: &str, ranges: Vec<Vec<Value>>) -> Result<Topology, LinkError> {
    let own_host = asked.rsplit_once(':').map_or("", |(host, _)| host);
    let node = |value: Option<Value>| -> Result<Arc<str>, LinkError> {
        let mut parts = answered::<Vec<Value>>(asked, value)?.into_iter();
        let host: Option<String> = answered(asked, parts.next())?;
        let port: u16 = answered(asked, parts.next())?;
        // A node that does not know its own name is reached under the name that was asked.
        let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| own_host.into());
        Ok(address(&host, &port.to_string()).into())
    };
    let mut topology = Topology::default();
    for range in ranges {
        let mut parts = range.into_iter();
        let (first, last) = (answered(asked, parts.next())?, answered(asked, parts.next())?);
        topology.ranges.push((first, last, node(parts.next())?));
        for replica in parts {
            topology.replicas.push(node(Some(replica))?);
        }
    }
    topology.ranges.sort_unstable_by_key(|(first, ..)| *first);
    topology.replicas.sort_unstable();
    topology.replicas.dedup();
    match topology.ranges.is_empty() {
        true => Err(LinkError::refused(asked, "the cluster has no slots yet")),
        false => Ok(topology),
    }
}

/// Asks all servers at once, so that a dead or silent one does not hide the others' answers. The answer with
/// the highest epoch counts. An answer that is older than what is known counts only if there is no newer one.
async fn ask(
    servers: &[Arc<ServerConnections>],
    question: &Pipeline,
    known_epoch: u64,
    deadline: Instant,
    parse: impl Fn(&ServerConnections, Vec<Value>) -> Result<Topology, LinkError>,
) -> Result<Topology, LinkError> {
    let mut asked: FuturesUnordered<_> = servers
        .iter()
        .map(|server| async move { (server, server.send(CallKind::Plain, question, deadline).await) })
        .collect();
    let mut until = deadline;
    let mut newest: Option<Topology> = None;
    let mut failure = LinkError::Misconfigured("no address of a Redis server is given".into());
    while let Ok(Some((server, answer))) = timeout_at(until, asked.next()).await {
        match answer.and_then(|values| parse(server, values)) {
            Ok(answer) => {
                if answer.epoch >= known_epoch {
                    until = until.min(Instant::now() + GRACE);
                }
                if newest.as_ref().is_none_or(|newest| newest.epoch < answer.epoch) {
                    newest = Some(answer);
                }
            }
            Err(error) => failure = error,
        }
    }
    newest.ok_or(failure)
}

pub(crate) fn address(host: &str, port: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_the_same_tag_are_in_the_same_slot() {
        assert_eq!(slot_of("123456789"), 12739);
        assert_eq!(slot_of("p7:{0123}:sale"), slot_of("{0123}:feed"));
        assert_eq!(slot_of("{}:sale"), crc16::State::<crc16::XMODEM>::calculate(b"{}:sale") % SLOTS);
    }

    #[test]
    fn moving_a_slot_leaves_its_neighbours_alone() {
        let topology = Topology::one("a:1").with(0, "b:1").with(100, "c:1").with(SLOTS - 1, "d:1");
        let expected = [(0, "b:1"), (1, "a:1"), (99, "a:1"), (100, "c:1"), (101, "a:1"), (SLOTS - 1, "d:1")];
        for (slot, master) in expected {
            assert_eq!(topology.master_of(slot).map(|master| &**master), Some(master), "slot {slot}");
        }
        assert_eq!(topology.masters().len(), 4);
    }

    #[test]
    fn a_slot_outside_all_ranges_has_no_master() {
        let topology = Topology { ranges: vec![(5, 9, "a:1".into())], ..Topology::default() };
        assert_eq!((topology.master_of(4), topology.master_of(10)), (None, None));
        assert!(topology.master_of(5).is_some() && topology.master_of(9).is_some());
    }
}
