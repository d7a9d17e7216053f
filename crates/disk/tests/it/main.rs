//! Tests of the simulated file system.

mod sim_file_system;
