//! Commands that look at the servers of the database profile from outside: that they find them, change nothing, and say what is wrong.

use std::process::Output;

use holdfast_postgres::{Settings, Store};
use holdfast_services::Database;

use crate::support::server::{binary, folder, run};

const TABLES: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).expect("text")
}

#[test]
fn verify_only_looks_at_a_database() {
    let Some(database) = Database::new("verify") else { return };
    let empty = run(&["verify", "--store", database.url()]);
    assert!(!empty.status.success(), "{}", said(&empty));
    assert!(said(&empty).contains("there is no Holdfast schema in this database"), "{}", said(&empty));
    assert_eq!(database.count(TABLES), 0);

    drop(Store::open(database.url(), Settings::default()).unwrap());
    let good = run(&["verify", "--store", database.url()]);
    assert!(
        good.status.success() && said(&good).contains("good       everything adds up"),
        "{}",
        said(&good)
    );

    let both = run(&["verify", "--store", database.url(), "--data", "anywhere"]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
}

#[test]
fn the_environment_names_servers_to_those_who_look_and_not_to_those_who_write() {
    let Some(database) = Database::new("named") else { return };
    let folder = folder();
    let with = |arguments: &[&str], (name, value): (&str, &str)| {
        binary().args(arguments).current_dir(folder.path()).env(name, value).output().unwrap()
    };
    let store = ("HOLDFAST_STORE", database.url());
    let verified = with(&["verify"], store);
    assert!(said(&verified).contains("there is no Holdfast schema"), "{}", said(&verified));
    let directory = with(&["verify", "--data", "here"], store);
    assert!(said(&directory).contains("no Holdfast data in here"), "{}", said(&directory));
    let wrong = with(&["verify"], ("HOLDFAST_STORE", "mysql://a"));
    assert!(wrong.status.code() == Some(2) && said(&wrong).contains("HOLDFAST_STORE"), "{}", said(&wrong));
    let generated = with(&["generate", "transfers", "--total", "10", "--expired", "1"], store);
    assert!(
        generated.status.code() == Some(2) && said(&generated).contains("--store"),
        "{}",
        said(&generated)
    );
    assert_eq!(database.count(TABLES), 0);

    let kafka = holdfast_services::kafka().expect("it goes with PostgreSQL");
    let log = ("HOLDFAST_LOG", kafka.url());
    let topics = with(&["log", "topics", "--prefix", "nobody-made-them-"], log);
    assert!(said(&topics).contains("nobody-made-them-"), "{}", said(&topics));
    let directory = with(&["log", "topics", "--data", "here"], log);
    assert!(said(&directory).contains("no Holdfast data in here"), "{}", said(&directory));
    let both = run(&["log", "topics", "--data", "here", "--log", kafka.url()]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
}
