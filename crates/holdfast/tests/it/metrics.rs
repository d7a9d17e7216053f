//! What `/metrics` shows of open checkouts and of the vault. These figures are gathered when somebody asks for them.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::http::{exchange, figure, send};
use crate::support::server::{Server, any_port, folder, fresh_hub};
use crate::support::shop::{new_item, post, text};
use crate::support::wait::await_that;

#[track_caller]
fn assert_figures(server: &Server, expected: &[(&str, f64)]) {
    let shown: Vec<(&str, Option<f64>)> =
        expected.iter().map(|(name, _)| (*name, figure(server, name))).collect();
    let expected: Vec<(&str, Option<f64>)> =
        expected.iter().map(|(name, value)| (*name, Some(*value))).collect();
    assert_eq!(shown, expected);
}

/// Waits until the figure is more than zero.
#[track_caller]
fn await_figure(server: &Server, name: &str) {
    await_that(name, || figure::<f64>(server, name), |value| value.is_some_and(|value| value > 0.0));
}

/// A POST with a body that must be taken.
#[track_caller]
fn post_json(server: &Server, path: &str, body: &Value) -> Value {
    let answer = send(server, "POST", path, &body.to_string());
    assert!(matches!(answer.status, 200..=202), "POST {path}: {answer:?}");
    answer.json()
}

#[test]
fn the_shops_figures_are_shown() {
    let folder = folder();
    // It takes connections, and answers nobody.
    let warehouse = TcpListener::bind(any_port()).expect("a free port");
    let stock = format!("shop.stock=http://{}/steps", warehouse.local_addr().expect("an address"));
    let server = Server::with(folder.path(), any_port(), &[&stock]);
    let users = [0, 1, 2].map(|_| text(&post(&server, "/payment/create_user"), "user_id"));
    let items = [0, 1].map(|_| new_item(&server, 0));
    let orders =
        [0, 1, 2, 3].map(|_| text(&post(&server, &format!("/orders/create/{}", users[0])), "order_id"));
    post(&server, &format!("/orders/addItem/{}/{}/1", orders[0], items[0]));
    let checkout = format!("/shop/orders/checkout/{}?waitMs=0", orders[0]);
    let begun = exchange(&server, "POST", &checkout, "Idempotency-Key: once\r\n", b"").json();
    assert_eq!(begun["state"], "pending", "{begun}");
    assert_figures(
        &server,
        &[
            ("holdfast_checkouts_open", 1.0),
            ("holdfast_shop_users", 3.0),
            ("holdfast_shop_items", 2.0),
            ("holdfast_shop_orders_unpaid", 4.0),
            ("holdfast_shop_idempotency_keys", 1.0),
        ],
    );
    await_figure(&server, "holdfast_checkout_oldest_seconds");
}

#[test]
fn the_vaults_figures_are_shown() {
    let (_folder, server) = fresh_hub();
    let token = |wallet: &str, quantity: u64| json!({"wallet": wallet, "currency": "EUR", "quantity": quantity.to_string()});
    let mut tokens = vec![token("alice", 30), token("alice", 70), token("bob", 5)];
    tokens.resize(1_003, token("shattered", 1));
    post_json(&server, "/tokens/issue", &json!({"tokens": tokens}));
    let select = |spender: &str, wallet: &str, amount: u64| {
        let amount = amount.to_string();
        json!({"spender": spender, "wallet": wallet, "currency": "EUR", "amount": amount, "leaseMs": 86_400_000})
    };
    post_json(&server, "/tokens/select", &select("two", "alice", 100));
    let refused = send(&server, "POST", "/tokens/select", &select("poor", "alice", 101).to_string());
    assert_eq!(refused.status, 409);
    post_json(&server, "/tokens/select", &select("next", "bob", 5));
    assert_figures(
        &server,
        &[
            ("holdfast_token_selections_total", 2.0),
            ("holdfast_token_inputs_total", 3.0),
            ("holdfast_token_refused_total", 1.0),
            ("holdfast_token_conflicts_total", 0.0),
            ("holdfast_token_lease_ends_total", 0.0),
            ("holdfast_token_selections_by_inputs_total{up_to=\"1\"}", 1.0),
            ("holdfast_token_selections_by_inputs_total{up_to=\"2\"}", 2.0),
            ("holdfast_tokens", 1_003.0),
            ("holdfast_token_locks", 2.0),
            ("holdfast_token_fragmented_wallets", 1.0),
        ],
    );
    await_figure(&server, "holdfast_token_lock_age_max_seconds");
    std::thread::scope(|scope| {
        let mut waits = select("waits", "bob", 5);
        waits["waitMs"] = json!(60_000);
        let server = &server;
        let waiting = scope.spawn(move || post_json(server, "/tokens/select", &waits));
        await_figure(server, "holdfast_token_waiting");
        await_figure(server, "holdfast_token_waits_total");
        assert_eq!(exchange(server, "DELETE", "/tokens/locks/next", "", b"").status, 200);
        assert_eq!(waiting.join().expect("it gets what was freed")["sum"], "5");
    });
}
