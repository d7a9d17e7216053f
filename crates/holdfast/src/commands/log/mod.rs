//! `holdfast log topics|read|tail|retry`: what happened, message by message; of a data directory, or of the database profile's Kafka.

mod topics;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use holdfast_hub::{Core, log_folder, replay_with};
use holdfast_kafka::Brokers;
use holdfast_log::{Frames, SegmentReader};
use holdfast_store::MemoryStore;
use rustix::fs::inotify;
use serde_json::{Value, json};

use self::topics::Topics;
use super::{Output, bad_input, beginning_removed, data_directory, read_log, server_of_environment};
use crate::log_view::{Topic, time};

/// Show the log of a data directory, or of the database profile, as topics.
///
/// Nothing is changed, except by `retry`. It may run beside a hub that is serving from the same directory.
///
/// With --log it shows the topics of the database profile's Kafka instead (transfers, position, notifications, dead-letters,
/// token-events, token-updates, orders, pay, stock, outcomes, outcome-offsets), with partition, offset, time and key of each message; each partition in its order. Offsets count per partition.
#[derive(Debug, clap::Args)]
pub(super) struct Log {
    #[command(subcommand)]
    what: What,
    /// The data directory, or else that of HOLDFAST_DATA [default: ./holdfast-data]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// The database profile's Kafka, as kafka://HOST:PORT with further brokers behind commas; without it and --data that of HOLDFAST_LOG
    #[arg(long, value_name = "URL", global = true)]
    log: Option<Brokers>,
    /// What stands before the names of the cluster's topics (its setting cluster.prefix)
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, global = true)]
    prefix: String,
    /// Only this partition; of the database profile
    #[arg(long, value_name = "NUMBER", global = true)]
    partition: Option<u32>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The topics and how many messages each has
    Topics,
    /// The messages of a topic, one line of JSON each
    ///
    /// A message that lies in the log has an offset of its own. One that is derived (position, notifications,
    /// alarms, dead-letters) carries the offset of the first record of its frame; one of a checkout (pay, stock,
    /// outcomes) that of the record that led to it. One of outcome-offsets, with the partition as its key, says from
    /// where the outcomes would have to be read again: the record that began the oldest checkout that is open after
    /// that frame, or the frame's end; it is there for each frame that has outcomes.
    Read {
        /// Which topic
        topic: Topic,
        /// Only messages with this offset or a later one
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// At most so many
        #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
        count: u64,
    },
    /// The same, and then each new message as it becomes durable
    ///
    /// A message that is derived carries the offset of the first record of its frame.
    Tail {
        /// Which topic
        topic: Topic,
        /// Only messages with this offset or a later one; without it, only what is new
        #[arg(long)]
        from: Option<u64>,
    },
    /// Write the message of a dead letter to its topic once more, when the reason is mended; of the database profile
    ///
    /// Whatever it asks for is decided by how things stand now, and nothing is done twice.
    Retry {
        /// The key of the dead letter: TOPIC/PARTITION/OFFSET
        letter: String,
    },
}

impl Log {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut lines = Lines { out: std::io::stdout().lock(), closed: false };
        if matches!(self.what, What::Retry { .. }) && self.log.is_none() {
            return Err(bad_input(
                "retry writes, so it takes no server from the environment: name the database profile's Kafka with --log. A hub \
                        retries its dead letters itself: POST /hub/dead-letters/retry",
            ));
        }
        let log = match (self.log, &self.data) {
            (Some(_), Some(_)) => {
                return Err(bad_input("--data and --log are two different logs: name one of them"));
            }
            (None, None) => server_of_environment("HOLDFAST_LOG", str::parse)?,
            (log, _) => log,
        };
        if let Some(brokers) = log {
            let topics = Topics { brokers, prefix: self.prefix, partition: self.partition };
            return topics.run(&self.what, self.output, &mut lines);
        }
        if self.partition.is_some() || !self.prefix.is_empty() {
            return Err(bad_input(
                "--partition and --prefix are for the topics of the database profile: name its Kafka with --log",
            ));
        }
        if let What::Read { topic, .. } | What::Tail { topic, .. } = &self.what
            && !topic.is_of_a_directory()
        {
            return Err(bad_input(format!(
                "{} is a topic of the database profile: name its Kafka with --log",
                topic.name()
            )));
        }
        let data = data_directory(self.data);
        let folder = log_folder(&data);
        let reader = read_log(&data)?;
        let frames = reader.frames(0).map_err(|error| {
            beginning_removed(
                error,
                "what the rest meant can only be told by the hub: see /hub/transfers and /hub/stats",
            )
        })?;
        match self.what {
            What::Topics => topics(frames, self.output, &mut lines),
            What::Read { topic, from, count } => {
                let mut left = count;
                let mut core = Core::new(MemoryStore::new(0));
                follow(frames, &mut core, topic, from, &mut left, &mut lines)
            }
            What::Tail { topic, from } => tail(&folder, &reader, topic, from, &mut lines),
            What::Retry { .. } => unreachable!("refused without --log"),
        }?;
        Ok(())
    }
}

