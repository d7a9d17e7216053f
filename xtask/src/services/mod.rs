//! The PostgreSQL and the Kafka that tests run against: private to this work tree, kept under `target/services`.
//!
//! Every command takes the lock, so that a test which stops a service and a developer who asks for its status do not
//! meet halfway. What runs is found by looking at the processes; the state file only remembers ports and folders.

mod install;
mod kafka;
mod ports;
mod postgres;
mod process;
mod state;

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, mem, thread};

use process::{Account, Mark, ServiceFolder, end_of, has_ended, signal, wait_until};
use state::{Remembered, ServicesState};

use crate::root;
use crate::tools::remove;

/// A user's own PostgreSQL.
const POSTGRES_VARIABLE: &str = "HOLDFAST_TEST_POSTGRES";
/// A user's own Kafka.
const KAFKA_VARIABLE: &str = "HOLDFAST_TEST_KAFKA";
/// Makes a test that finds no service fail instead of passing without a word.
const REQUIRE_VARIABLE: &str = "HOLDFAST_TEST_REQUIRE_SERVICES";
/// With this suffix, a service's variable holds the program that stops and starts it.
const CONTROL_SUFFIX: &str = "_CONTROL";

/// How long a service may take to become ready; a cold disk is slow.
const READY: Duration = Duration::from_secs(90);
/// How long a service may take to end well before it is killed.
const END: Duration = Duration::from_secs(30);

/// How long a service's ports may stay taken: whoever killed it may not have waited for its end.
const PORTS_FREE: Duration = Duration::from_secs(3);

/// In the order in which they are started.
static ALL: [&Service; 2] = [&postgres::POSTGRES, &kafka::KAFKA];

pub(crate) const USAGE: &str = "cargo xtask services <command>

  up            start what is not running, wait until it is ready, say where it is
  down          stop both; their data stays
  status        what runs where
  start NAME    start postgres or kafka, on the ports it had
  stop NAME     stop it as its manual says
  kill NAME     kill -9
  restart NAME  stop, then start
  clear         down, and forget all data";

/// A server that can be started here.
struct Service {
    name: &'static str,
    /// Names in the state file; the first is the port for clients.
    port_names: &'static [&'static str],
    /// Name in the state file, and value, of what a client is told of a port.
    address: fn(u16) -> (&'static str, String),
    /// The variable that tests read, and its value.
    variable: fn(u16) -> (&'static str, String),
    /// A variable by which tests find the service's own client, if it has one.
    client: fn(&ServiceFolder) -> Option<(String, String)>,
    /// The variable that a node of the database profile reads.
    setting: &'static str,
    mark: fn(&ServiceFolder) -> Mark,
    stop_signal: &'static str,
    /// Makes sure that programs and data are there.
    prepare: fn(&ServiceFolder) -> Result<(), String>,
    command: fn(&ServiceFolder, &[u16]) -> Result<Command, String>,
    is_ready: fn(&ServiceFolder, &[u16]) -> bool,
    /// Whether the service ended, by its log, for a reason that passes, so that another start is worth it.
    passes: fn(&str) -> bool,
}

/// `cargo xtask services …`
pub(crate) fn services(arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["up"] => {
            let mut services = Services::lock()?;
            services.start(&ALL, Ports::MayChange)?;
            services.print();
            println!("stop them with: cargo xtask services down");
            println!("for nodes on them:");
            println!("{}", services.export());
            Ok(())
        }
        ["down"] => {
            let mut services = Services::lock()?;
            services.stop(&ALL)?;
            let home = services.home.display();
            println!("stopped; the data stays under {home}, `cargo xtask services clear` removes it");
            Ok(())
        }
        ["status"] => {
            Services::lock()?.print();
            Ok(())
        }
        ["start", name] => Services::lock()?.start(&[by_name(name)?], Ports::Stay),
        ["stop", name] => Services::lock()?.stop(&[by_name(name)?]),
        ["kill", name] => Services::lock()?.kill(by_name(name)?),
        ["restart", name] => {
            let mut services = Services::lock()?;
            services.stop(&[by_name(name)?])?;
            services.start(&[by_name(name)?], Ports::Stay)
        }
        ["clear"] => Services::lock()?.clear(),
        [GUARD, ref names @ ..] => guard(names),
        _ => Err(USAGE.to_owned()),
    }
}

