//! The wallets' paths.

use axum::http::Method;
use serde_json::{Value, json};

use super::operation::{Operation, operation};
use super::schemas::reference;

const PROBLEM: &str = "application/problem+json";

/// A path of the vault, with what all of them may refuse.
fn at(method: Method, path: &'static str, summary: &'static str) -> Operation {
    let problem = reference("Problem");
    operation(method, path, summary)
        .answers_as(400, "`invalid`: the detail names the field", PROBLEM, &problem)
        .answers_as(503, "`contention`, `loading`, `too-many-waiters`, `full`, `store-unavailable`: try again, with the same spender and ids, after Retry-After", PROBLEM, &problem)
        .answers_as(504, "`no-answer`: the outcome is unknown; repeat with the same spender and ids", PROBLEM, &problem)
}

/// A path that takes a body.
fn taking(path: &'static str, summary: &'static str, schema: &str) -> Operation {
    let problem = reference("Problem");
    at(Method::POST, path, summary)
        .takes(schema)
        .answers_as(408, "`slow-body`: the body did not arrive in time", PROBLEM, &problem)
        .answers_as(413, "`too-large`: the body, or what it would take in the log", PROBLEM, &problem)
}

/// A 409 of these names.
fn conflict(operation: Operation, names: &str) -> Operation {
    operation.answers_as(409, names, PROBLEM, &reference("Problem"))
}

pub(super) fn operations() -> Vec<Operation> {
    let transaction = reference("TokenTransaction");
    vec![
        conflict(taking("/tokens/issue", "Issue tokens, all or none", "TokenIssue"), "`token-exists`, `token-consumed`")
            .details("At most 10,000 tokens. A token without an id gets a UUID; name them to be able to repeat the call.")
            .answers_with(201, "The tokens with their ids", &reference("TokensIssued")),
        conflict(
            taking("/tokens/select", "Choose tokens worth an amount and lock them for a spender", "TokenSelect"),
            "`insufficient-funds`: even with every lock gone there is not enough; `funds-locked`: others hold too much now; `no-exact-match`; `spender-in-use`: the same spender with another body",
        )
        .details("All or nothing. The same body again gets the same answer. With `waitMs` the request waits in line for what others hold; if the total can never suffice it is refused at once. An owner that nobody knows has nothing: `insufficient-funds` with zeros.")
        .answers_as(422, "`too-many-inputs`, `scan-limit`", PROBLEM, &reference("Problem"))
        .answers_with(200, "The locked tokens", &reference("TokenSelection")),
        conflict(taking("/tokens/spend", "Pay out what a spender has selected", "TokenSpend"), "`lease-lost`, `spender-in-use`, `token-consumed`")
            .details("One step: the inputs are consumed and the outputs produced; what is left over returns to the sender, one output per issuer. A repeat gets the stored transaction.")
            .answers_with(200, "What was consumed and produced", &transaction),
        conflict(taking("/tokens/redeem", "Take a quantity of what a spender has selected out of the vault", "TokenRedeem"), "`lease-lost`, `spender-in-use`, `token-consumed`")
            .details("What is left over returns to the sender. A repeat gets the stored transaction.")
            .answers_with(200, "What was consumed and what returned", &transaction),
        conflict(taking("/tokens/updates", "Take over what another ledger consumed and produced", "TokenUpdates"), "`token-exists`: there is another one of that id; `spender-in-use`: a transfer or checkout holds it")
            .details("In any order: a token that was consumed before it was produced never comes alive. What is known already is passed over.")
            .answers_with(200, "How many tokens went and came", &reference("TokensUpdated")),
        conflict(taking("/tokens/consolidate", "Bring the small tokens of a wallet into few", "TokenConsolidate"), "`spender-in-use`, `lease-lost`")
            .details("Locks and spends in one step. If it would not leave fewer tokens nothing happens, and `transaction` is null.")
            .answers_with(200, "What was consumed and produced", &transaction),
        owner(at(Method::GET, "/tokens", "The tokens of an owner"))
            .details("A page may be short, or empty, and still have a `next`.")
            .query("state", "`free` or `locked`; both without it")
            .query("after", "The `next` of the page before")
            .query("limit", "Rows of the page, at most 1,000")
            .answers_as(409, "`unknown-token`: `after` has been forgotten; begin anew", PROBLEM, &reference("Problem"))
            .answers_with(200, "A page", &reference("TokenPage")),
        owner(at(Method::GET, "/tokens/balance", "What an owner has, and in what pieces"))
            .details("An owner that nobody knows has nothing.")
            .answers_with(200, "The balance", &reference("TokenBalance")),
        at(Method::GET, "/tokens/locks", "Live locks, by fence")
            .query("wallet", "Only on tokens of this wallet")
            .query("currency", "Only on tokens of this currency")
            .query("type", "Only on tokens of this type; with wallet and currency: `token` without it")
            .query("spender", "Only those of this spender")
            .query("after", "The `next` of the page before")
            .query("limit", "Rows of the page, at most 1,000")
            .answers_with(200, "A page", &reference("TokenLockPage")),
        conflict(taking("/tokens/locks/{spender}/renew", "Move the end of a live lease", "TokenRenewal"), "`lease-lost`")
            .answers_with(200, "The lease", &reference("TokenLease")),
        conflict(at(Method::DELETE, "/tokens/locks/{spender}", "Give back what a spender has locked"), "`spender-in-use`: a transfer or checkout holds it and will end it")
            .query("fence", "Only the lock of this fence")
            .answers_with(200, "How many tokens became free; 0 if the lock had ended", &reference("TokensReleased")),
    ]
}

