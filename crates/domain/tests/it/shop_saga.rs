//! The checkout as a saga, whatever its steps are: every step twice, a failure at each step, the process killed after each
//! step, and words from outside at every point. All stories are told: which sides are outside, who refuses, who answers
//! first, whether an operator or the deadline ends it in between, and what is charged while the payment side is inside: credit,
//! a position, or tokens.

use std::collections::BTreeMap;

use holdfast_domain::shop::Message;

use crate::funded_world::{issue, usd_token};
use crate::memory::Memory;
use crate::shop_world::*;
use crate::world::*;

/// What a user has and an item's stock, if they are enough for the order; one less if they are not.
const ENOUGH: [u64; 2] = [10, 2];

/// Who ends a checkout that is not decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Operator,
    Deadline,
}

/// What the payment side charges, if it is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pays {
    Credit,
    Position,
    Tokens,
}

/// What one of the shop's numbers is worth on a position.
const UNIT: i64 = 100;

impl Pays {
    /// Who pays the order.
    const fn user(self) -> &'static str {
        match self {
            Pays::Position => "payer",
            Pays::Credit | Pays::Tokens => "u",
        }
    }

    /// The shop before its log: participants are there already.
    fn before(self, story: Story) -> World {
        match self {
            Pays::Position => {
                let funds = i64::try_from(story.had(Side::Pay)).unwrap() * UNIT;
                World::with(1_000_000, funds)
            }
            Pays::Credit | Pays::Tokens => World::empty(),
        }
    }

    /// Whatever makes the user able to pay so much, and the shop charge it.
    fn founding(self, much: u64) -> Vec<Command> {
        match self {
            Pays::Credit => vec![as_command(user("u", much))],
            Pays::Position => {
                let charging = by_transfers(PAYEE.0, UNIT, 7);
                vec![as_command(ShopCommand::SetCharging { charging })]
            }
            Pays::Tokens => {
                let tokens = vec![usd_token("a", "u", 6), usd_token("b", "u", much - 6)];
                let charging = Charging::Tokens(by_tokens(1, 7));
                vec![issue(tokens), as_command(ShopCommand::SetCharging { charging })]
            }
        }
    }

    /// More of what is charged.
    fn more(self, much: u64) -> Command {
        match self {
            Pays::Credit => as_command(funds("u", much)),
            Pays::Position => funds_in(1, PAYER_SETTLEMENT, i64::try_from(much).unwrap() * UNIT),
            Pays::Tokens => issue(vec![usd_token("c", "u", much)]),
        }
    }

    /// The same checkout with the tokens that are to pay for it, where tokens do.
    fn chosen(self, command: ShopCommand, number: u64, names: &[&str]) -> ShopCommand {
        match (command, with_tokens(&by_tokens(1, 7), "o", number, names)) {
            (ShopCommand::Checkout(checkout), ShopCommand::Checkout(with)) if self == Pays::Tokens => {
                ShopCommand::Checkout(CheckoutOrder { chosen: with.chosen, ..checkout })
            }
            (other, _) => other,
        }
    }
}

/// One way that a checkout can go.
#[derive(Debug, Clone, Copy)]
struct Story {
    pays: Pays,
    outside: Sides,
    /// Whether pay and stock would take.
    takes: [bool; 2],
    /// Whether stock answers before pay, where both wait to be answered.
    stock_first: bool,
    /// Somebody ends it after so many answers from outside.
    end: Option<(usize, End)>,
}

impl Story {
    /// What the user can pay with, or how many units there are.
    fn had(self, side: Side) -> u64 {
        let place = side as usize - 1;
        ENOUGH[place] - u64::from(!self.takes[place])
    }
}

/// With an outside payment side it does not matter what would be charged inside.
fn stories() -> Vec<Story> {
    let all = [Pays::Credit, Pays::Position, Pays::Tokens].into_iter().flat_map(stories_of);
    all.filter(|story| story.pays == Pays::Credit || !story.outside.pay).collect()
}

