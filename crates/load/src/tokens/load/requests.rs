//! The material of a run and the bytes of its requests: names, amounts and quantities follow from the seed and a
//! number, so nothing is kept for them.

use serde::Deserialize;

use super::{Ending, TokenLoad};
use crate::line::Head;
use crate::options::Hub;
use crate::payments::mix;

/// The currency of every token of a run: the code for testing.
const CURRENCY: &str = "XTS";
/// Tokens in one issue.
pub(super) const ISSUE_TOKENS: u64 = 500;

/// Draws of one seed that have nothing to do with each other.
#[derive(Clone, Copy)]
enum Draw {
    Payer = 1,
    Payee = 2,
    Amount = 3,
    Quantity = 4,
}

/// Writes requests.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    seed: u64,
    wallets: u64,
    tokens: u64,
    amount_max: u64,
    wait_ms: u32,
    head: Head,
}

impl Requests {
    pub(super) fn of(options: &TokenLoad, seed: u64) -> Requests {
        let Hub { address, key } = &options.hub;
        Requests {
            seed,
            wallets: options.wallets.into(),
            tokens: options.tokens.into(),
            amount_max: options.amount_max,
            wait_ms: options.wait_ms,
            head: Head::of(address, key.as_deref()),
        }
    }

    fn draw(&self, what: Draw, number: u64, bound: u64) -> u64 {
        mix(self.seed ^ (what as u64) << 56, number) % bound
    }

    fn wallet(&self, number: u64) -> String {
        format!("load-{:016x}-{number}", self.seed)
    }

    fn spender(&self, number: u64) -> String {
        format!("load-{:016x}-{number}", self.seed)
    }

    /// The first wallet of the round, from which it pays.
    pub(super) fn payer(&self, number: u64) -> u64 {
        self.draw(Draw::Payer, number, self.wallets)
    }

    /// Another wallet, if there is one.
    pub(super) fn payee(&self, number: u64) -> u64 {
        let other = self.draw(Draw::Payee, number, self.wallets.saturating_sub(1).max(1));
        (self.payer(number) + 1 + other) % self.wallets
    }

    pub(super) fn amount(&self, number: u64) -> u64 {
        1 + self.draw(Draw::Amount, number, self.amount_max)
    }

    fn quantity(&self, token: u64) -> u64 {
        1 + self.draw(Draw::Quantity, token, self.amount_max)
    }

    /// How many issues it takes.
    pub(super) fn issues(&self) -> u64 {
        (self.wallets * self.tokens).div_ceil(ISSUE_TOKENS)
    }