fn by_name(name: &str) -> Result<&'static Service, String> {
    let found = ALL.into_iter().find(|service| service.name == name);
    found.ok_or_else(|| format!("xtask: no service is called {name}: there are postgres and kafka"))
}

/// Whether a service may come back on other ports than it had.
#[derive(Clone, Copy, PartialEq)]
enum Ports {
    MayChange,
    /// Clients know them.
    Stay,
}

/// The services of this work tree, while this process holds the lock.
struct Services {
    state: ServicesState,
    state_path: PathBuf,
    account: Option<Account>,
    home: PathBuf,
    _lock: File,
}

impl Services {
    fn lock() -> Result<Services, String> {
        let dir = root()?.join("target").join("services");
        let lock = fs::create_dir_all(&dir)
            .and_then(|()| File::options().create(true).append(true).open(dir.join("lock")))
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| format!("xtask: cannot lock {}: {error}", dir.join("lock").display()))?;
        let state_path = dir.join("state.json");
        let mut state = ServicesState::read(&state_path);
        let account = Account::for_services()?;
        let home = match state.home.take().filter(|home| home.is_dir()) {
            Some(home) => home,
            None => choose_home(dir, account)?,
        };
        state.home = Some(home.clone());
        Ok(Services { state, state_path, account, home, _lock: lock })
    }

    fn place(&self, service: &Service) -> ServiceFolder {
        ServiceFolder { dir: self.home.join(service.name), account: self.account }
    }

    fn running(&self, service: &Service) -> Option<u32> {
        let remembered = self.state.services.get(service.name).and_then(|known| known.pid);
        (service.mark)(&self.place(service)).find(remembered)
    }

    /// Starts what is not running. Both come up side by side; if one does not, what this call started is stopped.
    fn start(&mut self, services: &[&'static Service], ports: Ports) -> Result<(), String> {
        for service in services {
            if self.running(service).is_none() {
                let place = self.place(service);
                place.make()?;
                (service.prepare)(&place)?;
            }
        }
        let mut launched = Vec::new();
        let done = services.iter().try_for_each(|service| {
            launched.push(self.launch(service, ports)?);
            Ok(())
        });
        let done = done.and_then(|()| launched.iter_mut().try_for_each(|launch| self.settle(launch)));
        if done.is_err() {
            for launch in &mut launched {
                if let Some(child) = &mut launch.child {
                    // It may have ended already, and that is what is wanted.
                    let _ = child.kill();
                    let _ = child.wait();
                    self.remember(launch.service, None, &launch.ports)?;
                }
            }
        }
        // One that a test kills must not stay in the table of processes: a new PostgreSQL would take it for alive.
        for mut child in launched.into_iter().filter_map(|launch| launch.child) {
            thread::spawn(move || child.wait());
        }
        done
    }

    fn launch(&mut self, service: &'static Service, ports: Ports) -> Result<Launch, String> {
        let started = Instant::now();
        let known = self.state.services.get(service.name).map(|known| known.ports.clone());
        if let Some(pid) = self.running(service) {
            if let Some(ports) = known {
                self.remember(service, Some(pid), &ports)?;
                return Ok(Launch { service, ports, child: None, started });
            }
            // The file that knew its ports is gone.
            self.stop(&[service])?;
        }
        let free = |ports: &Vec<u16>| {
            wait_until(Instant::now() + PORTS_FREE, || ports.iter().all(|port| ports::is_free(*port)))
        };
        let ports = match (known, ports) {
            (Some(known), _) if free(&known) => known,
            (Some(known), Ports::Stay) => {
                let name = service.name;
                return Err(format!(
                    "xtask: someone else listens on a port of {name} ({known:?}): cargo xtask services up finds others"
                ));
            }
            _ => ports::free(service.port_names.len(), &self.home.join(service.name))?,
        };
        let place = self.place(service);
        let child = place.spawn((service.command)(&place, &ports)?)?;
        self.remember(service, Some(child.id()), &ports)?;
        Ok(Launch { service, ports, child: Some(child), started })
    }

    /// Waits until a service answers.
    fn settle(&mut self, launch: &mut Launch) -> Result<(), String> {
        let service = launch.service;
        let place = self.place(service);
        let deadline = launch.started + READY;
        loop {
            let mut ended = false;
            let ready = wait_until(deadline, || {
                ended = launch.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
                ended || (service.is_ready)(&place, &launch.ports)
            });
            if ready && !ended {
                break;
            }
            // All of it: sessions of a killed server may have said much after the line that matters.
            let log = place.log_text();
            if !ended || !(service.passes)(&log) || Instant::now() >= deadline {
                let (name, path) = (service.name, place.log());
                let how = if ended { "ended" } else { "did not answer in time" };
                return Err(format!("xtask: {name} {how}; the end of {}:\n{}", path.display(), end_of(&log)));
            }
            let child = place.spawn((service.command)(&place, &launch.ports)?)?;
            self.remember(service, Some(child.id()), &launch.ports)?;
            launch.child = Some(child);
        }
        if launch.child.is_some() {
            eprintln!("xtask: {} is ready after {} ms", service.name, launch.started.elapsed().as_millis());
        }
        Ok(())
    }

    fn stop(&mut self, services: &[&'static Service]) -> Result<(), String> {
        let running: Vec<_> =
            services.iter().filter_map(|service| Some((*service, self.running(service)?))).collect();
        for (service, pid) in &running {
            signal(*pid, service.stop_signal)?;
        }
        for (service, pid) in running {
            if !wait_until(Instant::now() + END, || has_ended(pid)) {
                eprintln!("xtask: {} does not end, so it is killed", service.name);
                self.kill(service)?;
            }
            self.forget_pid(service)?;
        }
        Ok(())
    }

    fn kill(&mut self, service: &'static Service) -> Result<(), String> {
        let Some(pid) = self.running(service) else {
            return Err(format!("xtask: {} is not running", service.name));
        };
        signal(pid, "KILL")?;
        if !wait_until(Instant::now() + END, || has_ended(pid)) {
            return Err(format!("xtask: {} with pid {pid} survived a kill", service.name));
        }
        self.forget_pid(service)
    }

    fn clear(&mut self) -> Result<(), String> {
        self.stop(&ALL)?;
        for service in ALL {
            remove(&self.place(service).data())?;
        }
        self.state.services.clear();
        self.state.write(&self.state_path)
    }

    fn remember(&mut self, service: &Service, pid: Option<u32>, ports: &[u16]) -> Result<(), String> {
        let known = Remembered { pid, ports: ports.to_vec(), data: self.place(service).data() };
        self.state.services.insert(service.name, known);
        self.state.write(&self.state_path)
    }

    fn forget_pid(&mut self, service: &Service) -> Result<(), String> {
        if let Some(known) = self.state.services.get_mut(service.name) {
            known.pid = None;
        }
        self.state.write(&self.state_path)
    }

    /// What makes a shell's `holdfast serve` a node on these servers. On a line of its own, so that a shell can take it.
    fn export(&self) -> String {
        let settings = ALL.into_iter().filter_map(|service| {
            let known = self.state.services.get(service.name)?;
            Some(format!("{}={}", service.setting, (service.variable)(known.ports[0]).1))
        });
        format!("export {}", settings.collect::<Vec<_>>().join(" "))
    }

    fn print(&self) {
        for service in ALL {
            let name = service.name;
            let known = self.state.services.get(name);
            match (self.running(service), known) {
                (Some(pid), Some(known)) => {
                    let (variable, value) = (service.variable)(known.ports[0]);
                    println!("{name:<9} runs with pid {pid}");
                    println!("          {variable}={value}");
                }
                (Some(pid), None) => {
                    println!("{name:<9} runs with pid {pid}, on ports that nobody remembers")
                }
                (None, Some(_)) => println!("{name:<9} is stopped"),
                (None, None) => println!("{name:<9} was never started"),
            }
            if let Some(known) = known {
                for (port_name, port) in service.port_names.iter().zip(&known.ports) {
                    println!("          {port_name} {port}");
                }
                println!("          data {}", known.data.display());
                println!("          log {}", self.place(service).log().display());
            }
        }
    }
}

/// A service on its way up. Without a child it was running before.
struct Launch {
    service: &'static Service,
    ports: Vec<u16>,
    child: Option<Child>,
    started: Instant,
}

/// `target/services`, or a folder under /tmp if the account cannot get there: /root is closed to everyone else.
fn choose_home(dir: PathBuf, account: Option<Account>) -> Result<PathBuf, String> {
    let mut reach = ServiceFolder { dir: PathBuf::from("/"), account }.command("test");
    reach.arg("-x").arg(&dir);
    if reach.status().is_ok_and(|status| status.success()) {
        return Ok(dir);
    }
    let mut make = Command::new("mktemp");
    make.args(["--directory", "--tmpdir=/tmp", "holdfast-services.XXXXXXXX"]);
    let made = make.output().map_err(|error| format!("xtask: cannot start mktemp: {error}"))?;
    let home = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim_end());
    open_to_all(&home).map_err(|error| format!("xtask: cannot make a folder under /tmp: {error}"))?;
    eprintln!("xtask: the services cannot reach {}, so they live in {}", dir.display(), home.display());
    Ok(home)
}