fn stories_of(pays: Pays) -> Vec<Story> {
    let bools = [false, true];
    let mut stories = Vec::new();
    for (pay, stock) in [(false, false), (true, false), (false, true), (true, true)] {
        for takes in bools.into_iter().flat_map(|pay| bools.map(|stock| [pay, stock])) {
            for stock_first in bools {
                let outside = Sides { pay, stock };
                let answers = usize::from(pay) + usize::from(stock);
                let ends = (0..answers).flat_map(|after| [(after, End::Operator), (after, End::Deadline)]);
                for end in ends.map(Some).chain([None]) {
                    stories.push(Story { pays, outside, takes, stock_first, end });
                }
            }
        }
    }
    stories
}

/// What an outside side has done: it took or refused, and gave back.
type Branches = BTreeMap<(u32, Side), (bool, bool)>;

/// One frame of the log.
#[derive(Debug, Clone)]
struct Frame {
    time: Millis,
    commands: Vec<Command>,
}

/// The shop, the sides that are outside, and the log.
#[derive(Clone)]
struct Telling {
    story: Story,
    shop: World,
    branches: Branches,
    /// Messages that reached an outside side and are not answered.
    asked: Vec<Message>,
    log: Vec<Frame>,
    /// The rows after each frame.
    moments: Vec<Memory>,
    decided: Vec<Verdict>,
}

impl Telling {
    /// The order is there and nobody has checked it out.
    fn new(story: Story) -> Telling {
        let [much, stock] = Side::ALL.map(|side| story.had(side));
        let mut world = Telling {
            story,
            shop: story.pays.before(story),
            branches: Branches::new(),
            asked: Vec::new(),
            log: Vec::new(),
            moments: Vec::new(),
            decided: Vec::new(),
        };
        let outside = ShopCommand::SetOutside { outside: story.outside };
        let goods = [item("i", stock, 5), order("o", story.pays.user()), add("o", "i", 2), outside];
        for command in story.pays.founding(much).into_iter().chain(goods.map(as_command)) {
            world.frame(vec![command]);
        }
        world
    }

    /// A shop that reads a log from its beginning.
    fn replayed(story: Story, log: &[Frame]) -> Telling {
        let mut world = Telling { log: Vec::new(), shop: story.pays.before(story), ..Telling::new(story) };
        (world.asked, world.decided, world.moments) = (Vec::new(), Vec::new(), Vec::new());
        for frame in log {
            world.shop.now = frame.time;
            world.frame(frame.commands.clone());
        }
        world
    }

    fn frame(&mut self, commands: Vec<Command>) -> Effects {
        let effects = self.shop.frame(&commands);
        self.log.push(Frame { time: self.shop.now, commands });
        self.moments.push(self.shop.memory.clone());
        for sent in &effects.shop_messages() {
            if sent.outside {
                self.asked.push(sent.message.clone());
            }
            if let Body::Decided(verdict) = sent.message.body {
                self.decided.push(verdict);
            }
        }
        effects
    }

    fn does(&mut self, command: ShopCommand) -> ShopOutcome {
        let effects = self.frame(vec![as_command(command)]);
        ShopOutcome::clone(effects.outcome(0).shop.as_ref().unwrap())
    }

    fn end(&mut self, end: End) {
        match end {
            End::Operator => drop(self.does(cancel("o"))),
            End::Deadline => {
                self.shop.now += i64::from(DEADLINE) + 1;
                self.frame(vec![expire(10)]);
            }
        }
    }

    /// An outside side does what it is asked, once, and answers the same each time.
    fn act(&mut self, message: &Message) -> ShopCommand {
        let (side, rollback) = match &message.body {
            Body::Pay(step) => (Side::Pay, matches!(step, AskedStep::Rollback(_))),
            Body::Stock(step) => (Side::Stock, matches!(step, AskedStep::Rollback(_))),
            other => panic!("{other:?} is for nobody outside"),
        };
        let tr = message.key.tr_num.get();
        let takes = self.story.takes[side as usize - 1];
        let row = self.branches.entry((tr, side)).or_insert((takes && !rollback, rollback));
        row.1 |= rollback;
        let said = match (rollback, row.0) {
            (true, _) => Said::Undone,
            (false, true) => Said::Taken,
            (false, false) => Said::Refused,
        };
        says("o", u64::from(tr), side, said)
    }

