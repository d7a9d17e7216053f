//! State, offsets and audit chain, moved forward frame by frame. Live and replayed frames pass through the same
//! function with the same bounds, so a replay gives the same answers.

use holdfast_domain::callbacks::{alarms, callbacks};
use holdfast_domain::command::Command;
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::planted::{self, Bug};
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::registry::Registry;
use holdfast_domain::{FrameInput, RULES_VERSION, decide};
use holdfast_log::{BLOCK, FRAME_HEADER, FrameHeader};
use holdfast_store::{LocalStore, Store, StoreError};

use crate::callbacks::CallbackRow;
use crate::chain::Chain;
use crate::limits::EXPIRED_LOG_BYTES;
use crate::progress::{Counts, Progress};

const OPTION_SMALLEST_FIRST: u32 = 1;
/// The option bits that this program understands. A frame with others was decided by rules it does not know.
pub const OPTIONS_KNOWN: u32 = OPTION_SMALLEST_FIRST;

/// The bits under which a frame carries its processing options.
#[must_use]
pub const fn frame_options(order: PrepareOrder) -> u32 {
    match order {
        PrepareOrder::Arrival => 0,
        PrepareOrder::Smallest => OPTION_SMALLEST_FIRST,
    }
}

/// The order of prepares that a frame was closed under.
#[must_use]
pub const fn prepare_order(options: u32) -> PrepareOrder {
    if options & OPTION_SMALLEST_FIRST == 0 { PrepareOrder::Arrival } else { PrepareOrder::Smallest }
}

/// One short record ends hundreds of holds, and a start that repeats it works as long as on so many fulfils. So each of them
/// brings the next checkpoint nearer.
fn expired_bytes(commands: &[Command], effects: &Effects) -> u64 {
    match (commands.first(), effects.all(|step| &step.outcomes).next()) {
        (Some(Command::Expire(_)), Some(outcome)) => outcome.subject.ended() * EXPIRED_LOG_BYTES,
        _ => 0,
    }
}

/// The state after a whole number of frames.
pub struct Core<S> {
    store: S,
    chain: Chain,
    progress: Progress,
    callbacks: Vec<CallbackRow>,
    /// Bytes of log taken in since the last checkpoint was begun, and what expired counted as such.
    unsaved_bytes: u64,
}

impl<S: Store> Core<S> {
    /// The state before the first frame.
    #[must_use]
    pub fn new(store: S) -> Core<S> {
        Core::resume(store, Progress::default())
    }

    /// The state of `store`, which holds all that was decided up to `progress`.
    #[must_use]
    pub fn resume(store: S, progress: Progress) -> Core<S> {
        Core { store, chain: Chain::from(progress.chain), progress, callbacks: Vec::new(), unsaved_bytes: 0 }
    }

    /// How far the log has been taken in.
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The rows.
    pub const fn store(&self) -> &S {
        &self.store
    }

    pub(crate) const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// The offset after the last record decided.
    pub const fn end(&self) -> u64 {
        self.progress.end
    }

    /// The time of the last frame.
    pub const fn last_time(&self) -> Millis {
        self.progress.last_time
    }

    /// The running hash.
    pub const fn chain(&self) -> [u8; 32] {
        self.chain.hash()
    }

    /// What has happened so far.
    pub const fn counts(&self) -> &Counts {
        &self.progress.counts
    }

    /// The header of a frame that follows on.
    #[must_use]
    pub fn next_header(&self, count: u32, time: Millis, order: PrepareOrder) -> FrameHeader {
        FrameHeader {
            base_offset: self.progress.end,
            count,
            time_ms: time,
            options: frame_options(order),
            rules_version: RULES_VERSION,
            running_hash: self.chain.hash(),
        }
    }

    /// The callbacks of the last frame: those for which somebody has registered an endpoint.
    pub fn callbacks(&self) -> &[CallbackRow] {
        &self.callbacks
    }

    /// Bytes of log since the last checkpoint was begun, as they lie on the disk, and what expired counted as such.
    pub const fn unsaved_bytes(&self) -> u64 {
        self.unsaved_bytes
    }

