//! Commands that look at the servers of the database profile from outside: that they find them, change nothing, and say what is wrong.

use holdfast_postgres::{Settings, Store};
use holdfast_services::Database;

use crate::support::command::{assert_says, done, refused};
use crate::support::server::{binary, folder, run};

const TABLES: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";

#[test]
fn verify_only_looks_at_a_database() {
    let Some(database) = Database::new("verify") else { return };
    let empty = run(&["verify", "--store", database.url()]);
    refused(&empty, 1, &["there is no Holdfast schema in this database"]);
    assert_eq!(database.count(TABLES), 0);

    drop(Store::open(database.url(), Settings::default()).unwrap());
    let good = done(&run(&["verify", "--store", database.url()]));
    assert_says(&good, &["good       everything adds up"]);

    refused(&run(&["verify", "--store", database.url(), "--data", "anywhere"]), 2, &[]);
}

#[test]
fn the_environment_names_servers_to_those_who_look_and_not_to_those_who_write() {
    let Some(database) = Database::new("named") else { return };
    let folder = folder();
    let with = |arguments: &[&str], (name, value): (&str, &str)| {
        binary().args(arguments).current_dir(folder.path()).env(name, value).output().unwrap()
    };
    let store = ("HOLDFAST_STORE", database.url());
    refused(&with(&["verify"], store), 1, &["there is no Holdfast schema"]);
    refused(&with(&["verify", "--data", "here"], store), 2, &["no Holdfast data in here"]);
    refused(&with(&["verify"], ("HOLDFAST_STORE", "mysql://a")), 2, &["HOLDFAST_STORE"]);
    let generate = ["generate", "transfers", "--total", "10", "--expired", "1"];
    refused(&with(&generate, store), 2, &["--store"]);
    assert_eq!(database.count(TABLES), 0);

    let kafka = holdfast_services::kafka().expect("it goes with PostgreSQL");
    let log = ("HOLDFAST_LOG", kafka.url());
    refused(&with(&["log", "topics", "--prefix", "nobody-made-them-"], log), 1, &["nobody-made-them-"]);
    refused(&with(&["log", "topics", "--data", "here"], log), 2, &["no Holdfast data in here"]);
    refused(&run(&["log", "topics", "--data", "here", "--log", kafka.url()]), 2, &[]);
}
