//! What a run found, in one shape for people and for programs: a title, the machine it was found on, and tables whose rows
//! name their columns. `--output json` prints the same rows, each as an object.

use std::fmt;
use std::path::Path;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table as Drawing};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::figures::Percentiles;
use crate::machine::{Machine, load_average};

/// What a run found.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    title: String,
    #[serde(flatten)]
    origin: Option<Origin>,
    /// Figures by name, for programs; people read them in the title and the tables.
    #[serde(flatten)]
    figures: Map<String, Value>,
    tables: Vec<Table>,
}

/// On what, with what and when it was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Origin {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    date: String,
    machine: Machine,
    /// Before the run.
    load_average: String,
}

/// Rows under a heading, and what there is to say beside them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    title: String,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// One line: its columns by name, in the order in which they are shown.
#[derive(Debug, Clone, Default)]
pub struct Row(Vec<(String, Cell)>);

/// One value.
#[derive(Debug, Clone)]
enum Cell {
    Nothing,
    Word(String),
    Count(u64),
    /// With so many decimals for people.
    Number(f64, usize),
    /// The same of every run.
    Each(Vec<f64>, usize),
}

impl Report {
    /// A report that says what it is about.
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), ..Report::default() }
    }

    /// A report of something measured on this machine, with its data in this directory.
    pub fn measured(title: impl Into<String>, data: &Path) -> Report {
        let origin = Origin {
            version: env!("CARGO_PKG_VERSION"),
            commit: None,
            date: format!("{:.0}", jiff::Timestamp::now()),
            machine: Machine::of(data),
            load_average: load_average(),
        };
        Report { origin: Some(origin), ..Report::new(title) }
    }

    /// The commit that the program was built from.
    pub fn set_commit(&mut self, commit: String) {
        if let Some(origin) = &mut self.origin {
            origin.commit = Some(commit);
        }
    }

    /// Says what it is about, if only the end tells.
    pub fn set_title(&mut self, title: impl Into<String>) {
        self.title = title.into();
    }

    /// A figure for programs.
    pub fn figure(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).expect("a figure can be written");
        self.figures.insert(name.to_owned(), value);
    }

    /// Each field of a struct as a figure.
    pub fn figures(&mut self, fields: &impl Serialize) {
        if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
            self.figures.extend(fields);
        }
    }

    /// A figure that is there.
    pub fn get(&self, name: &str) -> &Value {
        self.figures.get(name).unwrap_or(&Value::Null)
    }

    /// A further table.
    pub fn table(&mut self, title: impl Into<String>, rows: impl IntoIterator<Item = Row>) -> &mut Table {
        let table = Table { title: title.into(), rows: rows.into_iter().collect(), notes: Vec::new() };
        self.tables.push(table);
        self.tables.last_mut().expect("it was just added")
    }

    /// The tables of another report after these, under its title.
    pub fn append(&mut self, other: Report) {
        self.tables.push(Table { title: other.title, ..Table::default() });
        self.tables.extend(other.tables);
    }

    /// A sentence after what is there so far.
    pub fn note(&mut self, note: impl Into<String>) {
        if self.tables.is_empty() {
            self.tables.push(Table::default());
        }
        self.tables.last_mut().expect("there is one").note(note);
    }
}

impl Table {
    /// A further row.
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A sentence under the rows.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn drawing(&self) -> Drawing {
        let mut columns: Vec<&str> = Vec::new();
        for (column, _) in self.rows.iter().flat_map(|row| &row.0) {
            if !columns.contains(&column.as_str()) {
                columns.push(column);
            }
        }
        let mut drawing = Drawing::new();
        drawing.load_style(UTF8_FULL_CONDENSED).set_header(columns.clone());
        for row in &self.rows {
            drawing.add_row(columns.iter().map(|column| row.cell(column).to_string()));
        }
        for (at, name) in columns.iter().enumerate() {
            let is_word = |row: &Row| matches!(row.cell(name), Cell::Word(_) | Cell::Nothing);
            if let Some(column) = drawing.column_mut(at).filter(|_| !self.rows.iter().all(is_word)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        drawing
    }
}

impl Row {
    /// Begins a row with what it is about.
    pub fn of(column: &str, name: impl Into<String>) -> Row {
        Row::default().word(column, name)
    }

    fn with(mut self, column: &str, cell: Cell) -> Row {
        self.0.push((column.to_owned(), cell));
        self
    }

    fn cell(&self, column: &str) -> &Cell {
        self.0.iter().find(|(name, _)| name == column).map_or(&Cell::Nothing, |(_, cell)| cell)
    }

    /// A text.
    pub fn word(self, column: &str, word: impl Into<String>) -> Row {
        self.with(column, Cell::Word(word.into()))
    }

    /// A whole number.
    pub fn count(self, column: &str, count: u64) -> Row {
        self.with(column, Cell::Count(count))
    }

    /// Bytes, shown in MiB.
    pub fn mebibytes(self, column: &str, bytes: u64) -> Row {
        self.count(column, bytes.div_ceil(1024 * 1024))
    }

    /// A number of which so many decimals are shown.
    pub fn number(self, column: &str, number: f64, decimals: usize) -> Row {
        self.with(column, Cell::Number(number, decimals))
    }

    /// The same where it may not have been measured.
    pub fn maybe(self, column: &str, number: Option<f64>, decimals: usize) -> Row {
        self.with(column, number.map_or(Cell::Nothing, |number| Cell::Number(number, decimals)))
    }

    /// The same number of every run.
    pub fn each(self, column: &str, numbers: &[f64], decimals: usize) -> Row {
        self.with(column, Cell::Each(numbers.to_vec(), decimals))
    }

    /// A latency in milliseconds. Where nothing was measured nothing is shown.
    pub fn latency(self, latency: &Percentiles) -> Row {
        let Percentiles { p50, p90, p99, p99_9, max } = *latency;
        let columns = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p99_9), ("max", max)];
        let seen = *latency != Percentiles::default();
        let shown = |row: Row, (name, micros)| row.maybe(name, seen.then(|| millis(micros)), 2);
        columns.into_iter().fold(self, shown)
    }

