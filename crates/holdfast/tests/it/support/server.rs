//! `holdfast serve` as a child process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use super::command::json_of;

/// A child process. Killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it was running");
        self.0.wait().expect("it is gone");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already gone after `kill`.
        let _: std::io::Result<()> = self.0.kill();
        let _: std::io::Result<std::process::ExitStatus> = self.0.wait();
    }
}

/// A running hub. Killed when dropped.
pub(crate) struct Server {
    child: Running,
    pub(crate) address: SocketAddr,
}

/// A folder on a real disk that goes away with the test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for test data")
}

/// Settings as arguments.
pub(crate) fn set<'s>(settings: &[&'s str]) -> Vec<&'s str> {
    settings.iter().flat_map(|setting| ["--set", setting]).collect()
}

/// A path as an argument.
pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    binary().args(arguments).output().expect("the binary runs")
}

/// A hub with a data directory of its own, and nothing in it.
pub(crate) fn fresh_hub() -> (tempfile::TempDir, Server) {
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    (folder, server)
}

/// Any port that is free now.
pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Server {
    /// Starts a hub and waits until it says where it listens.
    pub(crate) fn start(data: &Path, listen: SocketAddr) -> Server {
        Server::launch(&mut Server::command(data, listen))
    }

    /// A hub with these settings.
    pub(crate) fn with(data: &Path, listen: SocketAddr, settings: &[&str]) -> Server {
        Server::launch(Server::command(data, listen).args(set(settings)))
    }

    /// The command that starts a hub; a test may add to it before it is launched.
    pub(crate) fn command(data: &Path, listen: SocketAddr) -> Command {
        let mut command = binary();
        command.args(["serve", "--listen", &listen.to_string(), "--data"]).arg(data);
        command.env("HOLDFAST_TRACE", "warn");
        command
    }

    /// Starts a hub and waits until it says where it listens.
    pub(crate) fn launch(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let listening = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let place = line.strip_prefix("listening on http://");
            let place = place.or_else(|| line.strip_prefix("listening on https://"));
            place.map(|address| address.parse().expect("an address"))
        });
        let address = listening.unwrap_or_else(|| panic!("the server ended: {:?}", child.wait()));
        Server { child: Running(child), address }
    }

    /// As commands are told where it is.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill();
    }

    /// SIGTERM, and a clean end.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the server was running");
        assert!(self.child.0.wait().expect("the server ends").success(), "SIGTERM ends cleanly");
    }

    /// A clean end, after which everything in the data directory adds up.
    pub(crate) fn stop_and_verify(self, data: &Path) -> serde_json::Value {
        self.stop();
        verify(data)
    }
}

/// Runs `holdfast verify` and requires that everything adds up.
pub(crate) fn verify(data: &Path) -> serde_json::Value {
    json_of(&run(&["verify", "--output", "json", "--data", path(data)]))
}
