//! Figures of a depth run for people.

use std::collections::BTreeSet;
use std::fmt;

use comfy_table::{CellAlignment, Table};

use super::report::{Around, Checkpoints, DepthReport, Expiry, Restart, Sample, Window};
use super::verdict::mebibytes;
use crate::table::{disk_table, new_table, thousands, write_machine};

impl fmt::Display for DepthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        let asked = &self.asked;
        writeln!(
            f,
            "{}; load average {} before\n\n{} two-phase payments on one data directory, batches of {}, {} connections, {} \
             accounts, every answer after fdatasync.\nPer window; microseconds of CPU and bytes per payment up to the next \
             window, milliseconds of a request, MiB:",
            self.date,
            self.load_average_before,
            count(asked.payments),
            count(asked.records_per_request as u64),
            asked.connections,
            count(asked.accounts.into()),
        )?;
        writeln!(f, "{}", window_table(&self.windows))?;
        write_change(f, &self.windows)?;
        write_checkpoints(f, "checkpoints", self.checkpoints.as_ref())?;
        if self.restarts.len() > 1 {
            write_checkpoints(f, "checkpoints with the open holds", self.checkpoints_with_holds.as_ref())?;
        }
        let looks = &self.looks;
        writeln!(
            f,
            "beside it {} looks at /metrics of {} µs, {:.0} µs of the client's CPU each",
            looks.looks, looks.mean_us, looks.cpu_us_each
        )?;
        if !self.restarts.is_empty() {
            writeln!(f, "\nrestarts; milliseconds from the start of the program, peaks of memory:")?;
            writeln!(f, "{}", restart_table(&self.restarts))?;
            writeln!(f, "\nids asked for again after each kill:\n{}", sample_table(&self.restarts))?;
        }
        if let Some(expiry) = &self.expiry {
            write_expiry(f, expiry)?;
        }
        writeln!(f, "\nthe raw disk, write + fdatasync on zeros; microseconds:")?;
        let after = self.disk_after.iter().map(|disk| ("afterwards", disk));
        let found = std::iter::once(("before", &self.disk_before)).chain(after);
        writeln!(f, "{}", disk_table("", found))?;
        let mut table = new_table(&["must", "bound", "found", ""]);
        table.column_iter_mut().for_each(|column| {
            column.set_cell_alignment(CellAlignment::Left);
        });
        for verdict in &self.verdicts {
            let word = match verdict.holds {
                Some(true) => "holds",
                Some(false) => "MISSED",
                None => "not seen",
            };
            table.add_row([&verdict.what, &verdict.must, &verdict.found, word]);
        }
        writeln!(f, "\n{table}")?;
        match &self.failed {
            Some(reason) => writeln!(f, "the run ended early: {reason}"),
            None => Ok(()),
        }
    }
}

fn window_table(windows: &[Window]) -> Table {
    let folders: BTreeSet<&String> = windows.iter().flat_map(|window| window.folder_bytes.keys()).collect();
    let mut header: Vec<String> = [
        "payments",
        "/s",
        "CPU",
        "client",
        "B process",
        "B device",
        "p50",
        "p99",
        "max",
        "RSS",
        "peak",
        "ckpts",
    ]
    .map(str::to_owned)
    .to_vec();
    header.extend(folders.iter().map(|folder| format!("{folder}/")));
    header.push("load".to_owned());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = new_table(&header);
    for window in windows {
        let latency = &window.request_us;
        let mut row = vec![
            count(window.after_payments + window.payments),
            thousands(window.payments_per_second),
            format!("{:.2}", window.server_cpu_us_per_payment),
            format!("{:.2}", window.client_cpu_us_per_payment),
            format!("{:.0}", window.process_written_bytes_per_payment),
            window.device_written_bytes_per_payment.map_or_else(String::new, |bytes| format!("{bytes:.0}")),
            ms(latency.p50),
            ms(latency.p99),
            ms(latency.max),
            mebibytes(window.rss_bytes).to_string(),
            mebibytes(window.rss_peak_bytes).to_string(),
            window.checkpoints.map_or_else(|| "?".to_owned(), |seen| seen.to_string()),
        ];
        row.extend(folders.iter().map(|folder| {
            window.folder_bytes.get(*folder).map_or_else(String::new, |bytes| mebibytes(*bytes).to_string())
        }));
        row.push(window.load_average.clone());
        table.add_row(row);
    }
    table
}

fn write_checkpoints(f: &mut fmt::Formatter<'_>, what: &str, seen: Option<&Checkpoints>) -> fmt::Result {
    let Some(seen) = seen else { return writeln!(f, "{what}: not seen, the server does not tell of any") };
    let mean = seen.mean_seconds.map_or_else(String::new, |mean| format!(" of {:.0} ms", mean * 1e3));
    writeln!(
        f,
        "{what}: {}{mean}; requests beside them {}, p99 {} ms, max {} ms; all requests p99 {} ms, max {} ms",
        seen.counted,
        seen.requests_beside,
        ms(seen.request_us_beside.p99),
        ms(seen.request_us_beside.max),
        ms(seen.request_us.p99),
        ms(seen.request_us.max),
    )
}