    /// The cells of another row after these.
    pub fn and(mut self, row: Row) -> Row {
        self.0.extend(row.0);
        self
    }
}

/// Microseconds as milliseconds.
pub fn millis(micros: u64) -> f64 {
    crate::figures::per(micros, 1_000)
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(column, cell)| (column, cell)))
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Nothing => serializer.serialize_none(),
            Cell::Word(word) => word.serialize(serializer),
            Cell::Count(count) => count.serialize(serializer),
            Cell::Number(number, _) => number.serialize(serializer),
            Cell::Each(numbers, _) => numbers.serialize(serializer),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Nothing => Ok(()),
            Cell::Word(word) => f.write_str(word),
            Cell::Count(count) => f.write_str(&thousands(&count.to_string())),
            Cell::Number(number, decimals) => f.write_str(&grouped(*number, *decimals)),
            Cell::Each(numbers, decimals) => {
                let each: Vec<String> = numbers.iter().map(|number| grouped(*number, *decimals)).collect();
                f.write_str(&each.join(" / "))
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Origin { version, commit, date, machine, load_average }) = &self.origin {
            let commit = commit.as_ref().map_or_else(String::new, |commit| format!(" ({commit})"));
            writeln!(
                f,
                "holdfast {version}{commit}, {date}, on {machine}; load average {load_average} before"
            )?;
        }
        writeln!(f, "{}", self.title)?;
        for table in &self.tables {
            if !table.title.is_empty() {
                writeln!(f, "\n{}", table.title)?;
            }
            if !table.rows.is_empty() {
                writeln!(f, "{}", table.drawing())?;
            }
            for note in &table.notes {
                writeln!(f, "{note}")?;
            }
        }
        Ok(())
    }
}

/// A number with its thousands apart: `1234567.8` with no decimals is `1,234,568`.
pub fn grouped(number: f64, decimals: usize) -> String {
    thousands(&format!("{number:.decimals$}"))
}

/// The same of a count.
pub fn grouped_count(count: u64) -> String {
    thousands(&count.to_string())
}

fn thousands(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0.0, 0), "0");
        assert_eq!(grouped(999.4, 0), "999");
        assert_eq!(grouped(1_000.0, 0), "1,000");
        assert_eq!(grouped(1_234_567.8, 0), "1,234,568");
        assert_eq!(grouped(-1_234.567, 2), "-1,234.57");
        assert_eq!(grouped_count(12_345), "12,345");
    }

    #[test]
    fn what_was_not_measured_is_nothing() {
        let nothing = Row::default().latency(&Percentiles::default());
        assert_eq!(serde_json::to_value(nothing).unwrap()["p99"], Value::Null);
        let some = Percentiles { p50: 1_230, p90: 1_230, p99: 1_230, p99_9: 1_230, max: 1_230 };
        assert_eq!(Row::default().latency(&some).cell("p99.9").to_string(), "1.23");
    }

    #[test]
    fn people_and_programs_read_the_same_rows() {
        let mut report = Report::new("two cases");
        report.figure("seconds", 2);
        let first =
            Row::of("case", "first").number("payments/s", 12_345.6, 0).each("every run", &[1.0, 2.5], 1);
        report.table("cases:", [first, Row::of("case", "second").count("failed", 7)]).note("all told");
        let text = report.to_string();
        for part in ["two cases\n", "\ncases:\n", "12,346", "1.0 / 2.5", "failed", "all told\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["seconds"], 2);
        assert_eq!(json["tables"][0]["rows"][0]["payments/s"], 12_345.6);
        assert_eq!(json["tables"][0]["rows"][0]["every run"][1], 2.5);
        assert_eq!(json["tables"][0]["rows"][1]["failed"], 7);
    }
}
