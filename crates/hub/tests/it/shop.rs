//! The shop through a running hub: nobody polls, nobody hangs, sums are exact at once, and everything survives a restart.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, Millis, TransferId, TransferNo};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::shop::callers::CheckoutState;
use holdfast_domain::shop::callers::PAGE_MAX;
use holdfast_domain::shop::{
    ByTransfers, Charging, CheckoutAnswer, CheckoutOrder, IdempotencyKey, OrderId, OrderState, Said, Secret,
    ShopCommand, ShopOutcome, ShopRefusal, Side, Sides, TrNum, TryKey, Whole, Why, init_in_pieces,
};
use holdfast_domain::tokens::Fingerprint;
use holdfast_domain::view::Accounts;
use holdfast_engine::clock::SystemClock;
use holdfast_engine::{CheckoutRequest, Shop as _, ShopError};
use holdfast_hub::limits::{HubOptions, QUESTIONS_PER_TURN_MAX};
use holdfast_hub::shop::ShopEvent;
use holdfast_hub::verify::{Places, verify};
use holdfast_hub::{Hub, HubHandle, HubShop, Opened};
use holdfast_log::SimFs;
use holdfast_store::Tables;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{LOG_ID, PAYEE, PAYER, small_segments, submission, usd};

const DATA: &str = "/data";

fn start(fs: &SimFs) -> Hub {
    let opened = Opened::open(Arc::new(fs.clone()), Path::new(DATA), small_segments(), LOG_ID).unwrap();
    Hub::start(opened, Arc::new(SystemClock::new()), HubOptions::default()).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap()
}

fn in_time(work: impl Future<Output = ()>) {
    runtime()
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await.expect("nobody hangs") });
}

