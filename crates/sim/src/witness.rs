//! The witness reads the log as it grows and decides every durable frame a second time, from the bytes alone. It
//! lives through all crashes: a hub that comes back must agree with what the witness saw.

use holdfast_domain::command::Command;
use holdfast_domain::effects::{Effects, Step};
use holdfast_domain::shop::ShopEffect;
use holdfast_domain::transfers::TransferState;
use holdfast_hub::{CallbackRow, Core, ReplayError, replay_with};
use holdfast_log::{FrameHeader, Reader};
use holdfast_store::MemoryStore;

/// A frame as it was decided.
#[derive(Clone, Copy)]
pub struct Decided<'a> {
    /// The frame's header.
    pub header: &'a FrameHeader,
    /// Its commands.
    pub commands: &'a [Command],
    /// What they did.
    pub effects: &'a Effects,
}

impl<'a> Decided<'a> {
    /// The frame in its steps: where each begins in the log, its commands, and what they did.
    pub fn steps(&self) -> impl Iterator<Item = (u64, &'a [Command], &'a Step)> + use<'a> {
        let (commands, base_offset) = (self.commands, self.header.base_offset);
        self.effects.steps.iter().map(move |step| {
            let first = step.first as usize;
            (base_offset + first as u64, &commands[first..first + step.outcomes.len()], step)
        })
    }

    /// How many holds the frame let run out.
    pub fn holds_ended(&self) -> usize {
        let timed_out =
            |state| matches!(state, TransferState::ReservedTimeout | TransferState::ExpiredPrepared);
        self.effects.all(|step| &step.state_changes).filter(|change| timed_out(change.state)).count()
    }

    /// How many checkouts and keys the frame's expiry ended.
    pub fn shop_ended(&self) -> usize {
        let ends =
            |effect: &&ShopEffect| matches!(effect, ShopEffect::Moved { .. } | ShopEffect::KeyEnded(_));
        let expires = matches!(self.commands.first(), Some(Command::Expire(_)));
        let first = self.effects.steps.first().filter(|_| expires);
        first.map_or(0, |step| step.shop.iter().filter(ends).count())
    }
}

/// State derived from durable frames only.
pub struct Witness {
    /// The state after the last frame seen.
    pub core: Core<MemoryStore>,
    /// Every callback so far, by number.
    pub callbacks: Vec<CallbackRow>,
}

impl Default for Witness {
    fn default() -> Witness {
        Witness { core: Core::new(MemoryStore::new(0)), callbacks: Vec::new() }
    }
}

impl Witness {
    /// Reads what has become durable since, and shows each frame.
    ///
    /// # Errors
    /// If the log cannot be read on from where the witness stands, or does not follow on from what it saw.
    pub fn catch_up(&mut self, log: &Reader, mut show: impl FnMut(Decided<'_>)) -> Result<(), ReplayError> {
        let frames = log.read_from(self.core.end())?;
        let callbacks = &mut self.callbacks;
        replay_with(frames, &mut self.core, |frame, commands, effects, core| {
            callbacks.extend_from_slice(core.callbacks());
            show(Decided { header: &frame.header, commands, effects });
        })
    }
}
