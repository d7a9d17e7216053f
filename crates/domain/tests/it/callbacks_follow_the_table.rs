//! Who is called when: the table of the reference (FSPIOP 1.1, "who is called, when"), row by row, as data.
//!
//! Transfer 0 of 5 goes from PAYER to PAYEE. Each row says what was decided before, what happens and when, and
//! every message that payer, payee and a third participant get for it.

use holdfast_domain::callbacks::Callback;
use holdfast_domain::callbacks::CallbackMessage::{
    self, Error, ForwardError, ForwardFulfil, ForwardPrepare, Patch, Put,
};
use holdfast_domain::codes::ErrorCode::{
    self, ClientError, ModifiedRequest, PayerInsufficientLiquidity, PayerLimitError, TransferExpired,
    TransferIdNotFound, ValidationError,
};
use holdfast_domain::command::{Abort, Admin, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::ids::{HUB, Millis, ParticipantId, TransferNo};
use holdfast_domain::transfers::Reason::{self, NotReserved, WrongFulfilment, WrongSource};
use holdfast_domain::transfers::TransferState::{
    self, AbortedError, AbortedRejected, Committed, ExpiredReserved, Invalid, ReceivedError, ReceivedFulfil,
    ReceivedPrepare, Reserved, ReservedTimeout,
};

use crate::world::*;

/// One row of the table.
struct Row {
    says: &'static str,
    before: Vec<Command>,
    /// Whether the scan ends what ran out, between `before` and the event.
    scanned: bool,
    at: Millis,
    event: Command,
    payer: Vec<CallbackMessage>,
    payee: Vec<CallbackMessage>,
    other: Vec<CallbackMessage>,
    /// The event changes no row at all.
    idle: bool,
}

/// After `before`, the event. Without more it moves nothing and nobody is called.
fn row(says: &'static str, before: &[Command], event: Command) -> Row {
    Row {
        says,
        before: before.to_vec(),
        scanned: false,
        at: NOW,
        event,
        payer: Vec::new(),
        payee: Vec::new(),
        other: Vec::new(),
        idle: true,
    }
}

impl Row {
    fn at(self, at: Millis) -> Row {
        Row { at, ..self }
    }

    fn scanned(self) -> Row {
        Row { scanned: true, at: EXPIRATION + 1, ..self }
    }

    fn moves(self) -> Row {
        Row { idle: false, ..self }
    }

    fn payer(self, messages: &[CallbackMessage]) -> Row {
        Row { payer: messages.to_vec(), ..self }
    }

    fn payee(self, messages: &[CallbackMessage]) -> Row {
        Row { payee: messages.to_vec(), ..self }
    }

    fn other(self, messages: &[CallbackMessage]) -> Row {
        Row { other: messages.to_vec(), ..self }
    }

    fn check(&self) {
        let says = self.says;
        let mut world = World::roomy();
        world.frame(&self.before);
        world.now = self.at;
        if self.scanned {
            world.frame(&[expire(10)]);
        }
        let before = world.memory.clone();
        let calls = world.calls(std::slice::from_ref(&self.event));
        assert_eq!(world.memory == before, self.idle, "{says}: whether anything changes");
        self.check_calls(&calls, 0);
        if self.at == NOW {
            // The same in one frame with all that came before.
            let commands = [self.before.clone(), vec![self.event.clone()]].concat();
            let calls = World::roomy().calls(&commands);
            self.check_calls(&calls, self.before.len());
        }
    }

    fn check_calls(&self, calls: &[Callback], origin: usize) {
        let says = self.says;
        let own: Vec<&Callback> = calls.iter().filter(|call| call.origin as usize == origin).collect();
        assert!(own.iter().all(|call| call.transfer == id(0)), "{says}: {own:?}");
        assert!(own.iter().all(|call| [PAYER, PAYEE, OTHER].contains(&call.to)), "{says}: {own:?}");
        for (to, expected) in [(PAYER, &self.payer), (PAYEE, &self.payee), (OTHER, &self.other)] {
            let got: Vec<_> = own.iter().filter(|call| call.to == to).map(|call| call.message).collect();
            assert_eq!(&got, expected, "{says}: to {to:?}");
        }
    }
}

#[track_caller]
fn check(rows: Vec<Row>) {
    rows.iter().for_each(Row::check);
}

fn error(code: ErrorCode) -> CallbackMessage {
    Error(code.into(), None)
}

fn invalid(reason: Reason) -> CallbackMessage {
    Error(ValidationError.into(), Some(reason))
}

/// The prepare of transfer 0, changed.
fn prepare_with(edit: impl FnOnce(&mut Prepare)) -> Command {
    let mut prepare = prepare_of(0, 5);
    edit(&mut prepare);
    prepared(prepare)
}

fn wrong(action: FulfilAction) -> Command {
    fulfil_by(PAYEE, 0, action, fulfilment(9))
}

fn set_active(participant: ParticipantId, active: bool) -> Command {
    Command::Admin(Admin::SetParticipantActive { participant, active })
}

#[test]
fn prepare() {
    let prepare = crate::world::prepare;
    let nobody = ParticipantId(99);
    let unknown_payee = prepare_with(|prepare| prepare.payee = nobody);
    let unknown_payer = prepare_with(|prepare| (prepare.source, prepare.payer) = (nobody, nobody));
    let too_late = prepare_with(|prepare| prepare.expiration = NOW);
    let by_other = prepare_with(|prepare| prepare.source = OTHER);
    let by_hub = prepare_with(|prepare| prepare.source = HUB);
    check(vec![
        row("accepted", &[], prepare(0, 5)).moves().payee(&[ForwardPrepare]),
        row("invalid", &[], too_late).moves().payer(&[invalid(Reason::ExpirationPast)]),
        row("not covered by funds", &[funds_out(7, PAYER_SETTLEMENT, 999_996)], prepare(0, 5))
            .moves()
            .payer(&[error(PayerInsufficientLiquidity)]),
        row("over the cap", &[set_limit(PAYER, 4, 100)], prepare(0, 5))
            .moves()
            .payer(&[error(PayerLimitError)]),
        row("unknown payee", &[], unknown_payee).moves().payer(&[invalid(Reason::PayeeUnknown)]),
        row("inactive payee", &[set_active(PAYEE, false)], prepare(0, 5))
            .moves()
            .payer(&[invalid(Reason::PayeeInactive)]),
        row("inactive payer", &[set_active(PAYER, false)], prepare(0, 5))
            .moves()
            .payer(&[invalid(Reason::PayerInactive)]),
        row("unknown payer: nobody to tell", &[], unknown_payer).moves(),
        row("sent by another than the payer", &[], by_other).other(&[invalid(WrongSource)]),
        row("sent by nobody", &[], by_hub),
    ]);
}

#[test]
fn the_same_or_another_prepare_again() {
    let prepare = crate::world::prepare;
    let first = || prepare(0, 5);
    let too_late = || prepare_with(|prepare| prepare.expiration = NOW);
    let by_others_payer = || prepare_with(|prepare| (prepare.source, prepare.payer) = (OTHER, OTHER));
    let as_if_modified = || abort_by(PAYEE, 0, ModifiedRequest.number());
    let modified = error(ModifiedRequest);
    check(vec![
        row("same, in flight", &[first()], first()),
        row("same, in flight and run out", &[first()], first()).at(EXPIRATION),
        row("same, committed", &[first(), fulfil(0)], first()).payer(&[Put(Committed)]),
        row("same, committed by reserve", &[first(), reserve(0)], first()).payer(&[Put(Committed)]),
        row("same, aborted", &[first(), abort(0)], first()).payer(&[Put(AbortedError)]),
        row("same, aborted with 3106 by the payee", &[first(), as_if_modified()], first())
            .payer(&[Put(AbortedError)]),
        row("same, wrong fulfilment", &[first(), wrong(FulfilAction::Commit)], first())
            .payer(&[Put(AbortedError)]),
        row("same, invalid", &[too_late()], too_late()).payer(&[Put(Invalid)]),
        row("same, refused", &[set_limit(PAYER, 4, 100), first()], first()).payer(&[Put(AbortedRejected)]),
        row("same, expired", &[first()], first()).scanned().payer(&[Put(ExpiredReserved)]),
        row("other, in flight", &[first()], prepare(0, 6)).payer(&[modified]),
        row("other, committed", &[first(), fulfil(0)], prepare(0, 6)).payer(&[modified]),
        row("other, expired", &[first()], prepare(0, 6)).scanned().payer(&[modified]),
        row("other, of another payer", &[first()], by_others_payer()).other(&[modified]),
        row("same content sent by another", &[first()], prepare_with(|prepare| prepare.source = OTHER))
            .other(&[invalid(WrongSource)]),
    ]);
}

#[test]
fn fulfil_and_error_by_the_payee() {
    let before = [crate::world::prepare(0, 5)];
    let bad = invalid(WrongFulfilment);
    check(vec![
        row("PUT COMMITTED", &before, fulfil(0)).moves().payer(&[ForwardFulfil]),
        row("PUT RESERVED", &before, reserve(0)).moves().payer(&[Put(Committed)]).payee(&[Patch(Committed)]),
        row("PUT error", &before, abort(0)).moves().payer(&[ForwardError]),
        row("wrong fulfilment, COMMITTED", &before, wrong(FulfilAction::Commit))
            .moves()
            .payer(&[bad])
            .payee(&[bad]),
        row("wrong fulfilment, RESERVED", &before, wrong(FulfilAction::Reserve))
            .moves()
            .payer(&[bad])
            .payee(&[Patch(AbortedError)]),
        row("wrong fulfilment after expiry", &before, wrong(FulfilAction::Reserve))
            .at(EXPIRATION)
            .moves()
            .payer(&[bad])
            .payee(&[Patch(AbortedError)]),
    ]);
}

#[test]
fn fulfil_and_error_by_the_wrong_party() {
    let before = [crate::world::prepare(0, 5)];
    let committed = [crate::world::prepare(0, 5), reserve(0)];
    let by = |source| {
        [
            fulfil_by(source, 0, FulfilAction::Commit, fulfilment(0)),
            fulfil_by(source, 0, FulfilAction::Reserve, fulfilment(0)),
            fulfil_by(source, 0, FulfilAction::Reserve, fulfilment(9)),
            abort_by(source, 0, 5104),
        ]
    };
    let only_caller = [invalid(WrongSource)];
    for event in by(OTHER) {
        check(vec![
            row("another", &before, event.clone()).other(&only_caller),
            row("another, run out", &before, event.clone()).at(EXPIRATION).other(&only_caller),
            row("another, expired", &before, event.clone()).scanned().other(&only_caller),
            row("another, committed", &committed, event).other(&only_caller),
        ]);
    }
    for event in by(PAYER) {
        check(vec![row("the payer itself", &before, event).payer(&only_caller)]);
    }
    for event in by(ParticipantId(99)) {
        check(vec![row("nobody", &before, event)]);
    }
}

#[test]
fn fulfil_and_error_that_come_too_late() {
    let before = [crate::world::prepare(0, 5)];
    let expired = error(TransferExpired);
    let ended = invalid(NotReserved);
    let refused = [set_limit(PAYER, 4, 100), crate::world::prepare(0, 5)];
    let never = [prepare_with(|prepare| prepare.expiration = NOW)];
    check(vec![
        row("run out, COMMITTED", &before, fulfil(0)).at(EXPIRATION).payee(&[expired]),
        row("run out, RESERVED", &before, reserve(0))
            .at(EXPIRATION)
            .payee(&[expired, Patch(ExpiredReserved)]),
        row("run out, error", &before, abort(0)).at(EXPIRATION + 1).payee(&[expired]),
        row("expired, COMMITTED", &before, fulfil(0)).scanned().payee(&[ended]),
        row("expired, RESERVED", &before, reserve(0)).scanned().payee(&[ended, Patch(ExpiredReserved)]),
        row("expired, wrong", &before, wrong(FulfilAction::Commit)).scanned().payee(&[ended]),
        row("expired, error", &before, abort(0)).scanned().payee(&[ended]),
        row("refused, COMMITTED", &refused, fulfil(0)).payee(&[ended]),
        row("refused, RESERVED", &refused, reserve(0)).payee(&[ended, Patch(AbortedRejected)]),
        row("refused, error", &refused, abort(0)).payee(&[ended]),
        row("invalid, COMMITTED", &never, fulfil(0)).payee(&[ended]),
        row("invalid, RESERVED", &never, reserve(0)).payee(&[ended, Patch(Invalid)]),
        row("invalid, error", &never, abort(0)).payee(&[ended]),
    ]);
}

#[test]
fn fulfil_and_error_for_an_unknown_transfer() {
    let unknown = error(TransferIdNotFound);
    for event in [fulfil(0), reserve(0), wrong(FulfilAction::Reserve), abort(0)] {
        check(vec![row("unknown", &[], event).payee(&[unknown])]);
    }
    check(vec![
        row("unknown to another", &[], abort_by(OTHER, 0, 5104)).other(&[unknown]),
        row("unknown to nobody", &[], abort_by(ParticipantId(99), 0, 5104)),
    ]);
}

#[test]
fn the_same_fulfil_or_error_again() {
    let prepare = || crate::world::prepare(0, 5);
    let as_if_modified = || abort_by(PAYEE, 0, ModifiedRequest.number());
    let as_if_expired = || abort_by(PAYEE, 0, TransferExpired.number());
    let cases = [
        (fulfil(0), Put(Committed)),
        (reserve(0), Patch(Committed)),
        (wrong(FulfilAction::Commit), Put(AbortedError)),
        (wrong(FulfilAction::Reserve), Patch(AbortedError)),
        (abort(0), Put(AbortedError)),
        // The payee's own codes are not taken for ours.
        (as_if_modified(), Put(AbortedError)),
        (as_if_expired(), Put(AbortedError)),
    ];
    for (event, again) in cases {
        let before = [prepare(), event.clone()];
        check(vec![
            row("again", &before, event.clone()).payee(&[again]),
            row("again, long after", &before, event).at(EXPIRATION + 1).payee(&[again]),
        ]);
    }
    let with_tail = Fulfil::new(PAYEE, id(0), FulfilAction::Reserve, fulfilment(0)).with_tail(b"x".to_vec());
    check(vec![
        row("again, in other words", &[prepare(), reserve(0)], Command::Fulfil(with_tail))
            .payee(&[Patch(Committed)]),
    ]);
}

#[test]
fn another_fulfil_or_error_for_the_same_transfer() {
    let ends = [
        fulfil(0),
        reserve(0),
        wrong(FulfilAction::Commit),
        wrong(FulfilAction::Reserve),
        abort(0),
        abort_by(PAYEE, 0, ModifiedRequest.number()),
        Command::Abort(Abort::new(PAYEE, id(0), 5104, b"in other words".to_vec())),
    ];
    for (place, first) in ends.iter().enumerate() {
        for (_, second) in ends.iter().enumerate().filter(|(other, _)| *other != place) {
            let before = [crate::world::prepare(0, 5), first.clone()];
            // Only that: also a payee that now says RESERVED was told, or tells itself, how it ended.
            check(vec![row("another", &before, second.clone()).payee(&[error(ModifiedRequest)])]);
        }
    }
}

#[test]
fn expiry() {
    let before = [crate::world::prepare(0, 5)];
    let expired = [error(TransferExpired)];
    check(vec![
        row("reserved", &before, expire(10)).at(EXPIRATION + 1).moves().payer(&expired).payee(&expired),
        row("not yet due", &before, expire(10)).at(EXPIRATION),
        row("already expired", &before, expire(10)).scanned(),
        row("committed", &[before[0].clone(), fulfil(0)], expire(10)).at(EXPIRATION + 1),
        row("nothing there", &[], expire(10)).at(EXPIRATION + 1),
    ]);
}

#[test]
fn expiry_of_many_names_itself_as_the_origin_of_each() {
    let mut world = World::roomy();
    world.frame(&[crate::world::prepare(0, 5), crate::world::prepare(1, 5)]);
    world.now = EXPIRATION + 1;
    let calls = world.calls(&[set_limit(PAYER, 7, 100), expire(10), crate::world::prepare(1, 5)]);
    let expired = error(TransferExpired);
    assert_eq!(
        told(&calls),
        [
            (PAYER, 0, expired, 1),
            (PAYEE, 0, expired, 1),
            (PAYER, 1, expired, 1),
            (PAYEE, 1, expired, 1),
            (PAYER, 1, Put(ExpiredReserved), 2),
        ]
    );
}

#[test]
fn lookup() {
    let prepare = || crate::world::prepare(0, 5);
    let too_late = prepare_with(|prepare| prepare.expiration = NOW);
    let by_payer = || lookup_by(PAYER, 0);
    check(vec![
        row("reserved", &[prepare()], by_payer()).payer(&[Put(Reserved)]),
        row("reserved, by the payee", &[prepare()], lookup_by(PAYEE, 0)).payee(&[Put(Reserved)]),
        row("reserved and run out", &[prepare()], by_payer()).at(EXPIRATION).payer(&[Put(Reserved)]),
        row("committed", &[prepare(), fulfil(0)], by_payer()).payer(&[Put(Committed)]),
        row("committed, by the payee", &[prepare(), reserve(0)], lookup_by(PAYEE, 0))
            .payee(&[Put(Committed)]),
        row("aborted", &[prepare(), abort(0)], by_payer()).payer(&[Put(AbortedError)]),
        row("invalid", &[too_late], by_payer()).payer(&[Put(Invalid)]),
        row("expired", &[prepare()], by_payer()).scanned().payer(&[Put(ExpiredReserved)]),
        row("unknown", &[], by_payer()).payer(&[error(TransferIdNotFound)]),
        row("not a party", &[prepare()], lookup_by(OTHER, 0)).other(&[error(ClientError)]),
        row("not a participant", &[prepare()], lookup_by(ParticipantId(99), 0)),
        row("not a participant, unknown", &[], lookup_by(ParticipantId(99), 0)),
    ]);
}

#[test]
fn the_operators_commands_call_nobody() {
    let endpoint = Command::SetEndpoint(endpoint_of(PAYEE, "KIND", "http://a"));
    check(vec![
        row("endpoint", &[crate::world::prepare(0, 5)], endpoint).moves(),
        row("funds", &[], funds_in(7, PAYER_SETTLEMENT, 5)).moves(),
        row("participant", &[], set_active(PAYEE, false)).moves(),
    ]);
}

/// To whom, about which transfer, what, and by which command.
fn told(calls: &[Callback]) -> Vec<(ParticipantId, u128, CallbackMessage, u32)> {
    calls.iter().map(|call| (call.to, call.transfer.0, call.message, call.origin)).collect()
}

#[test]
fn each_command_of_a_frame_is_answered_by_how_it_found_the_transfer() {
    let prepare = crate::world::prepare;
    let commands = [
        reserve(0),
        lookup_by(PAYER, 0),
        prepare(0, 5),
        lookup_by(PAYER, 0),
        prepare(0, 5),
        prepare(0, 6),
        reserve(0),
        reserve(0),
        fulfil(0),
        lookup_by(PAYEE, 0),
        prepare(0, 5),
    ];
    let unknown = error(TransferIdNotFound);
    assert_eq!(
        told(&World::roomy().calls(&commands)),
        [
            (PAYEE, 0, unknown, 0),
            (PAYER, 0, unknown, 1),
            (PAYEE, 0, ForwardPrepare, 2),
            (PAYER, 0, Put(Reserved), 3),
            (PAYER, 0, error(ModifiedRequest), 5),
            (PAYER, 0, Put(Committed), 6),
            (PAYEE, 0, Patch(Committed), 6),
            (PAYEE, 0, Patch(Committed), 7),
            (PAYEE, 0, error(ModifiedRequest), 8),
            (PAYEE, 0, Put(Committed), 9),
            (PAYER, 0, Put(Committed), 10),
        ]
    );
}

#[test]
fn late_fulfils_of_a_frame_see_the_transfer_run_out_then_expired() {
    let mut world = World::roomy();
    world.frame(&[crate::world::prepare(0, 5)]);
    world.now = EXPIRATION + 1;
    let commands = [reserve(0), lookup_by(PAYER, 0), expire(10), reserve(0), lookup_by(PAYER, 0)];
    let expired = error(TransferExpired);
    assert_eq!(
        told(&world.calls(&commands)),
        [
            (PAYEE, 0, expired, 0),
            (PAYEE, 0, Patch(ExpiredReserved), 0),
            (PAYER, 0, Put(Reserved), 1),
            (PAYER, 0, expired, 2),
            (PAYEE, 0, expired, 2),
            (PAYEE, 0, invalid(NotReserved), 3),
            (PAYEE, 0, Patch(ExpiredReserved), 3),
            (PAYER, 0, Put(ExpiredReserved), 4),
        ]
    );
}

#[test]
fn a_late_fulfil_is_3303_also_if_the_frame_then_aborts_the_transfer() {
    let mut world = World::roomy();
    world.frame(&[crate::world::prepare(0, 5)]);
    world.now = EXPIRATION;
    let calls = world.calls(&[fulfil(0), wrong(FulfilAction::Commit), fulfil(0)]);
    let bad = invalid(WrongFulfilment);
    assert_eq!(
        told(&calls),
        [
            (PAYEE, 0, error(TransferExpired), 0),
            (PAYER, 0, bad, 1),
            (PAYEE, 0, bad, 1),
            (PAYEE, 0, error(ModifiedRequest), 2),
        ]
    );
}

#[test]
fn callbacks_come_in_the_order_of_the_commands_not_of_the_bins() {
    let prepare = crate::world::prepare;
    let mut world = World::roomy();
    world.frame(&[prepare(1, 5), prepare(2, 5), prepare(3, 5), prepare(4, 5)]);
    let commands =
        [prepare(5, 5), reserve(1), fulfil(9), prepare(6, 5), abort(2), lookup_by(PAYER, 4), fulfil(3)];
    assert_eq!(
        told(&world.calls(&commands)),
        [
            (PAYEE, 5, ForwardPrepare, 0),
            (PAYER, 1, Put(Committed), 1),
            (PAYEE, 1, Patch(Committed), 1),
            (PAYEE, 9, error(TransferIdNotFound), 2),
            (PAYEE, 6, ForwardPrepare, 3),
            (PAYER, 2, ForwardError, 4),
            (PAYER, 4, Put(Reserved), 5),
            (PAYER, 3, ForwardFulfil, 6),
        ]
    );
}

#[test]
fn a_frame_without_commands_calls_nobody() {
    assert_eq!(World::roomy().calls(&[]), []);
}

/// A frame never leaves a transfer between two states; the hops of the database profile can.
fn between(state: TransferState) -> World {
    let mut world = World::roomy();
    world.frame(&[crate::world::prepare(0, 5)]);
    world.memory.transfers.get_mut(&TransferNo(0)).unwrap().state = state;
    world
}

#[test]
fn expiry_of_what_was_never_reserved_tells_the_payer_alone() {
    let mut world = between(ReceivedPrepare);
    world.now = EXPIRATION + 1;
    assert_eq!(told(&world.calls(&[expire(10)])), [(PAYER, 0, error(TransferExpired), 0)]);
}

#[test]
fn no_end_is_told_before_it_is_certain() {
    let ended = invalid(NotReserved);
    assert_eq!(told(&between(ReceivedPrepare).calls(&[reserve(0)])), [(PAYEE, 0, ended, 0)]);
    let on_its_way_out = between(ReservedTimeout).calls(&[reserve(0)]);
    assert_eq!(told(&on_its_way_out), [(PAYEE, 0, ended, 0), (PAYEE, 0, Patch(ExpiredReserved), 0)]);

    for (state, first) in
        [(ReceivedFulfil, reserve(0)), (ReceivedFulfil, fulfil(0)), (ReceivedError, abort(0))]
    {
        let mut world = World::roomy();
        world.frame(&[crate::world::prepare(0, 5), first.clone()]);
        world.memory.transfers.get_mut(&TransferNo(0)).unwrap().state = state;
        assert_eq!(world.calls(&[first, crate::world::prepare(0, 5)]), [], "in flight");
        assert_eq!(told(&world.calls(&[lookup_by(PAYER, 0)])), [(PAYER, 0, Put(state), 0)]);
        assert_eq!(state.external(), "RESERVED");
    }
}

#[test]
fn each_message_goes_to_the_endpoint_of_its_type() {
    for (message, kind) in [
        (ForwardPrepare, "POST"),
        (ForwardFulfil, "PUT"),
        (Put(Committed), "PUT"),
        (Patch(Committed), "PUT"),
        (ForwardError, "ERROR"),
        (error(TransferExpired), "ERROR"),
    ] {
        assert_eq!(message.endpoint_type(), format!("FSPIOP_CALLBACK_URL_TRANSFER_{kind}"));
    }
}
