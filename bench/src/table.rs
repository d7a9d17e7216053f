//! Figures for people.

use std::fmt;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use crate::disk::Disk;
use crate::load::LoadReport;
use crate::machine::Machine;
use crate::options::{Payers, Way};
use crate::report::{BenchReport, CaseReport, Percentiles};

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        if !self.cases.is_empty() {
            writeln!(
                f,
                "\ntwo-phase payments, {} accounts, every answer after fdatasync; milliseconds:",
                self.accounts
            )?;
            writeln!(f, "{}", speed_table(&self.cases))?;
            writeln!(f, "\nof the median run; microseconds of CPU or of the stage per payment:")?;
            writeln!(f, "{}", cost_table(&self.cases))?;
            writeln!(f, "\nthe raw disk before the median run, write + fdatasync on zeros; microseconds:")?;
            let found = self.cases.iter().filter_map(|case| Some((&*case.name, &case.median()?.disk)));
            writeln!(f, "{}", disk_table("before", found))?;
        }
        if !self.bins.is_empty() {
            writeln!(f, "\nthe bin processor alone, one core:")?;
            let mut table = new_table(&["accounts", "messages/s", "every run"]);
            for bins in &self.bins {
                let accounts = match bins.payers {
                    Payers::Uniform => bins.accounts.to_string(),
                    Payers::Hot => "one hot".to_owned(),
                };
                table.add_row(vec![
                    accounts,
                    thousands(bins.median_messages_per_second),
                    each(&bins.messages_per_second),
                ]);
            }
            writeln!(f, "{table}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} payments in {:.1} s: {}/s; settled {}, aborted {}, left to expire {}, refused {}, unknown {}",
            self.payments,
            self.seconds,
            thousands(self.payments_per_second),
            self.settled,
            self.aborted,
            self.left_to_expire,
            self.refused.values().sum::<u64>(),
            self.errors.values().sum::<u64>(),
        )?;
        for (code, count) in &self.refused {
            writeln!(f, "  refused with {code}: {count}")?;
        }
        for (error, count) in &self.errors {
            writeln!(f, "  {error}: {count}")?;
        }
        let mut table = new_table(&["ms", "p50", "p90", "p99", "p99.9", "max"]);
        for (name, latency) in
            [("payment", &self.payment_us), ("prepare", &self.prepare_us), ("second call", &self.second_us)]
        {
            let mut row = vec![name.to_owned()];
            row.extend(millis(latency));
            table.add_row(row);
        }
        writeln!(f, "{table}")?;
        write_late(f, "payment", self.late_us)
    }
}

/// A line about an open loop: how long a round waited from its place in time to its first call.
pub(crate) fn write_late(f: &mut fmt::Formatter<'_>, round: &str, late_us: Option<u64>) -> fmt::Result {
    let Some(late_us) = late_us else { return Ok(()) };
    let (ms, tenths) = (late_us / 1_000, late_us % 1_000 / 100);
    writeln!(
        f,
        "the load itself began a {round} at most {ms}.{tenths} ms late; latencies count from where it was due"
    )
}

/// What was measured, and on what.
pub(crate) fn write_machine(f: &mut fmt::Formatter<'_>, version: &str, machine: &Machine) -> fmt::Result {
    writeln!(
        f,
        "holdfast {version} on {} x {}, {:.1} GiB, Linux {}, {} on {}; server and client share the machine",
        machine.cores,
        machine.cpu,
        gibibytes(machine.memory_bytes),
        machine.kernel,
        machine.file_system,
        machine.device
    )
}

pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn speed_table(cases: &[CaseReport]) -> Table {
    let header = ["shape", "payments/s", "every run", "of one", "p50", "p90", "p99", "p99.9", "max"];
    let mut table = new_table(&header);
    for case in cases {
        let Some(run) = case.median() else { continue };
        let rates: Vec<f64> = case.runs.iter().map(|run| run.payments_per_second).collect();
        // A batch is felt request by request, a single payment as a whole.
        let rows: &[(&str, &Percentiles)] = match case.case.way {
            Way::Batches { .. } => {
                &[("prepare request", &run.prepare_us), ("fulfil request", &run.fulfil_us)]
            }
            Way::Singles { .. } => &[("payment", &run.payment_us)],
        };
        for (index, (of, latency)) in rows.iter().enumerate() {
            let mut row = match index {
                0 => vec![case.name.clone(), thousands(case.median_payments_per_second), each(&rates)],
                _ => vec![String::new(); 3],
            };
            row.push((*of).to_owned());
            row.extend(millis(latency));
            table.add_row(row);
        }
    }
    table
}

fn cost_table(cases: &[CaseReport]) -> Table {
    let stages: std::collections::BTreeSet<&String> =
        cases.iter().flat_map(|case| &case.runs).flat_map(|run| run.stage_us_per_payment.keys()).collect();
    let mut header = vec!["shape", "server", "client"];
    header.extend(stages.iter().map(|stage| stage.as_str()));
    header.extend(["B written", "records/frame", "RSS MiB", "load"]);
    let mut table = new_table(&header);
    for case in cases {
        let Some(run) = case.median() else { continue };
        let mut row = vec![
            case.name.clone(),
            format!("{:.2}", run.server_cpu_us_per_payment),
            format!("{:.2}", run.client_cpu_us_per_payment),
        ];
        row.extend(stages.iter().map(|stage| match run.stage_us_per_payment.get(*stage) {
            Some(time) => format!("{time:.2}"),
            None => String::new(),
        }));
        row.push(run.written_bytes_per_payment.map_or(String::new(), |bytes| format!("{bytes:.0}")));
        row.push(format!("{:.0}", run.records_per_frame));
        row.push((run.server_rss_peak_bytes / (1024 * 1024)).to_string());
        row.push(run.load_average.clone());
        table.add_row(row);
    }
    table
}

/// The raw disk as it was found; `when` says what the names in the first column mean.
pub(crate) fn disk_table<'r>(when: &str, found: impl IntoIterator<Item = (&'r str, &'r Disk)>) -> Table {
    let header = [when, "4 KiB p50", "4 KiB p99", "4 KiB /s", "256 KiB p50", "256 KiB p99", "256 KiB /s"];
    let mut table = new_table(&header);
    for (name, disk) in found {
        let mut row = vec![name.to_owned()];
        for writes in [&disk.small, &disk.large] {
            row.push(writes.latency_us.p50.to_string());
            row.push(writes.latency_us.p99.to_string());
            row.push(thousands(writes.per_second));
        }
        table.add_row(row);
    }
    table
}

/// `1234567.8` as `1,234,568`.
pub(crate) fn thousands(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The same of a count.
#[allow(clippy::cast_precision_loss, reason = "for the eye")]
pub(crate) fn thousands_of(number: u64) -> String {
    thousands(number as f64)
}

pub(crate) fn each(rates: &[f64]) -> String {
    rates.iter().map(|rate| thousands(*rate)).collect::<Vec<_>>().join(" / ")
}

/// A row's cells; dashes where nothing was measured.
pub(crate) fn millis(latency: &Percentiles) -> Vec<String> {
    if *latency == Percentiles::default() {
        return vec!["-".to_owned(); 5];
    }
    let of = |micros: u64| format!("{}.{:02}", micros / 1000, micros % 1000 / 10);
    [latency.p50, latency.p90, latency.p99, latency.p99_9, latency.max].map(of).to_vec()
}

#[allow(clippy::cast_precision_loss, reason = "for the eye")]
fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0 * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_grouped() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_000.0), "1,000");
        assert_eq!(thousands(1_234_567.8), "1,234,568");
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        assert_eq!(millis(&Percentiles::default()), ["-"; 5]);
        let some = Percentiles { p50: 1_230, p90: 1_230, p99: 1_230, p99_9: 1_230, max: 1_230 };
        assert_eq!(millis(&some), ["1.23"; 5]);
    }
}
