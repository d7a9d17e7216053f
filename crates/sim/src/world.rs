//! Who takes part: a few participants in one or two currencies, with limits so tight that they matter.

use holdfast_domain::command::{Admin, Command, SetEndpoint};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;

use crate::random::Random;

/// One whole currency unit.
pub const UNIT: i64 = 10_000;

/// One position account and whom it belongs to. Its settlement account is the next number.
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    /// Who sits there.
    pub participant: ParticipantId,
    /// In which currency.
    pub currency: Currency,
    /// Its position account.
    pub account: AccountId,
}

impl Seat {
    /// Where the participant's funds are held.
    pub const fn settlement(&self) -> AccountId {
        AccountId(self.account.0 + 1)
    }
}

/// The participants of a run.
#[derive(Debug)]
pub struct World {
    /// Every position account.
    pub seats: Vec<Seat>,
    /// How many participants there are, numbered from 1.
    pub participants: u32,
    /// A seat that is made and gets no limit at first: it can be paid, and cannot pay.
    pub latecomer: Seat,
    /// The commands that make all this, in order.
    pub founding: Vec<Command>,
}

impl World {
    /// Draws a world. Participants and accounts are numbered in the order in which they are made.
    pub fn draw(random: &mut Random) -> World {
        let currency = |letters| Currency::from_letters(letters).expect("three capital letters");
        let currencies = [currency(*b"USD"), currency(*b"XOF")];
        let in_use = &currencies[..random.size(1, 2)];
        let participants = u32::try_from(random.size(3, 5)).expect("a few");
        let mut seats = Vec::new();
        let mut founding = Vec::new();
        for number in 1..=participants {
            for (place, currency) in in_use.iter().copied().enumerate() {
                let latecomer = number == participants;
                if place > 0 && (latecomer || random.chance(30)) {
                    continue;
                }
                let account = AccountId(u32::try_from(seats.len() * 2 + 1).expect("a few"));
                let seat = Seat { participant: ParticipantId(number), currency, account };
                let name = Name::new(&format!("bank-{number}")).expect("a plain name");
                founding.push(Command::Admin(Admin::CreateParticipant { name, currency }));
                if !latecomer {
                    founding.push(Command::Admin(first_limit(seat, random)));
                    founding.push(Command::Admin(Admin::FundsIn {
                        id: TransferId(random.wide()),
                        account: seat.settlement(),
                        currency,
                        amount: Amount(random.between(4, 30) * UNIT),
                    }));
                }
                seats.push(seat);
            }
            if random.chance(70) {
                founding.extend(ENDPOINTS.iter().filter_map(|kind| endpoint(number, kind)));
            }
        }
        let latecomer = *seats.last().expect("there are some");
        World { seats, participants, latecomer, founding }
    }

    /// A payer and a payee of one currency: usually two that may deal with one another, at times anybody.
    pub fn pair(&self, random: &mut Random) -> (Seat, Seat) {
        let mut payer = *random.pick(&self.seats);
        if payer.account == self.latecomer.account && random.chance(70) {
            payer = *random.pick(&self.seats);
        }
        let payees: Vec<Seat> = self
            .seats
            .iter()
            .filter(|seat| seat.currency == payer.currency && seat.participant != payer.participant)
            .copied()
            .collect();
        if payees.is_empty() { (payer, payer) } else { (payer, *random.pick(&payees)) }
    }
}

/// What a participant that wants to be called is called for.
const ENDPOINTS: [&str; 3] = [
    "FSPIOP_CALLBACK_URL_TRANSFER_POST",
    "FSPIOP_CALLBACK_URL_TRANSFER_PUT",
    "FSPIOP_CALLBACK_URL_TRANSFER_ERROR",
];

fn endpoint(participant: u32, kind: &str) -> Option<Command> {
    let value = format!("http://bank-{participant}/transfers");
    SetEndpoint::new(ParticipantId(participant), kind.to_owned(), value).map(Command::SetEndpoint)
}

/// The first limit of a seat, with an initial position that is now and then not zero.
pub fn first_limit(seat: Seat, random: &mut Random) -> Admin {
    let initial = if random.chance(25) { random.between(-3, 3) * UNIT } else { 0 };
    Admin::InitialPositionAndLimits {
        participant: seat.participant,
        currency: seat.currency,
        net_debit_cap: Amount(random.between(4, 25) * UNIT),
        initial_position: Amount(initial),
    }
}
