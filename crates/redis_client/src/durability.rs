//! Checks at the start that the servers keep what they have answered. Otherwise a setting that loses
//! decisions would show only when it is too late.

use std::{collections::HashMap, time::Duration};

use redis::{InfoDict, Value, from_redis_value};

use crate::{
    error::{LinkError, answered},
    link::Link,
    topology::address,
};

const OLDEST_VERSION: u32 = 7;
/// How often to check for new masters.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// A setting, the only value that is safe, and what any other value risks.
const NEEDED: [(&str, &str, &str); 4] = [
    ("appendonly", "yes", "what was sold is forgotten when the server restarts"),
    ("appendfsync", "always", "the last second of orders can be lost with the machine's power"),
    (
        "no-appendfsync-on-rewrite",
        "no",
        "orders can be lost with the machine's power while its file is rewritten",
    ),
    ("maxmemory-policy", "noeviction", "a full server would throw sales and orders away"),
];

impl Link {
    /// Refuses servers that could lose what they have answered, with a line for each thing to change. If
    /// unsafe servers are allowed, the lines are warnings. A server that does not answer is checked later.
    pub async fn check_durability(&self) -> Result<(), LinkError> {
        let mut findings = Vec::new();
        for master in self.masters() {
            let replicas = match self.check_master(&master, &mut findings).await {
                Err(error) if error.is_silence() => {
                    tracing::warn!(server = &*master, %error, "a master can't be asked for its settings yet");
                    continue;
                }
                checked => checked?,
            };
            for replica in replicas {
                self.check_replica(&replica, &mut findings).await;
            }
        }
        if findings.is_empty() {
            return Ok(());
        }
        if self.options().allow_unsafe {
            findings.iter().for_each(|finding| tracing::warn!("{finding}"));
            return Ok(());
        }
        findings.push("To start nevertheless, set redis.allow_unsafe = true.".into());
        Err(LinkError::Unsafe(findings.join("\n")))
    }

    /// Checks again when there are new masters, or when a silent master answers. Unsafe settings are only
    /// logged as errors: by then people buy, and nobody is turned away.
    pub async fn watch_durability(self) {
        let mut masters = Vec::new();
        if self.all_answer().await.is_ok() {
            masters = self.masters();
        }
        loop {
            tokio::time::sleep(WATCH_INTERVAL).await;
            let found = self.masters();
            if found == masters {
                continue;
            }
            if let Err(error) = self.all_answer().await {
                tracing::debug!(%error, "a master can't be asked for its settings yet");
                continue;
            }
            match self.check_durability().await {
                Ok(()) => masters = found,
                Err(LinkError::Unsafe(findings)) => {
                    tracing::error!("{findings}");
                    masters = found;
                }
                Err(error) => tracing::debug!(%error, "the new masters can't be asked for their settings"),
            }
        }
    }

    async fn all_answer(&self) -> Result<(), LinkError> {
        for master in self.masters() {
            self.greet(&master).await?;
        }
        Ok(())
    }

    /// Returns the addresses of the master's replicas.
    async fn check_master(&self, master: &str, findings: &mut Vec<String>) -> Result<Vec<String>, LinkError> {
        let mut questions = redis::pipe();
        questions.cmd("INFO").arg("server").cmd("INFO").arg("replication");
        ask_settings(&mut questions);
        let mut answers = self.send_to(master, &questions).await?.into_iter();
        let server: InfoDict = answered(master, answers.next())?;
        let replication: InfoDict = answered(master, answers.next())?;
        findings.extend(check_version(master, &server));
        findings.extend(check_settings(master, answers));
        self.warn_of_full_coverage(master).await;
        let replicas = replicas_in(&replication);
        let wanted = self.options().wait_replicas as usize;
        let connected = replicas.len();
        if connected < wanted {
            let trouble =
                "too few replicas are connected: until there are more, every order is answered with 503";
            tracing::warn!(server = master, replicas = connected, wanted, "{trouble}");
        } else if wanted > 0 && connected == wanted {
            let trouble = "there is no spare replica: if one or the master dies, every order is answered with 503 until it is back";
            tracing::warn!(server = master, replicas = connected, wanted, "{trouble}");
        }
        Ok(replicas)
    }

