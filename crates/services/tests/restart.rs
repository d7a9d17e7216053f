//! What a service has acknowledged is there after a stop and after a kill -9, at the same address.
//!
//! These tests stop services, so they are alone in this binary, each with a service of its own.

mod clients;

use clients::{Topic, sql};

#[test]
fn postgres_comes_back_with_its_rows() {
    let Some(postgres) = holdfast_services::postgres() else { return };
    // A user's own server is not ours to stop.
    let Some(control) = postgres.control() else { return };
    let mut client = sql(&postgres);
    client.batch_execute("drop table if exists restart; create table restart (round int)").unwrap();
    for (round, end) in [(1, true), (2, false)] {
        client.execute("insert into restart values ($1)", &[&round]).unwrap();
        if end {
            control.stop()
        } else {
            control.kill()
        }
        assert!(client.query_one("select 1", &[]).is_err(), "it is still there");
        control.start();
        client = sql(&postgres);
        let rows = client.query("select round from restart order by round", &[]).unwrap();
        let rounds: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(rounds, (1..=round).collect::<Vec<_>>());
    }
    client.batch_execute("drop table restart").unwrap();
}

#[test]
fn kafka_comes_back_with_its_messages() {
    let Some(kafka) = holdfast_services::kafka() else { return };
    let Some(control) = kafka.control() else { return };
    let topic = Topic::create(&kafka, "restart");
    let first = topic.produce("before the stop");
    control.stop();
    assert!(std::net::TcpStream::connect(kafka.address()).is_err(), "it is still there");
    control.start();
    topic.produce("before the kill");
    control.kill();
    control.start();
    topic.produce("after both");
    assert_eq!(topic.consume(first, 3), ["before the stop", "before the kill", "after both"]);
    topic.delete();
}
