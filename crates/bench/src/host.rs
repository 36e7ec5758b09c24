//! What the kernel says about this machine and the processes on it. Reads `/proc`; changes nothing.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context, anyhow, ensure};
use serde::Serialize;

/// The unit of CPU time in `/proc/PID/stat`; Linux fixes it for programs on every architecture we run on.
const TICKS_PER_SECOND: f64 = 100.0;
const TMPFS_MAGIC: i64 = 0x0102_1994;

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

/// CPU time that the process has used so far, user and kernel mode, all threads together.
pub fn cpu_seconds(process: u32) -> anyhow::Result<f64> {
    let stat = read(&format!("/proc/{process}/stat"))?;
    // The program's name is in parentheses and may contain anything, so counting starts after it.
    let (_, fields) = stat.rsplit_once(')').context("unexpected form of /proc/PID/stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let (Some(user), Some(kernel)) = (ticks(11), ticks(12)) else {
        return Err(anyhow!("unexpected form of /proc/PID/stat"));
    };
    Ok((user + kernel) as f64 / TICKS_PER_SECOND)
}

/// Memory that the process has in RAM.
pub fn resident_bytes(process: u32) -> anyhow::Result<u64> {
    memory(process, "VmRSS:")
}

/// The most memory that the process has ever had in RAM.
pub fn peak_resident_bytes(process: u32) -> anyhow::Result<u64> {
    memory(process, "VmHWM:")
}

fn memory(process: u32, field: &str) -> anyhow::Result<u64> {
    let status = read(&format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let line = line.with_context(|| format!("no {field} in /proc/{process}/status"))?;
    let kilobytes = line.trim().trim_end_matches("kB").trim().parse::<u64>();
    Ok(kilobytes.with_context(|| format!("unexpected form of {field}"))? * 1024)
}

/// Raises the limit of open files, for this process and those it starts, as far as the system allows.
pub fn raise_open_files() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("cannot raise the number of open files")
}

/// Cores that this process may use, in order.
pub fn cores() -> anyhow::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).context("cannot ask for the usable cores")?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// The machine of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: f64,
    pub kernel: String,
    pub system: String,
    pub file_system: String,
}

impl Machine {
    /// Describes this machine, with the file system that holds `data`.
    pub fn look(data: &Path) -> anyhow::Result<Self> {
        let cpu_info = read("/proc/cpuinfo")?;
        let cpu = cpu_info
            .lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| line.split_once(':'));
        let memory = read("/proc/meminfo")?;
        let kilobytes: f64 =
            memory.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or_default();
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        Ok(Self {
            cpu: cpu.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            cores: cores()?.len(),
            memory_gib: (kilobytes / 1024.0 / 102.4).round() / 10.0,
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            system: system.unwrap_or("unknown").trim_matches('"').to_owned(),
            file_system: file_system(data)?,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, memory_gib, kernel, system, file_system } = self;
        write!(formatter, "{cores} cores of {cpu}, {memory_gib} GiB, {system}, Linux {kernel}, {file_system}")
    }
}

/// Refuses a folder in memory: syncing there costs nothing and would flatter everybody.
pub fn ensure_on_disk(folder: &Path) -> anyhow::Result<()> {
    let kind =
        rustix::fs::statfs(folder).with_context(|| format!("cannot look at {}", folder.display()))?.f_type;
    let on_disk = kind != TMPFS_MAGIC;
    ensure!(on_disk, "{} is in memory (tmpfs); choose a folder on a disk with --folder", folder.display());
    Ok(())
}

/// The core that handles nearly all interrupts of the disk below `folder`, if there is one.
pub fn disk_core(folder: &Path) -> anyhow::Result<Option<usize>> {
    let file_system = file_system(folder)?;
    let Some((_, device)) = file_system.rsplit_once("/dev/") else { return Ok(None) };
    // A partition is in the folder of its disk.
    let Ok(block) = Path::new("/sys/class/block").join(device).canonicalize() else { return Ok(None) };
    let driver = block.ancestors().take(2).find_map(|disk| fs::canonicalize(disk.join("device")).ok());
    let Some(driver) = driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) else {
        return Ok(None);
    };
    Ok(core_of_interrupts(&read("/proc/interrupts")?, driver))
}

/// The core with at least nine tenths of the interrupts whose names begin with `driver`.
fn core_of_interrupts(table: &str, driver: &str) -> Option<usize> {
    let mut rows = table.lines();
    let cores: Vec<usize> =
        rows.next()?.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    let mut counts = vec![0; cores.len()];
    for row in
        rows.filter(|row| row.split_whitespace().next_back().is_some_and(|name| name.starts_with(driver)))
    {
        for (sum, count) in counts.iter_mut().zip(row.split_whitespace().skip(1)) {
            *sum += count.parse::<u64>().unwrap_or_default();
        }
    }
    let (place, most) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
    (*most > 0 && most * 10 >= counts.iter().sum::<u64>() * 9).then_some(cores[place])
}

/// The type and device of the file system that holds `folder`.
fn file_system(folder: &Path) -> anyhow::Result<String> {
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let mounts = read("/proc/mounts")?;
    let mut by_point = BTreeMap::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        if let (Some(device), Some(point), Some(kind)) = (fields.next(), fields.next(), fields.next()) {
            // A later mount on the same point hides the earlier one.
            by_point.insert(point, format!("{kind} on {device}"));
        }
    }
    let holds = |point: &&str| folder.starts_with(point);
    let longest = by_point.keys().copied().filter(holds).max_by_key(|point| point.len());
    Ok(longest.and_then(|point| by_point.remove(point)).unwrap_or_else(|| "unknown".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_uses_cpu() {
        let this = std::process::id();
        assert!(resident_bytes(this).unwrap() > 100 * 1024);
        assert!(peak_resident_bytes(this).unwrap() > 100 * 1024);
        let before = cpu_seconds(this).unwrap();
        let mut number = 1u64;
        while cpu_seconds(this).unwrap() < before + 0.02 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
    }

    #[test]
    fn the_disks_core_is_the_one_that_gets_its_interrupts() {
        let table = "           CPU0       CPU2
 36:          7   22964097 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:      90000          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-input.0
 38:          5          6 PCI-MSIX-0000:00:04.0   0-edge      nvme0q1
";
        assert_eq!(core_of_interrupts(table, "virtio1"), Some(2));
        assert_eq!(core_of_interrupts(table, "virtio2"), Some(0));
        assert_eq!(core_of_interrupts(table, "nvme0"), None, "both");
        assert_eq!(core_of_interrupts(table, "nvme1"), None, "no such disk");
    }

    #[test]
    fn the_machine_is_described() {
        let machine = Machine::look(Path::new("/")).unwrap();
        assert!(machine.cores >= 1 && machine.memory_gib > 0.0 && !machine.kernel.is_empty());
    }
}
