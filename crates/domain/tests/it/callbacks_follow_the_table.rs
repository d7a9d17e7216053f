//! Who is called when: each row of the table in `callbacks.txt`, and what no row can say.

use holdfast_domain::callbacks::CallbackMessage::{
    self, Error, ForwardError, ForwardFulfil, ForwardPrepare, Patch, Put,
};
use holdfast_domain::codes::ErrorCode::{
    self, ModifiedRequest, TransferExpired, TransferIdNotFound, ValidationError,
};
use holdfast_domain::ids::HUB;
use holdfast_domain::transfers::Reason::{self, NotReserved, WrongFulfilment};
use holdfast_domain::transfers::TransferState::{
    self, Committed, ExpiredReserved, ReceivedError, ReceivedFulfil, ReceivedPrepare, Reserved,
    ReservedTimeout,
};

use crate::world::*;

/// One row of the table.
struct Row<'a> {
    line: &'a str,
    before: Vec<Command>,
    /// Whether the scan ends what ran out, between `before` and the event.
    scanned: bool,
    at: Millis,
    event: Command,
    /// The event changes some row.
    moves: bool,
    hears: [(ParticipantId, Vec<CallbackMessage>); 3],
}

/// The entries of a cell.
fn entries<T>(cell: &str, read: fn(&str) -> T) -> Vec<T> {
    cell.split(", ").filter(|entry| !entry.is_empty()).map(read).collect()
}

fn row(line: &str) -> Row<'_> {
    let mut cells: Vec<&str> = line.split('|').map(str::trim).collect();
    cells.resize(8, "");
    let (scanned, at) = match cells[2] {
        "" => (false, NOW),
        "run out" => (false, EXPIRATION),
        "later" => (false, EXPIRATION + 1),
        "expired" => (true, EXPIRATION + 1),
        other => panic!("{other}"),
    };
    let [payer, payee, other] = [5, 6, 7].map(|cell| entries(cells[cell], message));
    let hears = [(PAYER, payer), (PAYEE, payee), (OTHER, other)];
    let (before, event) = (entries(cells[1], command), command(cells[3]));
    Row { line, before, scanned, at, event, moves: cells[4] == "moves", hears }
}

fn participant(name: &str) -> ParticipantId {
    match name {
        "payer" => PAYER,
        "payee" => PAYEE,
        "other" => OTHER,
        "hub" => HUB,
        "nobody" => ParticipantId(99),
        other => panic!("{other}"),
    }
}

/// A command about transfer 0, perhaps `by` another than who should send it, or an operator's.
fn command(text: &str) -> Command {
    let (what, by) = text.split_once(" by ").map_or((text, None), |(what, by)| (what, Some(participant(by))));
    let first = Prepare { source: by.unwrap_or(PAYER), ..prepare_of(0, 5) };
    let payees = by.unwrap_or(PAYEE);
    let sleeps = |participant| Command::Admin(Admin::SetParticipantActive { participant, active: false });
    let (commit, reserve) = (FulfilAction::Commit, FulfilAction::Reserve);
    match what {
        "prepare" => prepared(first),
        "prepare 6" => prepare(0, 6),
        "prepare run out" => prepared(Prepare { expiration: NOW, ..first }),
        "prepare to nobody" => prepared(Prepare { payee: participant("nobody"), ..first }),
        "prepare of nobody" | "prepare of other" => {
            let payer = participant(&what["prepare of ".len()..]);
            prepared(Prepare { source: payer, payer, ..first })
        }
        "fulfil" => fulfil_by(payees, 0, commit, fulfilment(0)),
        "reserve" => fulfil_by(payees, 0, reserve, fulfilment(0)),
        "reserve in other words" => {
            let same = Fulfil::new(payees, id(0), reserve, fulfilment(0));
            Command::Fulfil(same.with_tail(b"x".to_vec()))
        }
        "wrong fulfil" => fulfil_by(payees, 0, commit, fulfilment(9)),
        "wrong reserve" => fulfil_by(payees, 0, reserve, fulfilment(9)),
        "abort" => abort_by(payees, 0, 5104),
        "abort 3106" => abort_by(payees, 0, ModifiedRequest.number()),
        "abort 3303" => abort_by(payees, 0, TransferExpired.number()),
        "abort in other words" => Command::Abort(Abort::new(payees, id(0), 5104, b"in other words".to_vec())),
        "lookup" => lookup_by(payees, 0),
        "expire" => expire(10),
        "funds out" => funds_out(7, PAYER_SETTLEMENT, 999_996),
        "funds in" => funds_in(7, PAYER_SETTLEMENT, 5),
        "limit" => set_limit(PAYER, 4, 100),
        "payer sleeps" => sleeps(PAYER),
        "payee sleeps" => sleeps(PAYEE),
        "endpoint" => Command::SetEndpoint(endpoint_of(PAYEE, "KIND", "http://a")),
        other => panic!("{other}"),
    }
}