    /// The next answer from outside; `None` if nobody owes one.
    fn answer(&mut self) -> Option<ShopCommand> {
        let first = if self.story.stock_first { Side::Stock } else { Side::Pay };
        let of_first = |message: &Message| matches!(message.body, Body::Stock(_)) == (first == Side::Stock);
        let place = self.asked.iter().position(of_first).or_else(|| (!self.asked.is_empty()).then_some(0))?;
        let message = self.asked.remove(place);
        Some(self.act(&message))
    }

    /// From the checkout to its end.
    fn tell(&mut self) {
        let tokens: &[&str] = if self.story.takes[0] { &["a", "b"] } else { &[] };
        self.does(self.story.pays.chosen(keyed("o", "k", 1), 1, tokens));
        self.go_on(0);
    }

    fn go_on(&mut self, mut answers: usize) {
        loop {
            if let Some((after, end)) = self.story.end
                && after == answers
            {
                self.end(end);
            }
            let Some(answer) = self.answer() else { break };
            self.does(answer);
            answers += 1;
        }
    }

    fn is_open(&self) -> bool {
        !self.shop.memory.checkouts.is_empty()
    }

    /// Whatever became of it, it can be brought to its end: what is not answered is asked again, or the deadline comes.
    fn finish(&mut self) {
        if self.is_open() {
            self.does(retry("o"));
            while let Some(answer) = self.answer() {
                self.does(answer);
            }
        }
        if self.is_open() {
            self.end(End::Deadline);
            while let Some(answer) = self.answer() {
                self.does(answer);
            }
        }
    }

    /// It is over, there was one decision for each try, and what is still inside is what there was, but for what is paid with.
    /// Whether it is paid.
    fn kept(&self, context: impl Fn() -> String) -> bool {
        assert!(!self.is_open(), "{}", context());
        let paid = matches!(self.shop.state("o"), OrderState::Paid(_));
        let inside = [self.left(), self.shop.stock("i")];
        for side in Side::ALL {
            let place = side as usize - 1;
            let gone = if paid && !self.story.outside.has(side) { ENOUGH[place] } else { 0 };
            assert_eq!(inside[place] + gone, self.story.had(side), "{side:?} of {}", context());
        }
        let tries = self.shop.state("o").tr_num().map_or(0, |tr| tr.get() as usize);
        assert_eq!(self.decided.len(), tries, "{}", context());
        paid
    }

    /// The same, and outside sides hold what is paid with and nothing more.
    fn is_whole(&self, at: &str) {
        let context = || format!("{:?} {at}: {:?}", self.story, self.log);
        let paid = self.kept(context);
        assert!(self.shop.memory.holds.is_empty() && self.shop.memory.locks.is_empty(), "{}", context());
        for side in Side::ALL {
            let held = self.branches.iter().filter(|((_, of), row)| *of == side && row.0 && !row.1).count();
            let holds = usize::from(paid && self.story.outside.has(side));
            assert_eq!(held, holds, "{side:?} of {}", context());
        }
        let succeeded = self.decided.iter().filter(|verdict| **verdict == Verdict::Succeeded).count();
        assert_eq!(succeeded, usize::from(paid), "{}", context());
    }

    /// What the user can still pay with. What it paid is with the payee, and what is reserved is nobody's.
    fn left(&self) -> u64 {
        let memory = &self.shop.memory;
        match self.story.pays {
            Pays::Credit => self.shop.credit("u"),
            Pays::Position => {
                let value = |account| u64::try_from(memory.accounts[&account].value.0.abs()).unwrap();
                let (paid, got) = (value(PAYER_POSITION), value(PAYEE_POSITION));
                assert!(self.is_open() || paid == got, "{paid} is paid and {got} has come");
                (value(PAYER_SETTLEMENT) - paid) / UNIT.unsigned_abs()
            }
            Pays::Tokens => {
                let of = |wallet: &str| -> u64 {
                    let rows = memory.tokens.values().filter(|row| &*row.token.kind.wallet == wallet);
                    rows.filter(|row| row.holder.is_none()).map(|row| row.token.quantity).sum()
                };
                let all: u64 = memory.tokens.values().map(|row| row.token.quantity).sum();
                assert!(self.is_open() || of("u") + of("shop") == all, "tokens are lost or held");
                of("u")
            }
        }
    }

