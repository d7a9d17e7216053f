//! Transfers that tokens pay for: two extensions name the wallets, and tokens are chosen before the prepare is written.
//!
//! What cannot be chosen is not refused here. The prepare is written without tokens, so that the refusal is decided, stored
//! and called back like that of any other transfer.

use axum::http::StatusCode;
use holdfast_domain::command::{Funding, Prepare};
use holdfast_engine::{Funded, Kept, TokenError};
use holdfast_tokens::limits::{INPUTS_DEFAULT, NAME_BYTES_MAX};
use holdfast_tokens::{Name, Refusal};

use super::body::{self, ExtensionList, Object};
use crate::error::ApiError;
use crate::gate::Caller;

/// The wallet whose tokens pay.
const PAYER_WALLET: &str = "holdfast.payerWallet";
/// The wallet that gets them.
const PAYEE_WALLET: &str = "holdfast.payeeWallet";
/// What both wallets and the chosen tokens take in a record, at most.
pub(super) const FUNDING_BYTES_MAX: usize = 8 + (2 + INPUTS_DEFAULT) * (2 + NAME_BYTES_MAX);

/// The wallets of a transfer that tokens pay for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wallets<'a> {
    payer: &'a str,
    payee: &'a str,
}

impl<'a> Wallets<'a> {
    /// The wallets that the extensions name. `None`: positions pay.
    pub(super) fn of(list: &'a Object<ExtensionList<'_>>) -> Result<Option<Wallets<'a>>, ApiError> {
        let payer = body::extension(list, PAYER_WALLET)?;
        let payee = body::extension(list, PAYEE_WALLET)?;
        match (payer, payee) {
            (None, None) => Ok(None),
            (Some(payer), Some(payee)) => Ok(Some(Wallets { payer, payee })),
            _ => {
                let detail = format!("{PAYER_WALLET} and {PAYEE_WALLET} go together");
                Err(ApiError::invalid(detail))
            }
        }
    }

    /// Who calls may pay from this wallet. Wallets are the operator's matter; a participant's own key opens those that carry
    /// its name, alone or before a slash.
    pub(super) fn check_caller(&self, caller: Caller) -> Result<(), ApiError> {
        let Caller::Participant(name) = caller else { return Ok(()) };
        let name = name.as_str();
        let rest = self.payer.split_at_checked(name.len()).filter(|(own, _)| own.eq_ignore_ascii_case(name));
        if rest.is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with('/')) {
            return Ok(());
        }
        let detail = format!("this key pays from the wallets {name} and {name}/…; others need an operator's");
        Err(ApiError::forbidden(detail))
    }

    /// The prepare with tokens that pay for it, and what keeps them from others until it is decided. Without `units` its
    /// amount is none that tokens could have.
    pub(super) async fn fund(
        &self,
        vault: &dyn holdfast_engine::Wallets,
        prepare: Prepare,
        units: Option<u64>,
    ) -> Result<(Prepare, Kept), ApiError> {
        let mut funding = Funding::new(prepare.id, self.payer.into(), self.payee.into(), Vec::new());
        let mut kept = Kept::Nothing;
        if let Some(units) = units.filter(|units| *units > 0) {
            if !vault.can_hold(&funding.payee_wallet) {
                let detail = format!("{PAYEE_WALLET} contains a NUL character");
                return Err(ApiError::invalid(detail));
            }
            let currency = prepare.currency.to_string();
            let wallet = Name::clone(&funding.payer_wallet);
            if let Some(funded) = chosen(vault.fund(&funding.spender, wallet, &currency, units).await)? {
                funding.ids = funded.ids.into();
                kept = funded.kept;
            }
        }
        Ok((Prepare { funding: Some(Box::new(funding)), ..prepare }, kept))
    }
}

/// The prepare met this error. If it went nowhere, the tokens that it has locked are free again; if nobody knows, the lease
/// will end.
pub(super) async fn give_back(kept: Kept, error: &ApiError) {
    let went_nowhere = matches!(error.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_REQUEST);
    if let (Kept::ByLease(end_lease), true) = (kept, went_nowhere) {
        end_lease().await;
    }
}

/// 400/3100: there is no vault behind this edge.
pub(super) fn no_tokens() -> ApiError {
    let detail = format!("there are no tokens here to pay with: leave {PAYER_WALLET} out");
    ApiError::invalid(detail)
}

/// Who wants for funds gets none, and so does a repeat, whose transfer holds some already. What keeps the vault from
/// answering at all is no reason to reject a transfer for good.
fn chosen(funded: Result<Funded, TokenError>) -> Result<Option<Funded>, ApiError> {
    match funded {
        Ok(funded) => Ok(Some(funded)),
        Err(TokenError::Refused(
            Refusal::InsufficientFunds(_)
            | Refusal::FundsLocked(_)
            | Refusal::NoExactMatch(_)
            | Refusal::TooManyInputs { .. }
            | Refusal::SpenderInUse { .. },
        )) => Ok(None),
        Err(TokenError::Refused(Refusal::Invalid(why))) => Err(ApiError::invalid(why)),
        Err(TokenError::Refused(other)) => {
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, other.to_string()))
        }
        Err(TokenError::Hub(refusal)) => Err(refusal.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample<'a> {
        #[serde(borrow, default)]
        list: Object<ExtensionList<'a>>,
    }

    fn wallets(extensions: &[(&str, &str)]) -> Result<Option<(String, String)>, u16> {
        let entries: Vec<Value> =
            extensions.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        let text = json!({"list": {"extension": entries}}).to_string();
        let sample: Sample<'_> = body::parse(text.as_bytes()).unwrap();
        let found = Wallets::of(&sample.list).map_err(|error| error.code)?;
        Ok(found.map(|wallets| (wallets.payer.to_owned(), wallets.payee.to_owned())))
    }

    #[test]
    fn a_participants_key_opens_its_own_wallets() {
        let bank = Caller::Participant(holdfast_domain::participants::Name::new("Bank").unwrap());
        let may = |caller, payer| Wallets { payer, payee: "b" }.check_caller(caller).is_ok();
        for own in ["Bank", "bank", "bank/", "Bank/till 1"] {
            assert!(may(bank, own), "{own}");
        }
        for other in ["", "ban", "banker", "bänk", "other", "/bank", "bank\\x"] {
            assert!(!may(bank, other), "{other}");
            assert!(may(Caller::Operator, other) && may(Caller::Anyone, other), "{other}");
        }
    }

    #[test]
    fn both_wallets_or_none() {
        let (payer, payee) = ((PAYER_WALLET, "a"), (PAYEE_WALLET, "b"));
        let both = Ok(Some(("a".to_owned(), "b".to_owned())));
        assert_eq!(wallets(&[("other", "x")]), Ok(None));
        assert_eq!(
            (wallets(&[payer, payee]), wallets(&[payee, ("other", "x"), payer])),
            (both.clone(), both)
        );
        assert_eq!((wallets(&[payer]), wallets(&[payee])), (Err(3100), Err(3100)));
        assert_eq!((wallets(&[payer, payee, payer]), wallets(&[payer, payer])), (Err(3100), Err(3100)));
        assert_eq!(wallets(&[("holdfast.payerwallet", "a")]), Ok(None), "the names are exact");
        let none: Sample<'_> = body::parse(b"{}").unwrap();
        assert_eq!(Wallets::of(&none.list), Ok(None));
    }
}
