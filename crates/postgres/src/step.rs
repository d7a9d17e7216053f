//! One step: the transaction that every handler and every scan goes through, whatever it decides. The runner locks the
//! source's guard, has the work load what it names, has it decide without the database, and writes rows, outbox, audit record
//! and the next offset. Either all of it is committed, or nothing has happened.

use std::ops::Range;

use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{Alarm, Tally};
use postgres::{Row, Transaction};

use crate::guard::{Guard, Source};
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::outbox::{Outbox, OutboxRow};
use crate::session::{Point, Settings, Statements, Store, take_numbers};
use crate::shop::report;
use crate::write::Writer;
use crate::written::{Parameters, RowWriter, Written};
use crate::{Claim, Error};

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Done and durable.
    Done(Done),
    /// Nothing was written: somebody else has claimed the source, or the reader stands elsewhere than the stored offset.
    /// Claim anew and begin at the offset that the claim tells.
    Fenced,
}

/// A step in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Messages processed, or holds ended.
    pub messages: usize,
    /// Of a scan: it has stopped at its bound, so there may be more.
    pub more: bool,
    /// Of them dead-lettered.
    pub dead_letters: usize,
    /// What was put into the outbox, in order.
    pub outbox: Vec<OutboxRow>,
    /// Callbacks that nobody gets: those to be called have registered no endpoint.
    pub unheard: usize,
    /// Nobody is called about any of it.
    pub quiet: bool,
    /// Attempts that were in vain: locks that others held, deadlocks, conflicts.
    pub retries: usize,
    /// Transactions that it took; more than one if the batch was halved.
    pub transactions: usize,
    /// The last one's time by the database's clock.
    pub time: Millis,
    /// What should never be in a checkout, and was met nevertheless. It is in the log of this process too.
    pub alarms: Vec<Alarm>,
    /// What checkouts came to by it.
    pub tally: Tally,
    /// Commands about orders that were answered as before, since they had been done.
    pub repeats: usize,
}

impl Done {
    pub(crate) fn add(&mut self, mut other: Done) {
        self.messages += other.messages;
        self.dead_letters += other.dead_letters;
        self.outbox.append(&mut other.outbox);
        self.unheard += other.unheard;
        self.quiet = other.quiet;
        self.retries += other.retries;
        self.transactions += other.transactions;
        self.time = self.time.max(other.time);
        self.alarms.append(&mut other.alarms);
        self.tally = self.tally.with(other.tally);
        self.repeats += other.repeats;
    }
}

/// What a step does between the lock of its guard and its commit. `'m` is the life of the messages it is about.
pub(crate) trait Work<'m>: Sized {
    /// What was loaded.
    type Known;
    /// Rows that only this work writes.
    type Rows;

    /// Locks and loads what the decision reads, and then reads the clock.
    fn load(&mut self, step: &mut Opened<'_>) -> Result<Self::Known, Error>;

    /// Decides, without the database; `None`: there is nothing to do, and the step leaves no record.
    fn decide(self, known: Self::Known, settings: &Settings) -> Option<Decided<'m, Self::Rows>>;

    /// Writes its own rows, if it has any. What it learns by that, it may still send.
    fn write(_: Self::Rows, _: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        Ok(())
    }
}

/// A transaction that has the guard row of its source locked.
pub(crate) struct Opened<'s> {
    pub(crate) tx: Transaction<'s>,
    pub(crate) statements: &'s Statements,
    pub(crate) settings: &'s Settings,
    pub(crate) source: Source,
    pub(crate) guard: Guard,
    /// The time of the decision. Until there is one, when the guard was asked for: nothing may be decided by that.
    pub(crate) now: Millis,
    /// What was written besides transfers and positions, for the audit record.
    pub(crate) written: Written,
    numbers: &'s mut Range<u64>,
}

/// What most steps load: the rows, and the clock behind all locks.
pub(crate) type Locked = (Loaded, Millis);

impl<'s> Opened<'s> {
    pub(crate) fn loader(&mut self) -> Loader<'_, 's> {
        Loader::new(&mut self.tx, self.statements)
    }

    pub(crate) fn query(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.statements.query(&mut self.tx, sql, parameters)
    }

