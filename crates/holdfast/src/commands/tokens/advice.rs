//! A refusal in words, and what to do about it.

use serde_json::Value;

use crate::remote::Answer;

/// The problem's own words, its numbers, and the next command to type.
pub(super) fn in_words(answer: &Answer) -> String {
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
    if let Some(advice) = what_to_do(name) {
        words += &format!("\n  {advice}");
    }
    words
}

fn what_to_do(name: &str) -> Option<&'static str> {
    Some(match name {
        "insufficient-funds" => {
            "waiting will not help: issue tokens, or see what there is with `holdfast tokens balance`"
        }
        "funds-locked" => {
            "wait for it with --wait-ms, or see who holds it with `holdfast tokens locks --wallet WALLET`"
        }
        "no-exact-match" => "take another --policy than no-change, or another amount",
        "too-many-inputs" => "raise --max-inputs, or first run `holdfast tokens consolidate`",
        "lease-lost" => "nothing was spent: select again, with a longer --lease-ms if it was too short",
        "spender-in-use" => "take another --spender: a name stands for one request",
        "contention" | "store-unavailable" | "loading" | "too-many-waiters" => {
            "try again in a moment, with the same spender"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::StatusCode;

    use super::*;

    fn words(body: &'static str) -> String {
        in_words(&Answer { status: StatusCode::CONFLICT, body: Bytes::from(body) })
    }

    #[test]
    fn a_problem_is_told_with_its_holders_and_what_to_do() {
        let told = words(
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
        assert_eq!(words("<html>"), "409 Conflict");
        assert_eq!(words(r#"{"type":"/problems/new-one","title":"No"}"#), "new-one (409): No");
        let known = r#"{"errorInformation":{"errorCode":"3000","errorDescription":"no key"}}"#;
        assert_eq!(words(known), "409 3000: no key");
    }
}