/// The parameters that say whose tokens.
fn owner(operation: Operation) -> Operation {
    operation
        .query("wallet", "The owner's wallet; or one of the next two")
        .query("externalId", "The owner's external id")
        .query("publicKey", "The owner's public key")
        .query("currency", "The currency; needed")
        .query("type", "The type; `token` without it")
}

fn name(what: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 128, "description": what})
}

fn whole(what: &str) -> Value {
    json!({"type": "string", "pattern": "^(0|[1-9][0-9]{0,19})$", "description": what, "examples": ["100"]})
}

/// A sum, which may be beyond what one token can hold.
fn sum(what: &str) -> Value {
    json!({"type": "string", "pattern": "^(0|[1-9][0-9]*)$", "description": what, "examples": ["100"]})
}

fn count(what: &str, min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max, "description": what})
}

fn number(what: &str) -> Value {
    json!({"type": "integer", "description": what})
}

fn instant(what: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": what, "examples": ["2026-11-15T08:24:36.000Z"]})
}

/// An instant that may never come.
fn instant_or_null(what: &str) -> Value {
    json!({"type": ["string", "null"], "format": "date-time", "description": what})
}

fn attributes() -> Value {
    json!({
        "type": "object", "maxProperties": 16, "description": "Names of up to 64 characters, values of up to 256",
        "additionalProperties": {"type": "string", "maxLength": 256}, "examples": [{"purpose": "fees"}],
    })
}

fn list(of: &str, max: u64) -> Value {
    json!({"type": "array", "maxItems": max, "items": reference(of)})
}

fn cursor() -> Value {
    json!({"type": ["string", "null"], "description": "For `after` of the next page; null at the end"})
}

/// What a caller sends: these members and no other.
fn taken(required: &[&str], members: Value, example: Value) -> Value {
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": members, "examples": [example]})
}

/// What a caller gets.
fn given(required: &[&str], members: Value) -> Value {
    json!({"type": "object", "required": required, "properties": members})
}

/// The schemas of the wallets' paths.
pub(super) fn schemas() -> Value {
    let Value::Object(mut all) = request_schemas() else { return json!({}) };
    if let Value::Object(answers) = answer_schemas() {
        all.extend(answers);
    }
    Value::Object(all)
}

