//! The shop through a running hub: nobody polls, nobody hangs, sums are exact at once, and everything survives a restart.

use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, Millis, TransferNo};
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
use holdfast_engine::{CheckoutRequest, Shop as _, ShopError};
use holdfast_hub::limits::QUESTIONS_PER_TURN_MAX;
use holdfast_hub::shop::{ShopEvent, ShopEvents};
use holdfast_hub::{Hub, HubHandle, HubShop};
use holdfast_log::SimFs;
use holdfast_store::Tables;
use tokio::task::{JoinHandle, JoinSet};

use crate::history::sound;
use crate::support::{
    self, PAYEE, PAYER, decided, funds_in, in_time, start_now, submission, submitted, two_participants, usd,
};

pub(crate) fn whole(number: u64) -> Whole {
    Whole::new(number).unwrap()
}

pub(crate) fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A running hub and its shop.
fn running(fs: &SimFs) -> (Hub, HubShop) {
    let hub = start_now(fs);
    let shop = hub.handle().shop().clone();
    (hub, shop)
}

fn first(order: &str) -> TryKey {
    TryKey { order_id: id(order), tr_num: TrNum::FIRST }
}

pub(crate) async fn done(shop: &HubShop, command: ShopCommand) {
    let outcome = shop.decide(command).await.unwrap();
    assert!(!matches!(outcome, ShopOutcome::Refused(_)), "{outcome:?}");
}

async fn init(shop: &HubShop, count: u64, command: impl Fn(u64, u32) -> ShopCommand) {
    for piece in init_in_pieces(count, command) {
        done(shop, piece).await;
    }
}

/// Orders of any of so many users and items, of price 1.
async fn init_orders(shop: &HubShop, count: u64, of: u64) {
    let (items, users, price, seed) = (of, of, whole(1), shop.draw());
    init(shop, count, |first, count| ShopCommand::InitOrders { first, count, items, users, price, seed })
        .await;
}

/// User `u`, item `i` of price 1, and an order of one of it.
async fn fill(shop: &HubShop, credit: u64, stock: u64) {
    done(shop, ShopCommand::CreateUser { id: id("u"), credit: whole(credit) }).await;
    done(shop, ShopCommand::CreateItem { id: id("i"), stock: whole(stock), price: whole(1) }).await;
    order(shop, "o", "u").await;
}

/// The same without credit and with the payment side outside; what the shop tells from then on.
async fn fill_with_payment_outside(shop: &HubShop) -> ShopEvents {
    fill(shop, 0, 5).await;
    shop.set_outside(PAY).await.unwrap();
    shop.listen()
}

async fn order(shop: &HubShop, name: &str, user: &str) {
    done(shop, ShopCommand::CreateOrder { id: id(name), user: id(user) }).await;
    done(shop, ShopCommand::AddItem { order: id(name), item: id("i"), quantity: whole(1) }).await;
}

async fn credit(shop: &HubShop, user: &str) -> u64 {
    shop.user(id(user)).await.unwrap().unwrap().credit.get()
}

async fn stock(shop: &HubShop) -> u64 {
    shop.item(id("i")).await.unwrap().unwrap().stock.get()
}

fn verifies(fs: &SimFs) {
    assert!(!sound(fs).store.checkpoints.is_empty(), "a checkpoint was compared");
}

/// A call to check out, on a task of its own.
fn checking_out(shop: &HubShop, request: CheckoutRequest) -> JoinHandle<Result<CheckoutAnswer, ShopError>> {
    let shop = shop.clone();
    tokio::spawn(async move { shop.checkout(request).await })
}

/// User `0` and item `0`, with as much as anybody wants.
async fn init_one_each(shop: &HubShop) {
    let (credit, stock, price) = (whole(1_000_000), whole(1_000_000), whole(1));
    init(shop, 1, |first, count| ShopCommand::InitUsers { first, count, credit }).await;
    init(shop, 1, |first, count| ShopCommand::InitItems { first, count, stock, price }).await;
}

