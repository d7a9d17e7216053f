//! The medium and its lies: which faults are armed, which have struck, and what they may excuse.
//!
//! Three kinds are kept apart. A loss of power takes what was not synced. An error is told, and a restart looks at the
//! disk afresh. A lie (rot, a lost write, a misdirected one) is told to nobody and stays until somebody reads what it
//! harmed. Only a lie about the log can lose what was acknowledged; see `invariants/faults_are_never_believed.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_disk::simfs::{FaultKind, Pace};
use holdfast_disk::{BLOCK, SimFs};

use crate::coverage::{Coverage, End, Hit, Phase, named_class};
use crate::process::{LOG, STORE};
use crate::random::Random;

/// What the medium of a run is like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Temper {
    /// It loses power, and fails now and then.
    #[default]
    Honest,
    /// It fails often, is full or slow.
    Failing,
    /// It lies about what is derived from the log.
    LiesAboutStore,
    /// It lies about the log.
    LiesAboutLog,
}

/// How a medium lied about the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLie {
    /// Bits flipped.
    Rot,
    /// A write did not happen.
    Lost,
    /// A write landed elsewhere, perhaps on something that was there.
    Astray,
}

/// A lie about the log that has struck.
#[derive(Debug, Clone, Copy)]
pub struct LogHarm {
    /// How.
    pub lie: LogLie,
    /// How many frames had been acknowledged by then.
    pub frames: usize,
}

/// A lying write that waits for its file.
struct Armed {
    lie: LogLie,
    /// Where else it lands.
    into: Option<PathBuf>,
    struck: Arc<Mutex<Option<PathBuf>>>,
}

/// The state of the medium as far as a run must know it.
#[derive(Default)]
pub struct Medium {
    /// What it is like.
    pub temper: Temper,
    /// It has lied about the log.
    pub log: Option<LogHarm>,
    /// What it has lied about of what is derived from the log, in the words of an error that names it.
    store_harmed: Vec<String>,
    /// It has lied about the mark at the end of the log.
    pub mark_harmed: bool,
    lies_left: u32,
    /// Steps until there is room again, and until it is fast again.
    full_for: u64,
    slow_for: u64,
    armed: Vec<Armed>,
    seen: BTreeMap<(FaultKind, String), u64>,
    busy_nanos: u64,
    /// Faults that have struck and not come to their end.
    open: Vec<Hit>,
    /// How faults ended.
    pub coverage: Coverage,
    /// Errors told and losses of power since the life or the attempt to start began.
    pub told: u64,
}

/// Whether a path belongs to the log.
fn is_log(path: &Path) -> bool {
    path.starts_with(LOG)
}

impl Medium {
    /// Draws what the medium of a run is like.
    pub fn draw(random: &mut Random) -> Medium {
        let temper = match random.below(100) {
            0..45 => Temper::Honest,
            45..70 => Temper::Failing,
            70..88 => Temper::LiesAboutStore,
            _ => Temper::LiesAboutLog,
        };
        let lies_left = match temper {
            Temper::LiesAboutStore => 1 + u32::try_from(random.below(3)).expect("few"),
            Temper::LiesAboutLog => 1,
            _ => 0,
        };
        Medium { temper, lies_left, ..Medium::default() }
    }

    /// Whether it has lied about what is derived from the log.
    pub const fn has_harmed_store(&self) -> bool {
        !self.store_harmed.is_empty()
    }

    /// Whether a lie explains that somebody complains so: it must be about a file that was harmed, and no other.
    pub fn explains(&self, reason: &str) -> bool {
        self.store_harmed.iter().any(|harmed| reason.contains(harmed))
    }

    /// What is derived from the log was moved away.
    pub fn store_removed(&mut self) {
        self.store_harmed.clear();
    }

    /// Whether errors come often.
    pub fn is_failing(&self) -> bool {
        self.temper == Temper::Failing
    }

