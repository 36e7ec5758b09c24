//! nginx in front of nodes, with the files that an operator copies (`deploy/nginx`). Only the folders, the
//! machine's limits, the `listen` line and the addresses of the nodes differ.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::{Context, ensure};
use rustix::process::{Resource, getrlimit};

use crate::nginx::Nginx;

const NGINX_CONFIGURATION: &str = include_str!("../../../deploy/nginx/nginx.conf");
const SITE_CONFIGURATION: &str = include_str!("../../../deploy/nginx/penstock.conf");
const PATHS: &str = include_str!("../../../deploy/nginx/paths.conf");
const LOGS: &str = include_str!("../../../deploy/nginx/logs.conf");
const NODES: &str = include_str!("../../../deploy/nginx/nodes.conf");
/// A folder of Debian, and what replaces it below nginx's prefix.
const FOLDERS: [(&str, &str); 3] = [("/var/log/nginx/", "logs/"), ("/var/lib/nginx/", ""), ("/run/", "")];
/// Debian's nginx keeps these below /var/lib by default.
const TEMPORARY_PATHS: &str = "proxy_temp_path temp/proxy;
client_body_temp_path temp/body;
fastcgi_temp_path temp/fastcgi;
uwsgi_temp_path temp/uwsgi;
scgi_temp_path temp/scgi;
";
const MAX_DESCRIPTORS: u64 = 200_000;

/// Starts nginx in `folder`, with plain HTTP at `listen`, in front of `nodes`.
pub fn start_front(folder: &Path, listen: SocketAddr, nodes: &[SocketAddr]) -> anyhow::Result<Nginx> {
    let site = folder.join("penstock");
    fs::create_dir_all(&site).with_context(|| format!("cannot create {}", site.display()))?;
    let servers = instead_of(NODES, nodes)?;
    let door = format!("listen {listen} reuseport backlog=65535;\nserver_name _;\n");
    let paths = in_one_folder(PATHS)? + TEMPORARY_PATHS;
    for (name, text) in [
        ("penstock.conf", SITE_CONFIGURATION),
        ("nodes.conf", &servers),
        ("listen.conf", &door),
        ("paths.conf", &paths),
        ("logs.conf", &logs_of_everything(LOGS)?),
        // There is no HTTPS here.
        ("redirect.conf", ""),
    ] {
        fs::write(site.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Nginx::start(folder, &for_this_machine(NGINX_CONFIGURATION)?)
}

/// A line for each of `nodes`, with the same parameters that `delivered` gives every address.
fn instead_of(delivered: &str, nodes: &[SocketAddr]) -> anyhow::Result<String> {
    let servers = delivered.lines().filter_map(|line| line.strip_prefix("server "));
    let mut words = servers.map(|server| &server[server.find([' ', ';']).unwrap_or(server.len())..]);
    let first = words.next().context("nodes.conf names no node")?;
    ensure!(words.all(|others| others == first), "nodes.conf has different parameters for its nodes");
    Ok(nodes.iter().map(|node| format!("server {node}{first}\n")).collect())
}

fn in_one_folder(configuration: &str) -> anyhow::Result<String> {
    let text =
        FOLDERS.iter().fold(configuration.to_owned(), |text, (debian, here)| text.replace(debian, here));
    let settings = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    for line in settings {
        ensure!(!line.contains(" /"), "this line names a folder outside nginx's prefix: {line}");
    }
    Ok(text)
}

/// The configuration is for a dedicated machine where root starts nginx. A user may have fewer descriptors,
/// so more workers share the connections.
fn for_this_machine(configuration: &str) -> anyhow::Result<String> {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).min(MAX_DESCRIPTORS);
    let text = configuration
        .replace("user www-data;\n", "")
        .replace("worker_processes auto;", "worker_processes 4;")
        .replace("worker_rlimit_nofile 200000;", &format!("worker_rlimit_nofile {limit};"));
    in_one_folder(&text)
}

/// Logs everything that nginx says about requests, failed tries included: the logs are not kept for long.
fn logs_of_everything(configuration: &str) -> anyhow::Result<String> {
    in_one_folder(&configuration.replace("error.log crit;", "error.log warn;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_get_the_parameters_of_the_delivered_file() {
        let nodes: [SocketAddr; 2] = ["127.0.0.1:1", "127.0.0.1:2"].map(|node| node.parse().unwrap());
        let lines = "server 127.0.0.1:1 max_fails=0;\nserver 127.0.0.1:2 max_fails=0;\n";
        assert_eq!(instead_of(NODES, &nodes).unwrap(), lines);
        assert_eq!(instead_of("server a:80;\n", &nodes[..1]).unwrap(), "server 127.0.0.1:1;\n");
        assert!(instead_of("server a:80 down;\nserver b:80;\n", &nodes).is_err());
        assert!(instead_of("# server a:80;\n", &nodes).is_err());
    }

    #[test]
    fn nothing_is_written_outside_the_folder() {
        let text = for_this_machine(NGINX_CONFIGURATION).unwrap();
        assert!(text.contains("pid nginx.pid;") && text.contains("error_log logs/error.log;"), "{text}");
        assert!(!text.contains("www-data"), "{text}");
        assert!(in_one_folder(PATHS).unwrap().contains("proxy_cache_path penstock-pages "));
        let logs = logs_of_everything(LOGS).unwrap();
        assert!(
            logs.contains("access_log logs/penstock.log ") && logs.contains("error_log logs/error.log warn;"),
            "{logs}"
        );
        assert!(in_one_folder("pid /var/run/nginx.pid;").is_err());
    }
}
