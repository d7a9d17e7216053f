//! Who was to be told what.

use holdfast_domain::callbacks::{Callback, CallbackMessage};
use holdfast_domain::registry::Registry;
use holdfast_hub::Core;
use holdfast_store::{MemoryStore, Tables};
use serde::Serialize;

use super::witness::name_of;

/// One message to a participant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) to: String,
    /// The call, such as `PUT /transfers/{id}/error`.
    pub(crate) call: &'static str,
    /// Whether it hands on the other party's own bytes.
    pub(crate) forwarded: bool,
    /// The state that it tells.
    pub(crate) transfer_state: Option<&'static str>,
    pub(crate) error_code: Option<u16>,
    /// The type under which the receiver registers where it wants this.
    pub(crate) endpoint_type: &'static str,
    /// The URL, with the id in its place; `None`: it had registered nothing, so nobody was called.
    pub(crate) endpoint: Option<String>,
    /// Its number among all callbacks, which dead letters name.
    pub(crate) callback: Option<u64>,
}

impl Told {
    /// What a callback of the frame that `core` has just taken in says to whom.
    pub(super) fn of(callback: &Callback, offset: u64, core: &Core<MemoryStore>) -> Told {
        let kind = callback.message.endpoint_type();
        let (call, forwarded, transfer_state, error_code) = match callback.message {
            CallbackMessage::ForwardPrepare => ("POST /transfers", true, None, None),
            CallbackMessage::ForwardFulfil => ("PUT /transfers/{id}", true, Some("COMMITTED"), None),
            CallbackMessage::ForwardError => ("PUT /transfers/{id}/error", true, None, None),
            CallbackMessage::Put(state) => ("PUT /transfers/{id}", false, Some(state.external()), None),
            CallbackMessage::Patch(state) => ("PATCH /transfers/{id}", false, Some(state.external()), None),
            CallbackMessage::Error(code, _) => {
                ("PUT /transfers/{id}/error", false, None, Some(code.number()))
            }
            CallbackMessage::Alarm { .. } => ("POST (limit alarm)", false, None, None),
        };
        let numbered = core.callbacks().iter().find(|row| {
            row.offset == offset
                && row.to == callback.to
                && row.transfer == callback.transfer
                && row.message == callback.message
        });
        Told {
            to: name_of(core.store(), callback.to),
            call,
            forwarded,
            transfer_state,
            error_code,
            endpoint_type: kind,
            endpoint: core
                .store()
                .books()
                .endpoint(callback.to, kind)
                .map(|template| rendered(template, &callback.transfer.to_string())),
            callback: numbered.map(|row| row.number),
        }
    }
}

/// The URL that a registered template stands for. The hub registers no other tag than `{{transferId}}`, in any of
/// Mustache's ways to write it.
fn rendered(template: &str, id: &str) -> String {
    let mut parts = template.split("{{");
    let mut url = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}}") {
            Some((tag, after)) => {
                let after =
                    if tag.starts_with('{') { after.strip_prefix('}').unwrap_or(after) } else { after };
                url.extend([id, after]);
            }
            None => url.extend(["{{", part]),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::rendered;

    #[test]
    fn a_template_becomes_the_url_that_is_called() {
        for (template, url) in [
            ("http://h/transfers", "http://h/transfers"),
            ("http://h/transfers/{{transferId}}/error", "http://h/transfers/ID/error"),
            ("http://h/{{{transferId}}}?again={{ transferId }}", "http://h/ID?again=ID"),
        ] {
            assert_eq!(rendered(template, "ID"), url);
        }
    }
}
