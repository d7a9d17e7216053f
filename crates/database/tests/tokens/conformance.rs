//! Nodes that share a database keep the contract of every selector, whichever of them is asked.

use std::sync::{Arc, Mutex};

use holdfast_database::tokens::TokenVault;
use holdfast_database::tokens::alone::Alone;
use holdfast_engine::{TokenError, Wallets as _};
use holdfast_tokens::conformance::{Host, START, run_all, suite};
use holdfast_tokens::{Balance, LockView, Refusal, Scope, Token};
use tokio::runtime::Runtime;

use crate::world::{World, runtime};

/// Worlds that were used and can be used again: a database and twenty nodes take longer to make than a promise to check.
type Used = Arc<Mutex<Vec<World>>>;

/// Each call goes to the next node.
struct InTurn {
    world: Option<World>,
    runtime: Runtime,
    used: Used,
}

impl Drop for InTurn {
    fn drop(&mut self) {
        self.used.lock().expect("whole").extend(self.world.take());
    }
}

impl InTurn {
    fn world(&self) -> &World {
        self.world.as_ref().expect("until it is dropped")
    }

    fn call<T, E: Into<TokenError>>(
        &self,
        now: i64,
        work: impl AsyncFnOnce(&TokenVault) -> Result<T, E>,
    ) -> Result<T, Refusal> {
        self.world().at(now);
        self.runtime.block_on(work(self.world().node())).map_err(|error| match error.into() {
            TokenError::Refused(refusal) => refusal,
            TokenError::Hub(refusal) => panic!("the node took nothing: {refusal}"),
        })
    }
}

impl Host for InTurn {
    fn restart(mut self, now: i64) -> InTurn {
        let world = self.world.take().map(|world| world.restart(now));
        InTurn { world, runtime: runtime(), used: Arc::clone(&self.used) }
    }

    fn settle(&self) {
        self.world().nodes.iter().for_each(Alone::catch_up);
    }
}

holdfast_tokens::selector_by_calls!(InTurn {
    fn issue(&self, tokens: Vec<Token>, now: i64) -> Result<(), Refusal> {
        self.call(now, async |vault| vault.issue(tokens).await)
    }

    fn balance(&self, scope: &Scope, now: i64) -> Result<Balance, Refusal> {
        self.call(now, async |vault| vault.holdings(scope.clone()).await.map(|(balance, _)| balance))
    }

    fn locks(&self, scope: Option<&Scope>, now: i64) -> Result<Vec<LockView>, Refusal> {
        self.call(now, async |vault| vault.locks(scope.cloned(), None, usize::MAX).await.map(|page| page.locks))
    }
});

fn start(name: &str, nodes: usize) -> Option<impl Fn() -> InTurn> {
    let used = Used::default();
    used.lock().expect("whole").push(World::start(name, nodes, Some(START))?);
    let name = name.to_owned();
    Some(move || {
        let world = used.lock().expect("whole").pop();
        let world = world.or_else(|| World::start(&name, nodes, Some(START)));
        if let Some(world) = &world {
            world.empty(START);
        }
        InTurn { world, runtime: runtime(), used: Arc::clone(&used) }
    })
}

/// The large wallet besides: it is the same to one node as to many, and takes its time.
#[test]
fn one_node_keeps_every_promise() {
    let Some(make) = start("tokens_one", 1) else { return };
    run_all(make);
}

#[test]
fn three_nodes_keep_every_promise() {
    let Some(make) = start("tokens_three", 3) else { return };
    suite().into_iter().for_each(|(_, promise)| promise(&make));
}

#[test]
fn twenty_nodes_keep_every_promise() {
    let Some(make) = start("tokens_twenty", 20) else { return };
    suite().into_iter().for_each(|(_, promise)| promise(&make));
}