fn whole(number: u64) -> Whole {
    Whole::new(number).unwrap()
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn first(order: &str) -> TryKey {
    TryKey { order_id: id(order), tr_num: TrNum::FIRST }
}

pub async fn done(desk: &HubShop, command: ShopCommand) {
    let outcome = desk.decide(command).await.unwrap();
    assert!(!matches!(outcome, ShopOutcome::Refused(_)), "{outcome:?}");
}

async fn init(desk: &HubShop, count: u64, command: impl Fn(u64, u32) -> ShopCommand) {
    for piece in init_in_pieces(count, command) {
        done(desk, piece).await;
    }
}

/// Orders of any of so many users and items, of price 1.
async fn init_orders(desk: &HubShop, count: u64, of: u64) {
    let (items, users, price, seed) = (of, of, whole(1), desk.draw());
    init(desk, count, |first, count| ShopCommand::InitOrders { first, count, items, users, price, seed })
        .await;
}

/// User `u`, item `i` of price 1, and an order of one of it.
async fn fill(desk: &HubShop, credit: u64, stock: u64) {
    done(desk, ShopCommand::CreateUser { id: id("u"), credit: whole(credit) }).await;
    done(desk, ShopCommand::CreateItem { id: id("i"), stock: whole(stock), price: whole(1) }).await;
    order(desk, "o", "u").await;
}

async fn order(desk: &HubShop, name: &str, user: &str) {
    done(desk, ShopCommand::CreateOrder { id: id(name), user: id(user) }).await;
    done(desk, ShopCommand::AddItem { order: id(name), item: id("i"), quantity: whole(1) }).await;
}

async fn credit(desk: &HubShop, user: &str) -> u64 {
    desk.user(id(user)).await.unwrap().unwrap().credit.get()
}

async fn stock(desk: &HubShop) -> u64 {
    desk.item(id("i")).await.unwrap().unwrap().stock.get()
}

fn verifies(fs: &SimFs) {
    let places = Places { fs: Arc::new(fs.clone()), data: Path::new(DATA), scratch: Path::new("/scratch") };
    let verified = verify(&places, &mut |_, _| {}).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    assert!(!verified.store.checkpoints.is_empty(), "a checkpoint was compared");
}

#[test]
fn a_thousand_at_once_on_a_hundred_units_pay_exactly_a_hundred() {
    let fs = SimFs::new(1);
    let hub = start(&fs);
    let desk = hub.handle().shop().clone();
    in_time(async {
        done(&desk, ShopCommand::CreateItem { id: id("i"), stock: whole(100), price: whole(1) }).await;
        init(&desk, 1_000, |first, count| ShopCommand::InitUsers { first, count, credit: whole(1) }).await;
        let mut made = JoinSet::new();
        for number in 0..1_000_u64 {
            let desk = desk.clone();
            // Users come more than once.
            let user = (number * number % 997).to_string();
            made.spawn(async move { order(&desk, &format!("o{number}"), &user).await });
        }
        made.join_all().await;
        let mut all = JoinSet::new();
        for number in 0..1_000 {
            let desk = desk.clone();
            all.spawn(async move {
                desk.checkout(CheckoutRequest::new(id(&format!("o{number}")))).await.unwrap()
            });
        }
        let answers = all.join_all().await;
        let paid = answers.iter().filter(|answer| matches!(answer, CheckoutAnswer::Paid { .. })).count();
        let failed = answers.iter().filter(|answer| matches!(answer, CheckoutAnswer::Failed { .. })).count();
        assert_eq!((paid, failed), (100, 900));
        let mut left = 0;
        for number in 0..1_000 {
            left += credit(&desk, &number.to_string()).await;
        }
        assert_eq!((stock(&desk).await, left), (0, 900), "at once after the last answer");
    });
    drop(hub);
    verifies(&fs);
}

#[test]
fn what_is_paid_is_found_after_a_restart_and_answered_again() {
    let fs = SimFs::new(2);
    let hub = start(&fs);
    let desk = hub.handle().shop().clone();
    let keyed = || {
        let key = Some(IdempotencyKey { key: "key".into(), body: Fingerprint(1) });
        CheckoutRequest { key, ..CheckoutRequest::new(id("o")) }
    };
    let paid = CheckoutAnswer::Paid { tr: TrNum::FIRST };
    in_time(async {
        fill(&desk, 5, 5).await;
        assert_eq!(desk.checkout(keyed()).await, Ok(paid));
        init_orders(&desk, 4_100, 10).await;
        assert_eq!(desk.counts().await.unwrap().orders, 4_100);
    });
    drop((desk, hub));
    let hub = start(&fs);
    let desk = hub.handle().shop().clone();
    in_time(async {
        let view = desk.order(id("o")).await.unwrap().unwrap();
        assert_eq!((view.row.order.state, view.open), (OrderState::Paid(TrNum::FIRST), None));
        assert_eq!(view.row.order.items.lines().len(), 1);
        assert_eq!(desk.order(id("none")).await.unwrap(), None);
        let again = desk.checkout(CheckoutRequest::new(id("o"))).await;
        assert_eq!(again, Ok(CheckoutAnswer::AlreadyPaid { tr: TrNum::FIRST }));
        assert_eq!(desk.checkout(keyed()).await, Ok(paid), "the stored answer");
        let other = IdempotencyKey { key: "key".into(), body: Fingerprint(2) };
        let other = CheckoutRequest { key: Some(other), ..CheckoutRequest::new(id("o")) };
        assert_eq!(desk.checkout(other).await, Err(ShopError::Refused(ShopRefusal::KeyReused)));
        assert_eq!((credit(&desk, "u").await, stock(&desk).await), (4, 4));
        let order: OrderId = id("o");
        let again = desk.decide(ShopCommand::CreateOrder { id: order, user: id("u") }).await;
        assert!(matches!(again, Ok(ShopOutcome::Refused(_))));
    });
    drop(hub);
    verifies(&fs);
}

const PAY: Sides = Sides { pay: true, stock: false };
const STOCK: Sides = Sides { pay: false, stock: true };

#[test]
fn callers_of_an_open_checkout_wait_for_its_end_and_all_hear_it() {
    let hub = start(&SimFs::new(3));
    let desk = hub.handle().shop().clone();
    in_time(async {
        fill(&desk, 0, 5).await;
        desk.set_outside(PAY).await.unwrap();
        assert_eq!(desk.outside().await, Ok(PAY));
        let mut events = desk.listen();
        let mut callers = JoinSet::new();
        for _ in 0..50 {
            let desk = desk.clone();
            callers.spawn(async move { desk.checkout(CheckoutRequest::new(id("o"))).await.unwrap() });
        }
        let asked = events.next().await.unwrap().unwrap();
        match &asked[..] {
            [ShopEvent::Asked { side: Side::Pay, message }] => assert_eq!(message.body.type_name(), "pay"),
            other => panic!("{other:?}"),
        }
        // One that does not wait sees the rest of them.
        let look = CheckoutRequest { wait_ms: Some(0), ..CheckoutRequest::new(id("o")) };
        let open = desk.checkout(look).await.unwrap();
        assert!(matches!(open, CheckoutAnswer::Open { waits, .. } if waits.sides == PAY));
        let page = desk.open_checkouts(Some(CheckoutState::Pending), None, 10).await.unwrap();
        assert_eq!((page.checkouts.len(), page.next), (1, None));
        assert!(
            desk.open_checkouts(Some(CheckoutState::Cancelling), None, 10)
                .await
                .unwrap()
                .checkouts
                .is_empty()
        );
        let (counts, now) = desk.answer(first("o"), Side::Pay, Said::Refused).await.unwrap();
        let failed = CheckoutAnswer::Failed { tr: TrNum::FIRST, why: Why::Pay };
        assert_eq!((counts, now), (true, failed));
        for answer in callers.join_all().await {
            // Those who came after the end have begun a new try, which is open.
            assert!(answer == failed || answer.tr() > TrNum::FIRST, "{answer:?}");
        }
        let ended = events.next().await.unwrap().unwrap();
        assert!(matches!(&ended[..], [ShopEvent::Ended(end)] if end.answer == failed), "{ended:?}");
        assert_eq!(stock(&desk).await, 5, "given back before anybody was told");
        desk.publish_metrics().await.unwrap();
    });
}

/// Nobody has asked the sides yet: what they owe is known all the same, over as many pages as it takes.
#[test]
fn what_is_owed_is_read_from_what_is_open() {
    let fs = SimFs::new(14);
    let hub = start(&fs);
    let desk = hub.handle().shop().clone();
    in_time(async {
        let count = PAGE_MAX + 7;
        init(&desk, 1, |first, count| ShopCommand::InitUsers { first, count, credit: whole(1_000_000) })
            .await;
        init(&desk, 1, |first, count| ShopCommand::InitItems {
            first,
            count,
            stock: whole(1_000_000),
            price: whole(1),
        })
        .await;
        init_orders(&desk, count as u64, 1).await;
        desk.set_outside(STOCK).await.unwrap();
        let begun = desk.now();
        for number in 0..count {
            let (deadline_ms, wait_ms) = (Some(600_000), Some(0));
            let order = CheckoutRequest::new(id(&number.to_string()));
            desk.checkout(CheckoutRequest { deadline_ms, wait_ms, ..order }).await.unwrap();
        }
        let owed = async |side, since| desk.owed(side, since).await.unwrap();
        assert_eq!(owed(Side::Stock, Millis::MAX).await, [], "to be asked for something is not to owe it");
        for number in 0..count {
            desk.cancel(id(&number.to_string())).await.unwrap();
        }
        let all = owed(Side::Stock, Millis::MAX).await;
        assert!(all.iter().map(|owed| owed.order.as_str().to_owned()).eq((0..count).map(|n| n.to_string())));
        assert!(all.iter().all(|owed| owed.since >= begun && owed.tr == TrNum::FIRST));
        assert_eq!(
            owed(Side::Stock, all[9].since - 1).await.len(),
            all.iter().take_while(|one| one.since < all[9].since).count()
        );
        assert_eq!(owed(Side::Stock, begun - 1).await, [], "not for so long");
        assert_eq!(owed(Side::Pay, Millis::MAX).await, [], "it is inside");
        desk.answer(first("3"), Side::Stock, Said::Undone).await.unwrap();
        assert_eq!(owed(Side::Stock, Millis::MAX).await.len(), count - 1);
    });
}

#[test]
fn trouble_with_a_side_is_new_after_a_start_and_after_it_was_well() {
    let hub = start(&SimFs::new(15));
    let desk = hub.handle().shop().clone();
    let news = |why| desk.note_trouble(Side::Stock, why);
    assert_eq!([news(Some("x")), news(Some("y")), news(None), news(None)], [true, false, false, false]);
    assert!(news(Some("z")) && desk.note_trouble(Side::Pay, Some("p")));
    let troubles = hub.handle().shop().troubles();
    assert_eq!((troubles.of(Side::Pay), troubles.of(Side::Stock)), (Some("p"), Some("z")));
}

#[test]
fn a_silent_side_is_cancelled_at_the_deadline_without_any_request() {
    let fs = SimFs::new(4);
    let hub = start(&fs);
    let desk = hub.handle().shop().clone();
    in_time(async {
        fill(&desk, 0, 5).await;
        desk.set_outside(PAY).await.unwrap();
        let mut events = desk.listen();
        let quick =
            CheckoutRequest { deadline_ms: Some(50), wait_ms: Some(1_000), ..CheckoutRequest::new(id("o")) };
        let waiting = tokio::spawn({
            let desk = desk.clone();
            async move { desk.checkout(quick).await.unwrap() }
        });
        let mut asked = Vec::new();
        while asked.len() < 2 {
            for event in events.next().await.unwrap().unwrap().iter() {
                let ShopEvent::Asked { message, .. } = event else { panic!("{event:?}") };
                asked.push(message.body.type_name());
            }
        }
        assert_eq!(asked, ["pay", "can"]);
        assert_eq!(stock(&desk).await, 5);
        let answer = waiting.await.unwrap();
        assert!(matches!(answer, CheckoutAnswer::Open { waits, .. } if waits.cancelling), "{answer:?}");
    });
    // What is open goes on after a restart.
    drop((desk, hub));
    let hub = start(&fs);
    let desk = hub.handle().shop().clone();
    in_time(async {
        let mut events = desk.listen();
        assert_eq!(desk.retry(id("o")).await.unwrap().tr(), TrNum::FIRST);
        let asked = events.next().await.unwrap().unwrap();
        assert!(
            matches!(&asked[..], [ShopEvent::Asked { message, .. }] if message.body.type_name() == "can")
        );
        let (_, now) = desk.answer(first("o"), Side::Pay, Said::Undone).await.unwrap();
        assert_eq!(now, CheckoutAnswer::Failed { tr: TrNum::FIRST, why: Why::Deadline });
        assert!(desk.cancel(id("o")).await.is_err());
    });
    drop(hub);
    verifies(&fs);
}

#[test]
fn who_waits_when_the_hub_ends_is_told() {
    let hub = start(&SimFs::new(5));
    let desk = hub.handle().shop().clone();
    in_time(async {
        fill(&desk, 0, 5).await;
        desk.set_outside(PAY).await.unwrap();
        let mut events = desk.listen();
        let waiting = tokio::spawn({
            let desk = desk.clone();
            async move { desk.checkout(CheckoutRequest::new(id("o"))).await }
        });
        events.next().await.unwrap().unwrap();
        tokio::task::spawn_blocking(move || drop(hub)).await.unwrap();
        assert!(matches!(waiting.await.unwrap(), Err(ShopError::Hub(_))));
        assert_eq!(events.next().await, Ok(None));
    });
}

/// Before the server lets its connections go: the hub still runs, and can say where the checkout stands.
#[test]
fn who_waits_when_the_server_ends_is_told_where_it_stands() {
    let hub = start(&SimFs::new(6));
    let desk = hub.handle().shop().clone();
    in_time(async {
        fill(&desk, 0, 5).await;
        desk.set_outside(PAY).await.unwrap();
        let mut events = desk.listen();
        let long = CheckoutRequest { wait_ms: Some(60_000), ..CheckoutRequest::new(id("o")) };
        let waiting = tokio::spawn({
            let (desk, long) = (desk.clone(), long.clone());
            async move { desk.checkout(long).await }
        });
        events.next().await.unwrap().unwrap();
        desk.end_waiting();
        for answer in [waiting.await.unwrap(), desk.checkout(long).await] {
            assert!(
                matches!(answer, Ok(CheckoutAnswer::Open { waits, .. }) if waits.sides == PAY),
                "{answer:?}"
            );
        }
        // Whoever listens still hears of what goes on.
        desk.answer(first("o"), Side::Pay, Said::Taken).await.unwrap();
        let ended = events.next().await.unwrap().unwrap();
        assert!(matches!(&ended[..], [ShopEvent::Ended(_)]), "{ended:?}");
    });
}

/// Holds the writer until the sender is dropped or used. It has stopped when this returns.
fn hold_up(hub: &HubHandle) -> mpsc::Sender<()> {
    let (go_on, wait) = mpsc::channel::<()>();
    let (tell, stopped) = mpsc::channel();
    let question = move |_: &holdfast_hub::Core<holdfast_store::LocalStore>| {
        tell.send(()).unwrap();
        wait.recv().ok();
    };
    hub.ask(Box::new(question)).unwrap();
    stopped.recv().unwrap();
    go_on
}

fn asked(command: ShopCommand) -> Command {
    Command::Shop(Box::new(command))
}

/// What the hub works off while it ends is heard of by whoever listens: the webhook keeps it for the next start.
#[test]
fn the_last_outcomes_are_heard_before_the_end() {
    let hub = start(&SimFs::new(7));
    let (handle, desk) = (hub.handle(), hub.handle().shop().clone());
    in_time(async move {
        fill(&desk, 5, 5).await;
        let mut events = desk.listen();
        let go_on = hold_up(&handle);
        let checkout = CheckoutOrder { order: id("o"), deadline_ms: 1_000, key: None, chosen: None };
        let (last, answer) = submission(&[asked(ShopCommand::Checkout(checkout))]);
        handle.submit(last).unwrap();
        let ending = std::thread::spawn(move || drop(hub));
        while handle.submit(submission(&[]).0).is_ok() {
            tokio::task::yield_now().await;
        }
        // The end has begun. Whether it has come as far as the feed is not seen, so it is given some turns.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        drop(go_on);
        let heard = events.next().await.unwrap().expect("the last outcome");
        assert!(matches!(&heard[..], [ShopEvent::Ended(_)]), "{heard:?}");
        assert_eq!(events.next().await, Ok(None));
        assert!(answer.recv().unwrap().is_ok());
        ending.join().unwrap();
    });
}

/// The checkout ends when the caller's wait is over and its last look waits behind a full queue of questions.
#[test]
fn a_checkout_that_ends_with_the_wait_is_told_as_it_ended() {
    let hub = start(&SimFs::new(8));
    let (handle, desk) = (hub.handle(), hub.handle().shop().clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for (order_name, said, end) in [
            ("o", Said::Taken, CheckoutAnswer::Paid { tr: TrNum::FIRST }),
            ("p", Said::Refused, CheckoutAnswer::Failed { tr: TrNum::FIRST, why: Why::Pay }),
        ] {
            if order_name == "o" {
                fill(&desk, 0, 5).await;
                desk.set_outside(PAY).await.unwrap();
            } else {
                order(&desk, order_name, "u").await;
            }
            let mut events = desk.listen();
            let wait = Duration::from_secs(60);
            let request = CheckoutRequest { wait_ms: Some(60_000), ..CheckoutRequest::new(id(order_name)) };
            let waiting = tokio::spawn({
                let desk = desk.clone();
                async move { desk.checkout(request).await.unwrap() }
            });
            events.next().await.unwrap().unwrap();
            // Answers go out in their order: when this one is here, the caller has its own, and waits.
            done(&desk, ShopCommand::AddFunds { user: id("u"), amount: Whole::ZERO }).await;
            some_turns().await;
            let go_on = hold_up(&handle);
            let answer = ShopCommand::Answer { key: first(order_name), side: Side::Pay, said };
            let (answer, answered) = submission(&[asked(answer)]);
            handle.submit(answer).unwrap();
            // A turn runs so many questions at most, and then its frame: the look comes in a later turn.
            (0..QUESTIONS_PER_TURN_MAX).for_each(|_| handle.ask(Box::new(|_| ())).unwrap());
            let_pass(wait).await;
            drop(go_on);
            assert_eq!(waiting.await.unwrap(), end);
            assert!(answered.recv().unwrap().is_ok());
        }
    });
}

