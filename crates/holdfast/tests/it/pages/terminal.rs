//! A reader with a shell, a folder and some terminals.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

/// The ports that pages name; each is a free one here.
const PORTS: [&str; 4] = ["4000", "4001", "4002", "4003"];
/// Below the ports that the system gives to connections, so that a hub that is started again finds its own free.
const FREE_PORTS: std::ops::Range<u16> = 10_000..30_000;

/// Stands in for cargo: what it would build is built.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
  "run --release -- serve") exec target/release/holdfast serve ;;
  "xtask services up") echo "$HOLDFAST_TEST_EXPORT" ;;
  "xtask services down") ;;
  *) echo "a page calls cargo $*, and the test of pages does not know that" >&2; exit 2 ;;
esac
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    Bash,
    Zsh,
}

impl Shell {
    /// One for each time that a page is run: both where both are here.
    pub(super) fn two() -> [Shell; 2] {
        let zsh = Command::new("zsh").arg("--version").stdout(Stdio::null()).status();
        [Shell::Bash, if zsh.is_ok_and(|status| status.success()) { Shell::Zsh } else { Shell::Bash }]
    }

    /// Runs a script up to the first command that fails, as a reader who looks would.
    fn command(self) -> Command {
        let mut command = Command::new(if self == Shell::Bash { "bash" } else { "zsh" });
        command.arg("-e");
        command
    }
}

pub(super) struct Reader {
    folder: PathBuf,
    ports: Vec<u16>,
    variables: Vec<(&'static str, String)>,
}

impl Reader {
    /// In a folder that looks like a clone in which the release was built.
    pub(super) fn sits_in(folder: &Path, variables: &[(&'static str, String)]) -> Reader {
        let ports: Vec<u16> = PORTS.iter().map(|_| free_port()).collect();
        let (bin, release) = (folder.join("bin"), folder.join("target/release"));
        if !bin.exists() {
            fs::create_dir_all(&bin).expect("a folder");
            fs::create_dir_all(&release).expect("a folder");
            symlink(env!("CARGO_BIN_EXE_holdfast"), release.join("holdfast")).expect("a link to the program");
            fs::write(bin.join("cargo"), CARGO).expect("a script");
            fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("it may run");
        }
        let path = std::env::var("PATH").expect("there is a PATH");
        let mut variables = variables.to_vec();
        variables.push(("PATH", format!("{}:{path}", bin.display())));
        variables.push(("HOLDFAST_LISTEN", format!("127.0.0.1:{}", ports[0])));
        variables.push(("HOLDFAST_URL", format!("http://127.0.0.1:{}", ports[0])));
        Reader { folder: folder.to_owned(), ports, variables }
    }

    fn command(&self, shell: Shell, text: &str) -> Command {
        let mut text = text.to_owned();
        for (name, port) in PORTS.iter().zip(&self.ports) {
            text = text.replace(&format!("127.0.0.1:{name}"), &format!("127.0.0.1:{port}"));
        }
        // A shell reads its script bit by bit: the next block must not take the place of one that is still read.
        static SCRIPTS: AtomicU16 = AtomicU16::new(0);
        let script = self.folder.join(format!("block-{}.sh", SCRIPTS.fetch_add(1, Ordering::Relaxed)));
        fs::write(&script, text).expect("a script");
        let mut command = shell.command();
        command.arg(script).current_dir(&self.folder).stdin(Stdio::null()).process_group(0);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Pastes blocks and waits for their end; what they told.
    pub(super) fn pastes(&self, shell: Shell, text: &str) -> String {
        let told = self.folder.join("told.txt");
        let out = File::create(&told).expect("a file");
        let mut command = self.command(shell, text);
        command.stderr(out.try_clone().expect("the same file")).stdout(out);
        let mut group = Group(command.spawn().expect("the shell starts"));
        let status = group.0.wait().expect("the shell ends");
        let told = fs::read_to_string(told).expect("what was told");
        assert!(status.success(), "{shell:?} ended with {status}:\n{told}");
        told
    }

    /// Pastes a block whose last command stays, in a terminal of its own, and waits until it says so.
    pub(super) fn opens(&self, shell: Shell, text: &str, ready: &str) -> Terminal {
        let mut command = self.command(shell, text);
        let mut group = Group(command.stdout(Stdio::piped()).spawn().expect("the shell starts"));
        let mut lines = BufReader::new(group.0.stdout.take().expect("piped")).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains(ready));
        assert!(is_ready, "{text} ended and never said {ready:?}");
        Terminal { group, lines }
    }
}

/// Something that goes on until it is told to end.
pub(super) struct Terminal {
    group: Group,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Terminal {
    /// Ctrl-C, and nothing of it is left.
    pub(super) fn ends(mut self) {
        self.group.signal(Signal::INT);
        // Whatever runs in it has its standard output.
        self.lines.by_ref().map_while(Result::ok).for_each(drop);
        self.group.0.wait().expect("the shell ends");
    }
}

/// A shell and all that it started. Killed when dropped.
struct Group(Child);

impl Group {
    fn signal(&self, signal: Signal) {
        // Gone already: then there is nothing to tell it.
        let _: rustix::io::Result<()> = kill_process_group(Pid::from_child(&self.0), signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _: std::io::Result<std::process::ExitStatus> = self.0.wait();
    }
}

/// A port that nothing listens on, and that no other test of this run gets from here.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = FREE_PORTS.end - FREE_PORTS.start;
    let first = u16::try_from(std::process::id() % u32::from(span)).expect("it is smaller than the span");
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < span, "no port is free");
        let port = FREE_PORTS.start + (first + step) % span;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
