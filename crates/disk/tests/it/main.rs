//! Tests of the simulated file system.

mod disk_full;
mod fault_log;
mod lying_medium;
mod operations_fail;
mod rot;
mod sim_file_system;
mod slow_disk;
mod support;
mod what_a_crash_leaves;