/// A caller of order `o`, whose payment is outside, that waits for its end.
async fn waits_for_o(desk: &HubShop, wait: Duration) -> JoinHandle<Result<CheckoutAnswer, ShopError>> {
    fill(desk, 0, 5).await;
    desk.set_outside(PAY).await.unwrap();
    let mut events = desk.listen();
    let wait_ms = u32::try_from(wait.as_millis()).ok();
    let request = CheckoutRequest { wait_ms, ..CheckoutRequest::new(id("o")) };
    let waiting = tokio::spawn({
        let desk = desk.clone();
        async move { desk.checkout(request).await }
    });
    events.next().await.unwrap().unwrap();
    // Answers go out in their order: when this one is here, the caller has its own, and waits.
    done(desk, ShopCommand::AddFunds { user: id("u"), amount: Whole::ZERO }).await;
    some_turns().await;
    waiting
}

/// Lets the others on this thread go on as far as they can.
async fn some_turns() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Ends a wait of that length, without waiting.
async fn let_pass(wait: Duration) {
    tokio::time::pause();
    tokio::time::advance(wait).await;
    some_turns().await;
    tokio::time::resume();
}

/// The checkout ends after the caller's last look was answered, and before the caller has read that.
#[test]
fn a_checkout_that_ends_after_the_last_look_is_told_as_it_ended() {
    let hub = start(&SimFs::new(10));
    let (handle, desk) = (hub.handle(), hub.handle().shop().clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let wait = Duration::from_secs(60);
        let waiting = waits_for_o(&desk, wait).await;
        let go_on = hold_up(&handle);
        let_pass(wait).await;
        drop(go_on);
        // From here on this thread does not let the caller go on. Its look comes first, then this one, then the answer.
        drop(hold_up(&handle));
        let answer = ShopCommand::Answer { key: first("o"), side: Side::Pay, said: Said::Taken };
        let (answer, answered) = submission(&[asked(answer)]);
        handle.submit(answer).unwrap();
        answered.recv().unwrap().unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), CheckoutAnswer::Paid { tr: TrNum::FIRST });
    });
}