fn message(text: &str) -> CallbackMessage {
    let state = |name| TransferState::from_name(name).expect(name);
    match text.split_once(' ') {
        None if text == "prepare" => ForwardPrepare,
        None if text == "fulfil" => ForwardFulfil,
        None if text == "error" => ForwardError,
        None => error(ErrorCode::from_number(text.parse().unwrap()).expect(text)),
        Some(("PUT", name)) => Put(state(name)),
        Some(("PATCH", name)) => Patch(state(name)),
        Some((code, name)) => {
            assert_eq!(code, "3100");
            invalid(Reason::ALL.into_iter().find(|reason| format!("{reason:?}") == name).expect(name))
        }
    }
}

impl Row<'_> {
    fn check(&self) {
        let line = self.line;
        let mut world = World::roomy();
        world.frame(&self.before);
        world.now = self.at;
        if self.scanned {
            world.frame(&[expire(10)]);
        }
        let before = world.memory.clone();
        let calls = world.calls(std::slice::from_ref(&self.event));
        assert_eq!(world.memory != before, self.moves, "{line}: whether anything changes");
        self.check_calls(&calls, 0);
        if self.at == NOW {
            // The same in one frame with all that came before.
            let commands = [self.before.clone(), vec![self.event.clone()]].concat();
            let calls = World::roomy().calls(&commands);
            self.check_calls(&calls, self.before.len());
        }
    }

    fn check_calls(&self, calls: &[Callback], origin: usize) {
        let line = self.line;
        let own: Vec<&Callback> = calls.iter().filter(|call| call.origin as usize == origin).collect();
        assert!(own.iter().all(|call| call.transfer == id(0)), "{line}: {own:?}");
        assert!(own.iter().all(|call| [PAYER, PAYEE, OTHER].contains(&call.to)), "{line}: {own:?}");
        for (to, expected) in &self.hears {
            let got: Vec<_> = own.iter().filter(|call| call.to == *to).map(|call| call.message).collect();
            assert_eq!(&got, expected, "{line}: to {to:?}");
        }
    }
}

#[test]
fn every_row_of_the_table() {
    let table = include_str!("callbacks.txt");
    let rows = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row);
    assert_eq!(rows.map(|row| row.check()).count(), 151);
}

fn error(code: ErrorCode) -> CallbackMessage {
    Error(code.into(), None)
}

fn invalid(reason: Reason) -> CallbackMessage {
    Error(ValidationError.into(), Some(reason))
}

fn wrong(action: FulfilAction) -> Command {
    fulfil_by(PAYEE, 0, action, fulfilment(9))
}

#[test]
fn expiry_of_many_names_itself_as_the_origin_of_each() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5), prepare(1, 5)]);
    world.now = EXPIRATION + 1;
    let calls = world.calls(&[set_limit(PAYER, 7, 100), expire(10), prepare(1, 5)]);
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

/// To whom, about which transfer, what, and by which command.
fn told(calls: &[Callback]) -> Vec<(ParticipantId, u128, CallbackMessage, u32)> {
    calls.iter().map(|call| (call.to, call.transfer.0, call.message, call.origin)).collect()
}

#[test]
fn each_command_of_a_frame_is_answered_by_how_it_found_the_transfer() {
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
    world.frame(&[prepare(0, 5)]);
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
    world.frame(&[prepare(0, 5)]);
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
    world.frame(&[prepare(0, 5)]);
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
        world.frame(&[prepare(0, 5), first.clone()]);
        world.memory.transfers.get_mut(&TransferNo(0)).unwrap().state = state;
        assert_eq!(world.calls(&[first, prepare(0, 5)]), [], "in flight");
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
