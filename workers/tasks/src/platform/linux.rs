//! Linux gives orphans to the nearest ancestor that asks for them.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Rounds of looking for descendants: one that forks while it is looked for is found in the next.
const ROUNDS: usize = 5;

/// Pause between two rounds.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Makes this process the parent of every descendant whose own parent ends, so that none gets away.
pub(crate) fn adopt_orphans() {
    // Without it, only those that left the run's process group get away.
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Ends whatever this process is the parent of.
pub(crate) fn end_descendants() {
    for _ in 0..ROUNDS {
        let children: Vec<Pid> = children().into_iter().filter(|pid| !is_zombie(*pid)).collect();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill(child, Signal::SIGKILL);
        }
        // Those that have ended are still in the list until they are collected, by whoever collects us.
        std::thread::sleep(PAUSE);
    }
}

fn children() -> Vec<Pid> {
    let mut found = Vec::new();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return found };
    for thread in threads.flatten() {
        let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
    }
    found
}

/// Whether a process has ended and only waits to be collected.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; the state follows the last of them.
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}