    /// One issue of up to [`ISSUE_TOKENS`] tokens; what they are worth together.
    pub(super) fn issue(&self, number: u64, out: &mut Vec<u8>) -> u128 {
        let first = number * ISSUE_TOKENS;
        let last = (first + ISSUE_TOKENS).min(self.wallets * self.tokens);
        let mut worth = 0;
        let rows = (first..last).map(|token| {
            let quantity = self.quantity(token);
            worth += u128::from(quantity);
            let wallet = self.wallet(token / self.tokens);
            format!(r#"{{"wallet":"{wallet}","currency":"{CURRENCY}","quantity":"{quantity}"}}"#)
        });
        let body = format!(r#"{{"tokens":[{}]}}"#, rows.collect::<Vec<_>>().join(","));
        self.head.write("POST", &"/tokens/issue", &body, out);
        worth
    }

    pub(super) fn balance(&self, wallet: u64, out: &mut Vec<u8>) {
        let path = format!("/tokens/balance?wallet={}&currency={CURRENCY}", self.wallet(wallet));
        self.head.get(&path, out);
    }

    pub(super) fn select(&self, number: u64, out: &mut Vec<u8>) {
        let wait = match self.wait_ms {
            0 => String::new(),
            wait_ms => format!(r#","waitMs":{wait_ms}"#),
        };
        let body = format!(
            r#"{{"spender":"{}","wallet":"{}","currency":"{CURRENCY}","amount":"{}"{wait}}}"#,
            self.spender(number),
            self.wallet(self.payer(number)),
            self.amount(number),
        );
        self.head.write("POST", &"/tokens/select", &body, out);
    }

    /// What ends the round.
    pub(super) fn end(&self, ending: Ending, number: u64, fence: &str, out: &mut Vec<u8>) {
        match ending {
            Ending::Spend => {
                let body = format!(
                    r#"{{"spender":"{}","fence":"{fence}","outputs":[{{"wallet":"{}","quantity":"{}"}}]}}"#,
                    self.spender(number),
                    self.wallet(self.payee(number)),
                    self.amount(number),
                );
                self.head.write("POST", &"/tokens/spend", &body, out);
            }
            Ending::Release => {
                self.head.write("DELETE", &format_args!("/tokens/locks/{}", self.spender(number)), "", out);
            }
        }
    }
}

/// What is read of a selection.
#[derive(Deserialize)]
pub(super) struct Selected<'a> {
    #[serde(borrow)]
    pub(super) fence: std::borrow::Cow<'a, str>,
    pub(super) tokens: Vec<serde::de::IgnoredAny>,
}

/// What is read of a balance.
#[derive(Deserialize)]
pub(super) struct Balance {
    pub(super) total: String,
}

/// The name of a refusal: that of its problem, else its status.
pub(crate) fn refusal(status: u16, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Problem {
        r#type: String,
    }
    let problem = serde_json::from_slice::<Problem>(body).ok();
    let name = problem.and_then(|problem| problem.r#type.strip_prefix("/problems/").map(str::to_owned));
    name.unwrap_or_else(|| format!("status {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(wallets: u32) -> Requests {
        let hub = Hub { key: Some("secret\r\nX: 1".to_owned()), ..Hub::at("hub:1") };
        Requests::of(&TokenLoad { hub, wallets, tokens: 3, ..TokenLoad::to("", 7) }, 7)
    }

    fn split(out: &[u8]) -> (String, String) {
        let text = String::from_utf8(out.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        assert_eq!(length.parse::<usize>().unwrap(), body.len());
        assert!(head.contains("Authorization: Bearer secretX: 1\r\n"), "{head}");
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    #[test]
    fn requests_are_whole_and_say_what_the_round_is() {
        let (requests, mut out) = (requests(10), Vec::new());
        for number in 0..200 {
            assert_ne!(requests.payer(number), requests.payee(number));
            requests.select(number, &mut out);
            let (line, body) = split(&out);
            assert_eq!(line, "POST /tokens/select HTTP/1.1");
            let select: serde_json::Value = serde_json::from_str(&body).unwrap();
            requests.end(Ending::Spend, number, "17", &mut out);
            let spend: serde_json::Value = serde_json::from_str(&split(&out).1).unwrap();
            assert_eq!(select["spender"], spend["spender"]);
            assert_eq!(select["amount"], spend["outputs"][0]["quantity"]);
            assert_ne!(select["wallet"], spend["outputs"][0]["wallet"]);
            assert_eq!(spend["fence"], "17");
            assert_eq!(select.get("waitMs"), None);
        }
        requests.end(Ending::Release, 5, "17", &mut out);
        assert_eq!(split(&out).0, "DELETE /tokens/locks/load-0000000000000007-5 HTTP/1.1");
    }

    #[test]
    fn every_wallet_gets_its_tokens() {
        let (requests, mut out) = (requests(400), Vec::new());
        let (mut counts, mut worth, mut said) = (std::collections::BTreeMap::new(), 0, 0);
        assert_eq!(requests.issues(), 3);
        for number in 0..requests.issues() {
            said += requests.issue(number, &mut out);
            let body: serde_json::Value = serde_json::from_str(&split(&out).1).unwrap();
            for token in body["tokens"].as_array().unwrap() {
                *counts.entry(token["wallet"].as_str().unwrap().to_owned()).or_insert(0) += 1;
                worth += token["quantity"].as_str().unwrap().parse::<u128>().unwrap();
            }
        }
        assert_eq!((counts.len(), worth), (400, said));
        assert!(counts.values().all(|count| *count == 3));
    }

    #[test]
    fn one_wallet_pays_itself() {
        let requests = requests(1);
        assert_eq!((requests.payer(3), requests.payee(3)), (0, 0));
    }

    #[test]
    fn refusals_have_names() {
        assert_eq!(refusal(409, br#"{"type":"/problems/funds-locked","status":409}"#), "funds-locked");
        assert_eq!(refusal(502, b"<html>"), "status 502");
    }
}
