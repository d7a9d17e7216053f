//! What is wrong with a side that is outside, as whoever asks it last saw: for people, beside what a checkout waits for.

use holdfast_domain::shop::Side;
use holdfast_engine::Troubles;

use super::desk::ShopDesk;

impl ShopDesk {
    /// What is wrong with the sides that are outside.
    #[must_use]
    pub fn troubles(&self) -> Troubles {
        self.troubles.seen()
    }

    /// As [`NotedTroubles::note`].
    pub fn note_trouble(&self, side: Side, why: Option<&str>) -> bool {
        self.troubles.note(side, why)
    }
}