#[test]
fn a_thousand_at_once_on_a_hundred_units_pay_exactly_a_hundred() {
    let fs = SimFs::new(1);
    let (hub, shop) = running(&fs);
    in_time(async {
        done(&shop, ShopCommand::CreateItem { id: id("i"), stock: whole(100), price: whole(1) }).await;
        init(&shop, 1_000, |first, count| ShopCommand::InitUsers { first, count, credit: whole(1) }).await;
        let mut made = JoinSet::new();
        for number in 0..1_000_u64 {
            let shop = shop.clone();
            // Users come more than once.
            let user = (number * number % 997).to_string();
            made.spawn(async move { order(&shop, &format!("o{number}"), &user).await });
        }
        made.join_all().await;
        let mut all = JoinSet::new();
        for number in 0..1_000 {
            let shop = shop.clone();
            all.spawn(async move {
                shop.checkout(CheckoutRequest::new(id(&format!("o{number}")))).await.unwrap()
            });
        }
        let answers = all.join_all().await;
        let paid = answers.iter().filter(|answer| matches!(answer, CheckoutAnswer::Paid { .. })).count();
        let failed = answers.iter().filter(|answer| matches!(answer, CheckoutAnswer::Failed { .. })).count();
        assert_eq!((paid, failed), (100, 900));
        let mut left = 0;
        for number in 0..1_000 {
            left += credit(&shop, &number.to_string()).await;
        }
        assert_eq!((stock(&shop).await, left), (0, 900), "at once after the last answer");
    });
    drop(hub);
    verifies(&fs);
}

#[test]
fn what_is_paid_is_found_after_a_restart_and_answered_again() {
    let fs = SimFs::new(2);
    let (hub, shop) = running(&fs);
    let keyed = || {
        let key = Some(IdempotencyKey { key: "key".into(), body: Fingerprint(1) });
        CheckoutRequest { key, ..CheckoutRequest::new(id("o")) }
    };
    let paid = CheckoutAnswer::Paid { tr: TrNum::FIRST };
    in_time(async {
        fill(&shop, 5, 5).await;
        assert_eq!(shop.checkout(keyed()).await, Ok(paid));
        init_orders(&shop, 4_100, 10).await;
        assert_eq!(shop.counts().await.unwrap().orders, 4_100);
    });
    drop((shop, hub));
    let (hub, shop) = running(&fs);
    in_time(async {
        let view = shop.order(id("o")).await.unwrap().unwrap();
        assert_eq!((view.row.order.state, view.open), (OrderState::Paid(TrNum::FIRST), None));
        assert_eq!(view.row.order.items.lines().len(), 1);
        assert_eq!(shop.order(id("none")).await.unwrap(), None);
        let again = shop.checkout(CheckoutRequest::new(id("o"))).await;
        assert_eq!(again, Ok(CheckoutAnswer::AlreadyPaid { tr: TrNum::FIRST }));
        assert_eq!(shop.checkout(keyed()).await, Ok(paid), "the stored answer");
        let other = IdempotencyKey { key: "key".into(), body: Fingerprint(2) };
        let other = CheckoutRequest { key: Some(other), ..CheckoutRequest::new(id("o")) };
        assert_eq!(shop.checkout(other).await, Err(ShopError::Refused(ShopRefusal::KeyReused)));
        assert_eq!((credit(&shop, "u").await, stock(&shop).await), (4, 4));
        let order: OrderId = id("o");
        let again = shop.decide(ShopCommand::CreateOrder { id: order, user: id("u") }).await;
        assert!(matches!(again, Ok(ShopOutcome::Refused(_))));
    });
    drop(hub);
    verifies(&fs);
}

const PAY: Sides = Sides { pay: true, stock: false };
pub(crate) const STOCK: Sides = Sides { pay: false, stock: true };

