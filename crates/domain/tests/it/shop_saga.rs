//! The checkout as a saga, whatever its steps are: every step twice, a failure at each step, the process killed after each
//! step, and words from outside at every point. All stories are told: which sides are outside, who refuses, who answers
//! first, and whether an operator or the deadline ends it in between.

use std::collections::BTreeMap;

use holdfast_domain::command::{Command, Expire};
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    AskedStep, Body, Message, OrderState, Said, ShopCommand, ShopOutcome, Side, Sides, Verdict,
};

use crate::memory::Memory;
use crate::shop_world::*;

/// What a user has and an item's stock, if they are enough for the order; one less if they are not.
const ENOUGH: [u64; 2] = [10, 2];

/// Who ends a checkout that is not decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Operator,
    Deadline,
}

/// One way that a checkout can go.
#[derive(Debug, Clone, Copy)]
struct Story {
    outside: Sides,
    /// Whether pay and stock would take.
    takes: [bool; 2],
    /// Whether stock answers before pay, where both wait to be answered.
    stock_first: bool,
    /// Somebody ends it after so many answers from outside.
    end: Option<(usize, End)>,
}

fn stories() -> Vec<Story> {
    let bools = [false, true];
    let mut stories = Vec::new();
    for (pay, stock) in [(false, false), (true, false), (false, true), (true, true)] {
        for takes in bools.into_iter().flat_map(|pay| bools.map(|stock| [pay, stock])) {
            for stock_first in bools {
                let outside = Sides { pay, stock };
                let answers = usize::from(pay) + usize::from(stock);
                let ends = (0..answers).flat_map(|after| [(after, End::Operator), (after, End::Deadline)]);
                for end in ends.map(Some).chain([None]) {
                    stories.push(Story { outside, takes, stock_first, end });
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
struct World {
    story: Story,
    shop: Shop,
    branches: Branches,
    /// Messages that reached an outside side and are not answered.
    asked: Vec<Message>,
    log: Vec<Frame>,
    /// The rows after each frame.
    moments: Vec<Memory>,
    decided: Vec<Verdict>,
}

impl World {
    /// The order is there and nobody has checked it out.
    fn new(story: Story) -> World {
        let [credit, stock] = [0, 1].map(|side| ENOUGH[side] - u64::from(!story.takes[side]));
        let mut world = World {
            story,
            shop: Shop::empty(),
            branches: Branches::new(),
            asked: Vec::new(),
            log: Vec::new(),
            moments: Vec::new(),
            decided: Vec::new(),
        };
        let outside = ShopCommand::SetOutside { outside: story.outside };
        for command in [user("u", credit), item("i", stock, 5), order("o", "u"), add("o", "i", 2), outside] {
            world.frame(vec![as_command(command)]);
        }
        world
    }

    /// A shop that reads a log from its beginning.
    fn replayed(story: Story, log: &[Frame]) -> World {
        let mut world = World { log: Vec::new(), shop: Shop::empty(), ..World::new(story) };
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
        for sent in &effects.shop_messages {
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
        ShopOutcome::clone(effects.outcomes[0].shop.as_ref().unwrap())
    }

    fn end(&mut self, end: End) {
        match end {
            End::Operator => drop(self.does(cancel("o"))),
            End::Deadline => {
                self.shop.now += i64::from(DEADLINE) + 1;
                self.frame(vec![Command::Expire(Expire { holds_max: 10 })]);
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
        self.does(keyed("o", "k", 1));
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

    /// Credit and units that are still inside, with what outside sides hold: what there was, unless it is paid with.
    fn is_whole(&self, at: &str) {
        let context = format!("{:?} {at}: {:?}", self.story, self.log);
        assert!(!self.is_open(), "{context}");
        let paid = matches!(self.shop.state("o"), OrderState::Paid(_));
        let inside = [self.shop.credit("u"), self.shop.stock("i")];
        for side in Side::ALL {
            let place = side as usize - 1;
            let had = ENOUGH[place] - u64::from(!self.story.takes[place]);
            let held = self.branches.iter().filter(|((_, of), row)| *of == side && row.0 && !row.1).count();
            if self.story.outside.has(side) {
                assert_eq!((inside[place], held), (had, usize::from(paid)), "{side:?} of {context}");
            } else {
                let gone = if paid { ENOUGH[place] } else { 0 };
                assert_eq!((inside[place] + gone, held), (had, 0), "{side:?} of {context}");
            }
        }
        let succeeded = self.decided.iter().filter(|verdict| **verdict == Verdict::Succeeded).count();
        assert_eq!(succeeded, usize::from(paid), "{context}");
        let tries = self.shop.state("o").tr_num().map_or(0, |tr| tr.get() as usize);
        assert_eq!(self.decided.len(), tries, "one decision for each try: {context}");
    }

    /// The rows of the shop, but for where in the log and when.
    fn came_to(&self) -> (u64, u64, OrderState, bool, Vec<Verdict>) {
        (
            self.shop.credit("u"),
            self.shop.stock("i"),
            self.shop.state("o"),
            self.is_open(),
            self.decided.clone(),
        )
    }
}

fn told(story: Story) -> World {
    let mut world = World::new(story);
    world.tell();
    world
}

/// Frames that make the world.
fn founding() -> usize {
    World::new(stories()[0]).log.len()
}

#[test]
fn there_are_stories_of_all_kinds() {
    let worlds: Vec<World> = stories().into_iter().map(told).collect();
    let paid = |world: &&World| matches!(world.shop.state("o"), OrderState::Paid(_));
    assert_eq!(worlds.len(), 4 * 2 * (1 + 3 + 3 + 5));
    // With both able and nobody ending it: once for each choice of sides and of the order of answers.
    assert_eq!(worlds.iter().filter(paid).count(), 8);
    assert!(worlds.iter().any(|world| world.log.len() == founding() + 1), "all inside: one frame");
    assert!(worlds.iter().any(|world| world.log.len() >= founding() + 5), "asked, ended, undone");
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
        let founded = founding();
        let all = World::replayed(story, &doubled(&once.log, founded, |_| true));
        assert_eq!(all.came_to(), once.came_to(), "{story:?}, each step twice");
        for step in founded..once.log.len() {
            let twice = World::replayed(story, &doubled(&once.log, founded, |place| place == step));
            assert_eq!(twice.came_to(), once.came_to(), "{story:?}, step {step} twice");
            let mut late = once.log.clone();
            late.push(Frame { time: once.shop.now, ..once.log[step].clone() });
            let late = World::replayed(story, &late);
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
        world.does(funds("u", ENOUGH[0]));
        world.does(ShopCommand::AddStock { item: "i".parse().unwrap(), amount: whole(ENOUGH[1]) });
        let before = (world.shop.credit("u"), world.shop.stock("i"));
        assert_eq!(world.shop.checkout("o"), paid(2), "{story:?}");
        let after = (world.shop.credit("u") + ENOUGH[0], world.shop.stock("i") + ENOUGH[1]);
        assert_eq!(before, after, "{story:?}");
    }
    assert!(failures > 80, "{failures}");
}

/// All steps of a story in one frame come to the same as a frame for each.
#[test]
fn the_bounds_of_frames_do_not_matter() {
    for story in stories().into_iter().filter(|story| !matches!(story.end, Some((_, End::Deadline)))) {
        let once = told(story);
        let (founding, steps) = once.log.split_at(founding());
        let commands = steps.iter().flat_map(|frame| frame.commands.clone()).collect();
        let whole = Frame { time: once.log[0].time, commands };
        let in_one = World::replayed(story, &[founding, &[whole]].concat());
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
        for cut in founding()..=once.log.len() {
            for outside_was_ahead in [false, true] {
                let mut world = World::replayed(story, &once.log[..cut]);
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
            let replayed = World::replayed(story, &live.log[..frames]);
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
        for cut in founding()..=once.log.len() {
            for (side, said, tr) in words() {
                let mut log = once.log[..cut].to_vec();
                let word = as_command(says("o", tr, side, said));
                log.push(Frame { time: log[cut - 1].time, commands: vec![word] });
                log.extend_from_slice(&once.log[cut..]);
                let mut world = World::replayed(story, &log);
                world.finish();
                let context = || format!("{story:?}, {side:?} says {said:?} of try {tr} after {cut} frames");
                assert!(!world.is_open(), "{}", context());
                let paid = matches!(world.shop.state("o"), OrderState::Paid(_));
                let inside = [world.shop.credit("u"), world.shop.stock("i")];
                for side in Side::ALL {
                    let place = side as usize - 1;
                    let had = ENOUGH[place] - u64::from(!story.takes[place]);
                    let gone = if paid && !story.outside.has(side) { ENOUGH[place] } else { 0 };
                    assert_eq!(inside[place] + gone, had, "{side:?} in {}", context());
                }
                let tries = world.shop.state("o").tr_num().map_or(0, |tr| tr.get() as usize);
                assert_eq!(world.decided.len(), tries, "{}", context());
            }
        }
    }
}

fn words() -> Vec<(Side, Said, u64)> {
    let said = [Said::Taken, Said::Refused, Said::Undone];
    let of_side = |side| said.into_iter().flat_map(move |said| [1, 2].map(|tr| (side, said, tr)));
    Side::ALL.into_iter().flat_map(of_side).collect()
}

impl World {
    /// Outside sides did what they had answered before the cut: those answers are in the log.
    fn answered_before(&mut self, cut: usize, once: &World) {
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
