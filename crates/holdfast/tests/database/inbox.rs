//! Where some of the participants are called, and what must have come there.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::effects::{NotificationKind, Party};
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::transfers::TransferState;
use serde_json::json;

use crate::judge::due;
use crate::load::Ledger;
use crate::support::sink::{Manner, Received, Sink};

/// Two parties of six have endpoints: enough to miss a call, few enough not to drown the payments.
pub const LISTENERS: usize = 2;

pub struct Inbox {
    sink: Sink,
}

/// How a call arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Post,
    Put,
    Error,
}

impl Inbox {
    pub fn open() -> Inbox {
        Inbox { sink: Sink::new(Manner::Good) }
    }

    /// The endpoints that have all calls to a participant come here, as the admin API takes them.
    pub fn endpoints(&self, participant: ParticipantId) -> [String; 3] {
        let base = format!("http://{}/{}", self.sink.address, participant.0);
        ["POST", "PUT", "ERROR"].map(|kind| {
            let value = format!("{base}/{}/{{{{transferId}}}}", kind.to_lowercase());
            json!({"type": format!("FSPIOP_CALLBACK_URL_TRANSFER_{kind}"), "value": value}).to_string()
        })
    }

    /// Everything that is due has come, if more than once, and no error for what lives.
    pub fn judge(&self, ledger: &Ledger, rows: &BTreeMap<u128, TransferState>) {
        let calls: BTreeSet<(u32, Call, u128)> = self.sink.received().iter().filter_map(read).collect();
        let mut asked = 0;
        for (id, state) in rows {
            let (payer, payee) = ledger.parties[id];
            for (kind, party) in due(*state) {
                let to = if *party == Party::Payer { payer } else { payee };
                if !ledger.listeners.contains(&to) {
                    continue;
                }
                asked += 1;
                let call = call_of(*kind);
                let called = calls.contains(&(to.0, call, *id));
                assert!(called, "no {call:?} came to {to:?} for {}, which is {state}", TransferId(*id));
            }
            if *state == TransferState::Committed {
                let error = [payer, payee].into_iter().find(|to| calls.contains(&(to.0, Call::Error, *id)));
                assert_eq!(error, None, "an error for {}, which lives", TransferId(*id));
            }
        }
        assert!(asked > 100, "only {asked} calls were due");
        eprintln!("{} calls, {asked} were due", calls.len());
    }
}

fn call_of(kind: NotificationKind) -> Call {
    match kind {
        NotificationKind::Prepared => Call::Post,
        NotificationKind::Committed => Call::Put,
        _ => Call::Error,
    }
}

fn read(received: &Received) -> Option<(u32, Call, u128)> {
    let mut parts = received.path.trim_start_matches('/').split('/');
    let participant = parts.next()?.parse().ok()?;
    let call = match parts.next()? {
        "post" => Call::Post,
        "put" => Call::Put,
        "error" => Call::Error,
        _ => return None,
    };
    let id: TransferId = parts.next()?.parse().ok()?;
    Some((participant, call, id.0))
}
