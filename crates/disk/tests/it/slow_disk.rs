//! The time a disk would have taken is counted, not slept.

use std::path::Path;

use holdfast_disk::FileSystem;
use holdfast_disk::simfs::Pace;

use crate::support::{DIR, path, with_file};

#[test]
fn every_operation_costs_its_time() {
    let fs = with_file("f", &[1; 100]);
    let file = fs.open(&path("f")).expect("open");
    file.write_at(&[2; 10], 0).expect("write");
    assert_eq!(fs.busy_nanos(), 0, "no pace, no time");

    fs.set_pace(Pace { per_op: 1000, per_byte: 3 });
    let mut spent = 0;
    let mut costs = |nanos: u64| {
        spent += nanos;
        assert_eq!(fs.busy_nanos(), spent);
    };
    file.write_at(&[2; 10], 0).expect("write");
    costs(1030);
    file.read_at(&mut [0; 200], 50).expect("read");
    costs(1150);
    file.sync_data().expect("sync");
    costs(1000);
    fs.sync_dir(Path::new(DIR)).expect("sync");
    costs(1000);
    file.set_len(10).expect("cut");
    costs(1000);
    file.allocate(10).expect("allocate");
    costs(1000);
    fs.fail_next_read();
    file.read_at(&mut [0; 200], 0).expect_err("planned");
    costs(1000);

    let after = fs.crash(0);
    assert_eq!(after.busy_nanos(), 0);
    after.open(&path("f")).expect("open").sync_data().expect("sync");
    assert_eq!(after.busy_nanos(), 1000, "the medium stays slow");
    fs.set_pace(Pace { per_op: u64::MAX, per_byte: u64::MAX });
    file.write_at(&[2; 10], 0).expect("write");
    assert_eq!(fs.busy_nanos(), u64::MAX, "and no overflow");
}
