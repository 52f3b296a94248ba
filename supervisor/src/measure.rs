//! Memory and CPU of our own processes. Only the pids that it is given are looked at: looking at every
//! process of a machine costs tens of milliseconds.

use std::{collections::HashMap, time::Duration};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// CPU use is a difference over time; shorter than this the system's counters are too coarse.
const INTERVAL: Duration = Duration::from_millis(200);

/// What one process uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub(crate) rss_bytes: u64,
    /// CPU in percent of one core.
    pub(crate) cpu_percent: f32,
}

/// Measures these processes; one that is gone is left out. Blocks for [`INTERVAL`].
pub(crate) fn usage(pids: &[u32]) -> HashMap<u32, Usage> {
    let pids: Vec<Pid> = pids.iter().map(|pid| Pid::from_u32(*pid)).collect();
    let mut system = System::new_with_specifics(sysinfo::RefreshKind::nothing());
    let Ok(system) = &mut system else { return HashMap::new() };
    let kind = ProcessRefreshKind::nothing().with_cpu().with_memory();
    for pause in [INTERVAL, Duration::ZERO] {
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, kind);
        std::thread::sleep(pause);
    }
    pids.iter()
        .filter_map(|pid| {
            let process = system.process(*pid)?;
            let usage = Usage { rss_bytes: process.memory(), cpu_percent: process.cpu_usage() };
            Some((pid.as_u32(), usage))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_itself_and_nobody_else() {
        let own = std::process::id();
        let seen = usage(&[own, u32::MAX - 1]);
        assert_eq!(seen.len(), 1);
        assert!(seen[&own].rss_bytes > 0);
    }
}