/// A refusal would read as if nothing had been tried.
#[test]
fn who_cannot_look_any_more_is_told_that_it_was_tried() {
    let hub = start(&SimFs::new(11));
    let (handle, desk) = (hub.handle(), hub.handle().shop().clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let wait = Duration::from_secs(60);
        let waiting = waits_for_o(&desk, wait).await;
        let go_on = hold_up(&handle);
        while handle.ask(Box::new(|_| ())).is_ok() {}
        let_pass(wait).await;
        let told = waiting.await.unwrap();
        assert!(matches!(told, Ok(CheckoutAnswer::Open { waits, .. }) if waits.sides == PAY), "{told:?}");
        drop(go_on);
    });
}

/// Its try is ended, another order takes its place and is paid, all before it can look: that is not how its own try ended.
#[test]
fn who_waited_for_an_order_is_not_told_of_the_one_in_its_place() {
    let hub = start(&SimFs::new(9));
    let (handle, desk) = (hub.handle(), hub.handle().shop().clone());
    in_time(async move {
        init(&desk, 1, |first, count| ShopCommand::InitUsers { first, count, credit: whole(9) }).await;
        init(&desk, 1, |first, count| ShopCommand::InitItems {
            first,
            count,
            stock: whole(9),
            price: whole(1),
        })
        .await;
        init_orders(&desk, 1, 1).await;
        desk.set_outside(PAY).await.unwrap();
        // So it looks as soon as it is decided.
        desk.end_waiting();
        let go_on = hold_up(&handle);
        let mut waiting = Box::pin(desk.checkout(CheckoutRequest::new(id("0"))));
        // It is submitted now, and comes first.
        let submitted =
            std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(submitted.await);
        let checkout = CheckoutOrder { order: id("0"), deadline_ms: 1_000, key: None, chosen: None };
        let (rest, decided) = submission(&[
            asked(ShopCommand::Cancel { order: id("0") }),
            asked(ShopCommand::Answer { key: first("0"), side: Side::Pay, said: Said::Undone }),
            asked(ShopCommand::SetOutside { outside: Sides::NONE }),
            asked(ShopCommand::InitOrders {
                first: 0,
                count: 1,
                items: 1,
                users: 1,
                price: whole(1),
                seed: 1,
            }),
            asked(ShopCommand::Checkout(checkout)),
        ]);
        handle.submit(rest).unwrap();
        drop(go_on);
        let told = waiting.await.unwrap();
        assert!(matches!(told, CheckoutAnswer::Open { tr: TrNum::FIRST, .. }), "{told:?}");
        decided.recv().unwrap().unwrap();
        let second = desk.order(id("0")).await.unwrap().unwrap().row.order.state;
        assert!(matches!(second, OrderState::Paid(tr) if tr > TrNum::FIRST), "{second:?}");
    });
}

