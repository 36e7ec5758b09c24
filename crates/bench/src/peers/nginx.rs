//! nginx answering with a constant: the least CPU that a good server spends on a request. One worker, endless
//! keep-alive, no access log.

use std::{net::SocketAddr, path::Path};

use anyhow::{Context, ensure};
use penstock_local::{self as local, free_address};

use crate::load::ask_once;

/// The first attempt; the right length follows from the length of the whole answer.
const FIRST_BODY_BYTES: usize = 100;

#[derive(Debug)]
pub struct PeerNginx {
    _server: local::Nginx,
    pub worker: u32,
    pub address: SocketAddr,
}

/// The answer that nginx gives to every request.
#[derive(Clone, Copy, Debug)]
pub struct ConstantAnswer {
    pub status: u16,
    pub content_type: &'static str,
    /// Head and body.
    pub total_bytes: usize,
}

impl PeerNginx {
    /// An nginx on `core` that answers `request` with `constant`.
    pub fn start(
        folder: &Path,
        core: usize,
        request: &[u8],
        constant: ConstantAnswer,
    ) -> anyhow::Result<Self> {
        let answer_bytes = constant.total_bytes;
        // The length of the head is nginx's choice: measure it, then correct the body.
        let probe = Self::start_with_body(folder, core, constant, FIRST_BODY_BYTES)?;
        let head_bytes = answer_size(probe.address, request)? - FIRST_BODY_BYTES;
        drop(probe);
        let body_bytes = answer_bytes.saturating_sub(head_bytes);
        let nginx = Self::start_with_body(folder, core, constant, body_bytes)?;
        let size = answer_size(nginx.address, request)?;
        ensure!(
            size.abs_diff(answer_bytes) <= 1,
            "nginx answers {size} bytes where {answer_bytes} are wanted"
        );
        Ok(nginx)
    }

    fn start_with_body(
        folder: &Path,
        core: usize,
        constant: ConstantAnswer,
        body_bytes: usize,
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let server = local::Nginx::start_on(Some(core), folder, &configure(address, constant, body_bytes))?;
        let worker = *server.workers()?.first().context("nginx has no worker")?;
        Ok(Self { _server: server, worker, address })
    }
}

fn configure(address: SocketAddr, constant: ConstantAnswer, body_bytes: usize) -> String {
    let ConstantAnswer { status, content_type, .. } = constant;
    let body = "x".repeat(body_bytes);
    format!(
        "worker_processes 1;
pid nginx.pid;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    server_tokens off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    default_type {content_type};
    client_body_temp_path temp/body;
    proxy_temp_path temp/proxy;
    fastcgi_temp_path temp/fastcgi;
    uwsgi_temp_path temp/uwsgi;
    scgi_temp_path temp/scgi;
    server {{
        listen {address} backlog=4096;
        location / {{ return {status} '{body}'; }}
    }}
}}
"
    )
}

/// How many bytes, head and body, a server answers to `request` on a kept-alive connection.
pub fn answer_size(address: SocketAddr, request: &[u8]) -> anyhow::Result<usize> {
    Ok(ask_once(address, request)?.total_bytes)
}
