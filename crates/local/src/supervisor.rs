//! Watches over a cluster while people kill its parts: reports what has ended, what takes over, and when the
//! part starts again. Each part stays away long enough for people to see the others go on without it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::shop::{LocalShop, ShopPart, ShopPartKind};

/// A failover takes two to three seconds; the rest is time to see which server sells what.
const REDIS_STAYS_AWAY: Duration = Duration::from_secs(15);
const MARIADB_STAYS_AWAY: Duration = Duration::from_secs(15);
/// Longer than the five seconds after which another worker takes over.
const WORKER_STAYS_AWAY: Duration = Duration::from_secs(10);
const NGINX_STAYS_AWAY: Duration = Duration::from_secs(3);
/// After a start that failed.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);
const MASTER: &str = "master";

/// A part that does not run.
#[derive(Debug)]
struct Away {
    kind: ShopPartKind,
    name: String,
    since: Instant,
    due: Instant,
}

/// What is known about a cluster since the last look.
#[derive(Debug)]
pub struct Supervisor {
    away: Vec<Away>,
    /// The last role that each Redis server reported.
    roles: BTreeMap<String, String>,
}

impl Supervisor {
    /// Takes `parts` as they were when all of them ran.
    pub fn new(parts: &[ShopPart]) -> Self {
        let servers = parts.iter().filter(|part| matches!(part.kind, ShopPartKind::Redis(_)));
        let roles = servers.map(|part| (part.name.clone(), part.role.clone())).collect();
        Self { away: Vec::new(), roles }
    }

    /// Starts again what is due. Returns what people want to know, one sentence each.
    pub fn look(&mut self, shop: &mut LocalShop, now: Instant) -> Vec<String> {
        let mut news = Vec::new();
        for part in shop.parts() {
            if self.away.iter().any(|away| away.kind == part.kind) {
                continue;
            }
            if let Some(status) = shop.ended(part.kind) {
                news.push(self.miss(&part, &status.to_string(), now));
            } else {
                news.extend(self.compare(&part, now));
            }
        }
        self.start_again(shop, now, &mut news);
        if let Err(error) = shop.note_workers_of_nginx()
            && !self.away.iter().any(|away| away.kind == ShopPartKind::Nginx)
        {
            news.push(format!("{error:#}"));
        }
        news
    }

    fn miss(&mut self, part: &ShopPart, status: &str, now: Instant) -> String {
        let ShopPart { kind, name, .. } = part;
        let pause = match kind {
            ShopPartKind::Redis(_) => REDIS_STAYS_AWAY,
            ShopPartKind::MariaDb => MARIADB_STAYS_AWAY,
            ShopPartKind::Node(_) | ShopPartKind::Settler(_) => WORKER_STAYS_AWAY,
            ShopPartKind::Nginx => NGINX_STAYS_AWAY,
        };
        let again = self.when_again(*kind, now, pause);
        self.away.push(Away { kind: *kind, name: name.clone(), since: now, due: now + pause });
        let meanwhile = match kind {
            ShopPartKind::Redis(_) => self.without_redis(name),
            ShopPartKind::MariaDb => "orders go on, and settle when it is back",
            ShopPartKind::Node(_) => "the other nodes go on selling",
            ShopPartKind::Settler(_) => "another worker takes over its sales",
            ShopPartKind::Nginx => "its workers go on without it",
        };
        format!("{} ended ({status}); it starts again {again}; meanwhile {meanwhile}", described(part))
    }

    /// When a part that has ended now starts again, and which parts wait for it.
    fn when_again(&self, kind: ShopPartKind, now: Instant, pause: Duration) -> String {
        let due = now + pause;
        let names = |wanted: &dyn Fn(&&Away) -> bool| {
            let names: Vec<&str> = self.away.iter().filter(wanted).map(|away| away.name.as_str()).collect();
            names.join(", ")
        };
        let missing = names(&|away| needs_servers(kind) && is_server(away.kind) && away.due > due);
        if !missing.is_empty() {
            let last = self.away.iter().filter(|away| is_server(away.kind)).map(|away| away.due).max();
            let seconds = last.unwrap_or(due).duration_since(now).as_secs_f64().ceil();
            return format!("in {seconds} s, because it waits for {missing}");
        }
        let waiting = names(&|away| is_server(kind) && needs_servers(away.kind) && away.due < due);
        let after_it = if waiting.is_empty() { String::new() } else { format!(", and {waiting} after it") };
        format!("in {} s{after_it}", pause.as_secs())
    }

