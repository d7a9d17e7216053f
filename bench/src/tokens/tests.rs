//! Both algorithms on the real server, with few tokens. Every case ends with its books, so that a token spent twice fails it.

use holdfast_services::Database;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: TokensBench,
}

fn asked(flags: &[&str]) -> TokensBench {
    Line::parse_from(["tokens", "--store", "postgres://u@h/d"].iter().chain(flags)).options
}

/// Both algorithms through a case, each in a database of its own.
fn both(urls: [&str; 2], options: &TokensBench, shape: Shape) -> anyhow::Result<[Speed; 2]> {
    let runtime = runtime()?;
    let play = |url: &str, engine| {
        let found = play_in(OwnDatabase::given(url)?, options, &runtime, engine, Case::peak(shape))?;
        anyhow::Ok(found.peak)
    };
    Ok([play(urls[0], Engine::Holdfast)?, play(urls[1], Engine::Sherdlock(Reading::Mixed))?])
}

fn options() -> TokensBench {
    let sizes = Sizes {
        wallets: 5,
        // Payments go to and fro at random: so many that no wallet runs dry by chance.
        tokens: 400,
        many_wallets: 4,
        many_tokens: 60,
        inputs: 10,
        requests: 4,
        warm_up: 30,
    };
    TokensBench { sizes, ..asked(&["--seconds", "1", "--callers", "16"]) }
}

#[test]
fn nothing_is_spent_twice_by_either() {
    let (Some(ours), Some(theirs)) = (Database::new("tokens_ours"), Database::new("tokens_theirs")) else {
        return;
    };
    for speed in both([ours.url(), theirs.url()], &options(), Shape::OneInput).unwrap() {
        assert!(
            speed.driven.tally.done > 0 && (speed.inputs() - 1.0).abs() < f64::EPSILON,
            "{}",
            speed.engine
        );
    }
}

#[test]
fn many_inputs_are_many() {
    let (Some(ours), Some(theirs)) = (Database::new("many_ours"), Database::new("many_theirs")) else {
        return;
    };
    for speed in both([ours.url(), theirs.url()], &options(), Shape::ManyInputs).unwrap() {
        assert!((speed.inputs() - 10.0).abs() < f64::EPSILON, "{}", speed.engine);
    }
}

#[test]
fn one_hot_token_serves_all_of_ours() {
    let (Some(ours), Some(theirs)) = (Database::new("hot_ours"), Database::new("hot_theirs")) else {
        return;
    };
    let requests = options().sizes.requests * NODES as u64;
    let [ours, theirs] = both([ours.url(), theirs.url()], &options(), Shape::HotToken).unwrap();
    let (ours, theirs) = (ours.driven.tally, theirs.driven.tally);
    assert_eq!((ours.done, ours.refused.total()), (requests, 0), "{ours:?}");
    assert_eq!(theirs.done + theirs.refused.total(), requests, "{theirs:?}");
}

#[test]
fn what_is_out_of_bounds_is_named() {
    assert!(asked(&[]).check().is_ok());
    for [flag, value] in [["--seconds", "0"], ["--runs", "0"], ["--callers", "4097"], ["--history", "0"]] {
        let error = asked(&[flag, value]).check().unwrap_err().to_string();
        assert!(error.starts_with(flag), "{error}");
    }
}
