//! `holdfast tokens updates`: what another ledger did to tokens, taken over by hand.

use holdfast_wire::tokens::{self, Updated};
use holdfast_wire::{List, Name, Object};

use super::super::tables::print;
use super::actions::KindArgs;
use super::{Output, post, quantity_of, show};
use crate::remote::Remote;

#[derive(Debug, clap::Args)]
pub(super) struct Updates {
    /// The id of a token that went elsewhere, known here or not; may be repeated
    #[arg(long, value_name = "ID", required_unless_present = "produced")]
    consumed: Vec<String>,
    /// A token that came elsewhere, and how much it is worth; may be repeated
    #[arg(long, value_name = "ID=QUANTITY", value_parser = token, requires = "wallet", requires = "currency")]
    produced: Vec<(String, u64)>,
    /// In which wallet the produced ones are
    #[arg(long, requires = "produced")]
    wallet: Option<String>,
    /// In which currency the produced ones are
    #[arg(long, requires = "produced")]
    currency: Option<String>,
    #[command(flatten)]
    kind: KindArgs,
}

fn token(text: &str) -> Result<(String, u64), String> {
    quantity_of(text, "ID=QUANTITY")
}

impl Updates {
    fn body(&self) -> tokens::Updates {
        // Flags see to it that a token has both.
        let wallet = self.wallet.as_deref().unwrap_or_default();
        let currency = self.currency.as_deref().unwrap_or_default();
        let token = |(id, quantity): &(String, u64)| {
            Object(self.kind.token(Some(id.clone()), wallet, currency, *quantity))
        };
        let consumed: Vec<Name> = self.consumed.iter().map(|id| id.as_str().into()).collect();
        let produced: Vec<_> = self.produced.iter().map(token).collect();
        tokens::Updates {
            consumed: (!consumed.is_empty()).then_some(List(consumed)),
            produced: (!produced.is_empty()).then_some(List(produced)),
        }
    }

    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let answer = post(remote, "/tokens/updates", &self.body()).await?;
        show(&answer, output, |Updated { consumed, produced }| {
            print(&format!("{consumed} tokens went, {produced} came"))?;
            if consumed < self.consumed.len() {
                print("those that were not here, or not any more, will never come alive")?;
            }
            if produced < self.produced.len() {
                print("of those produced, some were here already or have been consumed")?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        updates: Updates,
    }

    fn parsed(words: &str) -> Result<Value, clap::Error> {
        let line = Line::try_parse_from(["updates"].into_iter().chain(words.split_whitespace()))?;
        Ok(json!(line.updates.body()))
    }

    #[test]
    fn a_body_has_what_went_and_what_came() {
        assert_eq!(parsed("--consumed a,b --consumed c").unwrap(), json!({"consumed": ["a,b", "c"]}));
        assert_eq!(
            parsed("--produced x=7 --produced y=z=8 --wallet w --currency EUR --issuer bank").unwrap(),
            json!({"produced": [
                {"id": "x", "wallet": "w", "currency": "EUR", "quantity": "7", "issuer": "bank"},
                {"id": "y=z", "wallet": "w", "currency": "EUR", "quantity": "8", "issuer": "bank"},
            ]})
        );
    }

    #[test]
    fn half_an_update_is_none() {
        for bad in [
            "",
            "--produced x=7",
            "--produced x=7 --wallet w",
            "--produced x --wallet w --currency EUR",
            "--produced =7 --wallet w --currency EUR",
            "--produced x=1.5 --wallet w --currency EUR",
            "--consumed a --wallet w",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
