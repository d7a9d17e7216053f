//! Whether PostgreSQL answers, asked for its own sake: callers who would notice may be away, and whoever met its end may not
//! come again. It is asked by telling it that this node lives.

use crate::reads::{ReadError, Reads};
use crate::settings::{NODE_SEEN, PROBE_EVERY};
use crate::stop::Stop;

/// Asks again and again, until it is over.
pub(crate) fn probe(reads: &Reads, node: i64, stop: &Stop) {
    let mut answers = true;
    while !stop.pause(PROBE_EVERY) {
        // The part is told by whoever answers, here as for any question. If all connections are in use, those who use them
        // learn what there is to learn.
        let asked: Result<(), ReadError> = reads.ask(|store| store.lives(node, NODE_SEEN));
        answers = asked.is_ok();
    }
    if answers {
        // If it fails after all, the others know a little later.
        let _: Result<(), ReadError> = reads.ask(|store| store.lives_no_more(node));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::Instant;

    use holdfast_postgres::Store;
    use holdfast_services::{Database, PATIENCE};

    use super::*;
    use crate::health::{Health, Part};
    use crate::scene::without_kafka;
    use crate::settings::READERS_MAX;

    fn await_trouble(part: &Part, wanted: bool) {
        let deadline = Instant::now() + PATIENCE;
        while part.trouble().is_some() != wanted {
            assert!(Instant::now() < deadline, "{:?}", part.trouble());
            std::thread::park_timeout(PROBE_EVERY / 10);
        }
    }

    /// Questions with as many connections as there may be, which are idle afterwards.
    fn crowded(database: &Database, part: &Arc<Part>) -> Reads {
        let reads = Reads::new(without_kafka(database), Arc::clone(part));
        let together = Barrier::new(READERS_MAX);
        let ask = || reads.ask(|store| store.answers().map(|()| together.wait())).map(drop);
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..READERS_MAX).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().for_each(|asking| asking.join().unwrap().unwrap());
        });
        reads
    }

    #[test]
    fn a_store_that_goes_and_comes_is_noticed_although_nobody_asks() {
        let Some(database) = Database::new("probe") else { return };
        let part = Health::default().part("store");
        let reads = crowded(&database, &part);
        assert_eq!(part.trouble(), None);
        let stop: Arc<Stop> = Arc::default();
        let stopped = Arc::clone(&stop);
        let probing = std::thread::spawn(move || probe(&reads, 1, &stopped));
        database.shut();
        await_trouble(&part, true);
        database.reopen();
        await_trouble(&part, false);
        let lives = "SELECT count(*) FROM node WHERE seen_until > hub_clock()";
        database.await_count(lives, |nodes| nodes == 1);
        stop.set();
        probing.join().unwrap();
        assert_eq!(database.count(lives), 0, "it has said that it ends");
    }

    #[test]
    fn one_loss_is_enough_to_know_of_all_connections() {
        let Some(database) = Database::new("probe") else { return };
        let reads = crowded(&database, &Health::default().part("store"));
        database.shut();
        database.reopen();
        reads.ask(Store::answers).expect("the second attempt is made on a new connection");
    }
}