    /// Warns of a setting that loses nothing, but lets one dead master stop all sales.
    async fn warn_of_full_coverage(&self, master: &str) {
        let setting = "cluster-require-full-coverage";
        if !self.is_cluster() {
            return;
        }
        let mut question = redis::pipe();
        question.cmd("CONFIG").arg("GET").arg(setting);
        let Ok(mut answers) = self.send_to(master, &question).await else { return };
        if let Ok(values) = answered::<HashMap<String, String>>(master, answers.pop())
            && values.get(setting).is_some_and(|value| value == "yes")
        {
            tracing::warn!(server = master, "{setting} is yes: while one master is dead, all sales stop");
        }
    }

    /// A replica may become master, with the settings it has.
    async fn check_replica(&self, replica: &str, findings: &mut Vec<String>) {
        let mut questions = redis::pipe();
        ask_settings(&mut questions);
        match self.send_to(replica, &questions).await {
            Ok(answers) => findings.extend(check_settings(replica, answers.into_iter())),
            Err(error) => {
                tracing::warn!(server = replica, %error, "a replica can't be asked for its settings")
            }
        }
    }
}

fn ask_settings(questions: &mut redis::Pipeline) {
    for (setting, ..) in NEEDED {
        questions.cmd("CONFIG").arg("GET").arg(setting);
    }
}

fn check_settings(server: &str, answers: impl Iterator<Item = Value>) -> Vec<String> {
    let needed = NEEDED.iter().zip(answers);
    needed
        .filter_map(|((setting, safe, risk), answer)| check_setting(server, setting, safe, risk, answer))
        .collect()
}

fn check_setting(server: &str, setting: &str, safe: &str, risk: &str, answer: Value) -> Option<String> {
    let values: HashMap<String, String> = match answer.extract_error() {
        Ok(answer) => from_redis_value(answer).unwrap_or_default(),
        Err(error) => {
            return Some(format!(
                "Redis {server} does not tell its setting {setting} ({error}): unless it is {safe}, \
                 {risk}. Allow CONFIG GET, or check the setting where the server is managed."
            ));
        }
    };
    match values.get(setting) {
        Some(value) if value == safe => None,
        found => Some(format!(
            "Redis {server} has {setting} = {}: {risk}. Set {setting} {safe}.",
            found.map_or("(unknown)", String::as_str)
        )),
    }
}

fn check_version(server: &str, info: &InfoDict) -> Option<String> {
    let version: String = info.get("redis_version")?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major < OLDEST_VERSION).then(|| {
        format!(
            "Redis {server} is version {version}: its scripts lack functions that the ledger needs. \
             Use {OLDEST_VERSION}.0 or newer."
        )
    })
}

/// The replicas of `INFO replication`: `slave0:ip=127.0.0.1,port=6380,state=online,…`.
fn replicas_in(replication: &InfoDict) -> Vec<String> {
    let replica = |number: u32| {
        let fields: String = replication.get(&format!("slave{number}"))?;
        let mut parts = fields.split(',').filter_map(|field| field.split_once('='));
        let mut part = |name: &str| Some(parts.find(|(other, _)| *other == name)?.1);
        Some(address(part("ip")?, part("port")?))
    };
    (0..).map_while(replica).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_found_among_the_other_lines() {
        let info = "role:master\r\nconnected_slaves:2\r\nslave0:ip=127.0.0.1,port=7001,state=online,offset=1,lag=0\r\n\
                    slave1:ip=::1,port=7002,state=online,offset=1,lag=0\r\nslave_read_only:1\r\n";
        assert_eq!(replicas_in(&InfoDict::new(info)), ["127.0.0.1:7001", "[::1]:7002"]);
    }

    #[test]
    fn an_old_server_is_refused_and_valkey_is_not() {
        let old = InfoDict::new("redis_version:6.2.14\r\n");
        assert!(check_version("a:1", &old).is_some_and(|line| line.contains("6.2.14")));
        let valkey = InfoDict::new("server_name:valkey\r\nredis_version:7.2.4\r\n");
        assert_eq!(check_version("a:1", &valkey), None);
    }
}