    /// The rows of the shop, but for where in the log and when.
    fn came_to(&self) -> (u64, u64, OrderState, bool, Vec<Verdict>) {
        (self.left(), self.shop.stock("i"), self.shop.state("o"), self.is_open(), self.decided.clone())
    }
}

fn told(story: Story) -> Telling {
    let mut world = Telling::new(story);
    world.tell();
    world
}

/// Frames that make the world.
fn founding(story: Story) -> usize {
    Telling::new(story).log.len()
}

#[test]
fn there_are_stories_of_all_kinds() {
    let worlds: Vec<Telling> = stories().into_iter().map(told).collect();
    let paid = |world: &&Telling| matches!(world.shop.state("o"), OrderState::Paid(_));
    let by = |pays: Pays| worlds.iter().filter(move |world| world.story.pays == pays);
    assert_eq!(by(Pays::Credit).count(), 4 * 2 * (1 + 3 + 3 + 5));
    // With both able and nobody ending it: once for each choice of sides and of the order of answers.
    assert_eq!(by(Pays::Credit).filter(paid).count(), 8);
    for pays in [Pays::Position, Pays::Tokens] {
        assert_eq!((by(pays).count(), by(pays).filter(paid).count()), (4 * 2 * (1 + 3), 4), "{pays:?}");
    }
    assert!(worlds.iter().any(|world| world.log.len() == founding(world.story) + 1), "all inside: one frame");
    assert!(worlds.iter().any(|world| world.log.len() >= founding(world.story) + 5), "asked, ended, undone");
}

#[test]
fn every_story_ends_whole() {
    for story in stories() {
        let world = told(story);
        world.is_whole("told");
        let able = story.takes == [true; 2] && story.end.is_none();
        assert_eq!(world.decided, [if able { Verdict::Succeeded } else { Verdict::Failed }], "{story:?}");
    }
}

#[test]
fn every_step_twice_changes_nothing() {
    for story in stories() {
        let once = told(story);
        let founded = founding(story);
        let all = Telling::replayed(story, &doubled(&once.log, founded, |_| true));
        assert_eq!(all.came_to(), once.came_to(), "{story:?}, each step twice");
        for step in founded..once.log.len() {
            let twice = Telling::replayed(story, &doubled(&once.log, founded, |place| place == step));
            assert_eq!(twice.came_to(), once.came_to(), "{story:?}, step {step} twice");
            let mut late = once.log.clone();
            late.push(Frame { time: once.shop.now, ..once.log[step].clone() });
            let late = Telling::replayed(story, &late);
            assert_eq!(late.came_to(), once.came_to(), "{story:?}, step {step} late again");
            assert_eq!(late.shop.memory, once.shop.memory, "{story:?}, step {step} leaves no trace");
        }
    }
}

/// The log with chosen frames twice, one right after the other.
fn doubled(log: &[Frame], from: usize, choose: impl Fn(usize) -> bool) -> Vec<Frame> {
    let copies = |place: usize| if place >= from && choose(place) { 2 } else { 1 };
    log.iter().enumerate().flat_map(|(place, frame)| vec![frame.clone(); copies(place)]).collect()
}

/// Wherever it fails it unwinds fully, and the order can be paid afterwards.
#[test]
fn a_failure_at_each_step_unwinds_fully() {
    let mut failures = 0;
    for story in stories() {
        let mut world = told(story);
        if !matches!(world.shop.state("o"), OrderState::NotPaid(Some(_))) {
            continue;
        }
        failures += 1;
        world.is_whole("failed");
        world.does(ShopCommand::SetOutside { outside: Sides::NONE });
        world.frame(vec![story.pays.more(ENOUGH[0])]);
        world.does(ShopCommand::AddStock { item: "i".parse().unwrap(), amount: whole(ENOUGH[1]) });
        let before = (world.left(), world.shop.stock("i"));
        let again = story.pays.chosen(checkout("o"), 2, &["c"]);
        assert_eq!(answer_of(world.does(again)), paid(2), "{story:?}");
        let after = (world.left() + ENOUGH[0], world.shop.stock("i") + ENOUGH[1]);
        assert_eq!(before, after, "{story:?}");
    }
    assert!(failures > 80, "{failures}");
}