fn request_schemas() -> Value {
    let spender = || name("Who selected");
    let fence = || whole("The selection's fence; one that is older is refused");
    let lease = || count("For how long the tokens are locked; 60,000 without it", 1, 86_400_000);
    json!({
        "NewToken": taken(&["wallet", "currency", "quantity"], json!({
            "id": name("Unique in the vault; without it the token gets a UUID (needed in updates)"),
            "wallet": name("Who owns it"),
            "externalId": name("The owner's account elsewhere"),
            "publicKey": {"type": "string", "minLength": 1, "maxLength": 512, "description": "The key that can sign for it"},
            "type": name("`token` without it"),
            "currency": name("The token identifier"),
            "quantity": whole("How much it is worth, from 1 to 18446744073709551615"),
            "issuer": name("Who stands behind it"),
            "notary": name("Who notarises its spends; one selection never mixes notaries"),
            "attributes": attributes(),
        }), json!({"id": "t1", "wallet": "alice", "currency": "EUR", "quantity": "100"})),
        "TokenIssue": taken(&["tokens"], json!({"tokens": list("NewToken", 10_000)}),
            json!({"tokens": [{"id": "t1", "wallet": "alice", "currency": "EUR", "quantity": "100"}]})),
        "TokenSelect": taken(&["spender", "currency", "amount"], json!({
            "spender": name("For whom the tokens are locked, such as the id of a payment; at most one live selection each"),
            "wallet": name("From whose tokens; or one of the next two; from all without any"),
            "externalId": name("The owner by external id"),
            "publicKey": {"type": "string", "minLength": 1, "maxLength": 512, "description": "The owner by public key"},
            "currency": name("Of which currency"),
            "type": name("Of which type; `token` without it"),
            "amount": whole("Worth how much at least, from 1"),
            "issuer": name("Only this issuer's"),
            "notary": name("Only under this notary"),
            "attributes": attributes(),
            "policy": {"type": "string", "enum": crate::tokens::json::POLICIES.map(|(word, _)| word), "description": "How they are chosen; `fewest-inputs` without it"},
            "maxInputs": count("Most tokens", 1, 10_000),
            "allowShortfall": {"type": "boolean", "description": "Less than the amount will do if there is not more"},
            "leaseMs": lease(),
            "waitMs": count("How long to wait for what others hold; not at all without it", 0, 60_000),
            "sweep": taken(&["quantityMax", "inputsMax"], json!({
                "quantityMax": whole("Tokens of at most this quantity count as dust"),
                "inputsMax": count("Most of them taken along", 1, 10_000),
            }), json!({"quantityMax": "10", "inputsMax": 20})),
        }), json!({"spender": "payment-1", "wallet": "alice", "currency": "EUR", "amount": "100", "waitMs": 2000})),
        "TokenOutput": taken(&["wallet", "quantity"], json!({
            "wallet": name("Who is paid"),
            "quantity": whole("How much, from 1"),
            "externalId": name("The receiver's account elsewhere"),
            "publicKey": {"type": "string", "minLength": 1, "maxLength": 512, "description": "The receiver's public key"},
            "attributes": attributes(),
        }), json!({"wallet": "bob", "quantity": "100"})),
        "TokenSpend": taken(&["spender", "outputs"], json!({
            "spender": spender(), "fence": fence(), "outputs": list("TokenOutput", 10_000),
        }), json!({"spender": "payment-1", "fence": "1731", "outputs": [{"wallet": "bob", "quantity": "100"}]})),
        "TokenRedeem": taken(&["spender", "quantity"], json!({
            "spender": spender(), "fence": fence(), "quantity": whole("How much leaves the vault, from 1"),
        }), json!({"spender": "payment-1", "quantity": "100"})),
        "TokenUpdates": taken(&[], json!({
            "consumed": {"type": "array", "items": name("The id of a token"), "description": "At most 10,000 together with `produced`"},
            "produced": list("NewToken", 10_000),
        }), json!({"consumed": ["t1"], "produced": [{"id": "t2", "wallet": "bob", "currency": "EUR", "quantity": "100"}]})),
        "TokenConsolidate": taken(&["wallet", "currency", "outputs"], json!({
            "wallet": name("Whose tokens"),
            "currency": name("Of which currency"),
            "type": name("Of which type; `token` without it"),
            "outputs": count("Into how many tokens: each can be locked by one spender only", 1, 10_000),
            "maxInputs": count("Most tokens brought together; 64 without it", 1, 10_000),
            "quantityMax": whole("Only tokens of at most this quantity"),
            "spender": name("For whom they are locked meanwhile; a new name without it"),
        }), json!({"wallet": "alice", "currency": "EUR", "outputs": 4, "maxInputs": 100})),
        "TokenRenewal": taken(&["leaseMs"], json!({"leaseMs": lease(), "fence": fence()}), json!({"leaseMs": 60000})),
    })
}