    /// Writes rows of tokens or of the shop.
    pub(crate) fn writer(&mut self) -> RowWriter<'_, 's> {
        RowWriter { tx: &mut self.tx, statements: self.statements, written: &mut self.written }
    }

    /// The first of so many numbers for new transfers, without a gap between them.
    pub(crate) fn take_numbers(&mut self, count: usize) -> Result<u64, Error> {
        take_numbers(&mut self.tx, self.numbers, count)?;
        Ok(self.numbers.start)
    }
}

/// What a step has decided.
pub(crate) struct Decided<'m, R> {
    pub(crate) now: Millis,
    /// Where its source stands afterwards.
    pub(crate) next: u64,
    /// The rows that the effects change, as they were loaded.
    pub(crate) loaded: Loaded,
    pub(crate) effects: Effects,
    pub(crate) outbox: Outbox<'m>,
    /// What only this work writes.
    pub(crate) rows: R,
    /// Whether it must be on the disk when it is committed. What only moves on need not: if a crash of the server takes that
    /// back, the batch comes again and does the same.
    pub(crate) lasts: bool,
    /// What the decision knows of the step in numbers; the runner adds the rest.
    pub(crate) done: Done,
}

impl<'m, R> Decided<'m, R> {
    /// A decision without effects.
    pub(crate) fn new(now: Millis, next: u64, outbox: Outbox<'m>, rows: R) -> Decided<'m, R> {
        let (loaded, effects) = (Loaded::default(), Effects::default());
        Decided { now, next, loaded, effects, outbox, rows, lasts: true, done: Done::default() }
    }
}

impl Store {
    /// Runs a step of the claim's source. A reader says `from` where it believes to stand; a scan stands nowhere. All below
    /// `sent` in the source's outbox goes with the step.
    pub(crate) fn step<'m, W: Work<'m>>(
        &mut self,
        claim: &Claim,
        from: Option<u64>,
        sent: u64,
        work: W,
    ) -> Result<Step, Error> {
        let (step, moves_tokens) = self.transact(claim, from, sent, work)?;
        if moves_tokens {
            self.tell_token_change();
        }
        Ok(step)
    }

    /// The transaction of a step; whether it has moved tokens.
    fn transact<'m, W: Work<'m>>(
        &mut self,
        claim: &Claim,
        from: Option<u64>,
        sent: u64,
        mut work: W,
    ) -> Result<(Step, bool), Error> {
        let Store { client, statements, settings, numbers, watch } = self;
        let mut tx = client.transaction()?;
        watch.reached(Point::Begun);
        let guard = Guard::lock(&mut tx, statements, claim)?;
        let Some(guard) = guard.filter(|guard| from.is_none_or(|from| from == guard.offset)) else {
            return Ok((Step::Fenced, false));
        };
        watch.reached(Point::GuardLocked);
        let (source, now, written) = (claim.source, guard.asked_at, Written::default());
        let mut step = Opened { tx, statements, settings, source, guard, now, written, numbers };
        let known = work.load(&mut step)?;
        watch.reached(Point::Loaded);

        let Some(decided) = work.decide(known, settings) else {
            step.tx.commit()?;
            return Ok((Step::Done(Done::default()), false));
        };
        let Decided { now, next, loaded, effects, mut outbox, rows, lasts, done } = decided;
        watch.reached(Point::Decided);

        step.now = now;
        W::write(rows, &mut step, &mut outbox)?;
        let new = effects.all(|step| &step.transfers).count() as u64;
        let moves_tokens = loaded.pledged.moves(&effects);
        let mut writer = Writer { step: &mut step, watch };
        let guard = writer.write(next, loaded, &effects, &outbox, sent, lasts)?;
        // Rather twice than never: a commit of which nothing is heard may have been one.
        report(&done.alarms);
        step.tx.commit()?;
        watch.reached(Point::Committed);
        step.numbers.start += new;
        let (dead_letters, tally) = (outbox.dead_letters.len(), outbox.tally);
        let outbox = outbox.numbered(&guard);
        Ok((
            Step::Done(Done { dead_letters, tally, outbox, transactions: 1, time: now, ..done }),
            moves_tokens,
        ))
    }
}
