//! Processes that outlive the call that started them: started under an account without rights, found again, stopped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::tools::{read, run, shown};

/// How often a condition is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(20);

/// The account that services run under when xtask is root. PostgreSQL refuses to run as root.
const ACCOUNT: &str = "nobody";

/// An account of this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// None where xtask is not root: then services run as the user who calls.
    pub(super) fn for_services() -> Result<Option<Account>, String> {
        if !is_root()? {
            return Ok(None);
        }
        Account::find(&read(Path::new("/etc/passwd"))?, ACCOUNT)
            .map(Some)
            .ok_or_else(|| format!("xtask: root runs services as {ACCOUNT}, which is not in /etc/passwd"))
    }

    fn find(users: &str, name: &str) -> Option<Account> {
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
        Some(Account { uid: user.get(2)?.parse().ok()?, gid: user.get(3)?.parse().ok()? })
    }
}

/// Whether this process may do everything.
pub(super) fn is_root() -> Result<bool, String> {
    let this =
        fs::metadata("/proc/self").map_err(|error| format!("xtask: cannot read /proc/self: {error}"))?;
    Ok(this.uid() == 0)
}

/// A folder of one service, and who works in it.
#[derive(Debug)]
pub(super) struct ServiceFolder {
    pub(super) dir: PathBuf,
    pub(super) account: Option<Account>,
}

impl ServiceFolder {
    /// Makes the folder and gives it to the account.
    pub(super) fn make(&self) -> Result<(), String> {
        fs::create_dir_all(&self.dir)
            .and_then(|()| self.account.map_or(Ok(()), |to| chown(&self.dir, Some(to.uid), Some(to.gid))))
            .map_err(|error| format!("xtask: cannot make {}: {error}", self.dir.display()))
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// What the service prints, from its last start on.
    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// A program that runs in this folder, under the account, and sees none of the caller's settings.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").current_dir(&self.dir).stdin(Stdio::null());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// Starts a service. Ctrl-C in the caller's terminal does not reach it.
    pub(super) fn spawn(&self, mut command: Command) -> Result<Child, String> {
        let log = self.log();
        let started = File::create(&log)
            .and_then(|out| Ok((out.try_clone()?, out)))
            .and_then(|(out, errors)| command.stdout(out).stderr(errors).process_group(0).spawn());
        started.map_err(|error| {
            format!("xtask: cannot start {} with log {}: {error}", shown(&command), log.display())
        })
    }

    /// All that was logged since the last start, also by what was started before and is still ending.
    pub(super) fn log_text(&self) -> String {
        match fs::read(self.log()) {
            Ok(log) => String::from_utf8_lossy(&log).into_owned(),
            Err(error) => format!("its log {} cannot be read: {error}", self.log().display()),
        }
    }
}

/// The last lines of a log.
pub(super) fn end_of(log: &str) -> String {
    const LINES: usize = 15;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// How a running service is told from every other process: a pid alone may belong to someone else by now.
#[derive(Debug)]
pub(super) struct Mark {
    /// File name of the program.
    pub(super) program: &'static str,
    /// One of its arguments, a path that no other process of this program is given.
    pub(super) argument: PathBuf,
}

impl Mark {
    /// The process, preferably the one that is remembered. A forked child that still carries its parent's command
    /// line is younger, so the lowest pid wins among strangers.
    pub(super) fn find(&self, remembered: Option<u32>) -> Option<u32> {
        remembered.filter(|pid| self.is_on(*pid)).or_else(|| {
            let entries = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            pids.filter(|pid| self.is_on(*pid)).min()
        })
    }

    fn is_on(&self, pid: u32) -> bool {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| self.is_in(&line))
    }

    /// A command line as the kernel shows it. That of a dead process that nobody waited for is empty.
    fn is_in(&self, line: &[u8]) -> bool {
        let mut arguments = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let program = arguments.next().and_then(|first| Path::new(first).file_name());
        program == Some(OsStr::new(self.program)) && arguments.any(|argument| argument == self.argument)
    }
}

/// Sends a signal, by the shell's own kill: a bare machine has no other without unsafe code.
pub(super) fn signal(pid: u32, signal: &str) -> Result<(), String> {
    run(Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", signal, &pid.to_string()]))
}

/// Whether a process and all its threads are gone. Its command line goes first, its sockets later: a process that
/// merely has no command line any more may still hold its port.
pub(super) fn has_ended(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // One that nobody has waited for stays in the table. Its last thread is the one that closes the files.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    is_dead(&stat) && threads <= 1
}

/// The state follows the program's name, which is in brackets and may hold anything.
fn is_dead(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Whether the condition came true before the deadline.
pub(super) fn wait_until(deadline: Instant, mut condition: impl FnMut() -> bool) -> bool {
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::park_timeout(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Mark, has_ended, is_dead};

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let users = "nobody2:x:1:2:::\nnobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n";
        assert_eq!(Account::find(users, "nobody"), Some(Account { uid: 65534, gid: 65533 }));
        assert_eq!(Account::find(users, "nob"), None);
    }

    #[test]
    fn a_process_has_ended_when_only_its_entry_is_left() {
        assert!(is_dead("12 (a) S) Z 1 12"));
        assert!(!is_dead("12 (a) Z) S 1 12"));
        assert!(!has_ended(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        assert!(super::wait_until(deadline, || has_ended(child.id())), "although nobody waited for it");
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }

    #[test]
    fn a_process_is_ours_by_program_and_argument() {
        let mark = Mark { program: "postgres", argument: "/t/data".into() };
        assert!(mark.is_in(b"/usr/lib/postgresql/15/bin/postgres\0-D\0/t/data\0"));
        assert!(!mark.is_in(b"tail\0/t/data\0"));
        assert!(!mark.is_in(b"postgres\0-D\0/t/data2\0"));
        assert!(!mark.is_in(b"postgres: checkpointer \0"));
        assert!(!mark.is_in(b""));
    }
}