    /// Arms one error of the kind that is told, for whatever comes next.
    pub fn arm_error(&mut self, fs: &SimFs, random: &mut Random) -> &'static str {
        match random.below(10) {
            0..2 => {
                fs.fail_next_sync();
                "the next sync will fail"
            }
            2..4 => {
                fs.fail_next_write();
                "the next write will fail"
            }
            4 => {
                fs.fail_next_read();
                "the next read will fail"
            }
            5..7 => {
                let what = *random.pick(&[".blk", ".run", ".ckp", ".seg"]);
                fs.fail_reads_of(what, 1);
                "a read of one kind of file will fail"
            }
            _ => {
                let what = *random.pick(&[
                    ".seg",
                    ".blk",
                    "run.tmp",
                    "ckp.tmp",
                    "/ids",
                    "/checkpoints",
                    "/outcomes",
                    "/log",
                    "mark",
                ]);
                let done = AtomicBool::new(false);
                fs.fail_syncs_of(move |path| {
                    let text = path.to_string_lossy();
                    let meant = match what {
                        "run.tmp" => text.contains("/ids/") && text.ends_with(".tmp"),
                        "ckp.tmp" => text.contains("/checkpoints/") && text.ends_with(".tmp"),
                        "mark" => text.ends_with("end.tmp"),
                        other => text.ends_with(other),
                    };
                    meant && !done.swap(true, Relaxed)
                });
                "a sync of one kind of file will fail"
            }
        }
    }

    /// Fills the disk but for a little, or makes it slow, for some steps.
    pub fn trouble(&mut self, fs: &SimFs, random: &mut Random) -> &'static str {
        if random.chance(60) {
            fs.set_capacity(Some(fs.used_bytes() + random.below(8) * 4096));
            self.full_for = 1 + random.below(8);
            "the disk is nearly full"
        } else {
            fs.set_pace(Pace { per_op: random.below(8) * 1_000_000, per_byte: random.below(500) });
            self.slow_for = 1 + random.below(8);
            "the disk is slow"
        }
    }

    /// A step has passed: room and speed come back.
    pub fn step(&mut self, fs: &SimFs) {
        if self.full_for == 1 {
            fs.set_capacity(None);
        }
        if self.slow_for == 1 {
            fs.set_pace(Pace::default());
        }
        self.full_for = self.full_for.saturating_sub(1);
        self.slow_for = self.slow_for.saturating_sub(1);
    }

    /// Nothing is wrong any more but what lies harmed on the disk.
    pub fn heal(&mut self, fs: &SimFs) {
        fs.heal();
        if !fs.is_frozen() {
            // A loss of power that is planned cannot be called off, only put off.
            fs.freeze_at_sync(u64::MAX);
        }
        fs.set_capacity(None);
        fs.set_pace(Pace::default());
        (self.full_for, self.slow_for) = (0, 0);
        self.armed.clear();
    }

    /// Lets the medium lie, if it is of that kind and has lies left.
    pub fn maybe_lie(&mut self, fs: &SimFs, frames: usize, random: &mut Random) -> Option<String> {
        if self.lies_left == 0 || !random.chance(14) {
            return None;
        }
        let about_log = self.temper == Temper::LiesAboutLog;
        let said = match random.below(3) {
            0 => self.rot(fs, about_log, frames, random)?,
            1 => {
                let struck = self.arm(LogLie::Lost, None);
                fs.lose_next_write(once(about_log, random.below(3), struck));
                "a write will be lost".to_owned()
            }
            _ if random.chance(70) => {
                let sectors = if random.chance(60) { 8 } else { 1 };
                let by = sectors * 512 * random.between(1, 6) * if random.chance(60) { -1 } else { 1 };
                let struck = self.arm(LogLie::Astray, None);
                fs.misdirect_next_write(once(about_log, random.below(3), struck), by);
                format!("a write will land {by} bytes off")
            }
            _ => {
                let others: Vec<PathBuf> =
                    fs.paths().into_iter().filter(|path| is_log(path) == about_log).collect();
                if others.is_empty() {
                    return None;
                }
                let into = random.pick(&others).clone();
                let struck = self.arm(LogLie::Astray, Some(into.clone()));
                // A write of the store may land in the log, and the other way round only where the log is lied about.
                let from_log = about_log && random.chance(50);
                fs.misdirect_next_write_into(once(from_log, 0, struck), &into);
                format!("a write will land in {}", into.display())
            }
        };
        self.lies_left -= 1;
        Some(said)
    }

    fn arm(&mut self, lie: LogLie, into: Option<PathBuf>) -> Arc<Mutex<Option<PathBuf>>> {
        let struck = Arc::new(Mutex::new(None));
        self.armed.push(Armed { lie, into, struck: Arc::clone(&struck) });
        struck
    }

    fn rot(&mut self, fs: &SimFs, about_log: bool, frames: usize, random: &mut Random) -> Option<String> {
        let kinds: &[&str] = if about_log { &[".seg", ".seg", ".mark"] } else { &[".ckp", ".run", ".blk"] };
        let kind = *random.pick(kinds);
        let (path, position) = match last_frame(fs).filter(|_| kind == ".seg" && random.chance(35)) {
            Some((path, begin)) => {
                let position = begin + random.below(96);
                fs.rot(&path, position, 1 << random.below(8)).ok()?;
                (path, position)
            }
            None => {
                let rotten = fs.rot_random(random.next(), |path| path.to_string_lossy().ends_with(kind))?;
                (rotten.path, rotten.position)
            }
        };
        self.harmed(&path, LogLie::Rot, frames);
        Some(format!("rot at byte {position} of {}", path.display()))
    }

    /// Bits flip while no hub runs.
    pub fn maybe_rot_at_rest(&mut self, fs: &SimFs, frames: usize, random: &mut Random) -> Option<String> {
        if self.lies_left == 0 || !random.chance(40) {
            return None;
        }
        let said = self.rot(fs, self.temper == Temper::LiesAboutLog, frames, random)?;
        self.lies_left -= 1;
        Some(said)
    }

    fn harmed(&mut self, path: &Path, lie: LogLie, frames: usize) {
        let name = path.to_string_lossy();
        if path.starts_with(STORE) {
            self.store_harmed.push(named(path));
        } else if name.ends_with("end.tmp") || name.ends_with("end.mark") {
            self.mark_harmed = true;
        } else {
            self.log.get_or_insert(LogHarm { lie, frames });
        }
    }

    /// Looks what has struck during something that the hub did. Returns the hits.
    pub fn collect(&mut self, fs: &SimFs, phase: Phase, frames: usize) -> Vec<Hit> {
        for at in (0..self.armed.len()).rev() {
            let struck = self.armed[at].struck.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(path) = struck {
                let Armed { lie, into, .. } = self.armed.swap_remove(at);
                self.harmed(&path, lie, frames);
                if let Some(into) = into {
                    self.harmed(&into, lie, frames);
                }
            }
        }
        let mut hits = Vec::new();
        for hit in fs.faults() {
            let seen = self.seen.entry((hit.kind, hit.class.clone())).or_default();
            let new = hit.count - std::mem::replace(seen, hit.count);
            let phase = refine(phase, hit.kind, &hit.class);
            hits.extend((0..new).map(|_| Hit { kind: hit.kind, class: hit.class.clone(), phase }));
        }
        self.told += hits.iter().filter(|hit| !hit.is_lasting()).count() as u64;
        self.open.extend_from_slice(&hits);
        hits
    }

    /// The power went: everything armed is gone, and the counts of the medium begin anew.
    pub fn lost_power(&mut self, fs: &SimFs) {
        self.seen.clear();
        self.armed.clear();
        self.busy_nanos = 0;
        self.collect(fs, Phase::PowerLoss, 0);
    }

    /// The time that the medium took since the last call, in milliseconds.
    pub fn time_taken(&mut self, fs: &SimFs) -> i64 {
        let nanos = fs.busy_nanos();
        let taken = nanos.saturating_sub(self.busy_nanos) / 1_000_000;
        self.busy_nanos += taken * 1_000_000;
        i64::try_from(taken).unwrap_or(0)
    }

    /// Errors that were told, and losses of power, have ended so. What a loss of power left has no effect, or is found
    /// as damage that nothing excuses.
    pub fn ended(&mut self, end: End) {
        self.end_some(end, |hit| !hit.is_lasting() && (!hit.is_aftermath() || end == End::NoEffect));
    }

    /// So have the lies that explain this damage.
    pub fn found(&mut self, end: End, reason: &str) {
        let named = named_class(reason).unwrap_or_default();
        self.end_some(end, |hit| hit.is_lasting() && hit.explains(named));
    }

    /// The run is over, and so are all faults.
    pub fn all_ended(&mut self, end: End) {
        self.ended(End::NoEffect);
        self.end_some(end, |_| true);
    }

    fn end_some(&mut self, end: End, which: impl Fn(&Hit) -> bool) {
        for hit in std::mem::take(&mut self.open) {
            if which(&hit) {
                self.coverage.ended(hit, end);
            } else {
                self.open.push(hit);
            }
        }
    }
}