/// All steps of a story in one frame come to the same as a frame for each.
#[test]
fn the_bounds_of_frames_do_not_matter() {
    for story in stories().into_iter().filter(|story| !matches!(story.end, Some((_, End::Deadline)))) {
        let once = told(story);
        let (founding, steps) = once.log.split_at(founding(story));
        let commands = steps.iter().flat_map(|frame| frame.commands.clone()).collect();
        let whole = Frame { time: once.log[0].time, commands };
        let in_one = Telling::replayed(story, &[founding, &[whole]].concat());
        assert_eq!(in_one.came_to(), once.came_to(), "{story:?}");
        assert_eq!(in_one.shop.memory, once.shop.memory, "{story:?}");
    }
}

/// The hub is killed after each frame, and what followed is lost. Outside sides have done all that they were asked until
/// then, or nothing of it; their answers are lost too.
#[test]
fn killed_after_every_step_it_goes_on() {
    for story in stories() {
        let once = told(story);
        for cut in founding(story)..=once.log.len() {
            for outside_was_ahead in [false, true] {
                let mut world = Telling::replayed(story, &once.log[..cut]);
                world.branches = Branches::new();
                world.answered_before(cut, &once);
                let asked = std::mem::take(&mut world.asked);
                if outside_was_ahead {
                    asked.iter().for_each(|message| drop(world.act(message)));
                }
                world.finish();
                world.is_whole(&format!("killed after {cut} frames, outside ahead: {outside_was_ahead}"));
            }
        }
    }
}

/// After a restart the live rows are those of the log, at each of its frames.
#[test]
fn a_prefix_of_the_log_gives_the_rows_of_its_moment() {
    for story in stories() {
        let live = told(story);
        for (frames, moment) in (1..).zip(&live.moments) {
            let replayed = Telling::replayed(story, &live.log[..frames]);
            assert_eq!(replayed.shop.memory, *moment, "{story:?}, {frames} frames");
        }
        assert_eq!(live.moments.len(), live.log.len());
    }
}

/// Any word about any try at any point, true or not: what is inside stays whole, and there is one decision.
#[test]
fn words_from_outside_at_every_point_break_nothing() {
    for story in stories() {
        let once = told(story);
        for cut in founding(story)..=once.log.len() {
            for (side, said, tr) in words() {
                let mut log = once.log[..cut].to_vec();
                let word = as_command(says("o", tr, side, said));
                log.push(Frame { time: log[cut - 1].time, commands: vec![word] });
                log.extend_from_slice(&once.log[cut..]);
                let mut world = Telling::replayed(story, &log);
                world.finish();
                let context = || format!("{story:?}, {side:?} says {said:?} of try {tr} after {cut} frames");
                world.kept(context);
            }
        }
    }
}

fn words() -> Vec<(Side, Said, u64)> {
    let said = [Said::Taken, Said::Refused, Said::Undone];
    let of_side = |side| said.into_iter().flat_map(move |said| [1, 2].map(|tr| (side, said, tr)));
    Side::ALL.into_iter().flat_map(of_side).collect()
}

impl Telling {
    /// Outside sides did what they had answered before the cut: those answers are in the log.
    fn answered_before(&mut self, cut: usize, once: &Telling) {
        for frame in &once.log[..cut] {
            for command in &frame.commands {
                let Command::Shop(command) = command else { continue };
                if let ShopCommand::Answer { key, side, said } = &**command {
                    let row = self.branches.entry((key.tr_num.get(), *side));
                    match said {
                        Said::Taken => *row.or_default() = (true, false),
                        Said::Refused => *row.or_default() = (false, false),
                        Said::Undone => row.or_default().1 = true,
                    }
                    let step = |message: &Message| {
                        let of_side = matches!(message.body, Body::Pay(_)) == (*side == Side::Pay);
                        let undoes = matches!(
                            message.body,
                            Body::Pay(AskedStep::Rollback(_)) | Body::Stock(AskedStep::Rollback(_))
                        );
                        of_side && undoes == (*said == Said::Undone)
                    };
                    let answered = self.asked.iter().position(step).expect("it was asked");
                    self.asked.remove(answered);
                }
            }
        }
    }
}
