//! Checkouts in batches, at any node: each record is answered in its place, as in one process.

use holdfast_client::{Batch, Checkout, CheckoutReply, Client, Command};
use holdfast_domain::command::Lookup;
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::shop::{TrNum, Why};

use crate::support::shop::{item, order_at, post};
use crate::support::world::{client, on_runtime};
use crate::world::World;

const NODES: usize = 3;
const MANY: u64 = 300;
/// This user has nothing.
const POOR: u64 = MANY;

fn checkout(order: &str) -> Checkout {
    Checkout::of(order.parse().expect("an id"))
}

#[test]
fn checkouts_go_into_batches_at_any_node() {
    let Some(mut world) = World::beside_others() else { return };
    world.add_nodes(NODES);
    post(world.node(0), &format!("/payment/batch_init/{}/1", MANY + 1));
    post(world.node(1), &format!("/payment/pay/{POOR}/1"));
    let (plenty, none) = (item(world.node(2), 1, 1_000), item(world.node(2), 1, 0));
    let order = |user: u64, item: &str| {
        let at = usize::try_from(user).expect("few");
        order_at([world.node(at), world.node(at + 1)], &user.to_string(), item, 1)
    };
    let orders: Vec<String> = (0..MANY).map(|user| order(user, &plenty)).collect();
    let (poor, sold_out) = (order(POOR, &plenty), order(1, &none));

    on_runtime(async {
        let mut clients: Vec<Client> = Vec::new();
        for node in 0..NODES {
            clients.push(client(world.node(node)).await);
        }
        let tr = TrNum::FIRST;
        // Other records stand between them, and have their own answers.
        let lookup = Lookup { id: TransferId(7), source: ParticipantId(1) };
        let mut batch = Batch::default();
        batch.push(&checkout(&orders[0]).into()).expect("a record");
        batch.push(&Command::Lookup(lookup)).expect("a record");
        for order in [poor.as_str(), &sold_out, "nobody"] {
            batch.push(&checkout(order).into()).expect("a record");
        }
        let replies = clients[1].batch(batch).await.expect("an answer");
        assert_eq!((replies.len(), replies[1].code), (5, 3208), "{replies:?}");
        let read: Vec<_> = replies.iter().map(CheckoutReply::from_reply).collect();
        assert_eq!(
            [read[0], read[2], read[3], read[4]],
            [
                Some(CheckoutReply::Paid { tr }),
                Some(CheckoutReply::Failed { tr, why: Why::Pay }),
                Some(CheckoutReply::Failed { tr, why: Why::Stock }),
                Some(CheckoutReply::Refused { code: 3200 }),
            ]
        );
        // Calls of many callers share requests; two nodes are asked for each order, and it is charged once.
        let calls: Vec<_> = orders[1..]
            .iter()
            .enumerate()
            .flat_map(|(at, order)| [(at, order), (at + 1, order)])
            .map(|(node, order)| {
                let (client, order) = (clients[node % NODES].clone(), checkout(order));
                tokio::spawn(async move { client.checkout(order).await })
            })
            .collect();
        for call in calls {
            let told = call.await.expect("a call").expect("an answer");
            let paid = matches!(told, CheckoutReply::Paid { tr: by } | CheckoutReply::AlreadyPaid { tr: by } if by == tr);
            assert!(paid, "{told:?}");
        }
    });
    let paid = i64::try_from(MANY).expect("few");
    assert_eq!(world.count("SELECT count(*) FROM orders WHERE paid"), paid);
    assert_eq!(world.count("SELECT sum(credit)::bigint FROM users"), 0);
    assert_eq!(world.count(&format!("SELECT 1000 - stock FROM items WHERE item_id = '{plenty}'")), paid);
    world.verify();
}
