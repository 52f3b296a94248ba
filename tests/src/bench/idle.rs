//! P9: what Leo costs while ten agents have nothing to do: processor time, wake-ups and memory of all of
//! its own processes. The agents' own programs are not Leo's and are counted apart.

use crate::say;
use anyhow::{Context, Result};
use leo_tests::{Leo, procs};
use std::{collections::BTreeMap, time::Duration};

const AGENTS: usize = 10;

/// Agents and workers settle before anything is counted.
const SETTLES: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(30);

/// What one process has used.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    /// Processor time, in clock ticks.
    ticks: u64,
    /// Times that one of its threads went to sleep, and so was woken.
    wakes: u64,
    /// Memory, shared pages divided among those who share them, in KiB.
    pss: u64,
}

/// One process at one moment.
#[derive(Debug, Clone, Default)]
struct Process {
    name: &'static str,
    ticks: u64,
    pss: u64,
    /// The wake-ups of each thread: those of one that ends meanwhile must not be taken off the others'.
    wakes: BTreeMap<String, u64>,
}

pub(crate) async fn run() -> Result<()> {
    say(&format!("idle: P9, {AGENTS} agents with nothing to do, {} s", WATCHED.as_secs()));
    if !cfg!(target_os = "linux") {
        say("  skipped: only Linux tells wake-ups and shared memory of a process");
        return Ok(());
    }
    let agent = |n: usize| format!("a{n}: {{ harness: demo, workspace: $WORK }}");
    let agents: Vec<String> = (0..AGENTS).map(agent).collect();
    let leo = Leo::builder().config(&format!("agents: {{ {} }}\n", agents.join(", "))).start().await?;
    for n in 0..AGENTS {
        leo.agent_idle(&format!("a{n}")).await?;
    }
    tokio::time::sleep(SETTLES).await;
    let before = usage(&leo)?;
    tokio::time::sleep(WATCHED).await;
    let after = usage(&leo)?;

    let seconds = WATCHED.as_secs_f64();
    let mut totals: BTreeMap<&str, Usage> = BTreeMap::new();
    let mut all = Usage::default();
    for (pid, now) in &after {
        let then = before.get(pid).cloned().unwrap_or_default();
        let woken = |(thread, wakes): (&String, &u64)| {
            wakes.saturating_sub(then.wakes.get(thread).copied().unwrap_or_default())
        };
        let used = Usage {
            ticks: now.ticks.saturating_sub(then.ticks),
            wakes: now.wakes.iter().map(woken).sum(),
            pss: now.pss,
        };
        let mut sums = vec![totals.entry(now.name).or_default()];
        if now.name != "demo agent" {
            sums.push(&mut all);
        }
        for sum in sums {
            sum.ticks += used.ticks;
            sum.wakes += used.wakes;
            sum.pss += used.pss;
        }
    }
    for (name, used) in totals {
        say(&line(name, used, seconds));
    }
    say(&line("Leo in all", all, seconds));
    Ok(())
}

fn line(name: &str, used: Usage, seconds: f64) -> String {
    // Linux counts in hundredths of a second, whatever its own clock does.
    let percent = used.ticks as f64 / seconds;
    format!(
        "  {name:<14} {percent:5.2} % of a core, {:6.1} wake-ups/s, {:6.1} MB",
        used.wakes as f64 / seconds,
        used.pss as f64 / 1024.0
    )
}

/// Each process of this home.
fn usage(leo: &Leo) -> Result<BTreeMap<i32, Process>> {
    let supervisor = leo.supervisor_pid()?;
    let server: i32 = leo.tmux.text(&["display-message", "-p", "#{pid}"])?.trim().parse()?;
    let all = procs::list()?;
    let below = |root: i32| {
        let mut found = vec![root];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(all.iter().filter(|p| p.parent == parent).map(|p| p.pid));
            next += 1;
        }
        found
    };
    let mut usages = BTreeMap::new();
    for pid in below(supervisor).into_iter().chain(below(server)) {
        let Some(process) = all.iter().find(|p| p.pid == pid) else { continue };
        let read = read(pid).unwrap_or_default();
        usages.insert(pid, Process { name: name_of(&process.command), ..read });
    }
    Ok(usages)
}

fn name_of(command: &str) -> &'static str {
    let words = ["supervise", "worker hub", "worker http", "worker agents", "worker mcp", "mcp-server"];
    match words.iter().find(|word| command.contains(**word)) {
        Some(word) => word,
        None if command.contains(" worker ") => "other workers",
        None if command.contains("demo") => "demo agent",
        None => "tmux",
    }
}

fn read(pid: i32) -> Result<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')').context("a process's status")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or_default();
    let mut wakes = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let thread = task.file_name().to_string_lossy().into_owned();
        wakes.insert(thread, number(&task.path().join("status"), "voluntary_ctxt_switches:")?);
    }
    let pss = number(format!("/proc/{pid}/smaps_rollup").as_ref(), "Pss:")?;
    Ok(Process { ticks: field(11) + field(12), wakes, pss, ..Process::default() })
}

fn number(path: &std::path::Path, label: &str) -> Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.with_context(|| format!("{label} in {}", path.display()))?.parse().context("a number")
}
