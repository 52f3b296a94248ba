//! `leo-bench`: prints the figures behind the promises. Each figure that is a ratio is measured side by
//! side with what it is compared to, in one run, on the machine it runs on.

mod accept;
mod deliver;
mod history;
mod hook;
mod idle;
mod restart;

use anyhow::{Result, bail};
use std::time::Duration;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("restart") => restart::run().await,
        Some("hook") => hook::run().await,
        Some("deliver") => deliver::run().await,
        Some("accept") => accept::run().await,
        Some("history") => history::run().await,
        Some("idle") => idle::run().await,
        // A server that binds its own listener, for `restart` to compare with.
        Some("self-binding-server") => restart::self_binding_server(args.get(1)).await,
        None => {
            restart::run().await?;
            hook::run().await?;
            accept::run().await?;
            history::run().await?;
            idle::run().await?;
            deliver::run().await
        }
        Some(other) => bail!("no benchmark `{other}`: restart, hook, deliver, accept, history, idle"),
    }
}

/// Sorted samples.
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Takes samples in any order.
    pub(crate) fn new(mut samples: Vec<Duration>) -> Samples {
        samples.sort();
        Samples(samples)
    }

    /// The sample below which `percent` of them lie.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or_default()
    }

    /// The middle one.
    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Median, 99th percentile and maximum, in milliseconds.
    pub(crate) fn show(&self) -> String {
        let ms = |d: Duration| d.as_secs_f64() * 1000.0;
        format!(
            "median {:.2} ms, p99 {:.2} ms, max {:.2} ms, n {}",
            ms(self.median()),
            ms(self.percentile(99)),
            ms(self.percentile(100)),
            self.0.len()
        )
    }
}

/// Prints one line of a report.
#[expect(clippy::print_stdout, reason = "the figures are this program's output")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}