    fn number_callbacks(&mut self, header: &FrameHeader, effects: &Effects) {
        self.callbacks.clear();
        if !self.store.books().has_endpoints() {
            return;
        }
        let alarms = alarms(effects, &self.store);
        for callback in callbacks(effects, &self.store).into_iter().chain(alarms) {
            let has_endpoint = |to, kind| self.store.books().endpoint(to, kind).is_some();
            let Some(to) = callback.message.receiver(callback.to, has_endpoint) else {
                self.progress.counts.callbacks_without_endpoint += 1;
                continue;
            };
            let row = CallbackRow {
                number: self.progress.next_callback,
                offset: header.base_offset + u64::from(callback.origin),
                time: header.time_ms,
                to,
                transfer: callback.transfer,
                message: callback.message,
            };
            self.callbacks.push(row);
            self.progress.next_callback += 1;
        }
        self.store.keep_callbacks(self.callbacks.iter().map(CallbackRow::to_bytes));
    }

    /// Brings in what these commands may read of transfers that have ended. Changes nothing.
    ///
    /// # Errors
    /// If it cannot be read; the frame must not be decided then.
    pub fn load<'a>(&mut self, commands: impl IntoIterator<Item = &'a Command>) -> Result<(), StoreError> {
        let mut keys = Vec::new();
        for command in commands {
            command.each_key(&mut |key| keys.push(key));
        }
        self.store.load(&mut keys.into_iter())
    }

    /// Decides a frame whose commands were [loaded](Core::load), applies it and moves the chain on. `payload` is the frame's payload in pieces.
    pub fn advance<'a>(
        &mut self,
        header: &FrameHeader,
        commands: &[Command],
        payload: impl Iterator<Item = &'a [u8]>,
    ) -> Effects {
        assert_eq!(header.base_offset, self.progress.end, "frames follow on one another");
        assert_eq!(header.count as usize, commands.len(), "a frame's count is that of its records");
        self.store.sort_due(header.time_ms);
        let order = prepare_order(header.options);
        let effects = decide(
            &self.store,
            &FrameInput { base_offset: header.base_offset, time: header.time_ms, order, commands },
        );
        assert_eq!(
            effects.all(|step| &step.outcomes).count(),
            commands.len(),
            "every command has its answer"
        );
        self.store.apply(&effects, header.time_ms);
        let (mut frame_bytes, mut crc) = (FRAME_HEADER, 0);
        let payload = payload.inspect(|piece| {
            frame_bytes += piece.len();
            crc = crc32c::crc32c_append(crc, piece);
        });
        self.chain.advance(header, payload, &effects);
        self.unsaved_bytes += frame_bytes.next_multiple_of(BLOCK) as u64 + expired_bytes(commands, &effects);
        let progress = &mut self.progress;
        progress.chain = self.chain.hash();
        progress.last_frame = crc;
        progress.end = header.end_offset();
        progress.last_time = progress.last_time.max(header.time_ms);
        progress.rules_version = header.rules_version;
        progress.counts.add(header, &effects);
        self.number_callbacks(header, &effects);
        self.store.settle(&effects);
        effects
    }
}

impl Core<LocalStore> {
    /// Runs the store's jobs, one after the other, on this thread.
    ///
    /// # Errors
    /// If one fails; the store must not be used on.
    pub(crate) fn run_jobs(&mut self) -> Result<(), StoreError> {
        while let Some(job) = self.store.take_job() {
            let done = job.run(&mut || {})?;
            self.store.absorb(done);
        }
        Ok(())
    }

    /// Begins a checkpoint of the state as it stands; `false` if one is being made already. All frames taken in must
    /// be durable.
    pub fn begin_checkpoint(&mut self) -> bool {
        let mut progress = self.progress;
        if planted::has(Bug::OffsetOffByOne) {
            progress.end += 1;
        }
        let begun = self.store.begin_checkpoint(self.progress.end, progress.to_bytes());
        if begun {
            self.unsaved_bytes = 0;
        }
        begun
    }
}
