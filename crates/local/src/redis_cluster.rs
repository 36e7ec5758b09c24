//! A Redis Cluster: masters that share the slots, and replicas that take over from them.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, ensure};

use crate::{
    process::wait_for,
    redis::{RedisServer, RedisSettings},
};

const SLOTS: usize = 16_384;
const LIMIT: Duration = Duration::from_secs(60);

/// Nodes that end when this value is dropped. They are numbered; at first the masters have the lowest
/// numbers.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

/// What a node reports about itself.
struct Myself {
    id: String,
    is_master: bool,
    epoch: u64,
    slots: Vec<(usize, usize)>,
}

impl RedisCluster {
    /// Returns when every node reports a complete cluster and every replica follows its master. The replicas
    /// are dealt out to the masters in turn.
    pub fn start(folder: &Path, masters: usize, replicas: usize) -> anyhow::Result<Self> {
        ensure!(masters > 0 && masters <= SLOTS, "a cluster has at least one master");
        let settings = RedisSettings { cluster: true, ..RedisSettings::default() };
        let start =
            |number: usize| RedisServer::start(&folder.join(format!("node-{number}")), settings.clone());
        let nodes = (0..masters + replicas).map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let cluster = Self { nodes };
        cluster.deal_slots(masters)?;
        cluster.introduce()?;
        cluster.follow(masters)?;
        let states = |node: &RedisServer| {
            has(node, &["cluster_state:ok".to_owned(), format!("cluster_size:{masters}")])
        };
        wait_for("the Redis Cluster", LIMIT, || cluster.nodes.iter().all(states))?;
        let follows = |node: &RedisServer| node.info("master_link_status").is_ok_and(|status| status == "up");
        wait_for("a replica", LIMIT, || cluster.nodes.iter().skip(masters).all(follows))?;
        Ok(cluster)
    }

    fn deal_slots(&self, masters: usize) -> anyhow::Result<()> {
        for (number, node) in self.nodes.iter().take(masters).enumerate() {
            let (first, end) = (SLOTS * number / masters, SLOTS * (number + 1) / masters);
            node.cli(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()])?;
        }
        // Different epochs from the start save the nodes a dispute about which is newer.
        for (number, node) in self.nodes.iter().enumerate() {
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
        }
        Ok(())
    }

    fn introduce(&self) -> anyhow::Result<()> {
        let first = self.nodes.first().context("the cluster has no nodes")?;
        for node in self.nodes.iter().skip(1) {
            let (ip, port) = (node.address().ip().to_string(), node.address().port().to_string());
            let bus = node.cli(&["CONFIG", "GET", "cluster-port"])?;
            let bus = bus.lines().nth(1).context("a node has no cluster-port")?;
            first.cli(&["CLUSTER", "MEET", &ip, &port, bus])?;
        }
        let known = [format!("cluster_known_nodes:{}", self.nodes.len())];
        wait_for("the Redis Cluster", LIMIT, || self.nodes.iter().all(|node| has(node, &known)))
    }

    fn follow(&self, masters: usize) -> anyhow::Result<()> {
        for (number, node) in self.nodes.iter().skip(masters).enumerate() {
            let master = self.nodes.get(number % masters).context("the cluster has no master")?;
            let id = myself(master)?.id;
            // Until the two have shaken hands, the replica may know the master by its address only.
            wait_for("a replica", LIMIT, || node.cli(&["CLUSTER", "REPLICATE", &id]).is_ok())?;
        }
        Ok(())
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(RedisServer::address).collect()
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// For a test to kill, pause or restart. A node that comes back becomes a replica.
    pub fn node(&mut self, number: usize) -> anyhow::Result<&mut RedisServer> {
        self.nodes.get_mut(number).with_context(|| format!("there is no node {number}"))
    }

    /// The number of the master that has the slot of `key`, among the nodes that answer.
    pub fn master_of(&self, key: &str) -> anyhow::Result<usize> {
        let answering = || self.nodes.iter().enumerate().filter(|(_, node)| node.answers());
        let (_, anyone) = answering().next().context("no node answers")?;
        let slot: usize = anyone.cli(&["CLUSTER", "KEYSLOT", key])?.parse()?;
        let owners = answering().filter_map(|(number, node)| {
            let myself = myself(node).ok()?;
            let owns =
                myself.is_master && myself.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot));
            owns.then_some((myself.epoch, number))
        });
        // A node that wakes up from a pause still reports itself as the master for a moment, with an older
        // epoch.
        let (_, number) = owners.max().with_context(|| format!("no node has slot {slot}"))?;
        Ok(number)
    }

    /// Waits until a node other than `former` has the slot of `key` and every node that answers reports a
    /// complete cluster. Returns the new master's number.
    pub fn wait_for_failover(&self, key: &str, former: usize) -> anyhow::Result<usize> {
        let whole = ["cluster_state:ok".to_owned()];
        let mut found = None;
        wait_for("the failover", LIMIT, || {
            found = self.master_of(key).ok().filter(|number| *number != former);
            found.is_some() && self.nodes.iter().filter(|node| node.answers()).all(|node| has(node, &whole))
        })?;
        found.context("there is no other master")
    }
}

/// Whether a node's view of the cluster contains all `lines`.
fn has(node: &RedisServer, lines: &[String]) -> bool {
    let Ok(info) = node.cli(&["CLUSTER", "INFO"]) else { return false };
    lines.iter().all(|wanted| info.lines().any(|line| line.trim() == wanted))
}

fn myself(node: &RedisServer) -> anyhow::Result<Myself> {
    let nodes = node.cli(&["CLUSTER", "NODES"])?;
    let line = nodes.lines().find(|line| line.contains("myself")).context("a node does not know itself")?;
    read_node(line).with_context(|| format!("unexpected form of CLUSTER NODES: {line}"))
}

/// `id address flags master ping pong epoch link slots…`
fn read_node(line: &str) -> Option<Myself> {
    let mut fields = line.split_whitespace();
    let id = fields.next()?.to_owned();
    let is_master = fields.nth(1)?.split(',').any(|flag| flag == "master");
    let epoch = fields.nth(3)?.parse().ok()?;
    let range = |field: &str| {
        let (first, last) = field.split_once('-').unwrap_or((field, field));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    // Slots in brackets are being moved to another node; nothing moves slots here.
    let slots = fields.skip(1).filter(|field| !field.starts_with('[')).map(range).collect::<Option<_>>()?;
    Some(Myself { id, is_master, epoch, slots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cluster_nodes_is_read() {
        let line =
            "07c3 127.0.0.1:30004@31004 myself,master - 0 1426238317239 4 connected 0-5460 9000 [77-<-ab]";
        let node = read_node(line).unwrap();
        assert_eq!((node.id.as_str(), node.is_master, node.epoch), ("07c3", true, 4));
        assert_eq!(node.slots, [(0, 5460), (9000, 9000)]);
        let replica = read_node("07c3 127.0.0.1:30004@31004 myself,slave e7d1 0 0 4 connected").unwrap();
        assert!(!replica.is_master && replica.slots.is_empty());
        assert!(read_node("ERR no").is_none());
    }
}
