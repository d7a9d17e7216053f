//! The conformance suite, on the real file system and on the simulated one.

use std::path::PathBuf;
use std::sync::Arc;

use holdfast_log::conformance::{Backend, run_all};
use holdfast_log::{FileSystem, Log, RealFs, SegmentLog, SimFs};

use crate::support::{LOG_ID, dir, options};

struct Segments {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Backend for Segments {
    fn open(&self) -> Box<dyn Log> {
        let (log, _) = SegmentLog::open(Arc::clone(&self.fs), &self.dir, options(), LOG_ID).expect("open");
        Box::new(log)
    }
}

#[test]
fn on_the_simulated_file_system() {
    run_all(|| Segments { fs: Arc::new(SimFs::new(1)), dir: dir().into(), _temporary: None });
}

#[test]
fn on_the_real_file_system() {
    run_all(|| {
        let temporary = tempfile::tempdir().expect("tempdir");
        let dir = temporary.path().join("a/b/log");
        Segments { fs: Arc::new(RealFs), dir, _temporary: Some(temporary) }
    });
}