fn restart_table(restarts: &[Restart]) -> Table {
    let header = [
        "after",
        "payments",
        "open holds",
        "found",
        "unknown requests",
        "stop",
        "listens",
        "ready",
        "first payment",
        "MiB before",
        "MiB after",
    ];
    let mut table = new_table(&header);
    for restart in restarts {
        table.add_row(vec![
            restart.after.clone(),
            count(restart.payments),
            count(restart.open_holds),
            count(restart.open_holds_found),
            restart.requests_under_way.to_string(),
            restart.stop_ms.map_or_else(String::new, |ms| ms.to_string()),
            restart.listening_ms.to_string(),
            restart.ready_ms.to_string(),
            restart.first_payment_ms.to_string(),
            mebibytes(restart.rss_peak_before_bytes).to_string(),
            mebibytes(restart.rss_peak_bytes).to_string(),
        ]);
    }
    table
}

fn sample_table(restarts: &[Restart]) -> Table {
    let mut table = new_table(&["after", "ids of", "ids", "wrong", "µs each"]);
    for restart in restarts {
        for sample in in_three(&restart.samples) {
            table.add_row(vec![
                restart.after.clone(),
                sample.of.clone(),
                count(sample.ids),
                sample.wrong.to_string(),
                format!("{:.1}", sample.us_per_id),
            ]);
        }
    }
    table
}

/// The first, all between, and the last: a long run has many windows.
fn in_three(samples: &[Sample]) -> Vec<Sample> {
    let [first, between @ .., last] = samples else { return samples.to_vec() };
    let ids = between.iter().map(|sample| sample.ids).sum::<u64>();
    #[allow(clippy::cast_precision_loss, reason = "a printed mean")]
    let micros: f64 = between.iter().map(|sample| sample.us_per_id * sample.ids as f64).sum();
    #[allow(clippy::cast_precision_loss, reason = "a printed mean")]
    let merged = Sample {
        of: "the other windows".to_owned(),
        ids,
        wrong: between.iter().map(|sample| sample.wrong).sum(),
        us_per_id: micros / ids.max(1) as f64,
    };
    vec![first.clone(), merged, last.clone()]
}

/// The last window beside the first one.
fn write_change(f: &mut fmt::Formatter<'_>, windows: &[Window]) -> fmt::Result {
    let [first, .., last] = windows else { return Ok(()) };
    let change = |of: fn(&Window) -> f64| (of(last) / of(first).max(f64::MIN_POSITIVE) - 1.0) * 100.0;
    writeln!(
        f,
        "the last window against the first: payments/s {:+.0} %, server CPU {:+.0} %, p99 {} ms after {} ms",
        change(|window| window.payments_per_second),
        change(|window| window.server_cpu_us_per_payment),
        ms(last.request_us.p99),
        ms(first.request_us.p99),
    )
}

fn write_expiry(f: &mut fmt::Formatter<'_>, expiry: &Expiry) -> fmt::Result {
    writeln!(
        f,
        "\n{} holds expire at once, all gone after {} ms, beside payments at a pace of {}/s; milliseconds from when a \
         request was due:",
        count(expiry.holds),
        expiry.all_expired_ms,
        thousands(expiry.payments_per_second_due),
    )?;
    let mut table = new_table(&["", "seconds", "payments/s", "p50", "p99", "max"]);
    let rows: [(&str, &Around); 3] =
        [("before", &expiry.before), ("during", &expiry.during), ("after", &expiry.after)];
    for (name, around) in rows {
        let latency = &around.request_us;
        table.add_row(vec![
            name.to_owned(),
            format!("{:.1}", around.seconds),
            thousands(around.payments_per_second),
            ms(latency.p50),
            ms(latency.p99),
            ms(latency.max),
        ]);
    }
    writeln!(f, "{table}")?;
    let mut table = new_table(&["second", "payments", "p99", "max", "open holds", "RSS MiB"]);
    for second in &expiry.by_second {
        table.add_row(vec![
            format!("{:+}", second.from),
            count(second.payments),
            ms(second.request_us.p99),
            ms(second.request_us.max),
            second.open_holds.map_or_else(String::new, thousands),
            second.rss_bytes.map_or_else(String::new, |bytes| mebibytes(bytes).to_string()),
        ]);
    }
    writeln!(f, "{table}")?;
    writeln!(
        f,
        "memory: {} MiB without the holds, {} with them, {} at most while they expired, {} afterwards",
        mebibytes(expiry.rss_before_holds_bytes),
        mebibytes(expiry.rss_with_holds_bytes),
        mebibytes(expiry.rss_most_bytes),
        mebibytes(expiry.rss_after_bytes),
    )
}

#[allow(clippy::cast_precision_loss, reason = "for the eye")]
fn count(number: u64) -> String {
    thousands(number as f64)
}

fn ms(micros: u64) -> String {
    format!("{}.{:02}", micros / 1000, micros % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_between_are_told_as_one() {
        let sample = |of: &str, ids, wrong, us_per_id| Sample { of: of.to_owned(), ids, wrong, us_per_id };
        let samples = [
            sample("1", 10, 0, 9.0),
            sample("2", 30, 1, 1.0),
            sample("3", 10, 2, 5.0),
            sample("k", 5, 0, 1.0),
        ];
        let told = in_three(&samples);
        assert_eq!(
            told.iter().map(|sample| sample.of.as_str()).collect::<Vec<_>>(),
            ["1", "the other windows", "k"]
        );
        assert_eq!((told[1].ids, told[1].wrong), (40, 3));
        assert!((told[1].us_per_id - 2.0).abs() < 1e-9);
        assert_eq!(in_three(&samples[..1]).len(), 1);
    }
}
