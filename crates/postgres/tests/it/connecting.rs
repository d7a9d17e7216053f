//! Databases that are not there, or not set up: what is said of them, and that looking changes nothing.

use holdfast_postgres::{Error, Settings, Store};

use crate::world::World;

const TABLES: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";

fn refusal(opened: Result<Store, Error>) -> String {
    opened.err().expect("it cannot be opened").to_string()
}

#[test]
fn whoever_only_looks_makes_nothing() {
    let Some(world) = World::new() else { return };
    assert!(matches!(Store::open_to_read(&world.url), Err(Error::NoSchema)));
    assert_eq!(world.count(TABLES), 0, "it is as empty as it was");

    drop(world.store());
    let newest = world.count("SELECT max(version)::bigint FROM schema_version");
    let mut looking = Store::open_to_read(&world.url).unwrap();
    assert_eq!(looking.verify().unwrap().faults, 0);
    let refused = looking.fix("partitions.transfers", 12).unwrap_err().to_string();
    assert!(refused.contains("read-only"), "{refused}");
    assert_eq!(world.rows("fixed_setting"), 2, "those of the node that has set it up, and no more");

    let older = newest - 1;
    world.sql().execute("DELETE FROM schema_version WHERE version > $1::bigint", &[&older]).unwrap();
    let Err(Error::TooOld { found, known }) = Store::open_to_read(&world.url) else { panic!("it is older") };
    assert_eq!((i64::from(found), i64::from(known)), (older, newest));
    assert_eq!(world.count("SELECT max(version)::bigint FROM schema_version"), older, "not migrated");
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let Some(world) = World::new() else { return };
    let (base, _) = world.url.rsplit_once('/').unwrap();
    let (_, server) = base.rsplit_once('@').unwrap();
    let missing = refusal(Store::open(&format!("{base}/nobody_made_it"), Settings::default()));
    assert!(missing.starts_with(&format!("PostgreSQL at {server} refuses: ")), "{missing}");
    assert!(missing.contains("\"nobody_made_it\" does not exist; create it: createdb -h "), "{missing}");

    let stranger = format!("postgres://stranger:secret@{server}/postgres");
    let unknown = refusal(Store::open(&stranger, Settings::default()));
    assert!(unknown.contains("\"stranger\" does not exist") && unknown.contains("createuser"), "{unknown}");
    assert!(!unknown.contains("secret"), "{unknown}");
}