    fn without_redis(&self, name: &str) -> &'static str {
        let follows = format!("replica of {name}");
        match self.roles.get(name).map(String::as_str) {
            Some(MASTER) if self.roles.values().any(|role| *role == follows) => "its replica takes over",
            Some(MASTER) => "its sales get 503",
            _ => "the others go on",
        }
    }

    /// Reports a Redis server whose role has changed.
    fn compare(&mut self, part: &ShopPart, now: Instant) -> Option<String> {
        let is_known = part.role == MASTER || part.role.starts_with("replica of ");
        // A server that does not answer at the moment has not changed.
        if !matches!(part.kind, ShopPartKind::Redis(_)) || !is_known {
            return None;
        }
        let before = self.roles.insert(part.name.clone(), part.role.clone())?;
        if before == part.role {
            return None;
        }
        if part.role != MASTER {
            return Some(format!("{} is a {} now", described(part), part.role));
        }
        let former = before.strip_prefix("replica of ").unwrap_or_default();
        let fallen = self.away.iter().find(|away| away.name == former);
        let after = fallen.map_or_else(String::new, |away| {
            format!(", {:.1} s after {former} ended", now.duration_since(away.since).as_secs_f64())
        });
        Some(format!("{} was promoted: it is the master now{after}", described(part)))
    }

    fn start_again(&mut self, shop: &mut LocalShop, now: Instant, news: &mut Vec<String>) {
        let mut all = std::mem::take(&mut self.away);
        // Servers first: starting a node without its database blocks until the database is there, and nothing
        // else starts meanwhile.
        all.sort_by_key(|away| !is_server(away.kind));
        for mut away in all {
            let waits = needs_servers(away.kind) && self.away.iter().any(|other| is_server(other.kind));
            if now < away.due || waits {
                self.away.push(away);
                continue;
            }
            if let Err(error) = shop.start_again(away.kind) {
                let seconds = TRY_AGAIN_AFTER.as_secs();
                news.push(format!("{} does not start: {error:#}; trying again in {seconds} s", away.name));
                away.due = now + TRY_AGAIN_AFTER;
                self.away.push(away);
                continue;
            }
            let part = shop.parts().into_iter().find(|part| part.kind == away.kind);
            news.extend(part.map(|part| format!("{} runs again", described(&part))));
        }
    }
}

fn is_server(kind: ShopPartKind) -> bool {
    matches!(kind, ShopPartKind::Redis(_) | ShopPartKind::MariaDb)
}

fn needs_servers(kind: ShopPartKind) -> bool {
    matches!(kind, ShopPartKind::Node(_) | ShopPartKind::Settler(_))
}

/// Such as "redis-1 127.0.0.1:7001 (pid 4711)".
fn described(part: &ShopPart) -> String {
    let address = part.address.map_or_else(String::new, |address| format!(" {address}"));
    let process = part.process.map_or_else(String::new, |process| format!(" (pid {process})"));
    format!("{}{address}{process}", part.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: ShopPartKind, name: &str) -> ShopPart {
        ShopPart { kind, name: name.to_owned(), role: String::new(), address: None, process: None }
    }

    #[test]
    fn a_node_that_waits_for_a_server_is_not_announced_for_an_earlier_time() {
        let mut supervisor = Supervisor { away: Vec::new(), roles: BTreeMap::new() };
        let now = Instant::now();
        let node = |number| part(ShopPartKind::Node(number), &format!("node-{}", number + 1));
        let told = supervisor.miss(&node(0), "killed", now);
        assert!(told.contains("it starts again in 10 s; meanwhile"), "{told}");
        let told = supervisor.miss(&part(ShopPartKind::MariaDb, "mariadb"), "killed", now);
        assert!(told.contains("it starts again in 15 s, and node-1 after it; meanwhile"), "{told}");
        let told = supervisor.miss(&node(1), "killed", now + Duration::from_secs(1));
        assert!(told.contains("it starts again in 14 s, because it waits for mariadb; meanwhile"), "{told}");
        let told = supervisor.miss(&node(2), "killed", now + Duration::from_secs(8));
        assert!(told.contains("it starts again in 10 s; meanwhile"), "{told}");
    }
}