#[test]
fn callers_of_an_open_checkout_wait_for_its_end_and_all_hear_it() {
    let (_hub, shop) = running(&SimFs::new(3));
    in_time(async {
        fill(&shop, 0, 5).await;
        shop.set_outside(PAY).await.unwrap();
        assert_eq!(shop.outside().await, Ok(PAY));
        let mut events = shop.listen();
        let mut callers = JoinSet::new();
        for _ in 0..50 {
            let shop = shop.clone();
            callers.spawn(async move { shop.checkout(CheckoutRequest::new(id("o"))).await.unwrap() });
        }
        let asked = events.next().await.unwrap().unwrap();
        match &asked[..] {
            [ShopEvent::Asked { side: Side::Pay, message }] => assert_eq!(message.body.type_name(), "pay"),
            other => panic!("{other:?}"),
        }
        // One that does not wait sees the rest of them.
        let look = CheckoutRequest { wait_ms: Some(0), ..CheckoutRequest::new(id("o")) };
        let open = shop.checkout(look).await.unwrap();
        assert!(matches!(open, CheckoutAnswer::Open { waits, .. } if waits.sides == PAY));
        let page = shop.open_checkouts(Some(CheckoutState::Pending), None, 10).await.unwrap();
        assert_eq!((page.checkouts.len(), page.next), (1, None));
        let cancelling = shop.open_checkouts(Some(CheckoutState::Cancelling), None, 10).await.unwrap();
        assert!(cancelling.checkouts.is_empty());
        let (counts, now) = shop.answer(first("o"), Side::Pay, Said::Refused).await.unwrap();
        let failed = CheckoutAnswer::Failed { tr: TrNum::FIRST, why: Why::Pay };
        assert_eq!((counts, now), (true, failed));
        for answer in callers.join_all().await {
            // Those who came after the end have begun a new try, which is open.
            assert!(answer == failed || answer.tr() > TrNum::FIRST, "{answer:?}");
        }
        let ended = events.next().await.unwrap().unwrap();
        assert!(matches!(&ended[..], [ShopEvent::Ended(end)] if end.answer == failed), "{ended:?}");
        assert_eq!(stock(&shop).await, 5, "given back before anybody was told");
        shop.publish_metrics().await.unwrap();
    });
}

