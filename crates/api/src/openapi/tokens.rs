//! The wallets' paths. Whoever may call them can issue, and spend from any wallet: their backends hold an operator's key.

use axum::handler::Handler;
use axum::http::Method;
use holdfast_wire::tokens::{
    Balance, Consolidate, Issue, Issued, Lease, LockPage, Problem, Redeem, Released, Renew, Select,
    Selection, Spend, State, TokenPage, Transaction, Updated, Updates,
};
use holdfast_wire::{JsonSchema, Name, PublicKey, Whole};

use super::operation::{GET, Operation, POST, operation};
use crate::routes::Handled;
use crate::tokens::{Wallets, commands, holdings, locks};

/// A path of the vault, with what all of them may refuse.
fn at<H: Handler<T, Wallets>, T: 'static>(
    method: Method,
    path: &'static str,
    handler: H,
    summary: &'static str,
) -> Operation {
    operation(Handled::Wallets, method, path, handler, summary)
        .refuses_with::<Problem>(400, "`invalid`: the detail names the field")
        .refuses_with::<Problem>(503, "`contention`, `loading`, `too-many-waiters`, `full`, `store-unavailable`: try again, with the same spender and ids, after Retry-After")
        .refuses_with::<Problem>(504, "`no-answer`: the outcome is unknown; repeat with the same spender and ids")
}

/// A path that takes a body.
fn taking<B: JsonSchema>(operation: Operation) -> Operation {
    operation
        .takes::<B>()
        .refuses_with::<Problem>(408, "`slow-body`: the body did not arrive in time")
        .refuses_with::<Problem>(413, "`too-large`: the body, or what it would take in the log")
}

impl Operation {
    /// A 409 of these names.
    fn conflict(self, names: &'static str) -> Operation {
        self.refuses_with::<Problem>(409, names)
    }
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        taking::<Issue>(at(POST, "/tokens/issue", commands::issue, "Issue tokens, all or none"))
            .conflict("`token-exists`, `token-consumed`")
            .details("At most 10,000 tokens. A token without an id gets a UUID; name them to be able to repeat the call.")
            .gives::<Issued>(201, "The tokens with their ids"),
        taking::<Select>(at(POST, "/tokens/select", commands::select, "Choose tokens worth an amount and lock them for a spender"))
            .conflict("`insufficient-funds`: even with every lock gone there is not enough; `funds-locked`: others hold too much now; `no-exact-match`; `spender-in-use`: the same spender with another body")
        .details("All or nothing. The same body again gets the same answer. With `waitMs` the request waits in line for what others hold; if the total can never suffice it is refused at once. An owner that nobody knows has nothing: `insufficient-funds` with zeros.")
        .refuses_with::<Problem>(422, "`too-many-inputs`, `scan-limit`")
        .gives::<Selection>(200, "The locked tokens"),
        taking::<Spend>(at(POST, "/tokens/spend", commands::spend, "Pay out what a spender has selected"))
            .conflict("`lease-lost`, `spender-in-use`, `token-consumed`")
            .details("One step: the inputs are consumed and the outputs produced; what is left over returns to the sender, one output per issuer. A repeat gets the stored transaction.")
            .gives::<Transaction>(200, "What was consumed and produced"),
        taking::<Redeem>(at(POST, "/tokens/redeem", commands::redeem, "Take a quantity of what a spender has selected out of the vault"))
            .conflict("`lease-lost`, `spender-in-use`, `token-consumed`")
            .details("What is left over returns to the sender. A repeat gets the stored transaction.")
            .gives::<Transaction>(200, "What was consumed and what returned"),
        taking::<Updates>(at(POST, "/tokens/updates", commands::updates, "Take over what another ledger consumed and produced"))
            .conflict("`token-exists`: there is another one of that id; `spender-in-use`: a transfer or checkout holds it")
            .details("In any order: a token that was consumed before it was produced never comes alive. What is known already is passed over.")
            .gives::<Updated>(200, "How many tokens went and came"),
        taking::<Consolidate>(at(POST, "/tokens/consolidate", commands::consolidate, "Bring the small tokens of a wallet into few"))
            .conflict("`spender-in-use`, `lease-lost`")
            .details("Locks and spends in one step. If it would not leave fewer tokens nothing happens, and `transaction` is null.")
            .gives::<Transaction>(200, "What was consumed and produced"),
        owner(at(GET, "/tokens", holdings::list, "The tokens of an owner"))
            .details("A page may be short, or empty, and still have a `next`.")
            .query::<State>("state", "`free` or `locked`; both without it")
            .paged::<Name>()
            .conflict("`unknown-token`: `after` has been forgotten; begin anew")
            .gives::<TokenPage>(200, "A page"),
        owner(at(GET, "/tokens/balance", holdings::balance, "What an owner has, and in what pieces"))
            .details("An owner that nobody knows has nothing.")
            .gives::<Balance>(200, "The balance"),
        at(GET, "/tokens/locks", locks::list, "Live locks, by fence")
            .query::<Name>("wallet", "Only on tokens of this wallet")
            .query::<Name>("currency", "Only on tokens of this currency")
            .query::<Name>("type", "Only on tokens of this type; with wallet and currency: `token` without it")
            .query::<Name>("spender", "Only those of this spender")
            .paged::<Whole>()
            .gives::<LockPage>(200, "A page"),
        taking::<Renew>(at(POST, "/tokens/locks/{spender}/renew", locks::renew, "Move the end of a live lease"))
            .conflict("`lease-lost`")
            .gives::<Lease>(200, "The lease"),
        at(Method::DELETE, "/tokens/locks/{spender}", locks::release, "Give back what a spender has locked")
            .conflict("`spender-in-use`: a transfer or checkout holds it and will end it")
            .query::<Whole>("fence", "Only the lock of this fence")
            .gives::<Released>(200, "How many tokens became free; 0 if the lock had ended"),
    ]
}

/// The parameters that say whose tokens.
fn owner(operation: Operation) -> Operation {
    operation
        .query::<Name>("wallet", "The owner's wallet; or one of the next two")
        .query::<Name>("externalId", "The owner's external id")
        .query::<PublicKey>("publicKey", "The owner's public key")
        .needed::<Name>("currency", "The currency")
        .query::<Name>("type", "The type; `token` without it")
}
