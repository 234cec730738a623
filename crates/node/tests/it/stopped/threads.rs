//! What the threads of this process have computed, as the kernel counts it.

use std::fs;
use std::time::{Duration, Instant};

/// What threads may compute in [`WINDOW`] and be idle: timers, and whoever looks.
const IDLE: Duration = Duration::from_millis(20);
const WINDOW: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(4);

/// Nanoseconds that all threads but this one have run.
fn computed() -> Duration {
    let own = fs::read_link("/proc/thread-self").ok();
    let own = own.and_then(|path| path.file_name().map(|name| name.to_owned()));
    let threads = fs::read_dir("/proc/self/task").expect("the kernel shows threads");
    let of = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok().filter(|entry| Some(entry.file_name()) != own)?;
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.filter_map(of).sum())
}

/// Waits until threads compute nothing; how long it took until they did, or `None` after `most`.
pub fn idle(most: Duration) -> Option<Duration> {
    let start = Instant::now();
    let mut seen = vec![(start, computed())];
    while start.elapsed() < most + WINDOW {
        std::thread::sleep(LOOK);
        let (now, all) = (Instant::now(), computed());
        seen.push((now, all));
        let since = seen.iter().rposition(|(at, _)| now - *at >= WINDOW);
        if let Some(since) = since
            && all.saturating_sub(seen[since].1) <= IDLE
        {
            // The last moment at which somebody computed without a pause.
            let busy = |pair: &&[(Instant, Duration)]| pair[1].1.saturating_sub(pair[0].1) * 4 > pair[1].0 - pair[0].0;
            let last = seen.windows(2).rev().find(busy);
            return Some(last.map_or(Duration::ZERO, |pair| pair[1].0 - start));
        }
    }
    None
}