/// Nobody has asked the sides yet: what they owe is known all the same, over as many pages as it takes.
#[test]
fn what_is_owed_is_read_from_what_is_open() {
    let fs = SimFs::new(14);
    let (_hub, shop) = running(&fs);
    in_time(async {
        let count = PAGE_MAX + 7;
        init_one_each(&shop).await;
        init_orders(&shop, count as u64, 1).await;
        shop.set_outside(STOCK).await.unwrap();
        let begun = shop.now();
        for number in 0..count {
            let (deadline_ms, wait_ms) = (Some(600_000), Some(0));
            let order = CheckoutRequest::new(id(&number.to_string()));
            shop.checkout(CheckoutRequest { deadline_ms, wait_ms, ..order }).await.unwrap();
        }
        let owed = async |side, since| shop.owed(side, since).await.unwrap();
        assert_eq!(owed(Side::Stock, Millis::MAX).await, [], "to be asked for something is not to owe it");
        for number in 0..count {
            shop.cancel(id(&number.to_string())).await.unwrap();
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
        shop.answer(first("3"), Side::Stock, Said::Undone).await.unwrap();
        assert_eq!(owed(Side::Stock, Millis::MAX).await.len(), count - 1);
    });
}

#[test]
fn trouble_with_a_side_is_new_after_a_start_and_after_it_was_well() {
    let (hub, shop) = running(&SimFs::new(15));
    let news = |why| shop.note_trouble(Side::Stock, why);
    assert_eq!([news(Some("x")), news(Some("y")), news(None), news(None)], [true, false, false, false]);
    assert!(news(Some("z")) && shop.note_trouble(Side::Pay, Some("p")));
    let troubles = hub.handle().shop().troubles();
    assert_eq!((troubles.of(Side::Pay), troubles.of(Side::Stock)), (Some("p"), Some("z")));
}

#[test]
fn a_silent_side_is_cancelled_at_the_deadline_without_any_request() {
    let fs = SimFs::new(4);
    let (hub, shop) = running(&fs);
    in_time(async {
        let mut events = fill_with_payment_outside(&shop).await;
        let quick =
            CheckoutRequest { deadline_ms: Some(50), wait_ms: Some(1_000), ..CheckoutRequest::new(id("o")) };
        let waiting = checking_out(&shop, quick);
        let mut asked = Vec::new();
        while asked.len() < 2 {
            for event in events.next().await.unwrap().unwrap().iter() {
                let ShopEvent::Asked { message, .. } = event else { panic!("{event:?}") };
                asked.push(message.body.type_name());
            }
        }
        assert_eq!(asked, ["pay", "can"]);
        assert_eq!(stock(&shop).await, 5);
        let answer = waiting.await.unwrap().unwrap();
        assert!(matches!(answer, CheckoutAnswer::Open { waits, .. } if waits.cancelling), "{answer:?}");
    });
    // What is open goes on after a restart.
    drop((shop, hub));
    let (hub, shop) = running(&fs);
    in_time(async {
        let mut events = shop.listen();
        assert_eq!(shop.retry(id("o")).await.unwrap().tr(), TrNum::FIRST);
        let asked = events.next().await.unwrap().unwrap();
        assert!(
            matches!(&asked[..], [ShopEvent::Asked { message, .. }] if message.body.type_name() == "can")
        );
        let (_, now) = shop.answer(first("o"), Side::Pay, Said::Undone).await.unwrap();
        assert_eq!(now, CheckoutAnswer::Failed { tr: TrNum::FIRST, why: Why::Deadline });
        assert!(shop.cancel(id("o")).await.is_err());
    });
    drop(hub);
    verifies(&fs);
}

#[test]
fn who_waits_when_the_hub_ends_is_told() {
    let (hub, shop) = running(&SimFs::new(5));
    in_time(async {
        let mut events = fill_with_payment_outside(&shop).await;
        let waiting = checking_out(&shop, CheckoutRequest::new(id("o")));
        events.next().await.unwrap().unwrap();
        tokio::task::spawn_blocking(move || drop(hub)).await.unwrap();
        assert!(matches!(waiting.await.unwrap(), Err(ShopError::Hub(_))));
        assert_eq!(events.next().await, Ok(None));
    });
}

/// Before the server lets its connections go: the hub still runs, and can say where the checkout stands.
#[test]
fn who_waits_when_the_server_ends_is_told_where_it_stands() {
    let (_hub, shop) = running(&SimFs::new(6));
    in_time(async {
        let mut events = fill_with_payment_outside(&shop).await;
        let long = CheckoutRequest { wait_ms: Some(60_000), ..CheckoutRequest::new(id("o")) };
        let waiting = checking_out(&shop, long.clone());
        events.next().await.unwrap().unwrap();
        shop.end_waiting();
        for answer in [waiting.await.unwrap(), shop.checkout(long).await] {
            assert!(
                matches!(answer, Ok(CheckoutAnswer::Open { waits, .. }) if waits.sides == PAY),
                "{answer:?}"
            );
        }
        // Whoever listens still hears of what goes on.
        shop.answer(first("o"), Side::Pay, Said::Taken).await.unwrap();
        let ended = events.next().await.unwrap().unwrap();
        assert!(matches!(&ended[..], [ShopEvent::Ended(_)]), "{ended:?}");
    });
}

/// Holds the writer until the sender is dropped or used. It has stopped when this returns.
fn hold_up(hub: &HubHandle) -> mpsc::Sender<()> {
    let (go_on, wait) = mpsc::channel::<()>();
    let (tell, stopped) = mpsc::channel();
    hub.ask(Box::new(move |_| {
        tell.send(()).unwrap();
        wait.recv().ok();
    }))
    .unwrap();
    stopped.recv().unwrap();
    go_on
}

fn asked(command: ShopCommand) -> Command {
    Command::Shop(Box::new(command))
}

/// What the hub works off while it ends is heard of by whoever listens: the webhook keeps it for the next start.
#[test]
fn the_last_outcomes_are_heard_before_the_end() {
    let (hub, shop) = running(&SimFs::new(7));
    let handle = hub.handle();
    in_time(async move {
        fill(&shop, 5, 5).await;
        let mut events = shop.listen();
        let go_on = hold_up(&handle);
        let checkout = CheckoutOrder { order: id("o"), deadline_ms: 1_000, key: None, chosen: None };
        let answer = submitted(&handle, &[asked(ShopCommand::Checkout(checkout))]);
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
    let (hub, shop) = running(&SimFs::new(8));
    let handle = hub.handle();
    on_one_thread(async {
        fill_with_payment_outside(&shop).await;
        order(&shop, "p", "u").await;
        for (order_name, said, end) in [
            ("o", Said::Taken, CheckoutAnswer::Paid { tr: TrNum::FIRST }),
            ("p", Said::Refused, CheckoutAnswer::Failed { tr: TrNum::FIRST, why: Why::Pay }),
        ] {
            let waiting = waits_for(&shop, order_name).await;
            let go_on = hold_up(&handle);
            let answer = ShopCommand::Answer { key: first(order_name), side: Side::Pay, said };
            let answered = submitted(&handle, &[asked(answer)]);
            // A turn runs so many questions at most, and then its frame: the look comes in a later turn.
            (0..QUESTIONS_PER_TURN_MAX).for_each(|_| handle.ask(Box::new(|_| ())).unwrap());
            let_pass(WAIT).await;
            drop(go_on);
            assert_eq!(waiting.await.unwrap(), Ok(end));
            assert!(answered.recv().unwrap().is_ok());
        }
    });
}

/// How long those wait for whom time is let pass.
const WAIT: Duration = Duration::from_secs(60);

/// A caller of that order, whose payment is outside, that waits for its end.
async fn waits_for(shop: &HubShop, name: &str) -> JoinHandle<Result<CheckoutAnswer, ShopError>> {
    let mut events = shop.listen();
    let wait_ms = u32::try_from(WAIT.as_millis()).ok();
    let waiting = checking_out(shop, CheckoutRequest { wait_ms, ..CheckoutRequest::new(id(name)) });
    events.next().await.unwrap().unwrap();
    // Answers go out in their order: when this one is here, the caller before it has its own, and waits.
    done(shop, ShopCommand::AddFunds { user: id("u"), amount: Whole::ZERO }).await;
    some_turns().await;
    waiting
}

fn on_one_thread(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work);
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
    let (hub, shop) = running(&SimFs::new(10));
    let handle = hub.handle();
    on_one_thread(async {
        fill_with_payment_outside(&shop).await;
        let waiting = waits_for(&shop, "o").await;
        let go_on = hold_up(&handle);
        let_pass(WAIT).await;
        drop(go_on);
        // From here on this thread does not let the caller go on. Its look comes first, then this one, then the answer.
        drop(hold_up(&handle));
        let answer = ShopCommand::Answer { key: first("o"), side: Side::Pay, said: Said::Taken };
        let answered = submitted(&handle, &[asked(answer)]);
        answered.recv().unwrap().unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), CheckoutAnswer::Paid { tr: TrNum::FIRST });
    });
}

