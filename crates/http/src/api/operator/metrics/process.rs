//! The operating system's figures about this process, under the names that all programs use for them.

use std::fs;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

use super::{Written, counter, gauge};

/// Read at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    cpu_seconds: f64,
    threads: u64,
    virtual_bytes: u64,
    resident_bytes: u64,
    /// In seconds since 1970.
    started_seconds: f64,
    open_descriptors: u64,
    /// None if unlimited.
    max_descriptors: Option<u64>,
}

impl Process {
    /// None where there is no `/proc` to read. Runs on another thread, because there may be a hundred
    /// thousand descriptors to count.
    pub(super) async fn read() -> Option<Self> {
        tokio::task::spawn_blocking(Self::read_now).await.ok()?
    }

    fn read_now() -> Option<Self> {
        let ticks = clock_ticks_per_second().max(1) as f64;
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field is the program's name in brackets, and may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // Numbered as in proc_pid_stat(5), where the first field is 1; two fields are cut off.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let booted_seconds: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
        // The folder itself is open while it is read.
        let open_descriptors = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
            threads: field(20)?,
            started_seconds: booted_seconds + field(22)? as f64 / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)?.saturating_mul(page_size() as u64),
            open_descriptors,
            max_descriptors: getrlimit(Resource::Nofile).current,
        })
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Written {
        let encoder = &mut encoder;
        let help = "Time that all cores together have spent on this process";
        counter(encoder, "process_cpu_seconds", help, self.cpu_seconds)?;
        let help = "Memory of this process that is in RAM";
        gauge(encoder, "process_resident_memory_bytes", help, &self.resident_bytes)?;
        let help = "Addresses that this process has taken, used or not";
        gauge(encoder, "process_virtual_memory_bytes", help, &self.virtual_bytes)?;
        gauge(encoder, "process_threads", "Threads of this process", &self.threads)?;
        gauge(encoder, "process_open_fds", "File descriptors that are open", &self.open_descriptors)?;
        if let Some(max_descriptors) = &self.max_descriptors {
            let help = "How many file descriptors may be open";
            gauge(encoder, "process_max_fds", help, max_descriptors)?;
        }
        let help = "When this process started, in seconds since 1970";
        gauge(encoder, "process_start_time_seconds", help, &self.started_seconds)
    }
}