/// Standard output, which a reader such as `head` may close at any time.
struct Lines<'a> {
    out: std::io::StdoutLock<'a>,
    closed: bool,
}

impl Lines<'_> {
    fn line(&mut self, line: &impl std::fmt::Display) -> anyhow::Result<()> {
        let written = writeln!(self.out, "{line}");
        self.see_to(written)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let flushed = self.out.flush();
        self.see_to(flushed)
    }

    fn see_to(&mut self, done: std::io::Result<()>) -> anyhow::Result<()> {
        match done {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            done => done.context("cannot write to standard output")?,
        }
        Ok(())
    }
}

fn topics(frames: Frames, output: Output, lines: &mut Lines<'_>) -> anyhow::Result<()> {
    let mut counts: Vec<(Topic, usize)> = Topic::of_a_directory().map(|topic| (topic, 0)).collect();
    let mut core = Core::new(MemoryStore::new(0));
    replay_with(frames, &mut core, |frame, commands, effects, core| {
        for (topic, count) in &mut counts {
            *count += topic.messages(frame, commands, effects, core.store()).len();
        }
    })?;
    for (topic, count) in counts {
        match output {
            Output::Json => lines.line(&json!({"topic": topic.name(), "messages": count}))?,
            Output::Text => lines.line(&format_args!("{:<16} {count}", topic.name()))?,
        }
    }
    Ok(())
}

/// Prints what `frames` holds and returns at its present end.
fn follow(
    frames: Frames,
    core: &mut Core<MemoryStore>,
    topic: Topic,
    from: u64,
    left: &mut u64,
    lines: &mut Lines<'_>,
) -> anyhow::Result<()> {
    let mut written = Ok(());
    replay_with(frames, core, |frame, commands, effects, core| {
        if frame.header.end_offset() <= from || *left == 0 || written.is_err() || lines.closed {
            return;
        }
        for (offset, message) in topic.messages(frame, commands, effects, core.store()) {
            if *left == 0 || offset < from {
                continue;
            }
            *left -= 1;
            let mut line = json!({"offset": offset, "time": time(frame.header.time_ms)});
            if let (Value::Object(line), Value::Object(message)) = (&mut line, message) {
                line.extend(message);
            }
            if let Err(error) = lines.line(&line) {
                written = Err(error);
            }
        }
    })?;
    written
}

/// Sleeps on the kernel's word that a file in the log's folder has changed.
fn tail(
    folder: &Path,
    reader: &SegmentReader,
    topic: Topic,
    from: Option<u64>,
    lines: &mut Lines<'_>,
) -> anyhow::Result<()> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).context("cannot watch files")?;
    let events = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, folder, events)
        .with_context(|| format!("cannot watch {}", folder.display()))?;
    let mut core = Core::new(MemoryStore::new(0));
    let mut nothing = 0;
    let mut everything = u64::MAX;
    let (from, first_left) = match from {
        Some(from) => (from, &mut everything),
        None => (0, &mut nothing),
    };
    follow(reader.frames(0)?, &mut core, topic, from, first_left, lines)?;
    let mut events = [0; 4096];
    let mut left = u64::MAX;
    while !lines.closed {
        follow(reader.frames(core.end())?, &mut core, topic, from, &mut left, lines)?;
        lines.flush()?;
        rustix::io::read(&watch, &mut events).context("cannot watch files")?;
    }
    Ok(())
}
