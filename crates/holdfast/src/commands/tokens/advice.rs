//! A refusal in words, and what to do about it.

use serde_json::Value;

use crate::remote::Answer;

/// The problem's own words, its numbers, and what to do next, for a request to that path.
pub(super) fn in_words(path: &str, answer: &Answer) -> String {
    let problem = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    let member = |name: &str| problem.get(name).and_then(Value::as_str);
    let Some(name) = member("type").and_then(|name| name.strip_prefix("/problems/")) else {
        return answer.in_words();
    };
    let mut words = format!("{name} ({})", answer.status.as_u16());
    if let Some(detail) = member("detail").or_else(|| member("title")) {
        words += &format!(": {detail}");
    }
    let holders = problem.get("holders").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = holders.iter().filter_map(|holder| holder.get("spender")?.as_str()).collect();
    if !names.is_empty() {
        words += &format!("; held by {}", names.join(", "));
    }
    if let Some(end) = member("earliestExpiry") {
        words += &format!("; the first lock ends at {end}");
    }
    if let Some(advice) = what_to_do(path, name, &problem) {
        words += &format!("\n  {advice}");
    }
    words
}

fn what_to_do(path: &str, name: &str, problem: &Value) -> Option<String> {
    let member = |name: &str| problem.get(name).and_then(Value::as_str);
    let advice = match name {
        "insufficient-funds" if member("total") == Some("0") => {
            "there is nothing of that owner, currency and type: look at their names, or `holdfast tokens issue` some"
        }
        "insufficient-funds" => {
            "waiting will not help: issue tokens, or see what there is with `holdfast tokens balance`"
        }
        "funds-locked" => {
            "wait for it with --wait-ms, or see who holds it with `holdfast tokens locks --wallet WALLET`"
        }
        "no-exact-match" => "take another --policy than no-change, or another amount",
        "too-many-inputs" => "raise --max-inputs, or first run `holdfast tokens consolidate`",
        "lease-lost" | "spender-in-use" => {
            let (spender, detail) = (member("spender")?, member("detail").unwrap_or_default());
            return Some(about_spender(path, name, spender, detail));
        }
        "token-exists" if path == "/tokens/updates" => {
            "the token of that id here is another one: its owner, currency, quantity or the like differ"
        }
        "token-exists" => "if this repeats an issue, it is done; else take another --id",
        "token-consumed" if path == "/tokens/issue" => {
            "if this repeats an issue, it was done, and spent since; else take another --id: each is used once"
        }
        "unknown-token" if path.contains("after=") => "begin the list again, without --after",
        "contention" | "loading" | "too-many-waiters" | "busy" => {
            "nothing was done: try the same again in a moment"
        }
        "store-unavailable" | "no-answer" if path == "/tokens/issue" => {
            "it may have been done: see `holdfast tokens list` first, for a repeat without --id makes more tokens"
        }
        "store-unavailable" | "no-answer" if path == "/tokens/consolidate" => {
            "it may have been done: see `holdfast tokens balance` first, for a repeat consolidates once more"
        }
        "store-unavailable" | "no-answer" if path == "/tokens/select" => {
            "it may have been done: try the same again with the same --spender; without one, what is locked now is free when its \
             lease ends"
        }
        "store-unavailable" | "no-answer" => {
            "it may have been done: try the same again with the same spender, nothing happens twice"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// The spender has not the lock that the request is about, or its name stands for something else.
fn about_spender(path: &str, name: &str, spender: &str, detail: &str) -> String {
    let locks = format!("`holdfast tokens locks --spender {spender}`");
    let spends = matches!(path, "/tokens/spend" | "/tokens/redeem");
    if detail.contains(": the fence is of another selection") {
        // To select again would not help: that name has a selection.
        return format!(
            "its lock has another fence: see {locks}; --fence names the one selection that is meant"
        );
    }
    if detail.contains(": a transfer or checkout holds it") {
        return format!(
            "its tokens go by the end of that transfer or checkout alone: see `holdfast transfers show {spender}`, or \
             `holdfast checkouts list`, which names the spender of each"
        );
    }
    match name {
        "lease-lost" if spends => {
            "nothing was spent: select first, with a longer --lease-ms if the lease was too short".to_owned()
        }
        "lease-lost" => {
            "there is no lock to renew: select again with a longer --lease-ms, or, if it has spent, under another name"
                .to_owned()
        }
        _ if spends => {
            "it has paid already: the same outputs again show the transaction; other outputs need another spender"
                .to_owned()
        }
        _ => format!("take another --spender: a name stands for one request; {locks} shows what it holds"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::StatusCode;

    use super::*;

    fn words(path: &str, body: &'static str) -> String {
        in_words(path, &Answer { status: StatusCode::CONFLICT, body: Bytes::from(body) })
    }

    #[test]
    fn a_problem_is_told_with_its_holders_and_what_to_do() {
        let told = words(
            "/tokens/select",
            r#"{"type":"/problems/funds-locked","detail":"10 asked, 3 free","holders":[{"spender":"p1"},{"spender":"p2"}],
                "earliestExpiry":"2026-11-15T08:24:36.000Z"}"#,
        );
        assert_eq!(
            told,
            "funds-locked (409): 10 asked, 3 free; held by p1, p2; the first lock ends at 2026-11-15T08:24:36.000Z\n  \
             wait for it with --wait-ms, or see who holds it with `holdfast tokens locks --wallet WALLET`"
        );
    }

    #[test]
    fn what_is_no_problem_is_told_too() {
        assert_eq!(words("/tokens", "<html>"), "409 Conflict");
        assert_eq!(words("/tokens", r#"{"type":"/problems/new-one","title":"No"}"#), "new-one (409): No");
        let known = r#"{"errorInformation":{"errorCode":"3000","errorDescription":"no key"}}"#;
        assert_eq!(words("/tokens", known), "409 3000: no key");
    }

    /// What helps depends on what was asked.
    #[test]
    fn an_unknown_outcome_is_not_simply_tried_again() {
        let lost = r#"{"type":"/problems/no-answer","detail":"the outcome is unknown"}"#;
        assert!(words("/tokens/select", lost).contains("try the same again with the same --spender"));
        assert!(words("/tokens/spend", lost).contains("try the same again with the same spender"));
        assert!(words("/tokens/issue", lost).contains("see `holdfast tokens list` first"));
        assert!(words("/tokens/consolidate", lost).contains("see `holdfast tokens balance` first"));
        let busy = r#"{"type":"/problems/busy","detail":"too much is waiting"}"#;
        assert!(words("/tokens/issue", busy).contains("nothing was done: try the same again"));
    }

    #[test]
    fn a_transfer_keeps_its_tokens_to_its_end() {
        let held = r#"{"type":"/problems/spender-in-use","spender":"7d0f",
            "detail":"spender 7d0f is in use: a transfer or checkout holds it and will end it; take another name"}"#;
        for path in ["/tokens/spend", "/tokens/locks/7d0f", "/tokens/locks/7d0f/renew"] {
            for command in ["`holdfast transfers show 7d0f`", "`holdfast checkouts list`"] {
                assert!(words(path, held).contains(command), "{}", words(path, held));
            }
        }
    }

    /// The reason is told from the name, whatever the name.
    #[test]
    fn a_spender_may_be_called_anything() {
        let lost = r#"{"type":"/problems/lease-lost","spender":"the fence",
            "detail":"the fence has no such lock: it holds nothing"}"#;
        assert!(words("/tokens/spend", lost).contains("nothing was spent: select first"));
    }
}