/// Participants `payer`, whose funds and cap are 5 USD, and `payee`.
fn open_for_business(hub: &Hub) {
    let name = |text| Name::new(text).unwrap();
    let limit = |participant| Admin::InitialPositionAndLimits {
        participant,
        currency: usd(),
        net_debit_cap: Amount(50_000),
        initial_position: Amount::ZERO,
    };
    let (account, amount) = (AccountId(2), Amount(50_000));
    let commands = [
        Admin::CreateParticipant { name: name("payer"), currency: usd() },
        Admin::CreateParticipant { name: name("payee"), currency: usd() },
        limit(PAYER),
        limit(PAYEE),
        Admin::FundsIn { id: TransferId(1 << 100), account, currency: usd(), amount },
    ]
    .map(Command::Admin);
    let (submission, answer) = submission(&commands);
    hub.handle().submit(submission).unwrap();
    let outcomes = answer.recv().unwrap().unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.code.is_none()), "{outcomes:?}");
}

/// What payer and payee stand at, and how many transfers are open.
fn positions(hub: &Hub) -> (i128, i128, usize) {
    let (send, receive) = std::sync::mpsc::channel();
    let question = move |core: &holdfast_hub::Core<holdfast_store::LocalStore>| {
        let store = core.store();
        let value = |account| store.account(AccountId(account)).unwrap().value.0;
        let open = store.open_transfers(TransferNo(0), usize::MAX).len();
        send.send((value(1), value(3), open)).unwrap();
    };
    hub.handle().ask(Box::new(question)).unwrap();
    receive.recv().unwrap()
}

