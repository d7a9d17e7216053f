//! How long the one deciding thread takes for a checkout. Never asserted: run it by hand.
//!
//! `cargo test -p holdfast-hub --test it shop_speed -- --ignored --nocapture`

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_domain::command::Command;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::records::Sealed;
use holdfast_domain::shop::{CheckoutOrder, ShopCommand};
use holdfast_hub::Core;
use holdfast_log::SimFs;
use holdfast_store::LocalStore;

use crate::shop::whole;
use crate::support::{LOG_ID, START};

const ROWS: u64 = 100_000;
const FRAME: usize = 2_000;

struct Spent {
    load: Duration,
    advance: Duration,
}

fn frame(core: &mut Core<LocalStore>, commands: &[Command], spent: &mut Spent) {
    let (bytes, commands) = Sealed::of(commands).into_parts();
    let header = core.next_header(u32::try_from(commands.len()).unwrap(), START, PrepareOrder::Arrival);
    let started = Instant::now();
    core.load(&commands).unwrap();
    spent.load += started.elapsed();
    let started = Instant::now();
    let effects = core.advance(&header, &commands, std::iter::once(bytes.as_slice()));
    spent.advance += started.elapsed();
    assert_eq!(effects.all(|step| &step.outcomes).count(), commands.len());
}

fn measure(name: &str, stock: u64, items: u64) {
    let fs: Arc<dyn holdfast_log::FileSystem> = Arc::new(SimFs::new(1));
    let mut core = Core::new(LocalStore::create(&fs, Path::new("/store"), LOG_ID).unwrap());
    let mut spent = Spent { load: Duration::ZERO, advance: Duration::ZERO };
    let shop = |command: ShopCommand| Command::Shop(Box::new(command));
    for first in (0..ROWS).step_by(4_000) {
        let (count, seed) = (4_000, 7);
        let all = [
            shop(ShopCommand::InitUsers { first, count, credit: whole(1_000_000) }),
            shop(ShopCommand::InitItems { first, count, stock: whole(stock), price: whole(1) }),
            shop(ShopCommand::InitOrders { first, count, items, users: ROWS, price: whole(1), seed }),
        ];
        frame(&mut core, &all, &mut spent);
    }
    let init = spent.advance + spent.load;
    spent = Spent { load: Duration::ZERO, advance: Duration::ZERO };
    let checkout = |number: u64| {
        let order = (number * 7_919 % ROWS).to_string().parse().unwrap();
        shop(ShopCommand::Checkout(CheckoutOrder { order, deadline_ms: 10_000, key: None, chosen: None }))
    };
    let all: Vec<Command> = (0..ROWS).map(checkout).collect();
    all.chunks(FRAME).for_each(|some| frame(&mut core, some, &mut spent));
    let per = |time: Duration| time.as_nanos() / u128::from(ROWS);
    println!(
        "{name}: init {} ns a row, checkout {} + {} ns: {} checkouts a second on the deciding thread",
        init.as_nanos() / u128::from(3 * ROWS),
        per(spent.load),
        per(spent.advance),
        1_000_000_000 / per(spent.load + spent.advance).max(1),
    );
}

#[test]
#[ignore = "a measurement"]
fn checkouts_a_second() {
    measure("warm-up", 1_000_000, ROWS);
    measure("all paid, many items", 1_000_000, ROWS);
    measure("all paid, one hot item", 1_000_000, 1);
    // One item in nine is not there, so one order in five fails.
    measure("one in five fails", 1_000_000, ROWS * 112 / 100);
    measure("most fail for want of stock", 1, 100);
}
