//! The real server as a child process, on a port that the system chooses.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::LoadError;

/// How long the server may take until it listens.
const START_MAX: Duration = Duration::from_secs(60);
/// How long it may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(30);
/// The line that tells the address.
const LISTENING: &str = "listening on http://";
const LOG_NAME: &str = "serve.log";
const DATA_NAME: &str = "data";

/// A running server. Dropping it kills it.
pub struct Server {
    child: Option<Child>,
    /// Where it listens.
    pub address: String,
    log: PathBuf,
}

impl Server {
    /// Starts `program serve` with its data in a folder of `directory`.
    pub fn start(program: &Path, directory: &Path) -> Result<Server, LoadError> {
        Server::start_within(program, directory, START_MAX)
    }

    /// The same for a server that may have much to read before it listens. Its messages follow those of an earlier one.
    pub fn start_within(program: &Path, directory: &Path, start_max: Duration) -> Result<Server, LoadError> {
        let data = Server::data_folder(directory).into_os_string();
        Server::start_with(program, directory, &["--data".into(), data], start_max)
    }

    /// The same with other flags than the place of its data: a node of the database profile has none.
    pub fn start_with(
        program: &Path,
        directory: &Path,
        flags: &[OsString],
        start_max: Duration,
    ) -> Result<Server, LoadError> {
        let log = directory.join(LOG_NAME);
        let messages = File::options().create(true).append(true).open(&log);
        let messages = messages.map_err(LoadError::io("create", &log))?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(messages)
            .spawn()
            .map_err(LoadError::io("start", program))?;
        let stdout = child.stdout.take();
        let mut server = Server { child: Some(child), address: String::new(), log };
        match stdout.and_then(|stdout| listen_address(stdout, start_max)) {
            Some(address) => server.address = address,
            None => return Err(server.failed("did not begin to listen")),
        }
        Ok(server)
    }

    /// Where a server that was started in `directory` keeps its data.
    pub fn data_folder(directory: &Path) -> PathBuf {
        directory.join(DATA_NAME)
    }

    fn failed(&self, what: &str) -> LoadError {
        LoadError::Server { what: what.to_owned(), log: self.log.clone() }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Asks it to end and waits until it has.
    pub fn stop(self) -> Result<(), LoadError> {
        self.stop_within(STOP_MAX)
    }

    /// The same for a server that may have much to write before it ends.
    pub fn stop_within(mut self, stop_max: Duration) -> Result<(), LoadError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let pid = rustix::process::Pid::from_child(&child);
        // If it has ended already, waiting tells how.
        let _: rustix::io::Result<()> = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let (send, receive) = sync_channel(1);
        let waiting = std::thread::spawn(move || {
            let ended = child.wait();
            // Nobody listens any more after a kill.
            let _: Result<(), _> = send.send(ended);
        });
        let ended = match receive.recv_timeout(stop_max) {
            Ok(ended) => ended,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let _: rustix::io::Result<()> =
                    rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                return Err(self.failed("did not end when asked to"));
            }
        };
        if waiting.join().is_err() || !ended.is_ok_and(|status| status.success()) {
            return Err(self.failed("did not end well"));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It has ended already or is ended now; there is no third.
            let _: std::io::Result<()> = child.kill();
            let _: std::io::Result<std::process::ExitStatus> = child.wait();
        }
    }
}

/// Reads the server's output up to the line with the address. The rest is drained so that it never blocks.
fn listen_address(stdout: ChildStdout, start_max: Duration) -> Option<String> {
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix(LISTENING) {
                // Only the first address is waited for.
                let _: Result<(), _> = send.try_send(address.trim().to_owned());
            }
        }
    });
    receive.recv_timeout(start_max).ok()
}
