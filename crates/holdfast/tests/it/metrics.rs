//! What `/metrics` shows of open checkouts and of the vault. These figures are gathered when somebody asks for them.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::http::exchange;
use crate::support::server::{Server, any_port, folder};

/// The figure of that name, labels and all.
fn figure(server: &Server, name: &str) -> Option<f64> {
    let all = exchange(server, "GET", "/metrics", "", b"").body;
    all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

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
    let deadline = Instant::now() + Duration::from_secs(30);
    while figure(server, name).is_none_or(|value| value <= 0.0) {
        assert!(Instant::now() < deadline, "{name} stays at {:?}", figure(server, name));
        std::thread::yield_now();
    }
}

#[track_caller]
fn post(server: &Server, path: &str, headers: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = exchange(server, "POST", path, headers, body.as_bytes());
    assert!(matches!(answer.status, 200..=202), "POST {path}: {answer:?}");
    answer.json()
}

#[test]
fn the_shops_figures_are_shown() {
    let folder = folder();
    // It takes connections, and answers nobody.
    let warehouse = TcpListener::bind(any_port()).expect("a free port");
    let stock = format!("shop.stock=http://{}/steps", warehouse.local_addr().expect("an address"));
    let server = Server::launch(Server::command(folder.path(), any_port()).args(["--set", &stock]));
    let id =
        |path: &str, name: &str| post(&server, path, "", &Value::Null)[name].as_str().unwrap().to_owned();
    let users = [0, 1, 2].map(|_| id("/payment/create_user", "user_id"));
    let items = [0, 1].map(|_| id("/stock/item/create/0", "item_id"));
    let orders = [0, 1, 2, 3].map(|_| id(&format!("/orders/create/{}", users[0]), "order_id"));
    post(&server, &format!("/orders/addItem/{}/{}/1", orders[0], items[0]), "", &Value::Null);
    let checkout = format!("/shop/orders/checkout/{}?waitMs=0", orders[0]);
    let begun = post(&server, &checkout, "Idempotency-Key: once\r\n", &Value::Null);
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
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    let token = |wallet: &str, quantity: u64| json!({"wallet": wallet, "currency": "EUR", "quantity": quantity.to_string()});
    let mut tokens = vec![token("alice", 30), token("alice", 70), token("bob", 5)];
    tokens.resize(1_003, token("shattered", 1));
    post(&server, "/tokens/issue", "", &json!({"tokens": tokens}));
    let select = |spender: &str, wallet: &str, amount: u64| {
        let amount = amount.to_string();
        json!({"spender": spender, "wallet": wallet, "currency": "EUR", "amount": amount, "leaseMs": 86_400_000})
    };
    post(&server, "/tokens/select", "", &select("two", "alice", 100));
    let refused = select("poor", "alice", 101).to_string();
    assert_eq!(exchange(&server, "POST", "/tokens/select", "", refused.as_bytes()).status, 409);
    post(&server, "/tokens/select", "", &select("next", "bob", 5));
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
        let waiting = scope.spawn(move || post(server, "/tokens/select", "", &waits));
        await_figure(server, "holdfast_token_waiting");
        await_figure(server, "holdfast_token_waits_total");
        assert_eq!(exchange(server, "DELETE", "/tokens/locks/next", "", b"").status, 200);
        assert_eq!(waiting.join().expect("it gets what was freed")["sum"], "5");
    });
}
