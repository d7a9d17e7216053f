//! The simulator under test, and through it the hub.

mod a_seed_twice_is_identical;
mod faults_happen;
mod planted_bugs;
mod regressions;
mod seeds;
mod ten_thousand_seeds;
