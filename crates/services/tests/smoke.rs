//! Both services do what they are there for.

mod clients;

use clients::{Topic, sql};

#[test]
fn postgres_answers() {
    let Some(postgres) = holdfast_services::postgres() else { return };
    let mut client = sql(&postgres);
    assert_eq!(client.query_one("select 1", &[]).unwrap().get::<_, i32>(0), 1);
    // Otherwise a test of what survives a crash proves nothing.
    for setting in ["fsync", "synchronous_commit"] {
        assert_eq!(
            client.query_one(&format!("show {setting}"), &[]).unwrap().get::<_, &str>(0),
            "on",
            "{setting}"
        );
    }
}

#[test]
fn kafka_gives_back_what_it_got() {
    let Some(kafka) = holdfast_services::kafka() else { return };
    let topic = Topic::create(&kafka, "smoke");
    let offsets = ["first", "second"].map(|text| topic.produce(text));
    assert_eq!(offsets[1], offsets[0] + 1);
    assert_eq!(topic.consume(offsets[0], 2), ["first", "second"]);
    topic.delete();
}
