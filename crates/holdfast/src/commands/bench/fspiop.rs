//! `holdfast bench fspiop`.

use std::path::PathBuf;

use holdfast_bench::fspiop::{
    CONNECTIONS_DEFAULT, FspiopOptions, IN_FLIGHT_DEFAULT, PARTICIPANTS_DEFAULT, Way, bench_fspiop,
};
use holdfast_bench::options::RUNS_DEFAULT;

use super::{Run, print_report, told};

/// Payments over the JSON path (FSPIOP 1.1) against a server of its own, with Prefer: wait and with callbacks.
///
/// A payment is POST /transfers and PUT /transfers/{id} with the real fulfilment. With callbacks the payee is called
/// before it fulfils and the payment ends when the payer is called. One that is not committed fails the run.
#[derive(Debug, clap::Args)]
pub(super) struct Fspiop {
    /// How payments are answered
    #[arg(long, value_enum, default_value = "all")]
    answers: AnswersName,
    /// Payments of each run [default: 100,000 with Prefer: wait, 30,000 with callbacks]
    #[arg(long)]
    payments: Option<u64>,
    /// Runs of each; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// Connections to the hub
    #[arg(long, default_value_t = CONNECTIONS_DEFAULT)]
    connections: usize,
    /// Payments under way at once with callbacks; with Prefer: wait each connection has one
    #[arg(long, default_value_t = IN_FLIGHT_DEFAULT)]
    in_flight: usize,
    /// Participants that payments are spread over
    #[arg(long, default_value_t = PARTICIPANTS_DEFAULT)]
    participants: u32,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AnswersName {
    /// At once: Prefer: wait
    Wait,
    /// By callbacks to a sink
    Callbacks,
    /// Both
    All,
}

pub(super) fn run(flags: Fspiop, program: PathBuf) -> anyhow::Result<()> {
    let output = flags.run.place.output;
    let report = bench_fspiop(&FspiopOptions {
        program,
        ways: match flags.answers {
            AnswersName::Wait => vec![Way::PreferWait],
            AnswersName::Callbacks => vec![Way::Callbacks],
            AnswersName::All => vec![Way::PreferWait, Way::Callbacks],
        },
        payments: flags.payments,
        runs: flags.runs,
        connections: flags.connections,
        in_flight: flags.in_flight,
        participants: flags.participants,
        data: flags.run.place.data,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
    });
    print_report(&report.map_err(told)?, output)
}
