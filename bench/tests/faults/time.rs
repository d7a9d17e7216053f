//! Faults 14, 15 and 16: clocks, other tables, copies.

use holdfast_domain::ids::TransferId;
use holdfast_postgres::DataSet;

use crate::document::*;
use crate::world::*;

#[test]
fn fault_14_the_session_decides_what_time_it_is() {
    let Some(world) = World::new() else { return };
    let mut document = Document::new(&world);
    document.client.batch_execute("SET TIME ZONE 'UTC'").unwrap();
    document.transfer("x", IN_AN_HOUR, &["RECEIVED_PREPARE"]);
    assert_eq!(document.listed(), [""; 0]);
    document.client.batch_execute("SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE").unwrap();
    assert_eq!(document.listed(), ["x"], "an hour early");
    // And a fraction of a second is not kept.
    let kept = "INSERT INTO seed.transfer VALUES ('y', '2030-01-01 00:00:00.4')
         RETURNING expirationDate = '2030-01-01 00:00:00'";
    assert!(document.client.query_one(kept, &[]).unwrap().get::<_, bool>(0));

    let name = world.url.rsplit('/').next().unwrap().to_owned();
    world.sql().batch_execute(&format!("ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")).unwrap();
    let (mut cluster, payer, payee) = ours(&world);
    cluster.ask(&[prepare(1, payer.0, payee.0, 1, NOW + 3_600_999)]);
    for at in [3_600_000, 3_600_998, 3_600_999] {
        world.set_clock(NOW + at);
        assert_eq!(cluster.expire(), 0, "{at}");
    }
    world.set_clock(NOW + 3_601_000);
    assert_eq!(cluster.expire(), 1, "to the millisecond");
    world.verify();
}

/// Ours has no foreign exchange. What can run out has an `expiration_date`, and only one table beside that of the expiry
/// has such a column: whoever adds another must come by here.
#[test]
fn fault_15_a_hold_in_another_table_is_never_read() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    document
        .client
        .batch_execute(
            "CREATE TABLE seed.fxTransfer AS
                 SELECT 'fx' AS commitRequestId, localtimestamp - interval '1 hour' AS expirationDate;
             CREATE TABLE seed.fxTransferStateChange AS SELECT 'fx' AS commitRequestId, 'RESERVED' AS transferStateId",
        )
        .unwrap();
    assert_eq!(document.listed(), ["x"], "and not the other");

    drop(world.store());
    let rows = world.sql().query(
        "SELECT table_name::text FROM information_schema.columns
         WHERE column_name = 'expiration_date' AND table_schema = 'public' ORDER BY table_name",
        &[],
    );
    let tables: Vec<String> = rows.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(tables, ["transfer", "transfer_timeout"]);
}

#[test]
fn fault_16_a_copied_expiration_stays_behind() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, IN_AN_HOUR, &["RECEIVED_PREPARE"]);
    document.run().unwrap();
    document
        .client
        .batch_execute("UPDATE seed.transfer SET expirationDate = expirationDate - interval '2 hours'")
        .unwrap();
    assert_eq!(document.listed(), [""; 0], "it ran out an hour ago");

    // Ours moves both copies together; and a copy that was left behind is a finding.
    let (mut cluster, payer, payee) = ours(&world);
    cluster.ask(&[prepare(1, payer.0, payee.0, 1, NOW + 3_600_000)]);
    assert_eq!(cluster.store.shift_expirations(-7_200_000).unwrap(), 1);
    world.verify();
    assert_eq!(cluster.expire(), 1);
    assert_eq!(world.state(TransferId(1)), "EXPIRED_RESERVED");
    world.verify();
    let data = DataSet { total: 50, expired: 5, hours: (1, 2), ..DataSet::default() };
    cluster.store.generate(&data, |_| ()).unwrap();
    world
        .sql()
        .batch_execute("UPDATE transfer SET expiration_date = expiration_date + interval '1 hour'")
        .unwrap();
    let found = cluster.store.verify().unwrap().findings;
    assert!(found.iter().any(|finding| finding.table == "transfer_timeout"), "{found:?}");
}