fn by_transfers(secret: u8) -> Charging {
    let (unit, secret) = (Amount(10_000), Secret([secret; 32]));
    Charging::Transfers(ByTransfers { payee: PAYEE, currency: usd(), unit, secret })
}

/// Orders that charge positions: limits hold, what is open survives a restart and is settled after it, and the auditor agrees.
#[test]
fn checkouts_charge_positions_over_a_restart() {
    let fs = SimFs::new(9);
    let hub = start(&fs);
    open_for_business(&hub);
    let desk = hub.handle().shop().clone();
    let stock_outside = Sides { pay: false, stock: true };
    in_time(async {
        assert_eq!(desk.participant(Name::new("PAYEE").unwrap()).await, Ok(Some(PAYEE)));
        done(&desk, ShopCommand::CreateItem { id: id("i"), stock: whole(100), price: whole(1) }).await;
        desk.set_charging(by_transfers(1)).await.unwrap();
        desk.set_charging(by_transfers(2)).await.unwrap();
        assert_eq!(desk.charging().await, Ok(by_transfers(1)), "the first secret stays");
        let mut all = JoinSet::new();
        for number in 0..20 {
            let (desk, name) = (desk.clone(), format!("o{number}"));
            all.spawn(async move {
                order(&desk, &name, "payer").await;
                desk.checkout(CheckoutRequest::new(id(&name))).await.unwrap()
            });
        }
        let answers = all.join_all().await;
        let paid = answers.iter().filter(|answer| matches!(answer, CheckoutAnswer::Paid { .. })).count();
        assert_eq!((paid, stock(&desk).await), (5, 95), "as far as the funds go");
    });
    assert_eq!(positions(&hub), (50_000, -50_000, 0));
    let (more, answer) = submission(&[Command::Admin(Admin::FundsIn {
        id: TransferId(2 << 100),
        account: AccountId(2),
        currency: usd(),
        amount: Amount(20_000),
    })]);
    hub.handle().submit(more).unwrap();
    answer.recv().unwrap().unwrap();
    let (lifted, answer) = submission(&[Command::Admin(Admin::SetLimit {
        participant: PAYER,
        currency: usd(),
        net_debit_cap: Amount(70_000),
        alarm_percentage: 100,
    })]);
    hub.handle().submit(lifted).unwrap();
    answer.recv().unwrap().unwrap();
    in_time(async {
        desk.set_outside(stock_outside).await.unwrap();
        for name in ["p", "q"] {
            order(&desk, name, "payer").await;
            let look = CheckoutRequest { wait_ms: Some(0), ..CheckoutRequest::new(id(name)) };
            assert!(matches!(desk.checkout(look).await, Ok(CheckoutAnswer::Open { .. })));
        }
    });
    assert_eq!(positions(&hub), (70_000, -50_000, 2));
    drop((desk, hub));
    let hub = start(&fs);
    let desk = hub.handle().shop().clone();
    in_time(async {
        assert_eq!(desk.charging().await, Ok(by_transfers(1)));
        let (_, now) = desk.answer(first("p"), Side::Stock, Said::Taken).await.unwrap();
        assert_eq!(now, CheckoutAnswer::Paid { tr: TrNum::FIRST });
        desk.cancel(id("q")).await.unwrap();
    });
    assert_eq!(positions(&hub), (60_000, -60_000, 0));
    drop((desk, hub));
    verifies(&fs);
}