fn open_to_all(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

/// The hidden command of the process that cleans up after tests.
const GUARD: &str = "stop-when-stdin-ends";

/// Waits until the process that holds the other end is gone, however it went, and stops the services named.
fn guard(names: &[&str]) -> Result<(), String> {
    let services = names.iter().map(|name| by_name(name)).collect::<Result<Vec<_>, _>>()?;
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(|error| format!("xtask: cannot wait: {error}"))?;
    Services::lock()?.stop(&services)
}

/// Services that run at least as long as this value lives.
pub(crate) struct ForTests {
    /// What tests are told.
    pub(crate) variables: Vec<(String, String)>,
    guard: Child,
}

impl ForTests {
    /// Starts what is not running, except where the user names a server. Whatever this call starts is stopped when
    /// the value is dropped, and also when this process is killed: a guard, which Ctrl-C does not reach, sees to that.
    pub(crate) fn up() -> Result<ForTests, String> {
        install::install_zsh();
        let program = env::current_exe().map_err(|error| format!("xtask: cannot find itself: {error}"))?;
        let mut services = Services::lock()?;
        let own = |service: &&Service| env::var_os((service.variable)(0).0).is_none_or(|url| url.is_empty());
        let ours: Vec<_> = ALL.into_iter().filter(own).collect();
        let down: Vec<_> =
            ours.iter().copied().filter(|service| services.running(service).is_none()).collect();
        let mut guard = Command::new(&program);
        guard.args(["services", GUARD]).args(down.iter().map(|service| service.name));
        guard.stdin(Stdio::piped()).process_group(0);
        let guard = guard.spawn().map_err(|error| format!("xtask: cannot start its guard: {error}"))?;
        let mut up = ForTests { variables: vec![(REQUIRE_VARIABLE.to_owned(), "1".to_owned())], guard };
        let started = services.start(&ours, Ports::MayChange);
        for service in &ours {
            if let Some(known) = services.state.services.get(service.name) {
                let (variable, value) = (service.variable)(known.ports[0]);
                let control = format!("{variable}{CONTROL_SUFFIX}");
                up.variables.push((control, program.display().to_string()));
                up.variables.push((variable.to_owned(), value));
                up.variables.extend((service.client)(&services.place(service)));
            }
        }
        // The guard needs the lock.
        drop(services);
        started.map(|()| up)
    }
}

impl Drop for ForTests {
    fn drop(&mut self) {
        drop(mem::take(&mut self.guard.stdin));
        if !self.guard.wait().is_ok_and(|status| status.success()) {
            eprintln!("xtask: the services may still run: see cargo xtask services status");
        }
    }
}
