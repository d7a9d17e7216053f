//! Participants with a cap, funds and endpoints, made over the admin API as an operator makes them.

use serde_json::{Value, json};

use super::material::participant;
use holdfast_load::LoadError;
use holdfast_load::line::{Head, Line};

/// Cap and funds: no limit is reached, every limit is tested.
const FUNDS: &str = "10000000000";

/// Makes the participants; with a sink, all their callbacks go there.
pub(super) async fn participants(hub: &str, count: u32, sink: Option<&str>) -> Result<(), LoadError> {
    let mut operator = Operator { line: Line::open(hub).await?, head: Head::of(hub, None), out: Vec::new() };
    for number in 0..count {
        let name = participant(number);
        let path = format!("/participants/{name}");
        operator.post("/participants", 201, &json!({"name": name, "currency": "USD"})).await?;
        let limit = json!({"currency": "USD", "limit": {"type": "NET_DEBIT_CAP", "value": FUNDS}});
        operator.post(&format!("{path}/initialPositionAndLimits"), 201, &limit).await?;
        // Accounts are numbered in order of creation, position before settlement.
        let settlement = 2 * number + 2;
        let funds = json!({
            "transferId": format!("00000000-0000-4000-8000-{number:012x}"),
            "externalReference": "bench",
            "action": "recordFundsIn",
            "reason": "bench",
            "amount": {"amount": FUNDS, "currency": "USD"},
        });
        operator.post(&format!("{path}/accounts/{settlement}"), 202, &funds).await?;
        let Some(sink) = sink else { continue };
        for (kind, tail) in [("POST", ""), ("PUT", "/{{transferId}}"), ("ERROR", "/{{transferId}}/error")] {
            let kind = format!("FSPIOP_CALLBACK_URL_TRANSFER_{kind}");
            let endpoint = json!({"type": kind, "value": format!("http://{sink}/{name}/transfers{tail}")});
            operator.post(&format!("{path}/endpoints"), 201, &endpoint).await?;
        }
    }
    Ok(())
}

/// An operator on a connection of its own.
struct Operator {
    line: Line,
    head: Head,
    out: Vec<u8>,
}

impl Operator {
    async fn post(&mut self, path: &str, status: u16, body: &Value) -> Result<(), LoadError> {
        self.head.write("POST", &path, &body.to_string(), &mut self.out);
        self.line.must(path, &self.out, status, |_| Some(())).await
    }
}
