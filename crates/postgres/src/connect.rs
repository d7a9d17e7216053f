//! Reaching the server: who answers at the address, and if it is nobody or somebody else, in which words that is told. An
//! address may hold a password, so only its parts are ever named.

use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use postgres::config::Host;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

use crate::Error;
use crate::error::words;

/// How long the server, or its host, may be silent before the connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Between two questions whether it is still there.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
/// How many of them may go unanswered.
const KEEPALIVES_MISSED: u32 = 3;
/// Where a server listens unless the address says otherwise.
const PORT: u16 = 5432;

/// The protocol's question whether the server speaks TLS: length and code. It is answered before anything else, with one
/// letter, whoever asks and whatever state the server is in.
const TLS_QUESTION: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// Yes, no, or an error.
const TLS_ANSWERS: [u8; 3] = *b"SNE";

/// Connects under a name that the server's people see.
pub(crate) fn connect(url: &str, name: &str, patience: Duration) -> Result<Client, Error> {
    let mut config: Config = url.parse().map_err(|error: postgres::Error| Error::Address(words(&error)))?;
    config.connect_timeout(patience).application_name(name);
    // A host that vanishes sends no farewell; without these a thread would wait for it for hours.
    config
        .tcp_user_timeout(SILENCE_MAX)
        .keepalives_idle(SILENCE_MAX / 2)
        .keepalives_interval(KEEPALIVE_EVERY)
        .keepalives_retries(KEEPALIVES_MISSED);
    // The client's own timeout ends with the TCP connection. Whoever then says nothing would be waited for without end.
    answers(&config, patience, SILENCE_MAX)?;
    config.connect(NoTls).map_err(|error| Error::Unavailable(refused(&config, &error)))
}

/// Whether a PostgreSQL is there. Of several hosts one is enough, but none may be silent: the client would wait for it.
fn answers(config: &Config, patience: Duration, silence: Duration) -> Result<(), Error> {
    let mut unreachable = None;
    let mut reached = config.get_hosts().is_empty();
    for (host, place) in places(config) {
        match ask(host, &place, patience, silence) {
            Ok(true) => reached = true,
            Ok(false) => return Err(Error::Unavailable(no_postgres(&place))),
            Err(error) => {
                unreachable = Some(format!("PostgreSQL at {place}: {}; is it running?", in_short(&error)))
            }
        }
    }
    match unreachable {
        Some(why) if !reached => Err(Error::Unavailable(why)),
        _ => Ok(()),
    }
}

fn no_postgres(place: &str) -> String {
    format!("what listens at {place} does not answer as PostgreSQL; check the address")
}

/// Whether it answers as PostgreSQL does.
fn ask(host: &Host, place: &str, patience: Duration, silence: Duration) -> Result<bool, IoError> {
    match host {
        Host::Tcp(_) => {
            let mut last = IoError::new(ErrorKind::NotFound, "the name has no address");
            for address in place.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, patience) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(silence))?;
                        return Ok(is_postgres(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
        Host::Unix(_) => {
            let stream = UnixStream::connect(Path::new(place))?;
            stream.set_read_timeout(Some(silence))?;
            Ok(is_postgres(stream))
        }
    }
}

fn is_postgres(mut stream: impl Read + Write) -> bool {
    let mut answer = [0];
    let asked = stream.write_all(&TLS_QUESTION).and_then(|()| stream.read_exact(&mut answer));
    asked.is_ok() && TLS_ANSWERS.contains(&answer[0])
}

/// The hosts of an address, each as a person would name it.
fn places(config: &Config) -> impl Iterator<Item = (&Host, String)> {
    config.get_hosts().iter().enumerate().map(|(at, host)| {
        let ports = config.get_ports();
        let port = ports.get(at).or_else(|| ports.first()).copied().unwrap_or(PORT);
        let place = match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(folder) => format!("{}/.s.PGSQL.{port}", folder.display()),
        };
        (host, place)
    })
}

/// The kernel's words without its numbers.
fn in_short(error: &IoError) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Why a server that is there did not take the connection, and what to do.
fn refused(config: &Config, error: &postgres::Error) -> String {
    let place = places(config).map(|(_, place)| place).collect::<Vec<_>>().join(", ");
    let (user, name) = (config.get_user().unwrap_or_default(), config.get_dbname());
    let said = format!("PostgreSQL at {place} refuses: {}", words(error));
    match error.code() {
        Some(state) if *state == SqlState::INVALID_CATALOG_NAME => {
            let name = name.unwrap_or(user);
            format!("{said}; create it: createdb {} -U {user} {name}", reach(config))
        }
        Some(state) if *state == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            format!("{said}; make the role (createuser {} {user}) or let it in (pg_hba.conf)", reach(config))
        }
        _ => said,
    }
}

/// Host and port as PostgreSQL's own programs take them.
fn reach(config: &Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(PORT);
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => format!("-h {name} -p {port}"),
        Some(Host::Unix(folder)) => format!("-h {} -p {port}", folder.display()),
        None => format!("-p {port}"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    fn config(listener: &TcpListener) -> (Config, u16) {
        let port = listener.local_addr().unwrap().port();
        (format!("postgres://u:secret@127.0.0.1:{port}/d").parse().unwrap(), port)
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        // The kernel takes the connection; nobody ever reads from it.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (config, port) = config(&listener);
        let said = answers(&config, SHORT, SHORT).unwrap_err().to_string();
        assert!(said.contains(&format!("127.0.0.1:{port} does not answer as PostgreSQL")), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn who_says_something_else_is_told_from_postgres() {
        for (answer, is_good) in [(&b"N"[..], true), (b"S", true), (b"HTTP/1.1 400", false), (b"", false)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (config, _) = config(&listener);
            let other = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 8]).unwrap();
                stream.write_all(answer).unwrap();
            });
            assert_eq!(answers(&config, SHORT, Duration::from_secs(5)).is_ok(), is_good, "{answer:?}");
            other.join().unwrap();
        }
    }

    #[test]
    fn an_address_that_cannot_be_read_is_not_shown() {
        let said = connect("postgres://u:secret@h:x/d", "test", SHORT).err().unwrap().to_string();
        assert!(said.contains("port") && !said.contains("secret"), "{said}");
    }

    #[test]
    fn nobody_there_is_told_once_with_the_place() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (config, port) = config(&listener);
        drop(listener);
        let said = answers(&config, SHORT, SHORT).unwrap_err().to_string();
        assert_eq!(said, format!("PostgreSQL at 127.0.0.1:{port}: Connection refused; is it running?"));
    }
}
