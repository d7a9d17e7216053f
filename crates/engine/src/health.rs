//! How the parts of an engine are.

use crate::Doing;

/// One part of an engine, as `/health` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name: `log`, `clock`, …
    pub name: &'static str,
    /// Why commands are not taken on its account; `None`: it is well.
    pub fault: Option<String>,
}

/// Tells how an engine is.
pub trait Health {
    /// Every part, and what is wrong with it. Commands are taken when nothing is. Must not wait.
    fn health(&self) -> Vec<Component>;

    /// Brings metrics up to date that are not counted as things happen. An engine that cannot leaves them as they are.
    fn publish_metrics(&self) -> Doing<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