fn answer_schemas() -> Value {
    let token = || {
        json!({
            "id": name("Its id"),
            "quantity": whole("How much it is worth"),
            "wallet": name("Who owns it"),
            "type": name("Its type"),
            "currency": name("Its currency"),
            "externalId": name("If it has one"),
            "publicKey": json!({"type": "string", "description": "If it has one"}),
            "issuer": name("If it has one"),
            "notary": name("If it has one"),
            "attributes": attributes(),
        })
    };
    let mut listed = token();
    listed["state"] = json!({"type": "string", "enum": ["free", "locked"]});
    let needed = ["id", "quantity", "wallet", "type", "currency"];
    let needed_listed = ["id", "quantity", "wallet", "type", "currency", "state"];
    let holder = given(
        &["spender", "expiresAt"],
        json!({"spender": name("Who"), "expiresAt": instant_or_null("Until when; null for a transfer's hold")}),
    );
    json!({
        "Token": given(&needed, token()),
        "ListedToken": given(&needed_listed, listed),
        "TokensIssued": given(&["tokens"], json!({"tokens": list("Token", 10_000)})),
        "TokenSelection": given(&["spender", "tokens", "sum", "change", "expiresAt", "fence"], json!({
            "spender": name("For whom"),
            "tokens": list("Token", 10_000),
            "sum": sum("What they are worth together"),
            "change": sum("What is left over if exactly the amount is spent"),
            "expiresAt": instant("When the lock ends by itself"),
            "fence": whole("Rises with every selection"),
        })),
        "TokenTransaction": given(&["transaction", "consumed", "produced"], json!({
            "transaction": {"type": ["string", "null"], "description": "Its id; null if there was nothing to consolidate"},
            "consumed": {"type": "array", "items": name("The id of an input")},
            "produced": list("Token", 10_000),
        })),
        "TokensUpdated": given(&["consumed", "produced"], json!({"consumed": number("Tokens that went"), "produced": number("Tokens that came")})),
        "TokenPage": given(&["tokens", "next"], json!({"tokens": list("ListedToken", 1_000), "next": cursor()})),
        "TokenBalance": given(&["total", "free", "locked", "tokens"], json!({
            "total": sum("All of it"),
            "free": sum("What can be selected now"),
            "locked": sum("What is locked"),
            "tokens": number("In how many tokens"),
            "lockedTokens": number("How many of them are locked"),
            "largestFree": {"type": ["string", "null"], "description": "The largest free token"},
            "smallestFree": {"type": ["string", "null"], "description": "The smallest free token"},
            "fragmentation": {"type": "array", "description": "Free tokens by the number of their decimal digits", "items": given(&["digits", "tokens", "sum"], json!({
                "digits": count("From 1", 1, 20), "tokens": number("How many"), "sum": sum("What they are worth together"),
            }))},
        })),
        "TokenLock": given(&["holder", "fence", "since", "ageMs", "expiresAt", "tokens"], json!({
            "holder": name("The spender"),
            "fence": whole("Its fence"),
            "since": instant("Since when"),
            "ageMs": number("For how long, in milliseconds"),
            "expiresAt": instant_or_null("Until when; null for a transfer's hold"),
            "tokens": list("Token", 10_000),
        })),
        "TokenLockPage": given(&["locks", "next"], json!({"locks": list("TokenLock", 1_000), "next": cursor()})),
        "TokenLease": given(&["spender", "expiresAt", "fence"], json!({"spender": name("Whose"), "expiresAt": instant("Its new end"), "fence": whole("Unchanged")})),
        "TokensReleased": given(&["released"], json!({"released": number("How many tokens became free")})),
        "Problem": {
            "type": "object",
            "description": "A problem of RFC 9457. Those about funds have the numbers.",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string", "description": "/problems/NAME", "examples": ["/problems/funds-locked"]},
                "title": {"type": "string", "description": "The same for each problem of the type"},
                "status": number("The HTTP status"),
                "detail": {"type": "string", "description": "What happened and what to do"},
                "amount": sum("What was asked for"),
                "total": sum("What there is"),
                "free": sum("What of it is free"),
                "locked": sum("What of it is locked"),
                "largestFree": {"type": ["string", "null"], "description": "The largest free token"},
                "holders": {"type": "array", "maxItems": 8, "items": holder, "description": "Some of those who hold the locked part, the first to end first"},
                "earliestExpiry": instant_or_null("When the first lock ends by itself"),
                "notary": name("The notary the numbers are about, if there is one"),
                "maxInputs": number("How many inputs were allowed"),
                "bestSum": sum("What the largest of them come to"),
                "spender": name("Whose lease, or whose name"),
                "token": name("Which token"),
            },
            "examples": [{
                "type": "/problems/funds-locked", "title": "There is enough, but others hold too much of it now", "status": 409,
                "detail": "funds locked: 100 asked, 40 free, 80 locked", "amount": "100", "total": "120", "free": "40", "locked": "80",
                "largestFree": "40", "holders": [{"spender": "payment-1", "expiresAt": "2026-11-15T08:24:36.000Z"}],
                "earliestExpiry": "2026-11-15T08:24:36.000Z",
            }],
        },
    })
}
