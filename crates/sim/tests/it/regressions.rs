//! Seeds that once found something are run for ever.

use holdfast_sim::run;

use crate::seeds::expect_none_broken;

const KEPT: &str = include_str!("../../seeds/regressions.txt");

#[test]
fn what_was_once_broken_stays_mended() {
    let seeds = KEPT.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let reports =
        seeds.filter(|seed| !seed.is_empty()).map(|seed| run(seed.parse().expect("a seed per line")));
    let broken: Vec<_> = reports.filter(|report| !report.violations.is_empty()).collect();
    expect_none_broken(&broken);
}