/// A refusal would read as if nothing had been tried.
#[test]
fn who_cannot_look_any_more_is_told_that_it_was_tried() {
    let (hub, shop) = running(&SimFs::new(11));
    let handle = hub.handle();
    on_one_thread(async {
        fill_with_payment_outside(&shop).await;
        let waiting = waits_for(&shop, "o").await;
        let go_on = hold_up(&handle);
        while handle.ask(Box::new(|_| ())).is_ok() {}
        let_pass(WAIT).await;
        let told = waiting.await.unwrap();
        assert!(matches!(told, Ok(CheckoutAnswer::Open { waits, .. }) if waits.sides == PAY), "{told:?}");
        drop(go_on);
    });
}

/// Its try is ended, another order takes its place and is paid, all before it can look: that is not how its own try ended.
#[test]
fn who_waited_for_an_order_is_not_told_of_the_one_in_its_place() {
    let (hub, shop) = running(&SimFs::new(9));
    let handle = hub.handle();
    in_time(async move {
        init_one_each(&shop).await;
        init_orders(&shop, 1, 1).await;
        shop.set_outside(PAY).await.unwrap();
        // So it looks as soon as it is decided.
        shop.end_waiting();
        let go_on = hold_up(&handle);
        let mut waiting = Box::pin(shop.checkout(CheckoutRequest::new(id("0"))));
        // It is submitted now, and comes first.
        let is_pending =
            std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(is_pending.await);
        let checkout = CheckoutOrder { order: id("0"), deadline_ms: 1_000, key: None, chosen: None };
        let anew =
            ShopCommand::InitOrders { first: 0, count: 1, items: 1, users: 1, price: whole(1), seed: 1 };
        let rest = [
            ShopCommand::Cancel { order: id("0") },
            ShopCommand::Answer { key: first("0"), side: Side::Pay, said: Said::Undone },
            ShopCommand::SetOutside { outside: Sides::NONE },
            anew,
            ShopCommand::Checkout(checkout),
        ];
        let decided = submitted(&handle, &rest.map(asked));
        drop(go_on);
        let told = waiting.await.unwrap();
        assert!(matches!(told, CheckoutAnswer::Open { tr: TrNum::FIRST, .. }), "{told:?}");
        decided.recv().unwrap().unwrap();
        let second = shop.order(id("0")).await.unwrap().unwrap().row.order.state;
        assert!(matches!(second, OrderState::Paid(tr) if tr > TrNum::FIRST), "{second:?}");
    });
}

