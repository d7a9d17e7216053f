//! A side on Kafka that answers with Kafka's own transactions, as many frameworks do. Their marks take offsets in `outcomes` that nobody
//! is given: neither a consumer nor one who takes a partition over may wait for them.

use holdfast_kafka::Topic;
use holdfast_services::PATIENCE;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::json;

use crate::called::says;
use crate::shop::begin;
use crate::support::shop::{new_item, order, post};
use crate::world::World;

const ON_KAFKA: [&str; 2] = ["--set", "shop.stock=kafka"];
const DEADLINE_MS: u64 = 600_000;

struct Warehouse {
    producer: BaseProducer,
    item: String,
}

impl Warehouse {
    fn new(world: &World, item: String) -> Warehouse {
        Warehouse { producer: world.transactional(&world.topics().name(Topic::Outcomes)), item }
    }

    /// Says that one was taken for that order, and means it or not.
    fn takes(&self, world: &World, order: &str, means_it: bool) {
        let topics = world.topics();
        let (name, partition) =
            (topics.name(Topic::Outcomes), topics.partition(Topic::Outcomes, order.as_bytes()));
        let key = format!(r#"{{"order_id":"{order}","tr_num":1}}"#);
        let value = format!(r#"{{"type":"ssucc","items":[{{"id":"{}","amnt":1}}]}}"#, self.item);
        self.producer.begin_transaction().expect("one at a time");
        let partition = i32::try_from(partition).expect("few");
        let record = BaseRecord::to(&name).partition(partition).key(&key).payload(&value);
        self.producer.send(record).map_err(|(error, _)| error).expect("there is room");
        self.producer.flush(PATIENCE).expect("Kafka takes it");
        let ended = match means_it {
            true => self.producer.commit_transaction(PATIENCE),
            false => self.producer.abort_transaction(PATIENCE),
        };
        ended.expect("it ends");
    }
}

#[test]
fn a_side_that_answers_in_transactions() {
    const ORDERS: i64 = 12;
    let Some(mut world) = World::beside_others() else { return };
    world.add_nodes_with(2, &ON_KAFKA);
    post(world.node(0), "/payment/batch_init/1/100");
    let warehouse = Warehouse::new(&world, new_item(world.node(0), 1));
    let order = |world: &World| {
        let order = order(world.node(0), "0", &warehouse.item, 1);
        begin(world.node(0), &order, DEADLINE_MS);
        order
    };
    let orders: Vec<String> = (0..ORDERS).map(|_| order(&world)).collect();
    for order in &orders {
        warehouse.takes(&world, order, false);
        warehouse.takes(&world, order, true);
    }
    let paid = "SELECT count(*) FROM orders WHERE paid";
    world.await_count(paid, |paid| paid == ORDERS);
    // The last that lies in each partition is a mark, or nothing but marks lie behind what has to be read again.
    let orders: Vec<String> = (0..ORDERS).map(|_| order(&world)).collect();
    for order in &orders {
        warehouse.takes(&world, order, false);
    }
    world.take_node().kill();
    world.take_node().kill();
    world.add_nodes_with(1, &ON_KAFKA);
    for order in &orders {
        warehouse.takes(&world, order, true);
    }
    world.await_count(paid, |paid| paid == 2 * ORDERS);
    // It is gone, and an operator answers in its place; nobody does for a side that is inside.
    let last = order(&world);
    assert_eq!(says(world.node(0), &last, 1, "pay", "psucc").0, 409);
    let (status, told) = says(world.node(0), &last, 1, "stock", "ssucc");
    assert_eq!((status, &told["counted"]), (200, &json!(true)), "{told}");
    world.await_count(paid, |paid| paid == 2 * ORDERS + 1);
    assert_eq!(world.count("SELECT credit FROM users"), 100 - 2 * ORDERS - 1);
    world.verify();
}