/// How an error names a file of the store: by the name that it has when it is read; a record of outcomes or callbacks
/// that is not the right one is named by its folder alone.
fn named(path: &Path) -> String {
    let text = path.to_string_lossy();
    let folder = || path.parent().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    match text.strip_suffix(".tmp") {
        Some(run) if run.ends_with(".run") => run.to_owned(),
        Some(_) => folder(),
        None if text.ends_with(".blk") => folder(),
        None => text.into_owned(),
    }
}

/// Where the last frame of the log begins.
fn last_frame(fs: &SimFs) -> Option<(PathBuf, u64)> {
    let path = fs.paths().into_iter().rfind(|path| path.to_string_lossy().ends_with(".seg"))?;
    let bytes = fs.bytes_of(&path).ok()?;
    let frame = bytes.chunks(BLOCK).rposition(|block| block.starts_with(b"HFfr"))?;
    Some((path, (frame * BLOCK) as u64))
}

/// In a turn the file tells what was being done.
fn refine(phase: Phase, kind: FaultKind, class: &str) -> Phase {
    match (phase, class) {
        (Phase::Append, "tmp" | "mark" | "log" | "log/") => Phase::Rotate,
        (Phase::Append, "blk" | "run") if kind == FaultKind::ReadError => Phase::ReadEnded,
        _ => phase,
    }
}

/// Matches one write of the log or of the store, after letting some pass, and notes where it struck.
fn once(
    log: bool,
    pass: u64,
    struck: Arc<Mutex<Option<PathBuf>>>,
) -> impl Fn(&Path) -> bool + Send + 'static {
    let passed = AtomicU64::new(0);
    move |path| {
        if is_log(path) != log || passed.fetch_add(1, Relaxed) < pass {
            return false;
        }
        *struck.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
        true
    }
}