/// What payer and payee stand at, and how many transfers are open.
fn positions(hub: &Hub) -> (i128, i128, usize) {
    support::asked(&hub.handle(), |core| {
        let store = core.store();
        let value = |account| store.account(AccountId(account)).unwrap().value.0;
        (value(1), value(3), store.open_transfers(TransferNo(0), usize::MAX).len())
    })
}

fn by_transfers(secret: u8) -> Charging {
    let (unit, secret) = (Amount(10_000), Secret([secret; 32]));
    Charging::Transfers(ByTransfers { payee: PAYEE, currency: usd(), unit, secret })
}

/// Orders that charge positions: limits hold, what is open survives a restart and is settled after it, and the auditor agrees.
#[test]
fn checkouts_charge_positions_over_a_restart() {
    let fs = SimFs::new(9);
    let (hub, shop) = running(&fs);
    let opened = decided(&hub.handle(), &two_participants(50_000));
    assert!(opened.iter().all(|outcome| outcome.code.is_none()), "{opened:?}");
    in_time(async {
        assert_eq!(shop.participant(Name::new("PAYEE").unwrap()).await, Ok(Some(PAYEE)));
        done(&shop, ShopCommand::CreateItem { id: id("i"), stock: whole(100), price: whole(1) }).await;
        shop.set_charging(by_transfers(1)).await.unwrap();
        shop.set_charging(by_transfers(2)).await.unwrap();
        assert_eq!(shop.charging().await, Ok(by_transfers(1)), "the first secret stays");
        let mut all = JoinSet::new();
        for number in 0..20 {
            let (shop, name) = (shop.clone(), format!("o{number}"));
            all.spawn(async move {
                order(&shop, &name, "payer").await;
                shop.checkout(CheckoutRequest::new(id(&name))).await.unwrap()
            });
        }
        let answers = all.join_all().await;
        let paid = answers.iter().filter(|answer| matches!(answer, CheckoutAnswer::Paid { .. })).count();
        assert_eq!((paid, stock(&shop).await), (5, 95), "as far as the funds go");
    });
    assert_eq!(positions(&hub), (50_000, -50_000, 0));
    let (participant, net_debit_cap) = (PAYER, Amount(70_000));
    let limit = Admin::SetLimit { participant, currency: usd(), net_debit_cap, alarm_percentage: 100 };
    decided(&hub.handle(), &[funds_in(2, AccountId(2), 20_000)]);
    decided(&hub.handle(), &[Command::Admin(limit)]);
    in_time(async {
        shop.set_outside(STOCK).await.unwrap();
        for name in ["p", "q"] {
            order(&shop, name, "payer").await;
            let look = CheckoutRequest { wait_ms: Some(0), ..CheckoutRequest::new(id(name)) };
            assert!(matches!(shop.checkout(look).await, Ok(CheckoutAnswer::Open { .. })));
        }
    });
    assert_eq!(positions(&hub), (70_000, -50_000, 2));
    drop((shop, hub));
    let (hub, shop) = running(&fs);
    in_time(async {
        assert_eq!(shop.charging().await, Ok(by_transfers(1)));
        let (_, now) = shop.answer(first("p"), Side::Stock, Said::Taken).await.unwrap();
        assert_eq!(now, CheckoutAnswer::Paid { tr: TrNum::FIRST });
        shop.cancel(id("q")).await.unwrap();
    });
    assert_eq!(positions(&hub), (60_000, -60_000, 0));
    drop((shop, hub));
    verifies(&fs);
}
