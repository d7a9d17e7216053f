//! What is measured: something that selects for a spender and takes it back.

use std::sync::Arc;

use holdfast_tokens::{Config, MemorySelector, Random, SelectRequest, Token, TokenSelector};

use holdfast_load::LoadError;

/// The time of all calls: no lease ends while the clock runs.
pub(crate) const NOW: i64 = 1_700_000_000_000;
/// Tokens of one page of a load.
const PAGE_TOKENS: usize = 2_000;

/// What a selection came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) inputs: usize,
    pub(crate) sum: u128,
}

/// Something that selects. What it holds until the release is handed to the caller.
pub(crate) trait Engine: Sync {
    type Held;

    fn name(&self) -> &'static str;

    /// `None` if it refuses.
    fn select(&self, request: &SelectRequest, random: &mut Random) -> Option<(Taken, Self::Held)>;

    fn release(&self, spender: &Arc<str>, held: Self::Held);
}

pub(crate) struct Ours(MemorySelector);

impl Ours {
    pub(crate) fn filled(tokens: impl Iterator<Item = Token>) -> Result<Self, LoadError> {
        let refused = |refusal: holdfast_tokens::Refusal| LoadError::Refused(format!("the load: {refusal}"));
        let selector = MemorySelector::new(Config::default());
        selector.begin_load();
        let mut page = Vec::with_capacity(PAGE_TOKENS);
        for token in tokens {
            page.push(token);
            if page.len() == PAGE_TOKENS {
                let full = std::mem::replace(&mut page, Vec::with_capacity(PAGE_TOKENS));
                selector.load_page(full).map_err(refused)?;
            }
        }
        selector.load_page(page).map_err(refused)?;
        selector.end_load();
        Ok(Ours(selector))
    }

    pub(crate) fn counted_bytes(&self) -> u64 {
        self.0.counters().bytes
    }
}

impl Engine for Ours {
    type Held = ();

    fn name(&self) -> &'static str {
        "holdfast"
    }

    fn select(&self, request: &SelectRequest, random: &mut Random) -> Option<(Taken, ())> {
        let selection = self.0.select(request, NOW, random).ok()?;
        Some((Taken { inputs: selection.tokens.len(), sum: selection.sum }, ()))
    }

    fn release(&self, spender: &Arc<str>, (): ()) {
        self.0.release(spender, None, NOW).expect("without a fence nothing can be wrong");
    }
}
