//! `GET /hub/transfers`: filters, pages, and the bound on what one request looks at.

use holdfast_domain::transfers::TransferState as S;
use serde_json::{Value, json};

use crate::admin_api::{IN, done, fulfil, movement, payment, prepare, two_banks};
use crate::support::http::{get, rows_of_all_pages, send};
use crate::support::server::fresh_hub;
use crate::support::world::{client, on_runtime};

fn behind(cursor: Option<&str>) -> String {
    cursor.map_or_else(String::new, |cursor| format!("&after={cursor}"))
}

#[test]
fn transfers_are_listed_page_by_page() {
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    let third = r#"{"name":"bank-c","currency":"USD"}"#;
    assert_eq!(send(&server, "POST", "/participants", third).status, 201);
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "100"), 202);
    for id in 1..=5 {
        prepare(&server, payment(id, if id == 4 { 1_000 } else { 1 }));
    }
    fulfil(&server, payment(2, 1));
    let ids = |page: &Value| -> Vec<u64> {
        let rows = page["transfers"].as_array().unwrap().iter();
        rows.map(|row| row["transferId"].as_str().unwrap()[24..].parse().unwrap()).collect()
    };
    let list = |query: &str| get(&server, &format!("/hub/transfers{query}")).json();
    let all = list("");
    // What is open comes first, then what has ended, in the order in which it ended.
    assert_eq!((ids(&all), &all["next"]), (vec![1, 3, 5, 4, 2], &Value::Null));
    assert_eq!(
        all["transfers"][0],
        json!({
            "transferId": "00000000-0000-0000-0000-000000000001", "state": "RESERVED", "transferState": "RESERVED",
            "payerFsp": "bank-a", "payeeFsp": "bank-b", "amount": "1", "currency": "USD",
            "expiration": all["transfers"][0]["expiration"],
        })
    );
    assert_eq!(ids(&list("?state=RESERVED")), [1, 3, 5]);
    assert_eq!(ids(&list("?state=COMMITTED&participant=BANK-B")), [2]);
    assert_eq!(ids(&list("?participant=bank-c")), [0_u64; 0]);
    let seen =
        rows_of_all_pages("transfers", |after| list(&format!("?state=RESERVED&limit=1{}", behind(after))));
    assert_eq!(ids(&json!({"transfers": seen})), [1, 3, 5]);
    for (query, code) in [
        ("?state=reserved", "3101"),
        ("?state=", "3101"),
        ("?colour=red", "3101"),
        ("?after=x", "3101"),
        ("?limit=-1", "3101"),
        ("?participant=nobody", "3200"),
    ] {
        assert_eq!(
            get(&server, &format!("/hub/transfers{query}")).refusal(),
            (400, code.to_owned()),
            "{query}"
        );
    }
    for (query, there_are) in [
        ("transfers?foo=1", "state, participant, after, limit"),
        ("holds?limit=1&foo=1", "before, after, limit"),
    ] {
        let refused = get(&server, &format!("/hub/{query}"));
        assert_eq!(refused.refusal(), (400, "3101".to_owned()), "{query}");
        let expected = format!("Malformed syntax - foo is not a parameter here; there are {there_are}");
        assert_eq!(refused.description(), expected);
    }
    server.stop();
}

/// More than one request looks at: a filter that nothing matches leads through empty pages to the end.
#[test]
fn a_rare_state_is_found_through_empty_pages() {
    const COUNT: u128 = 10_050;
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    let last = payment(COUNT, 1);
    on_runtime(async {
        // Nothing covers them, so all are refused but the last, which the funds come before.
        let client = client(&server).await;
        let mut waiting = tokio::task::JoinSet::new();
        for id in 1..COUNT {
            let (client, payment) = (client.clone(), payment(id, 1));
            waiting.spawn(async move { client.prepare(payment.prepare()).await.unwrap().code });
        }
        assert!(waiting.join_all().await.iter().all(|code| *code == 4001));
        done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "1"), 202);
        assert_eq!(client.prepare(last.prepare()).await.unwrap().state, Some(S::Reserved));
    });
    let open = get(&server, "/hub/transfers?state=RESERVED").json();
    assert_eq!((open["transfers"].as_array().map(Vec::len), &open["next"]), (Some(1), &Value::Null));
    fulfil(&server, last);
    let first = get(&server, "/hub/transfers?state=COMMITTED").json();
    let next = first["next"].as_str().unwrap().to_owned();
    assert_eq!(first, json!({"transfers": [], "next": next}));
    let second = get(&server, &format!("/hub/transfers?state=COMMITTED&after={next}")).json();
    assert_eq!((second["transfers"].as_array().map(Vec::len), &second["next"]), (Some(1), &Value::Null));
    let page = get(&server, "/hub/transfers?limit=5000").json();
    assert_eq!((page["transfers"].as_array().map(Vec::len), &page["next"]), (Some(1_000), &page["next"]));
    let list =
        |after: Option<&str>| get(&server, &format!("/hub/transfers?limit=999{}", behind(after))).json();
    assert_eq!(rows_of_all_pages("transfers", list).len() as u128, COUNT);
    server.stop();
}
