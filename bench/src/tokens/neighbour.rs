//! Whoever else uses the table of tokens: reads a wallet and adds a row, again and again, and feels what the nodes do to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_load::figures::Latency;
use holdfast_tokens::{Name, Random};

use super::node::CURRENCY;
use super::sherdlock::{Trouble, connect};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
const READ: &str = "SELECT token_id, quantity::text FROM token
     WHERE wallet = $1 AND token_type = 'token' AND currency = $2";
/// Of a type that no node selects and the books leave out.
const WRITE: &str = "INSERT INTO token (token_id, wallet, token_type, currency, quantity, created_at)
     VALUES ($1, 'neighbour', 'foreign', $2, 1, now())";

/// What it felt.
#[derive(Default)]
pub(crate) struct Felt {
    pub(crate) read: Latency,
    pub(crate) write: Latency,
}

/// Looks until it is told to stop. `name` tells its rows from those of others.
pub(crate) async fn look(
    url: String,
    name: String,
    wallets: Arc<[Name]>,
    stop: Arc<AtomicBool>,
) -> Result<Felt, Trouble> {
    let client = connect(&url).await?;
    let (read, write) = (client.prepare(READ).await?, client.prepare(WRITE).await?);
    let mut felt = Felt::default();
    let mut random = Random::new(0);
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let wallet = &*wallets[random.index(wallets.len())];
        let begun = Instant::now();
        client.query(&read, &[&wallet, &CURRENCY]).await?;
        felt.read.record(begun.elapsed());
        let begun = Instant::now();
        client.execute(&write, &[&format!("{name}-{number}"), &CURRENCY]).await?;
        felt.write.record(begun.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(felt)
}
