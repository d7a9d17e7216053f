//! `holdfast bench transfers --profile cluster`: payments through all hops of a node before a real Kafka and PostgreSQL, and
//! beside them, in the same run, the bare rows that are left of them.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | counts and bounds |
//! | `town` | the servers: what they promise, a database and topics of the run's own, the node |
//! | `costs` | CPU and memory by process, bytes of PostgreSQL's and Kafka's logs |
//! | `bench` | what is measured, in which order |
//! | `floor` | the final rows alone, through the same PostgreSQL |
//! | `goals`, `report` | what must be reached; figures as data and for people |

mod bench;
pub(crate) mod costs;
mod floor;
mod goals;
pub mod options;
mod report;
pub(crate) mod town;

pub use bench::bench_cluster;
pub use options::ClusterOptions;
pub use report::ClusterReport;
